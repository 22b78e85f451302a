"""Writes that are acknowledged by the log, and builds, stored together, before anything else reads or writes the database.

A transaction of DuckDB costs 3 ms of CPU for one event, and hardly more for a hundred; a line of the log 0.1. A build follows
from the events, so that none is logged: a process that is killed before it is stored derives it again.

Several writers share one sync: each waits until its line is on disk, and one of them syncs all lines that are there.

A line is the CRC-32 of a JSON text in eight hexadecimal digits, a space, and the text: how many bytes before it were synced when
it was added, and the write. Only what was synced can have been acknowledged: what is damaged there is told, and what is not whole
behind that is left out, for a power loss keeps any part of what was not synced.
"""

import json
import logging
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from memory_mcp.base import machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DiskFull, ResourceExhausted, StorageDamaged, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.change import Change
from memory_mcp.model.event import Event
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.files import write_log_path
from memory_mcp.storage.duckdb.outbox import RequestRow, insert_changes, insert_requests
from memory_mcp.storage.duckdb.salvage import set_aside
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.duckdb.waiting import B
from memory_mcp.storage.rows import event_of
from memory_mcp.storage.values import WriteRequest

_DIGITS = 8
#: Waits for a file's bytes, and for its size.
_sync = getattr(os, "fdatasync", os.fsync)


