"""Which clients delete their transcripts, when those of this machine go, and what of them is not imported.

Known: Claude Code deletes a session's file once it was left alone for `cleanupPeriodDays` of its settings, 30 without one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.finding import FileState, iter_file_states
from memory_mcp.importers.base import Importer
from memory_mcp.importers.database import DatabaseImporter
from memory_mcp.install.edit import jsonc

#: Sessions that are deleted within so many days are reported.
SOON_DAYS = 7
_DAY_MS = 86_400_000
_CLAUDE_DAYS = 30


@dataclass(frozen=True, slots=True)
class DeletionForecast:
    """When one client deletes its session files; times in UTC ms."""

    importer: str
    title: str
    files: int
    #: Files with something that is not imported.
    new_files: int
    #: Days after which the client deletes them; 0: it keeps them.
    days: int = 0
    #: Files that are deleted within `SOON_DAYS`, how many of them are not imported, and when the first goes.
    deleted_soon: int = 0
    new_deleted_soon: int = 0
    first_deletion_ms: int = 0
    #: Tables of its databases with a conversation that no importer reads.
    unread_tables: tuple[str, ...] = ()


def forecast_deletions(importers: Sequence[Importer], marks: Mapping[str, str], now_ms: int) -> list[DeletionForecast]:
    """Return when each client's files on this machine are deleted.

    One per client that has files at its usual places, with the fewest days of them; 0 days for a client that keeps them.
    `marks` holds importers' marks by name, `now_ms` is in UTC milliseconds.
    """
    soon, forecasts = now_ms + SOON_DAYS * _DAY_MS, []
    for importer in importers:
        files: list[FileState] = []
        days_of_paths: list[int] = []
        # When a file goes, and whether something of it is not imported.
        going: list[tuple[int, bool]] = []
        for path in importer.default_paths():
            if path.exists() and (client_files := list(iter_file_states(importer, path, marks))):
                days = RETENTION_DAYS[importer.name](path) if importer.name in RETENTION_DAYS else 0
                ends = [(file.changed_ms + days * _DAY_MS, file.unread_bytes > 0) for file in client_files if days]
                going += [end for end in ends if end[0] <= soon]
                files += client_files
                days_of_paths.append(days)
        if files:
            new, going_new = sum(file.unread_bytes > 0 for file in files), sum(is_new for _, is_new in going)
            first = min((at_ms for at_ms, _ in going), default=0)
            tables = tuple(_iter_unread_tables(importer))
            forecasts.append(
                DeletionForecast(
                    importer.name, importer.title, len(files), new, min(days_of_paths), len(going), going_new, first, tables
                )
            )
    return forecasts


def _iter_unread_tables(importer: Importer) -> Iterator[str]:
    if not isinstance(importer, DatabaseImporter):
        return
    names: dict[str, None] = {}
    for path in importer.default_paths():
        for file in importer.iter_files(path) if path.exists() else ():
            with suppress(OSError):
                names |= dict.fromkeys(importer.unread_tables(file))
    yield from names


def _read_claude_days(sessions: Path) -> int:
    try:
        settings = foreign_files.read_file(sessions.parent / "settings.json").decode("utf-8-sig")
        days = jsonc.parse(settings).value.get("cleanupPeriodDays")
    except (OSError, ValueError, AttributeError):
        days = None
    return days if isinstance(days, int) and days > 0 else _CLAUDE_DAYS


#: Days after which a client deletes its session files, by importer; the folder of the sessions in.
RETENTION_DAYS: Mapping[str, Callable[[Path], int]] = {"claude-code": _read_claude_days}
