"""Backups in a folder: one file each, and beside them files of events and of quotations that several of them share.

A backup's file holds every other table, and names the shared files that belong to it. Their rows hardly ever change,
so a new backup adds those that came since; files are joined as they grow in number. What is known of a file is read
from the file itself, so that one that was rewritten (something in it was forgotten) or damaged is noticed: it is used
no more, and written anew from the store.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.archive import blocks
from memory_mcp.archive.blocks import Archive
from memory_mcp.archive.frames import Damaged, Head, folded
from memory_mcp.base import machine
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import DiskFull, NotFound, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.storage.archive import SHARED, Snapshot, TableRows
from memory_mcp.storage.base import Storage

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
    """One backup of a folder, or a file of its own."""

    path: Path
    #: When it was made (UTC ms) and of which store; 0 and "" where the name does not say.
    at_ms: int
    store: str


@dataclass(frozen=True, slots=True)
class Made:
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
    """A file of rows that several backups share, as one names it. On disk: fields may be added."""

    name: str
    #: Which keys it covers (`Snapshot.last`), and how many rows it had.
    first: int
    last: int
    rows: int
    from_ms: int
    to_ms: int
    sources: Mapping[str, int]
    table: str = "event"


def write_file(storage: Storage, target: Path, now_ms: int, why: str, step: Step, beside: Sequence[TableRows]) -> Made:
    """Write the whole store, and the rows `beside`, into a file, replaced only once complete; return its path, counts and sizes.

    Raises StorageError when it cannot be written (DiskFull for want of room), and what `step` raises.
    """
    with _reported(target), storage.archive.open_snapshot() as snapshot:
        shared = (part for table in SHARED for part in snapshot.iter_shared(table, 0))
        parts = chain(shared, snapshot.iter_others(), beside)
        heads = blocks.write(target, parts, _about(snapshot, now_ms, why, storage, []), step)
        size = target.stat().st_size
        return Made(target, _counts(heads).pop("event", 0), snapshot.last_seq, _counts(heads, "event"), size, size)


def write_folder(storage: Storage, folder: Path, now_ms: int, why: str, step: Step, beside: Sequence[TableRows]) -> Made:
    """Write a backup into a folder, sharing files of events and grips with the backups of this store that are there.

    Shared files of the newest backup that are undamaged and still as the store are used again, the rest is written. Nothing
    is removed. Returns the path of the backup with counts and sizes. Raises StorageError when it cannot be written
    (DiskFull for want of room), and what `step` raises: shared files may be left then, which `prune` removes.
    """
    with _reported(folder), storage.archive.open_snapshot() as snapshot:
        store = snapshot.store_id[:8]
        latest = files_of(found[0]) if (found := in_order(own_of(folder, store), now_ms)) else None
        files, before = [], 0
        for table in SHARED:
            kept: list[SharedFile] = []
            # Those up to one that is damaged, leaves a gap or differs from the store.
            for file in (file for file in latest or () if file.table == table):
                follows = file.first == (kept[-1].last if kept else 0) + 1 and file.last <= snapshot.last_key(table)
                told = _whole(folder / file.name, step) if follows else None
                if told != snapshot.fingerprint(table, file.first, file.last):
                    break
                kept.append(file)
            before += sum((folder / file.name).stat().st_size for file in kept)
            if snapshot.last_key(table) > (kept[-1].last if kept else 0):
                kept = _more(folder, table, kept, snapshot, step)
            files += kept
        failpoint("backup.events_written")
        stamp = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC)
        name = f"backup-{store}-{stamp:%Y%m%dT%H%M%S}{now_ms % 1000:03}Z{SUFFIX}"
        about = _about(snapshot, now_ms, why, storage, files)
        heads = blocks.write(folder / name, chain(snapshot.iter_others(), beside), about, step)
    failpoint("backup.written")
    sizes = [(folder / file.name).stat().st_size for file in files]
    size = (folder / name).stat().st_size + sum(sizes)
    counts = {table: sum(file.rows for file in files if file.table == table) for table in SHARED} | _counts(heads)
    return Made(folder / name, counts.pop("event"), snapshot.last_seq, counts, max(size - before, 0), size)


@contextmanager
def _reported(place: Path) -> Iterator[None]:
    """Raise StorageError, or DiskFull for want of room, that names the place in place of an OSError of the block."""
    try:
        yield
    except OSError as error:
        text = f"the backup cannot be written to {place}: {error.strerror or error}"
        if DiskFull.of(error) is not None:
            raise DiskFull(text, f"{DiskFull.HINT} Or name another place for backups (backup.directory).") from error
        raise StorageError(text, "Free some space there, or name another place (backup.directory).") from error


def _about(snapshot: Snapshot, now_ms: int, why: str, storage: Storage, files: list[SharedFile]) -> dict[str, Any]:
    """Return what a backup says of itself, for JSON: time, reason, store, sizes and the shared files it names.

    The keys are kind ("backup"), at_ms, why, store_id, schema, timezone, store_bytes (the store's size on disk),
    last_seq, and files, each a dict of the fields of SharedFile.
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


def _counts(heads: Iterable[Head], but: str = "") -> dict[str, int]:
    """Return the number of rows by table that some blocks hold, without those of the table `but`."""
    found: dict[str, int] = {}
    for head in heads:
        if head.table != but:
            found[head.table] = found.get(head.table, 0) + head.rows
    return found


# files that are shared


def _whole(path: Path, step: Step) -> tuple[int, str] | None:
    """Read a file; return how many rows it holds, and their fingerprint; None when it is damaged, no archive or gone."""
    with suppress(OSError, ValueError), Archive(path) as archive:
        heads = []
        for part in archive:
            if isinstance(part, Damaged):
                return None
            heads.append(part.head)
            step()
        return sum(head.rows for head in heads), folded(head.ids for head in heads)
    return None


def _more(folder: Path, table: str, files: list[SharedFile], snapshot: Snapshot, step: Step) -> list[SharedFile]:
    """Write a file with the rows that are in none, and those of small files before it; return the table's files, this one last.

    A file is taken in when it holds at most four times as many rows as come behind it; it stays on disk.
    """
    last = snapshot.last_key(table)
    while files and files[-1].rows <= _JOIN * snapshot.fingerprint(table, files[-1].last + 1, last)[0]:
        files = files[:-1]
    first = (files[-1].last if files else 0) + 1
    rows, told = snapshot.fingerprint(table, first, last)
    span = f"{first}-{last}" if table == "event" else f"{rows}"
    name = f"{table}s-{snapshot.store_id[:8]}-{span}-{told.lstrip('-')[-16:] or '0'}{SUFFIX}"
    heads = blocks.write(folder / name, snapshot.iter_shared(table, first - 1), {"kind": f"{table}s"}, step)
    sources: Counter[str] = Counter()
    for head in heads:
        sources.update(head.sources)
    begins, ends = min((h.from_ms for h in heads), default=0), max((h.to_ms for h in heads), default=0)
    return [*files, SharedFile(name, first, last, sum(h.rows for h in heads), begins, ends, dict(sources), table)]


# what there is


def backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder by their names, newest first; none where the folder is missing or cannot be read."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            if told := _NAME.fullmatch(path.name):
                at = dt.datetime.strptime(told["at"] + "000+0000", "%Y%m%dT%H%M%S%f%z")
                found.append(Backup(path, round(at.timestamp() * 1000), told["store"]))
    return sorted(found, key=lambda b: (b.at_ms, b.path.name), reverse=True)


def files_of(backup: Backup) -> list[SharedFile] | None:
    """Return the shared files that a backup names, events first; None where it cannot be read or is no backup."""
    with suppress(OSError, ValueError, KeyError), Archive(backup.path) as archive:
        return [SharedFile(**file) for file in archive.about["files"]]
    return None


def size_of(folder: Path) -> int:
    """Return the bytes of all archive files in a folder; 0 where it cannot be read, and for files that vanish meanwhile."""
    with suppress(OSError):
        return sum(machine.size_of(path) for path in folder.iterdir() if path.suffix == SUFFIX)
    return 0


def own_of(folder: Path, store: str) -> list[Backup]:
    """Return the backups of one store (the first eight digits of its id), newest first."""
    return [b for b in backups(folder) if b.store == store]


def in_order(found: Iterable[Backup], now_ms: int) -> list[Backup]:
    """Return backups newest first; behind them those more than an hour in the future, whose clock was wrong."""
    return sorted(found, key=lambda b: (b.at_ms <= now_ms + _SKEW_MS, b.at_ms, b.path.name), reverse=True)


def find(source: Path, until_ms: int | None = None, now_ms: int | None = None) -> Backup:
    """Return a backup file as it is, or the newest in a folder up to a moment (UTC ms). Raises NotFound when there is none.

    A file is not opened; its time and store are known only where its name says them. Backups more than an hour ahead
    of `now_ms` (None: the clock) are taken only where there is no other.
    """
    if source.is_file():
        named = backups(source.parent) if _NAME.fullmatch(source.name) else []
        return next((b for b in named if b.path == source), Backup(source, 0, ""))
    now = SystemClock().now_ms() if now_ms is None else now_ms
    found = [b for b in in_order(backups(source), now) if until_ms is None or b.at_ms <= until_ms]
    if not found:
        before = " from then or earlier" if until_ms is not None and backups(source) else ""
        raise NotFound(f"there is no backup{before} in {source}", "See which there are: memory-mcp backup --list")
    return found[0]


def wanted(found: list[Backup], days: int, weeks: int, day_of: Callable[[int], str], now_ms: int) -> set[Path]:
    """Return which of some backups of one store are kept, as paths.

    These are all within 24 hours of `now_ms`, and the last of each of so many days and ISO weeks that have any; `day_of`
    returns the ISO date of a time in UTC ms. Backups from the future are counted apart, by the same rule.
    """
    kept: set[Path] = {b.path for b in found if abs(now_ms - b.at_ms) < _DAY_MS}
    ahead = [b for b in found if b.at_ms > now_ms + _SKEW_MS]
    # A clock that was wrong for a while must not take the places of what a right one says.
    for several in ([b for b in found if b not in ahead], ahead):
        by_day: dict[str, Path] = {}
        by_week: dict[tuple[int, int], Path] = {}
        for backup in sorted(several, key=lambda b: b.at_ms, reverse=True):
            day = day_of(backup.at_ms)
            year, week, _ = dt.date.fromisoformat(day).isocalendar()
            by_day.setdefault(day, backup.path)
            by_week.setdefault((year, week), backup.path)
        kept |= {*list(by_day.values())[:days], *list(by_week.values())[:weeks]}
    return kept


def prune(folder: Path, store: str, days: int, weeks: int, day_of: Callable[[int], str], now_ms: int) -> int:
    """Remove backups of one store that `wanted` does not keep, and shared files that no kept one names; return how many backups.

    Shared files stay where a kept backup cannot be read. Files that a killed writer left go too. Nothing else may
    write into the folder meanwhile. OSErrors pass on.
    """
    own = own_of(folder, store)
    kept = wanted(own, days, weeks, day_of, now_ms)
    gone = [b for b in own if b.path not in kept]
    for backup in gone:
        backup.path.unlink(missing_ok=True)
    named: set[str] = set()
    for backup in own:
        if backup.path in kept:
            files = files_of(backup)
            if files is None:
                # What it needs is not known.
                return len(gone)
            named |= {file.name for file in files}
    for path in folder.iterdir():
        unfinished = path.name.startswith(".") and path.name.endswith(".part")
        shared = path.name.startswith(tuple(f"{table}s-{store}-" for table in SHARED))
        if unfinished or path.name.endswith(f"{SUFFIX}.rewritten") or (shared and path.name not in named):
            path.unlink(missing_ok=True)
    return len(gone)