class WriteLog:
    """The log of one data directory. Needs the store's write lock, but for `await_sync`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._identity: list[int] = []
        #: Bytes, also of a line that could not be written to its end, and whether there is such a line.
        self._size, self._is_broken = 0, False
        #: Bytes of all lines that were added, how many of them are on disk or stored, and how many were cleared.
        self._added = self._synced = self._cleared = 0
        #: Whether a sync failed since the log was cleared: the system tells that once, and the next would seem to succeed.
        self._sync_failed = False
        #: Held while the disk is waited for.
        self._sync_lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether the file holds nothing, as far as this process has written it."""
        return self._size == 0

    def read_writes(self) -> tuple[list[Any], int]:
        """Return the write of each whole line, in order, and how many lines that were synced are damaged.

        Raises OSError if the file cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return [], 0
        self._size = len(content)
        writes, damaged, synced, start = [], [], 0, 0
        # Behind the last end of a line is what was not written to its end.
        for line in content.split(b"\n")[:-1]:
            value = _parse_line(line)
            if value is None:
                damaged.append(start)
            else:
                # Without a number it is an older program's, which synced each line before the next.
                synced_before, write = value if isinstance(value[0], int) else (start, value)
                synced = max(synced, synced_before)
                writes.append(write)
            start += len(line) + 1
        return writes, sum(place < synced for place in damaged)

    def add_write(self, write: Sequence[Any]) -> int:
        """Append a JSON array; return its number for `await_sync`.

        Raises OSError if that fails; then the log has to be cleared before the next write.
        """
        if self._is_broken or self._sync_failed:
            raise OSError(f"{self._path} could not be written or synced")
        value = [self._synced - self._cleared, write]
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        line = b"%0*x %b\n" % (_DIGITS, zlib.crc32(text), text)
        descriptor = self._open() if self._descriptor is None else self._descriptor
        self._size += len(line)
        self._is_broken = True
        unwritten = line
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        self._is_broken = False
        self._added += len(line)
        return self._added

    def await_sync(self, number: int) -> None:
        """Wait until the line of that number is on disk, or stored.

        Raises OSError if that fails or the file is gone; then the log has to be cleared before the next write.
        """
        with self._sync_lock:
            if self._synced >= number:
                return
            if self._sync_failed:
                raise OSError(f"{self._path} could not be synced")
            added = self._added
            try:
                if self._descriptor is None:
                    raise FileNotFoundError(f"{self._path} was closed")
                _sync(self._descriptor)
                if not self._is_in_place():
                    raise FileNotFoundError(f"{self._path} was moved or deleted")
            except OSError:
                self._sync_failed = True
                raise
            self._synced = added

    def clear(self) -> None:
        """Empty the log, on disk too, since all of it is stored. Raises OSError if that fails."""
        with self._sync_lock:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
            self._size, self._is_broken, self._sync_failed = 0, False, False
            self._synced = self._cleared = self._added
            if not self._is_in_place():
                self._close()

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        with self._sync_lock:
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if self.is_empty and self._is_in_place():
                self._path.unlink()

    def _is_in_place(self) -> bool:
        return paths.identity(str(self._path)) == self._identity

    def _open(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | machine.PRIVATE, 0o600)
        self._identity = paths.identity(str(self._path))
        machine.sync_names(self._path.parent)
        return self._descriptor


def _parse_line(line: bytes) -> Any:
    """Return the value of a line; None if it is not what was written."""
    check, text = line[:_DIGITS], line[_DIGITS + 1 :]
    try:
        return json.loads(text) if int(check, 16) == zlib.crc32(text) else None
    except ValueError:
        return None


log = logging.getLogger(__name__)

EVENT_TYPES = ("BIGINT", "HUGEINT", "BIGINT", "BIGINT", *["VARCHAR"] * 10, "BIGINT", "VARCHAR", "VARCHAR")
#: Characters that wait at most, with so many for each event: storing them takes some 20 ms.
_MOST_CHARS, _EACH = 1024 * 1024, 2000
#: Builds that wait at most, each of 12 nodes or fewer: writing them takes 25 ms, for which the next reader waits.
_MOST_BUILDS = 8
#: The columns of events that hold their id and their text.
_ID, _TEXT = 1, 15
_CHECK = "Check that the data directory can be read and written, then run: memory-mcp doctor"


@dataclass(frozen=True, slots=True)
class DeferredWrite:
    """The rows of one write: columns of its events, its entry of the outbox, and its request."""

    columns: list[list[Any]]
    change: Change
    request: RequestRow | None = None


class DeferredWrites:
    """The writes that wait, and their log. Whoever holds the write lock adds and stores them."""

    def __init__(self, con: Connection, path: Path) -> None:
        """Keep the log at `path`; `replay` has to come before the first write."""
        self._con = con
        self._log = WriteLog(path)
        self._writes: list[DeferredWrite] = []
        #: The builds that wait, and what writes them.
        self._builds: list[Any] = []
        self._write_builds: Callable[[duckdb.DuckDBPyConnection, Sequence[Any]], None] | None = None
        #: Characters that may still come before it is stored.
        self._room = _MOST_CHARS
        #: Whether the last transaction with them failed.
        self._has_failed = False

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to store, or a line in the log that no write waits for."""
        return bool(self._builds) or not self._log.is_empty

    def replay(self, append: Callable[[Sequence[Event], WriteRequest | None], object]) -> int:
        """Have `append` store what an earlier process logged; return how many lines cannot be used, and are left out.

        Raises what `append` raises for lack of room or damage, and StorageError if the log cannot be read.
        """
        try:
            lines, unusable = self._log.read_writes()
        except OSError as error:
            raise StorageError(f"the log of writes cannot be read: {error}", _CHECK) from error
        for line in lines:
            try:
                rows, request = line
                events = [event_of((row[1], row[2], *row[4:14], *row[15:])) for row in rows]
                write = events, WriteRequest(request[0], request[1]) if request else None
                try:
                    append(*write)
                except ResourceExhausted:
                    # The memory of what was stored before is free once it is written out.
                    self._con.write_checkpoint()
                    append(*write)
            except (DiskFull, StorageDamaged):
                raise
            except (StorageError, ValueError, TypeError, IndexError) as error:
                log.error("a logged write cannot be stored: %s", error)  # noqa: TRY400 - what it says is the whole of it
                unusable += 1
        return unusable

    def add_write(self, write: DeferredWrite) -> int | None:
        """Log a write; return its number for `await_sync`, or None if it has to be stored at once."""
        try:
            number = self._log.add_write([list(zip(*write.columns, strict=True)), write.request])
        except OSError as error:
            log.warning("a write is stored without the log: %s", error)
            return None
        self._writes.append(write)
        self._room -= sum(_EACH + len(text) for text in write.columns[_TEXT])
        return number

    def await_sync(self, number: int) -> None:
        """Wait, without any lock of the store, until a logged write is on disk: it may be acknowledged then.

        Where that fails, what waits is stored at once; raises what storing raises.
        """
        try:
            self._log.await_sync(number)
        except OSError as error:
            log.warning("writes are stored without the log: %s", error)
            with self._con.begin_transaction():
                pass

    @property
    def has_builds(self) -> bool:
        """Whether builds are among what waits."""
        return bool(self._builds)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that it has to be stored."""
        return self._room <= 0 or len(self._builds) >= _MOST_BUILDS

    def add_build(self, build: B, write: Callable[[duckdb.DuckDBPyConnection, Sequence[B]], None]) -> None:
        """Have `write` called in the next transaction with all builds that wait by then; the same for each."""
        self._builds.append(build)
        self._write_builds = write

    def store(self) -> None:
        """Store what waits in one transaction, and empty the log; raises what storing raises, and it goes on waiting."""
        if not self._writes and not self._builds:
            self.note_stored()
            return
        with self._con.begin_transaction(is_small=True):
            failpoint("writes.before_commit")

    def insert_rows(self, con: duckdb.DuckDBPyConnection) -> None:
        """Insert what waits in the caller's transaction; once that is committed, `note_stored` has to be called."""
        has_failed, self._has_failed = self._has_failed, True
        stored = _read_last_change(con) if has_failed and self._builds else -1
        if writes := _select_unstored(con, self._writes) if has_failed else self._writes:
            same_columns = zip(*(write.columns for write in writes), strict=True)
            insert_columns(con, "event", EVENT_TYPES, [list(chain.from_iterable(columns)) for columns in same_columns])
            insert_changes(con, [write.change for write in writes])
            insert_requests(con, [write.request for write in writes if write.request])
        if self._write_builds and (builds := [build for build in self._builds if build.number > stored]):
            self._write_builds(con, builds)

    def note_stored(self) -> None:
        """Empty the log, whose writes were stored. Raises StorageError."""
        self._has_failed = False
        self._builds.clear()
        if self._writes:
            self._writes.clear()
            self._room = _MOST_CHARS
            failpoint("writes.stored")
        if not self._log.is_empty:
            self.clear_log()

    def clear_log(self) -> None:
        """Empty the log, all of which is stored. Raises StorageError."""
        try:
            self._log.clear()
        except OSError as error:
            raise StorageError(f"the log of writes cannot be emptied: {error}", _CHECK) from error

    def close(self) -> None:
        """Close the log; what still waits is stored at the next start."""
        self._log.close()


