"""The background process: whether one runs, of which version, and with which settings."""

from collections.abc import Iterator

from memory_mcp import __version__
from memory_mcp.cli.checks.base import OK, WARN, Check, Look
from memory_mcp.cli.checks.hook_events import running
from memory_mcp.cli.checks.inside import RESTART


def checks(look: Look) -> Iterator[Check]:
    """Yield one line: whether a daemon runs for the data directory, and what is wrong with it; none is started.

    WARN for another version, for settings that changed since its start, and for what it notes of itself.
    """
    line = running(look)
    if line is None:
        yield Check(OK, "daemon", "none runs; the next client or command starts one")
        return
    about = line.about
    line.close()
    who = f"process {about.get('pid')}, version {about.get('memory-mcp')}"
    if about.get("memory-mcp") != __version__:
        step = f"use one version everywhere, then: {RESTART}"
        yield Check(WARN, "daemon", f"{who}; this command is version {__version__}", step)
    elif stale := about.get("stale"):
        text = f"{who}; the settings file changed since it started ({stale})"
        yield Check(WARN, "daemon", text, f"any other command applies it, or {RESTART}")
    elif note := about.get("note"):
        yield Check(WARN, "daemon", f"{who}; {note}", RESTART)
    else:
        yield Check(OK, "daemon", f"{who}, with the settings of now")
