"""When the newest event came, by hooks and by imports."""

from collections.abc import Iterator

from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.model.event import HOOK, TOOL

#: With hooks on, a day of work leaves events; a week without any may be a holiday, and is worth a look.
_QUIET_MS = 7 * 86_400_000


def checks(opened: Opened) -> Iterator[Check]:
    """Yield two lines: the last event by hooks of each client, and the newest of each import source.

    WARN where hooks brought nothing for a week; none at all is OK. Events by the tool are left out.
    """
    latest = opened.storage.latest_times()
    hooks = {source.removeprefix(HOOK): ms for source, ms in latest.items() if source.startswith(HOOK)}
    imports = {source: ms for source, ms in latest.items() if not source.startswith(HOOK) and source != TOOL}
    when = "; ".join(f"{client} {render.minute(opened.calendar.format_iso(ms))}" for client, ms in sorted(hooks.items()))
    if not hooks:
        step = "memory-mcp install --status shows which clients have hooks; they act in new sessions"
        yield Check(OK, "events by hooks", "none yet: nothing is recorded while you work", step)
    elif opened.now_ms - max(hooks.values()) > _QUIET_MS:
        step = "if you have worked since then, look whether the client's hooks still call memory-mcp hook"
        yield Check(WARN, "events by hooks", f"the last came long ago: {when}", step)
    else:
        yield Check(OK, "events by hooks", f"the last: {when}")
    when = "; ".join(f"{source} {render.minute(opened.calendar.format_iso(ms))}" for source, ms in sorted(imports.items()))
    step = "" if imports else "memory-mcp import"
    yield Check(OK, "events by imports", f"the newest: {when}" if imports else "none yet", step)
