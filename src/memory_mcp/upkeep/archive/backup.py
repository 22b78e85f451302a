"""Backups in a folder: one file each, and shared files of events and quotations.

A backup's file holds every other table, and names the shared files that belong to it. Their rows hardly ever change, so a
new backup adds those that came since; files are joined as they grow in number. What is known of a file is read from the
file itself, so that one that was rewritten (something in it was forgotten) or damaged is noticed: it is no longer used, and
written again from the store.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.base import machine
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DiskFull, NotFound, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.storage.archive import SHARED, Snapshot, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.upkeep.archive import blocks
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Damaged, Head, xor_hex

SUFFIX = ".archive"
_NAME = re.compile(r"backup-(?P<store>[0-9a-f]{8})-(?P<at>\d{8}T\d{6}\d{3})Z\.archive")
#: A file of events is written anew with those behind it when it holds at most so many times their number.
_JOIN = 4
_DAY_MS = 86_400_000
#: So far may the clocks of two machines be apart (milliseconds).
_SKEW_MS = 3_600_000
#: Called between two blocks of a backup: may wait while others work, and raises DeadlineExceeded where it is to stop.
Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup of a folder, or a separate file."""

    path: Path
    #: When it was made (UTC ms) and of which store; 0 and "" where the name does not say.
    at_ms: int
    store: str


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A backup that was just made."""

    path: Path
    events: int
    last_seq: int
    #: Rows of other tables.
    rows: dict[str, int]
    #: What it has added to the disk, and what it takes with the files it shares (bytes).
    added_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file of rows that several backups share.

    On disk: fields may be added.
    """

    name: str
    #: Which keys it covers (`Snapshot.last`), and how many rows it had.
    first: int
    last: int
    rows: int
    from_ms: int
    to_ms: int
    sources: Mapping[str, int]
    table: str = "event"


def write_single_file(
    storage: Storage, target: Path, now_ms: int, why: str, step: Step, side_rows: Sequence[TableRows]
) -> BackupResult:
    """Write the whole store and `side_rows` into one file.

    It is replaced only once complete. Raises StorageError when it cannot be written (DiskFull for want of room), and what
    `step` raises.
    """
    with _translate_errors(target), storage.archive.open_snapshot() as snapshot:
        shared = (part for table in SHARED for part in snapshot.iter_shared(table, 0))
        parts = chain(shared, snapshot.iter_others(), side_rows)
        heads = blocks.write_archive(target, parts, _make_about(snapshot, now_ms, why, storage, []), step)
        size = target.stat().st_size
        events, row_counts = _count_rows(heads).pop("event", 0), _count_rows(heads, "event")
        return BackupResult(target, events, snapshot.last_seq, row_counts, size, size)


