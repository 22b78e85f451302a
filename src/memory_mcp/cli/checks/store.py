"""Whether the store is whole: nothing acknowledged is missing, everything is filed, and every invariant holds."""

from collections.abc import Iterator

from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Opened
from memory_mcp.tree.toc.check import FRESHNESS, check_store


def checks(opened: Opened) -> Iterator[Check]:
    """Yield five lines: size, lost events, zone, events not yet filed in the tree, and whether the tree is sound.

    FAIL where acknowledged events are missing or an invariant is broken, WARN where events wait to be filed.
    Periods that only wait for their text are no finding.
    """
    stats = opened.storage.get_stats()
    events = render.plural(stats.rows.get("event", 0), "event")
    yield Check(OK, "store", f"schema {stats.schema_version}, {events}, {render.size(stats.size_bytes)}")
    if stats.loss:
        yield Check(FAIL, "acknowledged events", stats.loss.description, stats.loss.recovery_hint)
    else:
        yield Check(OK, "acknowledged events", "all there")
    yield Check(OK, "time zone", f"days are counted in {stats.timezone}")
    pending = stats.last_seq - stats.derived_to
    all_findings = check_store(opened.storage, opened.calendar)
    # Periods follow what was written after ten seconds of silence or a minute; until then they are older than it.
    findings = [finding for finding in all_findings if finding.rule != FRESHNESS]
    if pending:
        waiting = f"{render.plural(pending, 'event')} stored and not yet filed in the tree"
        yield Check(WARN, "pending", waiting, "they are filed by the next search, or by a running server")
    elif len(all_findings) > len(findings):
        due = render.plural(len(all_findings) - len(findings), "period")
        yield Check(OK, "pending", f"every event is filed in the tree; {due} will be told anew by a running server")
    else:
        yield Check(OK, "pending", "every event is filed in the tree")
    if findings:
        text = f"{render.plural(len(findings), 'finding')}, first: {findings[0].rule}: {findings[0].detail}"
        yield Check(FAIL, "tree", text, "memory-mcp admin check, then memory-mcp admin rebuild-toc")
    else:
        yield Check(OK, "tree", "every invariant holds")
