"""The whole store: opens or creates one data directory, and holds its parts."""

import json
import logging
import os
import shutil
import threading
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tzlocal import get_localzone_name

from memory_mcp import machine
from memory_mcp.clock import Clock, SystemClock
from memory_mcp.errors import DiskFull, InvalidQuery, SchemaTooOld
from memory_mcp.failpoints import failpoint
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.duckdb import migrations
from memory_mcp.storage.duckdb.audit import DuckAudit
from memory_mcp.storage.duckdb.connection import Connection, sweep_compacting
from memory_mcp.storage.duckdb.events import DuckEvents
from memory_mcp.storage.duckdb.grips import DuckGrips
from memory_mcp.storage.duckdb.outbox import DuckOutbox, Numbers
from memory_mcp.storage.duckdb.projects import DuckProjects
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.duckdb.space import disk_full
from memory_mcp.storage.duckdb.spending import DuckSpending
from memory_mcp.storage.duckdb.superseded import DuckSuperseded
from memory_mcp.storage.duckdb.toc import DuckToc
from memory_mcp.storage.duckdb.topics import DuckTopics
from memory_mcp.storage.duckdb.usage import DuckUsage
from memory_mcp.storage.lock import DirectoryLock, LookingLock
from memory_mcp.storage.values import StoreStats

log = logging.getLogger(__name__)

FILE_NAME = "memory.duckdb"
#: Memory that DuckDB may use (larger results spill to disk), and its threads: callers bring their own.
_MEMORY_MB, _THREADS = 64, 1
_HIGH_WATER = "high-water.json"
_BRING_UP = "Any other command that reads it does so, and keeps a copy of the old file: memory-mcp timeline"
_TABLES = ("duplicate", "segment_cut", "node", "bullet", "grip", "term_delta", "outbox")
#: In one statement: each costs as much again before it reads a row.
_COUNTS = "SELECT 'event', count(*), min(ts), max(ts) FROM event" + "".join(
    f" UNION ALL SELECT '{table}', count(*), NULL, NULL FROM {table}" for table in _TABLES
)
_TEXT_BYTES = "SELECT coalesce(sum(strlen(text)), 0)::BIGINT FROM event"


def open_storage(
    directory: Path | None,
    timezone: str = "",
    clock: Clock | None = None,
    lock: DirectoryLock | None = None,
) -> "DuckStorage":
    """Open the store of a data directory, made when it is missing; None keeps everything in memory.

    `timezone` is used only when the store is made (default: the system's zone). `lock` is the directory's when the caller
    holds it already; it is released when the store is closed. Raises StorageLocked when another process holds it,
    SchemaTooNew when a newer version wrote it, StorageError when it cannot be read.
    """
    given = lock is not None
    if directory is not None and lock is None:
        lock = DirectoryLock(directory)
    try:
        return DuckStorage(directory, lock, timezone, clock or SystemClock())
    except BaseException:
        if lock and not given:
            lock.release()
        raise


def look_at(directory: Path) -> "DuckStorage":
    """Open the store of a data directory to be read alone: no file of it changes, also not by closing it.

    Raises StorageLocked when another process holds it, SchemaTooNew when a newer version wrote it, StorageError when it
    cannot be read or is of an older schema.
    """
    lock = LookingLock(directory)
    try:
        return DuckStorage(directory, lock, "", SystemClock(), looking=True)
    except BaseException:
        lock.release()
        raise


