"""Whether recording is paused, and whether that can be told."""

from collections.abc import Iterator

from memory_mcp.base import pauses
from memory_mcp.base.clock import SystemClock
from memory_mcp.cli.checks.base import OK, WARN, Check, Look


def checks(look: Look) -> Iterator[Check]:
    """Yield one line: which projects are paused now (WARN), that none is, or that the file of pauses cannot be read (WARN)."""
    now = SystemClock().now_ms()
    try:
        stored_pauses = pauses.read(str(look.directory))
    except ValueError as error:
        yield Check(WARN, "recording", f"{error}; nothing is paused", f"move it out of {look.directory}, and pause again")
        return
    names = sorted({p.projects[0] for p in stored_pauses if p.begin <= now and (p.end is None or now < p.end)})
    if names:
        what = "every project" if pauses.ALL in names else ", ".join(names)
        yield Check(WARN, "recording", f"paused: {what}", "memory-mcp resume --project NAME, or '*' for all")
    else:
        yield Check(OK, "recording", "not paused")
