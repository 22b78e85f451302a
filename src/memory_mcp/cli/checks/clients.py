"""Which clients are here, whether they would start this memory, and whether they hand over what happens."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.errors import MemoryMcpError
from memory_mcp.ingest.hooks.doubled import doubled
from memory_mcp.install.base import Place
from memory_mcp.install.status import ClientStatus, statuses


def checks(look: Look) -> Iterator[Check]:
    """Yield a line for each client found that uses this memory or is unreadable, one for all others, and one for doubled hooks.

    One failed line alone where the records of install cannot be read.
    """
    here = Path.cwd()
    try:
        found = [one for one in statuses(Place(sys.platform, look.environ, str(look.home), str(here))) if one.found]
    except MemoryMcpError as error:
        yield Check(FAIL, "clients", error.message, error.hint)
        return
    if not found:
        yield Check(OK, "clients", "none was found here", "memory-mcp install --help names those that are known")
    for one in found:
        if one.configured or one.unreadable:
            yield _check(one)
    if without := [one for one in found if not one.configured and not one.unreadable]:
        yield _unused(without)
    if twice := doubled(look.home, here):
        files = ", ".join(map(str, twice))
        text = f"the plugin is on, and hooks of ours stand in {files}: each event is told twice and stored once"
        yield Check(WARN, "hooks", text, "memory-mcp uninstall claude-code takes them out of the settings")


def _unused(without: Sequence[ClientStatus]) -> Check:
    """Return the line that these clients, which are here, do not use this memory; it is OK."""
    titles = ", ".join(one.title for one in without)
    if len(without) == 1:
        return Check(OK, "clients", f"{titles} does not use this memory", f"memory-mcp install {without[0].client}")
    return Check(OK, "clients", f"{titles} do not use this memory", "memory-mcp setup, or one of them: memory-mcp install CLIENT")


def _check(one: ClientStatus) -> Check:
    """Return the line of a client that uses this memory: WARN where one of its files cannot be read, FAIL without its command."""
    name = f"client {one.client}"
    if one.unreadable:
        return Check(WARN, name, f"{one.title}: {'; '.join(one.unreadable)}", f"memory-mcp install {one.client} --dry-run")
    missing = [server.command for server in one.servers if not server.runs]
    if missing:
        return Check(FAIL, name, f"{one.title} would start {missing[0]}, which is not there", f"memory-mcp install {one.client}")
    places = ", ".join(dict.fromkeys(server.path for server in one.servers))
    hooks = "hooks on" if one.recording else "no hooks in its configuration"
    return Check(OK, name, f"{one.title} uses this memory ({places}); {hooks}")
