"""Which clients are here, whether they would start this memory, and whether they hand over what happens."""

import sys
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.errors import MemoryMcpError
from memory_mcp.ingest.hooks.doubled import doubled
from memory_mcp.install.base import Place
from memory_mcp.install.status import statuses


def checks(look: Look) -> Iterator[Check]:
    """Yield a line for each client found that uses this memory or is unreadable, one for all others, and one for doubled hooks.

    WARN where a client's file cannot be read and for doubled hooks, FAIL where its command is not there. One failed line alone
    where the records of install cannot be read.
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
        name, install = f"client {one.client}", f"memory-mcp install {one.client}"
        missing = [server.command for server in one.servers if not server.runs]
        if one.unreadable:
            yield Check(WARN, name, f"{one.title}: {'; '.join(one.unreadable)}", f"{install} --dry-run")
        elif missing:
            yield Check(FAIL, name, f"{one.title} would start {missing[0]}, which is not there", install)
        elif one.configured:
            places = ", ".join(dict.fromkeys(server.path for server in one.servers))
            hooks = "hooks on" if one.recording else "no hooks in its configuration"
            yield Check(OK, name, f"{one.title} uses this memory ({places}); {hooks}")
    if without := [one for one in found if not one.configured and not one.unreadable]:
        several = len(without) > 1
        text = f"{', '.join(one.title for one in without)} {'do' if several else 'does'} not use this memory"
        step = "memory-mcp setup, or one of them: memory-mcp install CLIENT" if several else ""
        yield Check(OK, "clients", text, step or f"memory-mcp install {without[0].client}")
    if twice := doubled(look.home, here):
        files = ", ".join(map(str, twice))
        text = f"the plugin is on, and hooks of ours stand in {files}: each event is told twice and stored once"
        yield Check(WARN, "hooks", text, "memory-mcp uninstall claude-code takes them out of the settings")
