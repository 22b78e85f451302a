"""The store: whether it is whole, its summarizer, its backups, and payloads of hooks that wait."""

import time
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import foreign_files, paths
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look, Opened
from memory_mcp.model.calendar import Calendar
from memory_mcp.tree.toc.check import FRESHNESS
from memory_mcp.tree.toc.check import check_store as check_tree
from memory_mcp.upkeep.archive.keeper import read_folder
from memory_mcp.upkeep.archive.reading import iter_losses
from memory_mcp.upkeep.jobs.improve_summaries import last_problem, left_today

#: A newest backup older than this is worth a warning (milliseconds): daily ones were missed, or the memory was not used.
_OLD = 8 * 86_400_000
#: A payload waits for the next start of a session or of the daemon; one this old waits for something that does not come.
_OLD_S = 86_400
#: Files whose first line is read, and how much of it (bytes).
_MOST, _HEAD = 1_000, 4_096


def check_store(opened: Opened) -> Iterator[Check]:
    """Yield whether nothing is lost and every invariant holds.

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
    all_findings = check_tree(opened.storage, opened.calendar)
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


def check_summarizer(opened: Opened) -> Iterator[Check]:
    """Yield the summarizer's command and today's tokens.

    WARN with the reason if its last answer today was none.
    """
    settings = opened.settings.summarizer
    if not settings.is_on:
        yield Check(OK, "summarizer", "extractive: no language model is asked")
        return
    spent = settings.daily_tokens - left_today(settings, opened.storage, opened.calendar, opened.now_ms)
    state = f"command {settings.name}, {spent:,} of {settings.daily_tokens:,} tokens spent today"
    if problem := last_problem(opened.storage, opened.calendar, opened.now_ms):
        yield Check(WARN, "summarizer", f"{state}; {problem}", "memory-mcp spend")
    else:
        yield Check(OK, "summarizer", state)


def check_backups(look: Look) -> Iterator[Check]:
    """Yield damaged backups, and how old the newest one is.

    WARN where the newest is older than eight days, or there is none and none is made.
    """
    if look.settings is None or not (look.directory / "memory.duckdb").is_file():
        return
    backups = read_folder(look.settings.backup.folder(look.directory))
    if backups.newest_ms is None:
        enabled = look.settings.backup.enabled
        detail = "there is none yet" if enabled else "there is none, and none is made (backup.enabled = false)"
        yield Check(OK if enabled else WARN, "backups", detail, "memory-mcp backup")
        return
    for name, missing in iter_losses(backups.folder):
        span = " to ".join(Calendar("UTC").format_iso(ms) for ms in (missing.from_ms, missing.to_ms)) if missing.to_ms else ""
        sources = ", ".join(f"{count:,} of {source or 'no source'}" for source, count in missing.sources.items())
        detail = (f" ({sources})" if sources else "") + (f", {span}" if span else "")
        rows = f"{missing.rows:,} rows of {missing.table}"
        if missing.rows < 0:
            rows = f"rows of {missing.table or 'several tables'}"
        text = f"{name} is damaged ({missing.what}): {rows}{detail} cannot be read"
        yield Check(FAIL, "backups", text, "memory-mcp backup makes one anew that builds on nothing damaged")
    old = time.time_ns() // 1_000_000 - backups.newest_ms > _OLD
    size = f"{render.plural(backups.count, 'backup')}, {render.size(backups.size_bytes)}"
    text = f"{size} in {backups.folder}, the newest of {Calendar('UTC').format_iso(backups.newest_ms)}"
    yield Check(WARN if old else OK, "backups", text, "memory-mcp backup" if old else "")


def check_spool(look: Look) -> Iterator[Check]:
    """Yield a line for each kind of payload that waits.

    Raw ones, with their secrets, are looked for in the first 1000.
    """
    spool = Path(paths.spool_dir(str(look.directory)))
    waiting = sorted(_files(spool / "new"))
    if waiting:
        # A payload's name begins with its time in nanoseconds.
        first = waiting[0].name.partition("-")[0]
        hours = (time.time() - int(first) / 1e9) / 3600 if first.isdecimal() else 0.0
        text = f"{render.plural(len(waiting), 'payload')} to be stored, the oldest {hours:.0f} h old"
        state = WARN if hours * 3600 > _OLD_S else OK
        yield Check(state, "left by hooks", text, "memory-mcp daemon start" if state == WARN else "")
    if raw := sum(_is_raw(file) for file in waiting[:_MOST]):
        text = f"{render.plural(raw, 'payload')} with any secrets still there: the rules about secrets could not be used"
        yield Check(WARN, "left raw by hooks", text, "install memory-mcp anew, then: memory-mcp daemon start")
    if bad := _files(spool / "bad"):
        text = f"{render.plural(len(bad), 'payload')} could not be read and lie in {spool / 'bad'}"
        yield Check(WARN, "unreadable payloads", text, "they are kept; report them with a copy of one")


def _is_raw(file: Path) -> bool:
    try:
        with foreign_files.open_file(file) as stream:
            return b',"raw":true' in stream.read(_HEAD).partition(b"\n")[0]
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