def _select_unstored(con: duckdb.DuckDBPyConnection, writes: Sequence[DeferredWrite]) -> list[DeferredWrite]:
    """Return the writes whose events are not stored: a transaction that failed at its end may have been committed."""
    keys = [write.columns[_ID][0] for write in writes]
    rows = con.execute("SELECT event_id FROM event WHERE event_id IN (SELECT unnest(?::HUGEINT[]))", [keys]).fetchall()
    stored = {row[0] for row in rows}
    return [write for write, key in zip(writes, keys, strict=True) if key not in stored]


def _read_last_change(con: duckdb.DuckDBPyConnection) -> int:
    row = con.execute("SELECT coalesce(max(seq), 0) FROM outbox").fetchone()
    return int(row[0]) if row else 0


def open_deferred_writes(
    con: Connection, file: Path | None, append: Callable[[Sequence[Event], WriteRequest | None], object], now_ms: int
) -> DeferredWrites | None:
    """Return the deferred writes of a database file, after what an earlier process logged was stored by `append`.

    What is damaged is logged as an error, and the log is set aside then. None without a file that may be written. Raises as
    `DeferredWrites.replay`.
    """
    if file is None:
        return None
    path = write_log_path(file)
    deferred = DeferredWrites(con, path)
    if unusable := deferred.replay(append):
        folder = set_aside(path, now_ms)
        log.error("%d acknowledged writes in %s are damaged; it is kept in %s", unusable, path, folder)
    if deferred.is_waiting:
        deferred.clear_log()
    con.deferred = deferred
    return deferred
