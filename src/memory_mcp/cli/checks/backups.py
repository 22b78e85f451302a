"""Check of the backups: how many, how large, how old the newest is."""

import time
from collections.abc import Iterator

from memory_mcp.archive.keeper import held
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Look
from memory_mcp.model.calendar import Calendar

#: A daily backup that is older than this was missed although somebody used the memory, or nobody did (milliseconds).
_OLD = 8 * 86_400_000


def checks(look: Look) -> Iterator[Check]:
    """The usual folder of backups, where there is a memory."""
    if look.settings is None or not (look.directory / "memory.duckdb").is_file():
        return
    found = held(look.settings.backup.folder(look.directory))
    if found.newest_ms is None:
        told = "there is none yet" if look.settings.backup.enabled else "there is none, and none is made (backup.enabled = false)"
        yield Check(OK if look.settings.backup.enabled else WARN, "backups", told, "memory-mcp backup")
        return
    old = time.time_ns() // 1_000_000 - found.newest_ms > _OLD
    size = f"{render.plural(found.count, 'backup')}, {render.size(found.size_bytes)}"
    text = f"{size} in {found.folder}, the newest of {Calendar('UTC').iso(found.newest_ms)}"
    yield Check(WARN if old else OK, "backups", text, "memory-mcp backup" if old else "")
