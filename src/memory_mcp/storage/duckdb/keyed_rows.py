"""Keeps `keyed_file` in step with the store: what answers read by id.

DuckDB scans for it: at 48,000 events a message with its neighbours takes 25 ms of CPU, here 1.5.

Invariants
1. Rows are returned only while the file holds the committed rows of their table, no more and no fewer; events by id also while
   later ones are missing, stretches of streams that have none of these, and groups with the number behind which some are.
   When it is opened, the number and the XOR of its events, and the last change that it has, are compared with the store's; from
   then on each commit is followed before the next read. Not every commit has a number: the change is noted when it is closed,
   and what a killed process left is filled again.
2. Whatever is wrong with the file, the caller gets None and reads the store; the file is filled again by `fill`.
3. Forgetting removes the file before it commits.
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from memory_mcp.base.errors import StorageError
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.keyed_file import EVENTS, GRIPS, PAIRS, KeyedFile, Span
from memory_mcp.storage.duckdb.keyed_reads import SelectRows, read_shown_neighbours, read_shown_spans
from memory_mcp.storage.duckdb.keyed_schema import remove_file
from memory_mcp.storage.duckdb.keyed_source import COPIED, CopySource
from memory_mcp.storage.duckdb.outbox import Numbers
from memory_mcp.storage.duckdb.recent import RecentEvents

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Below a data directory; what is in this folder may be deleted at any moment.
PATH = Path("indexes") / "rows.sqlite"
#: Events of a portion of filling, those that a read takes in before it is answered, and those that `fill` leaves to reads.
_EVENT_PORTION, _FEW, _MOST_ALONE = 250, 200, 50
#: Events that are added while a read has to wait, if there was one in so many seconds, and how long the next then goes first.
_EVENT_SLICE, _LIKELY, _TURN = 50, 2.0, 0.001
#: Rows that wait in memory for the next read, or until a table is filled; beyond the latter it is filled from the beginning.
_MOST_PENDING, _MOST_WAITING = 5000, 50_000
#: Seconds that a read waits for others; then it reads the store. And how long filling waits after it failed.
_WAIT, _RETRY = 0.05, 600.0
_FIRST_KEY = -(1 << 63)


class KeyedRows:
    """The keyed copy of one store. Thread-safe; readers never wait for a writer of the store."""

    def __init__(
        self,
        con: Connection,
        numbers: Numbers,
        directory: Path | None,
        store_id: Callable[[], str],
        pack_nodes: Callable[[Sequence[int]], list[Row]],
    ) -> None:
        """Copy nothing for None, a store in memory; `pack_nodes` reads nodes as (key, packed node)."""
        self._con = con
        self._numbers = numbers
        self._source = CopySource(con, numbers, pack_nodes)
        self._path = directory / PATH if directory else None
        self._store_id = store_id
        #: Reentrant: whoever reads here may store what waits, after which the copy is not relied on.
        self._lock = threading.RLock()
        #: Threads that wait for the lock to read, and when one last read (monotonic seconds).
        self._waiting, self._read_at = set[int](), 0.0
        #: The latest events, which the file may not have yet.
        self.recent_events = RecentEvents()
        self._file: KeyedFile | None = None
        #: Tables that have the store's rows, but for what `_pending` holds and for events that are not taken in yet.
        self._verified: set[str] = set()
        #: Rows that were committed since.
        self._pending: dict[str, deque[Row]] = {table: deque() for table in COPIED}
        #: The last event in the file, and number and XORs of its events, as in `_EVENT_SUMS`.
        self._last_event, self._event_sums = 0, (0, 0, 0)
        #: The key behind which filling a table goes on.
        self._filled_to: dict[str, int] = {}
        #: After a failure, by the monotonic clock (seconds); tables that have to be filled whatever the file says.
        self._retry_at, self._distrusted = 0.0, set[str]()

    def note_rows(self, table: str, rows: Iterable[Row]) -> None:
        """Note rows of a transaction that was just committed; of nodes and segments they replace others by key."""
        # A table that is neither whole nor being filled is read from the store when it is filled.
        if table in self._verified or table in self._filled_to:
            self._pending[table].extend(rows)
            if len(self._pending[table]) > _MOST_WAITING:
                self.distrust(table)
                self._pending[table].clear()
        elif any(rows):  # not every commit has a number by which `_verify` would notice these
            self._distrusted.add(table)

    def distrust(self, *tables: str) -> None:
        """Copy tables (default: all) again before they are read."""
        with self._lock:
            self._distrust(tables or (EVENTS, *COPIED))

    def _distrust(self, tables: Iterable[str]) -> None:
        for table in tables:
            self._verified.discard(table)
            self._filled_to.pop(table, None)
            self._distrusted.add(table)

    def remove(self) -> None:
        """Remove the file, since text in it is to be forgotten. Raises OSError if it stays."""
        with self._lock:
            self._distrust((EVENTS, *COPIED))
            self._close()
            if self._path is not None:
                remove_file(self._path)

    def close(self) -> None:
        """Take in what was committed, and close the file."""
        with self._lock:
            with self._guard_file():
                if self._file is not None:
                    version = self._numbers.committed
                    self._take_all_pending(self._file)
                    if self._verified.issuperset(COPIED) and self._numbers.are_stored:
                        self._file.write_meta("version", version)
            self._close()

    def read_events(self, keys: Sequence[int]) -> tuple[list[Row], Set[int]]:
        """Return the rows (`EVENT`) of stored events, and the keys that have to be read from the store."""

        def read(file: KeyedFile) -> tuple[list[Row], Set[int]]:
            # A row never changes: while events arrive faster than they are copied, those that are here will do.
            self._catch_up(file, EVENTS)
            rows = file.read_events(keys)
            # Also while it is current: a damaged page may hide a row, and few ids are of none.
            return rows, set(keys).difference(row[0] for row in rows)

        return self._read_verified((EVENTS,), read) or ([], set(keys))

    def read_neighbours(
        self, stream: int, position: tuple[int, int], limits: tuple[int, int], select_shown: SelectRows
    ) -> tuple[list[Row], list[Row]] | None:
        """Return up to so many rows before and after a position (time, key), nearest first; None as above.

        `select_shown` returns those of some rows that are shown; None if it cannot tell.
        """
        return self._read_streams([stream], lambda file: read_shown_neighbours(file, stream, position, limits, select_shown))

    def read_spans(self, spans: Sequence[Span]) -> list[list[Row]] | None:
        """Return the rows of stretches of streams, in order, none of one with a hidden event; None as above."""
        return self._read_streams([span[0] for span in spans], lambda file: read_shown_spans(file, spans))

    def find_groups(
        self, words: Sequence[str], spans: Sequence[Span] | None, times: tuple[int, int] | None
    ) -> tuple[list[tuple[int, int]], int | None] | None:
        """Return the groups of events that may hold all words, as `KeyedFile.find_groups`; None also as above.

        With them the number of the event behind which some are missing here, if any are.
        """

        def read(file: KeyedFile) -> tuple[list[tuple[int, int]], int | None] | None:
            is_whole = self._catch_up(file, EVENTS, _MOST_ALONE)
            groups = file.find_groups(words, spans, times)
            return None if groups is None else (groups, None if is_whole else self._last_event)

        return self._read_verified((EVENTS,), read)

    def read_groups(self, numbers: Sequence[int], probes: Sequence[bytes]) -> list[Row] | None:
        """Return the rows of groups that hold all probes; None as above."""
        return self._read_verified((EVENTS,), lambda file: file.read_groups(numbers, probes))

    def read_grips(self, keys: Sequence[int]) -> list[Row] | None:
        """Return the rows (`GRIP`) of stored grips; None as above."""

        def read(file: KeyedFile) -> list[Row]:
            if len(self._pending[GRIPS]) <= _FEW:
                self._take_pending(file, GRIPS)
            pending = {row[0]: row for row in self._pending[GRIPS].copy()}
            rows = [pending[key] for key in keys if key in pending]
            return rows + file.read_grips([key for key in keys if key not in pending])

        return self._read_verified((GRIPS,), read)

    def find_grip(self, tail: int) -> list[Row] | None:
        """Return the grip with these lower 80 bits, or nothing; None as above."""
        return self._read((GRIPS,), lambda file: [row] if (row := file.find_grip(tail)) else [])

    def read_event_grips(self, keys: Sequence[int]) -> list[Row] | None:
        """Return the grips that begin or end in these events, in order; None as above."""
        return self._read((GRIPS,), lambda file: file.read_event_grips(keys))

    def read_pairs(self, keys: Sequence[int]) -> list[tuple[int, int]] | None:
        """Return the pairs (hidden, shown) with one of `keys`; None as above."""
        return self._read((PAIRS,), lambda file: file.read_pairs(keys))

    def read_values(self, table: str, keys: Sequence[int]) -> list[Row] | None:
        """Return the packed segments or nodes of these keys: (key, value); None as above."""
        return self._read((table,), lambda file: file.read_values(table, keys))

    def _read(self, tables: Sequence[str], read: Callable[[KeyedFile], T]) -> T | None:
        """Return what `read` returns of tables that are up to date; None if they are not, or if the file is damaged."""
        return self._read_verified(
            tables, lambda file: read(file) if all(self._catch_up(file, table) for table in tables) else None
        )

    def _read_streams(self, streams: Sequence[int], read: Callable[[KeyedFile], T | None]) -> T | None:
        """Return what `read` returns of some streams; None if they may have events that are not here yet, and as `_read`."""

        def read_quiet(file: KeyedFile) -> T | None:
            self._catch_up(file, PAIRS)
            missing = self._last_event, self._numbers.committed_event
            return read(file) if self.recent_events.are_quiet(streams, *missing) or self._catch_up(file, EVENTS) else None

        return self._read_verified((EVENTS, PAIRS), read_quiet)

    def _read_verified(self, tables: Sequence[str], read: Callable[[KeyedFile], T | None]) -> T | None:
        if not self._verified.issuperset(tables) or not self._take_turn():
            return None
        try:
            file = self._file
            if file is not None and self._verified.issuperset(tables):
                with self._guard_file():
                    return read(file)
            return None
        finally:
            self._lock.release()

    def _take_turn(self) -> bool:
        """Take the lock to read, before whoever fills the file takes it again; return False if that takes too long."""
        self._read_at = time.monotonic()
        if self._lock.acquire(blocking=False):
            return True
        me = threading.get_ident()
        self._waiting.add(me)
        try:
            return self._lock.acquire(timeout=_WAIT)
        finally:
            self._waiting.discard(me)

    def _catch_up(self, file: KeyedFile, table: str, most: int = _FEW) -> bool:
        """Take in what was committed; return False if that is too much for a read."""
        if table != EVENTS:
            self._take_pending(file, table)
            return True
        committed = self._numbers.committed_event
        if 0 < committed - self._last_event <= most:
            # The store answers, or says what is wrong with it.
            with suppress(StorageError):
                self._add_events(file, *self._source.fetch_events(self._last_event, committed))
        return committed <= self._last_event

    def _add_events(self, file: KeyedFile, rows: Sequence[Row], to: int) -> None:
        count, ids, contents = self._event_sums
        for row in rows:
            count, ids, contents = count + 1, ids ^ row[3], contents ^ row[2]
        with file.begin_transaction():
            file.add_events([(row[1], row[3:]) for row in rows])
            file.write_meta("events", [to, count, ids, contents])
        self._last_event, self._event_sums = to, (count, ids, contents)

    def _take_pending(self, file: KeyedFile, table: str, limit: int = _MOST_WAITING) -> None:
        pending = self._pending[table]
        if pending:
            with file.begin_transaction():
                file.add_rows(table, [pending.popleft() for _ in range(min(len(pending), limit))])

    def _take_all_pending(self, file: KeyedFile) -> None:
        for table in self._verified.intersection(COPIED):
            self._take_pending(file, table)
        file.commit()

    def fill(self, should_stop: Callable[[], bool]) -> int:
        """Verify the file, and copy what is missing, in portions; return how many rows were copied.

        Raises StorageError for what the store raises.
        """
        copied = 0
        if self._path is None or time.monotonic() < self._retry_at:
            return copied
        self._retry_at = time.monotonic() + _RETRY
        with self._guard_file():
            if not self._verified.issuperset((EVENTS, *COPIED)) and not self._filled_to:
                with self._con.hold_writes():
                    self._verify(self._store_id())
            while not should_stop() and (count := self._fill_portion()):
                copied += count
            if copied or sum(map(len, self._pending.values())) > _MOST_PENDING:
                self._settle()
            self._retry_at = 0.0
        return copied

    def _settle(self) -> None:
        """Take in what was committed, in portions, between which reads go on."""
        for table, pending in self._pending.items():
            while len(pending) > _FEW and table in self._verified:
                with self._lock:
                    if self._file is None:
                        return
                    self._take_pending(self._file, table, _EVENT_PORTION)
        with self._lock:
            if self._file is not None:
                self._take_all_pending(self._file)

    def _verify(self, store_id: str) -> None:
        """Compare unverified tables with the store; those that differ are emptied and filled.

        Under the store's write lock. Nothing is read from the store while the copy's own lock is held: a failure reopens the
        store, which calls `distrust`.
        """
        with self._lock:
            file = self._file or self._open(store_id)
            last, *sums = file.read_meta("events") or (0, 0, 0, 0)
        stored = self._source.sum_events(last)
        with self._lock:
            if EVENTS not in self._verified:
                if tuple(sums) != stored:
                    file.clear_table(EVENTS)
                    last, sums = 0, [0, 0, 0]
                self._last_event, self._event_sums = last, (sums[0], sums[1], sums[2])
                self._verified.add(EVENTS)
            self._verify_tables(file)

    def _verify_tables(self, file: KeyedFile) -> None:
        is_current = file.version == self._numbers.committed
        for table in [table for table in COPIED if table not in self._verified]:
            self._pending[table].clear()
            if is_current and table not in self._distrusted:
                self._verified.add(table)
                continue
            file.clear_table(table)
            self._filled_to[table] = _FIRST_KEY
        self._distrusted.clear()

    def _fill_portion(self) -> int:
        """Copy some rows of one table; return how many, 0 at the end."""
        table, last = next(iter(self._filled_to.items()), (EVENTS, 0))
        if table != EVENTS:
            rows, count = self._source.fetch_rows(table, last)
            with self._lock:
                if self._file is not None and self._filled_to.get(table) == last:
                    self._add_portion(self._file, table, rows)
            return max(count, 1)
        first = self._last_event
        to = min(first + _EVENT_PORTION, self._numbers.committed_event)
        if to - first <= _MOST_ALONE or EVENTS not in self._verified:
            return 0
        # Before the lock is taken: reads go on meanwhile.
        rows, to = self._source.fetch_portion(first, to)
        size = _EVENT_SLICE if time.monotonic() - self._read_at < _LIKELY else _EVENT_PORTION
        for start in range(0, max(len(rows), 1), size):
            some, is_last = rows[start : start + size], start + size >= len(rows)
            with self._lock:
                if self._file is None or EVENTS not in self._verified:
                    return 0
                if self._last_event != (rows[start - 1][0] if start else first):
                    break
                self._add_events(self._file, some, to if is_last else some[-1][0])
            if self._waiting:
                time.sleep(_TURN)
        return to - first

    def _add_portion(self, file: KeyedFile, table: str, rows: Sequence[Row]) -> None:
        if rows:
            self._filled_to[table] = rows[-1][0]
            with file.begin_transaction():
                file.add_rows(table, rows)
            return
        # What was committed meanwhile comes over what was read. In this order: `note_rows` takes no lock and needs one of both.
        self._verified.add(table)
        del self._filled_to[table]
        self._take_pending(file, table)

    def _open(self, store_id: str) -> KeyedFile:
        assert self._path is not None
        file = self._file = KeyedFile(self._path)
        if file.read_meta("store") != store_id:
            for table in (EVENTS, *COPIED):
                file.clear_table(table)
            file.version = None
            for name, value in (("events", None), ("store", store_id)):
                file.write_meta(name, value)
        return file

    def _close(self) -> None:
        self._verified.clear()
        self._filled_to.clear()
        if self._file is not None:
            with suppress(sqlite3.Error):
                self._file.close()
            self._file = None

    @contextmanager
    def _guard_file(self) -> Iterator[None]:
        """Remove the file if it is damaged or cannot be written; the caller goes on without it."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            log.warning("the copy of rows in %s is made again: %s", self._path, error)
            self._close()
            if self._path is not None:
                with suppress(OSError):
                    remove_file(self._path)
