"""One DuckDB file: opened once, written by one connection, a cursor for each read.

DuckDB's errors are raised as ours. A connection shared by threads returns wrong rows (measured: 878 of 3,200), hence the cursors.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import duckdb

from memory_mcp.base.errors import DiskFull, ResourceExhausted, StorageDamaged, StorageError
from memory_mcp.storage.duckdb.engine_errors import ClosedConnection, ReadsInProgress, translate_errors
from memory_mcp.storage.duckdb.files import (
    FILE_OPTIONS,
    FILES,
    FileIdentity,
    compact_path,
    copy_database,
    create_database,
    remove_compact_copy,
)
from memory_mcp.storage.duckdb.memory_limit import MemoryLimit
from memory_mcp.storage.duckdb.space import Space, is_full_error, make_disk_full
from memory_mcp.storage.duckdb.waiting import LongReads, ReadsBehind, WaitingWrites

Row = tuple[Any, ...]
#: How long a read waits for what is acknowledged to be stored, and for the write lock at a time (seconds).
_MOST_WAIT, _TURN = 2.0, 0.02
#: How long closing waits for readers (seconds): background work that has not seen yet that it is to end.
LAST_READS = 1.0
#: Limit of DuckDB's temporary files: larger than any laptop's disk, so that the disk itself is the limit.
_ASIDE = "1000GB"


class Connection:
    """The writing connection, its lock and its readers' cursors. Thread-safe."""

    def __init__(self, path: Path | None, memory_limit_mb: int, threads: int, looking: bool = False) -> None:
        """Open the file, or a store in memory for None.

        With `looking` it is only read, and nothing is written next to it. Raises StorageError for a link, or if it cannot
        be opened.
        """
        self._path = path
        self._looking = looking
        self._config: dict[str, Any] = {"threads": threads, **FILE_OPTIONS}
        self._memory = MemoryLimit(memory_limit_mb, in_memory=path is None)
        self._write_lock = threading.RLock()
        self._cursors: dict[int, list[duckdb.DuckDBPyConnection]] = {}
        self._reading_lock, self._short_of_memory = threading.Condition(), threading.Lock()
        self._long_reads = LongReads()
        self._is_held = False  # while set, no read begins: the file is being replaced
        #: Called after a rollback, so that numbers handed out inside it are taken back.
        self.on_rollback: Callable[[], None] = lambda: None
        #: Called after a commit, before the next transaction.
        self.on_commit: Callable[[], None] = lambda: None
        #: Called when bytes of the file turn out not to be what was written.
        self.on_damage: Callable[[], None] = lambda: None
        #: Called when what is remembered of the file may be wrong: it was opened again, or read without what waited until now.
        self.on_doubt: Callable[[], None] = lambda: None
        #: Called outside a transaction when the file alone was deleted: writes it anew, before more is acknowledged, or raises.
        self.on_deleted: Callable[[], object] = lambda: None
        #: The acknowledged writes that wait to be stored: before anything else uses the file.
        self.deferred: WaitingWrites | None = None
        self.space = Space(path)
        #: Whether the file is open to be read alone, for want of room; and what is under way.
        self._read_only = self._within_transaction = self._is_storing = False
        self.reads_behind = ReadsBehind()
        #: Transactions committed since the file was opened: what was read at the same number still holds.
        self.commits = 0
        self._con = self._open()

    def _open(self, looking: bool = False) -> duckdb.DuckDBPyConnection:
        looking = looking or self._looking
        for file in (self._path.with_name(self._path.name + end) for end in FILES) if self._path else ():
            if file.is_symlink():
                raise StorageError(f"{file} is a link, and no store is read or written through one", "Move it away.")
        with translate_errors(self._path):
            options = self._config | {"memory_limit": self._memory.start()}
            config = options | ({"temp_directory": tempfile.gettempdir()} if looking else {})
            if self._path and not looking and not self._path.exists():
                create_database(self._path)
            con = duckdb.connect(str(self._path) if self._path else ":memory:", looking, config)
            if self._path and not looking:
                # The one database beside its own that statements may name; this can only be said before the door is shut.
                copy = compact_path(self._path)
                con.execute("SET allowed_paths = ?", [[f"{copy}{end}" for end in FILES]])
            con.execute("SET enable_external_access = false")
            self._memory.shrink(con)
            self._file_identity = FileIdentity(None if looking else self._path)
            # Plans statements as they stand: for small ones the optimizer takes a third of the time.
            self._small_writer = con.cursor()
            self._small_writer.execute("PRAGMA disable_optimizer")
            return con

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise the engine's errors as ours, and react to damage and lack of memory."""
        try:
            with translate_errors(self._path):
                yield
        except StorageDamaged:
            self.on_damage()
            raise
        except ResourceExhausted:
            # The engine looks once how much room there is to put things aside: on a disk that was full just then, none for ever.
            with suppress(duckdb.Error):
                self._con.cursor().execute(f"SET GLOBAL max_temp_directory_size = '{_ASIDE}'")
            raise

    @contextmanager
    def lend_cursor(self, for_much: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a cursor to this block; it sees whole transactions only.

        Waits, unbounded, while the file is being replaced. `for_much`: it may need all the memory there is.
        """
        if for_much:
            self._memory.grow(self._con)
        me = threading.get_ident()
        self._await_deferred()
        with self._reading_lock:
            # Who has a cursor already is waited for.
            self._reading_lock.wait_for(lambda: not self._is_held or me in self._cursors)
            with translate_errors(self._path):
                cursor = self._con.cursor()
            self._cursors.setdefault(me, []).append(cursor)
        try:
            with self._translate_errors():
                yield cursor
        finally:
            with self._reading_lock:
                self._cursors[me].remove(cursor)
                if not self._cursors[me]:
                    del self._cursors[me]
                self._reading_lock.notify_all()
                cursor.close()  # before whoever waits goes on: an open result is a read in progress

    @contextmanager
    def lend_long_cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a cursor as `lend_cursor(for_much=True)`, for minutes: the file is not rewritten meanwhile."""
        with self._write_lock, suppress(StorageError):
            self._require_in_place()
        with self._long_reads.begin_read(), self.lend_cursor(for_much=True) as cursor:
            yield cursor

    def _await_deferred(self) -> None:
        """Store what waits; a read goes on without it if there is no room, or a writer takes long.

        Whoever takes the write lock stores it first, so this waits for no other work of its holder.
        """
        end = time.monotonic() + _MOST_WAIT
        while self._has_deferred:
            if self.space.is_lacking or time.monotonic() >= end:
                self.reads_behind.count += self.deferred is not None and self.deferred.has_builds
                return
            if self._write_lock.acquire(timeout=_TURN):
                try:
                    if self._is_storing or self._within_transaction:
                        return
                    with suppress(DiskFull):
                        self._store_deferred()
                finally:
                    self._write_lock.release()

    def _store_deferred(self) -> None:
        """Store what waits, unless this thread is about it; under the write lock."""
        if self._has_deferred and self.deferred and not (self._is_storing or self._within_transaction):
            self._is_storing = True
            try:
                self.deferred.store()
            finally:
                self._is_storing = False

    @property
    def _has_deferred(self) -> bool:
        return self.deferred is not None and self.deferred.is_waiting

    def fetch_rows(self, sql: str, parameters: list[Any] | None = None) -> list[Row]:
        """Return all rows of one query.

        An open result would occupy its connection. The query runs once more where the engine gave the file up, and alone
        where readers together used up its memory; then with all there is.
        """
        try:
            return self.fetch_once(sql, parameters)
        except ResourceExhausted:
            with self._short_of_memory, suppress(ResourceExhausted):
                return self.fetch_once(sql, parameters)
            self._memory.grow(self._con)
            return self.fetch_once(sql, parameters)
        except StorageError:
            if self._path is None or threading.get_ident() in self._cursors:
                raise
            self._reopen_if_unusable()
            return self.fetch_once(sql, parameters)

    def shrink_memory(self) -> None:
        """Have the engine give back what it keeps of the file, unless it is in use."""
        if self._write_lock.acquire(blocking=False):
            if not self._cursors and not self._within_transaction:
                self._memory.shrink(self._con)
            self._write_lock.release()

    def fetch_once(self, sql: str, parameters: list[Any] | None) -> list[Row]:
        with self.lend_cursor() as cursor:
            return cursor.execute(sql, parameters or []).fetchall()

    def fetch_row(self, sql: str, parameters: list[Any] | None = None) -> Row | None:
        """Return the first row of a query, or None."""
        return next(iter(self.fetch_rows(sql, parameters)), None)

    @contextmanager
    def begin_transaction(self, is_small: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a transaction under the write lock.

        Committed when the block ends, rolled back when it raises; then `on_commit` or `on_rollback` is called. What waits is
        stored before it or, if it `is_small`, in it. Raises DiskFull while there is no room.
        """
        with self._hold_write_lock(is_small):
            self._require_in_place()
            taken = self.deferred if is_small and self._has_deferred else None
            con = self._small_writer if is_small else self._con
            con.execute("BEGIN TRANSACTION")
            self._within_transaction = True
            try:
                if taken:
                    taken.insert_rows(con)
                yield con
                con.execute("COMMIT")
                self._within_transaction = False
                self.commits += 1
                self.on_commit()
                if taken:
                    taken.note_stored()
                self._require_in_place()
            except BaseException as error:
                self._within_transaction = False
                # A failed COMMIT has already ended the transaction; then there is nothing left to undo.
                with suppress(duckdb.Error):
                    con.execute("ROLLBACK")
                self._handle_failure(error)
                self.on_rollback()
                raise
            if taken and self.reads_behind.take_remembered():
                self.on_doubt()

    @contextmanager
    def _hold_write_lock(self, is_small: bool = False) -> Iterator[None]:
        """Hold the write lock while there is room, else raise DiskFull; the caller of a small one stores what waits."""
        with self._write_lock, self._translate_errors():
            self.space.require_space()
            if self._read_only:
                self._reopen()
            if self._read_only:
                raise make_disk_full(self._path)
            self._memory.grow(self._con)
            if not is_small:
                self._store_deferred()
            try:
                yield
            except duckdb.Error as error:
                self._handle_failure(error)
                raise

    def _handle_failure(self, error: BaseException) -> None:
        """Note a lack of room; reopen the file if the engine gave it up."""
        if isinstance(error, DiskFull) or (isinstance(error, duckdb.Error) and is_full_error(str(error))):
            self.space.is_lacking = True
        if isinstance(error, (StorageError, duckdb.Error)):
            self._reopen_if_unusable()

    def _reopen_if_unusable(self) -> None:
        """Reopen the file unless it answers a query, outside a transaction."""
        with self._write_lock:
            # Who reads may wait for this lock, and reading ends before the file is reopened: the next use does it.
            is_read = self._long_reads.has_any or threading.get_ident() in self._cursors
            if is_read or self._within_transaction or isinstance(self._con, ClosedConnection):
                return
            try:
                with self._con.cursor() as cursor:
                    cursor.execute("SELECT 1").fetchall()
            except duckdb.Error:
                self._reopen()

    def _reopen(self) -> None:
        with self._hold_reads():
            self._con.close()
            self._open_closed()
        self.commits += 1
        self.on_doubt()

    def _open_closed(self) -> None:
        """Open the closed file, only for reading if there is no room."""
        try:
            self._con, self._read_only = self._open(), False
        except DiskFull:
            self.space.is_lacking = True
            self._con, self._read_only = self._open(looking=True), True

    @contextmanager
    def hold_writes(self) -> Iterator[None]:
        """Hold the write lock; reads go on, this thread may write."""
        with self._write_lock:
            with suppress(DiskFull):
                self._store_deferred()
            yield

    @contextmanager
    def hold_for_log(self) -> Iterator[bool]:
        """Hold the write lock for a write that is deferred, what waits stays; yield whether it may be."""
        with self._write_lock:
            may_defer = not (self.space.is_lacking or self._read_only or self._within_transaction)
            if may_defer:
                self._require_in_place()
            yield may_defer

    def _require_in_place(self) -> None:
        """Write a deleted file again, under the write lock. Raises StorageMoved if that cannot be done now."""
        if not (self._within_transaction or self._long_reads.are_excluded_here):
            self._file_identity.require_in_place(self.on_deleted)

    def interrupt(self, thread: int | None = None) -> None:
        """Stop running reads of one thread or all; they raise DeadlineExceeded."""
        with self._reading_lock:
            owners = self._cursors if thread is None else [thread]
            for cursor in (cursor for owner in owners for cursor in self._cursors.get(owner, ())):
                cursor.interrupt()

    def write_checkpoint(self, most_wait: float | None = None) -> None:
        """Take the engine's log into the file, if need be after the reads in progress: up to `most_wait` seconds later.

        Without that bound the caller must not hold the write lock. Raises DiskFull, StorageMoved, and ReadsInProgress after it.
        """
        with suppress(ReadsInProgress), self._hold_write_lock():
            self._require_in_place()
            self._con.execute("CHECKPOINT")
            return
        awaited = self._long_reads.exclude(may_wait=True) if most_wait is None else nullcontext()
        with awaited, self._hold_write_lock(), self._hold_reads(most_wait):
            self._con.execute("CHECKPOINT")

    @contextmanager
    def make_dense_copy(self, may_wait: bool = True) -> Iterator[Path]:
        """Yield a dense copy of the file; reads go on while it is made, and long ones end before.

        While the block runs the file is closed; a copy that the block has not moved is removed after it. Raises StorageMoved
        during a long read unless it `may_wait`; who holds the write lock must not.
        """
        assert self._path is not None
        fresh = compact_path(self._path)
        with self._long_reads.exclude(may_wait), self._hold_write_lock():
            try:
                remove_compact_copy(self._path)
                with self.lend_cursor() as cursor:
                    copy_database(cursor, fresh)
                with self.close_for_replacement():
                    yield fresh
            finally:
                remove_compact_copy(self._path)

    @contextmanager
    def close_for_replacement(self) -> Iterator[None]:
        """Close the file, after a checkpoint, while the block runs; reads and writes wait."""
        with self._hold_write_lock(), self._hold_reads():
            # Before anything is closed: where it fails, the file is as it was.
            self._con.execute("CHECKPOINT")
            self._con.close()
            try:
                yield
            finally:
                self._open_closed()

    @contextmanager
    def _hold_reads(self, most_wait: float | None = None) -> Iterator[None]:
        """Let nothing be read or written; wait for running reads, so many seconds or unbounded."""
        with self._write_lock:
            with self._reading_lock:
                self._is_held = True
                self._reading_lock.wait_for(lambda: not self._cursors, most_wait)
            try:
                yield
            finally:
                with self._reading_lock:
                    self._is_held = False
                    self._reading_lock.notify_all()

    def close(self) -> None:
        """Close the file after waiting up to a second for readers."""
        with self._write_lock, self._reading_lock:
            # Closing it closes its cursors, which fails while one is being read.
            self._reading_lock.wait_for(lambda: not self._cursors, LAST_READS)
            if not isinstance(self._con, ClosedConnection):
                self._con.close()
                # One that is alive when the interpreter ends, next to a running thread, makes the binding report leaks.
                self._con = cast("duckdb.DuckDBPyConnection", ClosedConnection())
