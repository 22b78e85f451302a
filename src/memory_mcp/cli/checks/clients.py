"""Which clients are here, whether they would start this memory, and whether they hand over what happens."""

from collections.abc import Iterator

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.cli.checks.hook_events import client_statuses
from memory_mcp.install.status import ClientStatus


def checks(look: Look) -> Iterator[Check]:
    """Yield a line for each client found that uses this memory or is unreadable, and one for all others.

    WARN where a client's file cannot be read, its hooks wait for trust or something is on twice, FAIL where its command is not
    there. One failed line alone where the records of install cannot be read.
    """
    try:
        clients = [client for client in client_statuses(look) if client.found]
    except MemoryMcpError as error:
        yield Check(FAIL, "clients", error.message, error.hint)
        return
    if not clients:
        yield Check(OK, "clients", "none was found here", "memory-mcp install --help names those that are known")
    for client in clients:
        if client.configured or client.unreadable:
            yield _check(client)
        if client.doubled:
            yield Check(WARN, f"client {client.client}", f"{client.title}: {client.doubled}", client.undoubling)
    if without := [client for client in clients if not client.configured and not client.unreadable]:
        several = len(without) > 1
        text = f"{', '.join(client.title for client in without)} {'do' if several else 'does'} not use this memory"
        step = "memory-mcp setup, or one of them: memory-mcp install CLIENT" if several else ""
        yield Check(OK, "clients", text, step or f"memory-mcp install {without[0].client}")


def _check(client: ClientStatus) -> Check:
    """Return the line of a client that uses this memory or whose files cannot be read."""
    name, install = f"client {client.client}", f"memory-mcp install {client.client}"
    missing = [server for server in client.servers if not server.runs]
    if client.unreadable:
        return Check(WARN, name, f"{client.title}: {'; '.join(client.unreadable)}", f"{install} --dry-run")
    if missing:
        text = f"{client.title} would start {missing[0].command}, which is not there"
        return Check(FAIL, name, text, client.repair(missing[0]))
    paths = ", ".join(dict.fromkeys(server.path for server in client.servers))
    hooks = "hooks on" if client.recording else "no hooks in its configuration"
    if client.untrusted:
        hooks = "; ".join(client.hook_lines())
    step = client.meanwhile if client.untrusted else ""
    return Check(WARN if step else OK, name, f"{client.title} uses this memory ({paths}); {hooks}", step)
