"""Check of the backups: how many, how large, how old the newest is, and whether every byte of them is what was written."""

import time
from collections.abc import Iterator

from memory_mcp.archive.keeper import held
from memory_mcp.archive.reading import damaged
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.model.calendar import Calendar

#: A newest backup older than this is worth a warning (milliseconds): daily ones were missed, or the memory was not used.
_OLD = 8 * 86_400_000


def checks(look: Look) -> Iterator[Check]:
    """Yield a line about the usual folder of backups, after one for each damaged file in it; nothing without a database file.

    WARN where the newest is older than eight days, or there is none and none is made.
    """
    if look.settings is None or not (look.directory / "memory.duckdb").is_file():
        return
    backups = held(look.settings.backup.folder(look.directory))
    if backups.newest_ms is None:
        enabled = look.settings.backup.enabled
        detail = "there is none yet" if enabled else "there is none, and none is made (backup.enabled = false)"
        yield Check(OK if enabled else WARN, "backups", detail, "memory-mcp backup")
        return
    for name, missing in damaged(backups.folder):
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
