"""Payloads in a spool as a hook writes them that could not take their secrets out: byte for byte as they came."""

from pathlib import Path

from memory_mcp.service.client import spoolfile


def left(spool: Path | str, payload: bytes, client: str = "claude-code") -> str:
    """The name of the file it makes."""
    name = spoolfile.name_of(client, payload)
    spoolfile.write_payload(str(spool), name, spoolfile.make_header(name, {}), payload)
    return name