def write_to_folder(
    storage: Storage, folder: Path, now_ms: int, why: str, step: Step, side_rows: Sequence[TableRows]
) -> BackupResult:
    """Write a backup into a folder, sharing files with earlier ones.

    Shared files of the newest backup that are undamaged and still as the store are used again, the rest is written. Nothing
    is removed. Raises StorageError when it cannot be written (DiskFull for want of room), and what `step` raises: shared
    files may be left then, which pruning removes.
    """
    with _translate_errors(folder), storage.archive.open_snapshot() as snapshot:
        store = snapshot.store_id[:8]
        store_backups = sort_backups(list_store_backups(folder, store), now_ms)
        latest_files = read_shared_files(store_backups[0]) if store_backups else None
        files, shared_bytes = [], 0
        for table in SHARED:
            reused_files: list[SharedFile] = []
            # Those up to one that is damaged, leaves a gap or differs from the store.
            for file in (file for file in latest_files or () if file.table == table):
                expected = (reused_files[-1].last if reused_files else 0) + 1
                follows = file.first == expected and file.last <= snapshot.last_key(table)
                fingerprint = _verify_file(folder / file.name, step) if follows else None
                if fingerprint != snapshot.fingerprint(table, file.first, file.last):
                    break
                reused_files.append(file)
            shared_bytes += sum((folder / file.name).stat().st_size for file in reused_files)
            if snapshot.last_key(table) > (reused_files[-1].last if reused_files else 0):
                reused_files = _write_new_rows(folder, table, reused_files, snapshot, step)
            files += reused_files
        failpoint("backup.events_written")
        stamp = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC)
        name = f"backup-{store}-{stamp:%Y%m%dT%H%M%S}{now_ms % 1000:03}Z{SUFFIX}"
        about = _make_about(snapshot, now_ms, why, storage, files)
        heads = blocks.write_archive(folder / name, chain(snapshot.iter_others(), side_rows), about, step)
    failpoint("backup.written")
    sizes = [(folder / file.name).stat().st_size for file in files]
    size = (folder / name).stat().st_size + sum(sizes)
    counts = {table: sum(file.rows for file in files if file.table == table) for table in SHARED} | _count_rows(heads)
    return BackupResult(folder / name, counts.pop("event"), snapshot.last_seq, counts, max(size - shared_bytes, 0), size)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise StorageError or DiskFull instead of an OSError of the block."""
    try:
        yield
    except OSError as error:
        text = f"the backup cannot be written to {path}: {error.strerror or error}"
        if DiskFull.of(error) is not None:
            raise DiskFull(text, f"{DiskFull.HINT} Or name another place for backups (backup.directory).") from error
        raise StorageError(text, "Free some space there, or name another place (backup.directory).") from error


def _make_about(snapshot: Snapshot, now_ms: int, why: str, storage: Storage, files: list[SharedFile]) -> dict[str, Any]:
    """Return what a backup says of itself, as JSON.

    The keys are kind ("backup"), at_ms, why, store_id, schema, timezone, store_bytes (the store's size on disk), last_seq,
    and files, each a dict of the fields of SharedFile.
    """
    return {
        "kind": "backup",
        "at_ms": now_ms,
        "why": why,
        "store_id": snapshot.store_id,
        "schema": snapshot.schema,
        "timezone": storage.timezone,
        # What a restore makes takes about as much.
        "store_bytes": storage.get_stats(text=False).size_bytes,
        "last_seq": snapshot.last_seq,
        "files": [asdict(file) for file in files],
    }


def _count_rows(heads: Iterable[Head], excluded_table: str = "") -> dict[str, int]:
    counts: dict[str, int] = {}
    for head in heads:
        if head.table != excluded_table:
            counts[head.table] = counts.get(head.table, 0) + head.rows
    return counts


# files that are shared


def _verify_file(path: Path, step: Step) -> tuple[int, str] | None:
    """Return a file's rows and fingerprint; None if damaged."""
    with suppress(OSError, ValueError), Archive(path) as archive:
        heads = []
        for part in archive:
            if isinstance(part, Damaged):
                return None
            heads.append(part.head)
            step()
        return sum(head.rows for head in heads), xor_hex(head.ids for head in heads)
    return None


def _write_new_rows(folder: Path, table: str, files: list[SharedFile], snapshot: Snapshot, step: Step) -> list[SharedFile]:
    """Write a file with rows in none; return the table's files, it last.

    A small file before it is taken in when it holds at most four times as many rows as come after it; it stays on disk.
    """
    last = snapshot.last_key(table)
    while files and files[-1].rows <= _JOIN * snapshot.fingerprint(table, files[-1].last + 1, last)[0]:
        files = files[:-1]
    first = (files[-1].last if files else 0) + 1
    rows, fingerprint = snapshot.fingerprint(table, first, last)
    span = f"{first}-{last}" if table == "event" else f"{rows}"
    name = f"{table}s-{snapshot.store_id[:8]}-{span}-{fingerprint.lstrip('-')[-16:] or '0'}{SUFFIX}"
    heads = blocks.write_archive(folder / name, snapshot.iter_shared(table, first - 1), {"kind": f"{table}s"}, step)
    sources: Counter[str] = Counter()
    for head in heads:
        sources.update(head.sources)
    begins, ends = min((h.from_ms for h in heads), default=0), max((h.to_ms for h in heads), default=0)
    return [*files, SharedFile(name, first, last, sum(h.rows for h in heads), begins, ends, dict(sources), table)]


# what there is


def list_backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder by their names, newest first."""
    backups_found = []
    with suppress(OSError):
        for path in folder.iterdir():
            if match := _NAME.fullmatch(path.name):
                at = dt.datetime.strptime(match["at"] + "000+0000", "%Y%m%dT%H%M%S%f%z")
                backups_found.append(Backup(path, round(at.timestamp() * 1000), match["store"]))
    return sorted(backups_found, key=lambda b: (b.at_ms, b.path.name), reverse=True)


def read_shared_files(backup: Backup) -> list[SharedFile] | None:
    """Return the shared files that a backup names; None if unreadable."""
    with suppress(OSError, ValueError, KeyError), Archive(backup.path) as archive:
        return [SharedFile(**file) for file in archive.about["files"]]
    return None


def measure_folder(folder: Path) -> int:
    """Return the bytes of all archive files in a folder."""
    with suppress(OSError):
        return sum(machine.size_of(path) for path in folder.iterdir() if path.suffix == SUFFIX)
    return 0


def list_store_backups(folder: Path, store: str) -> list[Backup]:
    """Return the backups of a store (first 8 digits of its id)."""
    return [b for b in list_backups(folder) if b.store == store]


def sort_backups(unsorted: Iterable[Backup], now_ms: int) -> list[Backup]:
    """Return backups newest first; those from the future come last.

    More than an hour ahead counts as a wrong clock.
    """
    return sorted(unsorted, key=lambda b: (b.at_ms <= now_ms + _SKEW_MS, b.at_ms, b.path.name), reverse=True)


def find_backup(source: Path, until_ms: int | None = None, now_ms: int | None = None) -> Backup:
    """Return a backup file, or the newest in a folder up to a time.

    Raises NotFound when there is none. A file is not opened; its time and store are known only where its name says them.
    Backups more than an hour ahead of `now_ms` (None: the clock) are taken only where there is no other.
    """
    if source.is_file():
        candidates = list_backups(source.parent) if _NAME.fullmatch(source.name) else []
        return next((b for b in candidates if b.path == source), Backup(source, 0, ""))
    now = SystemClock().now_ms() if now_ms is None else now_ms
    matching = [b for b in sort_backups(list_backups(source), now) if until_ms is None or b.at_ms <= until_ms]
    if not matching:
        period = " from then or earlier" if until_ms is not None and list_backups(source) else ""
        raise NotFound(f"there is no backup{period} in {source}", "See which there are: memory-mcp backup --list")
    return matching[0]


def select_kept(store_backups: list[Backup], days: int, weeks: int, day_of: Callable[[int], str], now_ms: int) -> set[Path]:
    """Return which backups of a store are kept.

    These are all within 24 hours of `now_ms`, and the last of each of so many days and ISO weeks that have any; `day_of`
    returns the ISO date of a time in UTC ms. Backups from the future are counted separately, by the same rule.
    """
    kept_paths: set[Path] = {b.path for b in store_backups if abs(now_ms - b.at_ms) < _DAY_MS}
    ahead = [b for b in store_backups if b.at_ms > now_ms + _SKEW_MS]
    # A clock that was wrong for a while must not take the places of what a right one says.
    for group in ([b for b in store_backups if b not in ahead], ahead):
        by_day: dict[str, Path] = {}
        by_week: dict[tuple[int, int], Path] = {}
        for backup in sorted(group, key=lambda b: b.at_ms, reverse=True):
            day = day_of(backup.at_ms)
            year, week, _ = dt.date.fromisoformat(day).isocalendar()
            by_day.setdefault(day, backup.path)
            by_week.setdefault((year, week), backup.path)
        kept_paths |= {*list(by_day.values())[:days], *list(by_week.values())[:weeks]}
    return kept_paths


def prune_folder(folder: Path, store: str, days: int, weeks: int, day_of: Callable[[int], str], now_ms: int) -> int:
    """Remove a store's backups that are not kept; return how many.

    Also shared files that no kept backup names, unless a kept backup cannot be read, and files that a killed writer left.
    Nothing else may write into the folder meanwhile. OSErrors pass on.
    """
    store_backups = list_store_backups(folder, store)
    kept_paths = select_kept(store_backups, days, weeks, day_of, now_ms)
    removed = [b for b in store_backups if b.path not in kept_paths]
    for backup in removed:
        backup.path.unlink(missing_ok=True)
    named_files: set[str] = set()
    for backup in store_backups:
        if backup.path in kept_paths:
            files = read_shared_files(backup)
            if files is None:
                # What it needs is not known.
                return len(removed)
            named_files |= {file.name for file in files}
    for path in folder.iterdir():
        unfinished = path.name.startswith(".") and path.name.endswith(".part")
        shared = path.name.startswith(tuple(f"{table}s-{store}-" for table in SHARED))
        if unfinished or path.name.endswith(f"{SUFFIX}.rewritten") or (shared and path.name not in named_files):
            path.unlink(missing_ok=True)
    return len(removed)