class DuckStorage:
    """See Storage."""

    def __init__(
        self, directory: Path | None, lock: DirectoryLock | LookingLock | None, timezone: str, clock: Clock, looking: bool = False
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._looking = looking
        self._path = directory / FILE_NAME if directory else None
        self._closed = False
        self._marking = threading.Lock()
        self._lost = 0
        #: Commits when the rows were last counted, and what came of it.
        self._counted: tuple[int, StoreStats | None] = (0, None)
        if self._path and not looking:
            sweep_compacting(self._path)
        self._con = Connection(self._path, _MEMORY_MB, _THREADS, looking)
        try:
            self._bring_up(timezone)
            if self._path and not looking:
                self._path.chmod(0o600)
            self._numbers = Numbers(self._con)
            self._con.on_rollback = self._numbers.load
            self._con.on_commit = self._numbers.settle
            self._quoted = quoted = RecentGrips()
            self.projects = DuckProjects(self._con, self._follow_names)
            self.events = DuckEvents(self._con, self._numbers, clock, self._write_high_water, quoted, self.projects)
            self.toc = DuckToc(self._con, self._numbers, clock, quoted)
            self.grips = DuckGrips(self._con, quoted)
            self.usage = DuckUsage(self._con)
            self.superseded = DuckSuperseded(self._con)
            self.spending = DuckSpending(self._con)
            self.topics = DuckTopics(self._con)
            self.audit = DuckAudit(self._con)
            self.outbox = DuckOutbox(self._con, self._numbers)
            self._lost = self._check_high_water()
            self._con.on_reopened = self.reread
        except BaseException:
            # An open file would stay locked, and a second try in this process would meet the first one's state.
            self._con.close()
            raise

    def _bring_up(self, timezone: str) -> None:
        with self._con.reading() as cursor:
            have = migrations.version_of(cursor)
        migrations.refuse_newer(have)
        if self._looking and have < migrations.CURRENT:
            raise SchemaTooOld(f"the store has schema {have}, which this program brings up to {migrations.CURRENT}", _BRING_UP)
        if have == 0:
            zone = timezone or _zone_here()
            Calendar(zone).day_of(0)
            with self._con.writing() as con:
                migrations.create(con)
                con.execute("INSERT INTO meta VALUES ('timezone', ?), ('store_id', ?)", [zone, uuid.uuid4().hex])
        elif have < migrations.CURRENT:
            if self._path:
                with self._con.replaced():
                    migrations.back_up(self._path, have)
            with self._con.writing() as con:
                migrations.migrate(con, have)

    def _meta(self, name: str) -> str:
        row = self._con.row("SELECT value FROM meta WHERE name = ?", [name])
        return str(row[0]) if row else ""

    @property
    def timezone(self) -> str:
        """See Storage."""
        return self._meta("timezone") or "UTC"

    def set_timezone(self, name: str) -> None:
        """See Storage."""
        Calendar(name).day_of(0)
        with self._con.writing() as con:
            con.execute("UPDATE meta SET value = ? WHERE name = 'timezone'", [name])

    def stats(self, text: bool = True) -> StoreStats:
        """See Storage. What rows say is read again only after a commit."""
        commits, known = self._counted
        if known is None or commits != self._con.commits:
            # Read before the rows: what is committed meanwhile is counted again by the next caller.
            commits = self._con.commits
            known = self._count()
            self._counted = (commits, known)
        (text_bytes,) = (self._con.row(_TEXT_BYTES) if text else None) or (0,)
        if self._con.space.lacking:
            known = replace(known, extra={**known.extra, "no_room": disk_full(self._path).message})
        return replace(known, size_bytes=self._size(), text_bytes=text_bytes, last_seq=self._numbers.last_event)

    def _count(self) -> StoreStats:
        """The stats but for sizes."""
        found = {table: told for table, *told in self._con.rows(_COUNTS)}
        _, first, last = found["event"]
        return StoreStats(
            rows={table: told[0] for table, told in found.items()},
            size_bytes=0,
            text_bytes=0,
            store_id=self._meta("store_id"),
            timezone=self.timezone,
            schema_version=migrations.CURRENT,
            first_ms=first,
            last_ms=last,
            derived_to=self.outbox.checkpoint("deriver"),
            last_seq=0,
            extra={"lost_events": str(self._lost)} if self._lost else {},
        )

    def _size(self) -> int:
        if self._path is None:
            return 0
        files = (self._path, self._path.with_name(self._path.name + ".wal"))
        return sum(f.stat().st_size for f in files if f.exists())

    def latest(self) -> dict[str, int]:
        """See Storage."""
        return {str(source): int(ms) for source, ms in self._con.rows("SELECT source, max(ts) FROM event GROUP BY source")}

    def interrupt(self, thread: int | None = None) -> None:
        """See Storage."""
        self._con.interrupt(thread)

    def reread(self) -> None:
        """See Storage."""
        with self._con.still():
            self._numbers.load()
            self._numbers.changes.forget()
            self.projects.reread()
            self.events.reread()
            self.toc.reread()
            self._quoted.forget()

    def _follow_names(self) -> None:
        """Projects are called otherwise from now on."""
        self.events.reread()

    def checkpoint(self) -> None:
        """See Storage."""
        self._con.run("CHECKPOINT")

    def dead_bytes(self) -> int:
        """See Storage."""
        return self._con.dead_bytes()

    def compact(self) -> tuple[int, int]:
        """See Storage. The old file stays beside the new one until the new one is in place."""
        if self._path is None:
            return 0, 0
        with self._con.rewritten() as fresh:
            before = self._size()
            shutil.copymode(self._path, fresh)
            _sync(fresh)
            failpoint("compact.copied")
            os.replace(fresh, self._path)
            _sync(self._path.parent)
            failpoint("compact.swapped")
            # Where DuckDB put what did not fit into memory; it leaves the empty folder.
            with suppress(OSError):
                self._path.with_name(self._path.name + ".tmp").rmdir()
        self.reread()
        return before, self._size()

    def _check_high_water(self) -> int:
        """Events that were acknowledged and are missing now: a damaged WAL header opens without a word (measured)."""
        if self._directory is None:
            return 0
        try:
            mark = int(json.loads((self._directory / _HIGH_WATER).read_text(encoding="utf-8"))["last_seq"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        return max(0, mark - self._numbers.last_event)

    def _write_high_water(self, sync: bool = False) -> None:
        """Say how far the store got. After each append without a sync: what may be lost unnoticed is the log of a crash."""
        if self._directory is None or self._lost:
            return
        # Writers come here after their transaction, side by side; the mark must not fall behind an earlier one.
        with self._marking:
            mark = json.dumps({"last_seq": self._numbers.last_event}).encode("ascii")
            try:
                # In place, since a file made anew for every event would be a block written for every event. The numbers only
                # grow, and so few bytes are written whole.
                descriptor = os.open(self._directory / _HIGH_WATER, os.O_CREAT | os.O_WRONLY | machine.NO_LINK, 0o600)
                try:
                    os.write(descriptor, mark)
                    if os.fstat(descriptor).st_size > len(mark):
                        os.ftruncate(descriptor, len(mark))
                    if sync:
                        os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                # What it counts is committed already: a full disk must not make that look like a failure.
                log.warning("the high-water mark could not be written: %s", error)

    def close(self) -> None:
        """See Storage."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._looking:
                self._con.run("CHECKPOINT")
                self._write_high_water(sync=True)
        except DiskFull as error:
            log.warning("closed without taking the log in, which the next start does: %s", error)
        finally:
            self._con.close()
            if self._lock:
                self._lock.release()


def _zone_here() -> str:
    """The system's zone; InvalidQuery when TZ names one that does not exist, since days would silently be another zone's."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        try:
            Calendar(named).day_of(0)
        except InvalidQuery as error:
            raise InvalidQuery(f"TZ: {error.message}", f"{error.hint} Set TZ, or storage.timezone.") from None
        return named
    return get_localzone_name() or "UTC"


def _sync(path: Path) -> None:
    """Have a file, or the names in a directory, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
