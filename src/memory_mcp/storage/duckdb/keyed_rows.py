"""Keeps `keyed_file` in step with the store: what answers read by id.

DuckDB scans for it: at 48,000 events a message with its neighbours takes 25 ms of CPU, here 1.5.

Invariants
1. Rows are returned only while the file holds the committed rows of their table, no more and no fewer. When it is opened, the
   number and the XOR of its events, and the last change that it has, are compared with the store's; from then on each commit
   is followed before the next read.
2. Whatever is wrong with the file, the caller gets None and reads the store; the file is filled again by `fill`.
3. Forgetting removes the file before it commits.
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.keyed_file import EVENTS, GRIPS, NODES, PAIRS, SEGMENTS, KeyedFile, Span, remove_file
from memory_mcp.storage.duckdb.outbox import Numbers
from memory_mcp.storage.rows import EVENT, GRIP, SEGMENT

log = logging.getLogger(__name__)
T = TypeVar("T")
SelectRows = Callable[[KeyedFile, list[Row]], list[Row]]
#: Below a data directory; what is in this folder may be deleted at any moment.
PATH = Path("indexes") / "rows.sqlite"
#: Events of one portion of filling, other rows, and events that a read takes in by itself before it is answered.
_EVENT_PORTION, _PORTION, _FEW = 1000, 5000, 200
#: Rows that wait in memory for the next read, or until a table is filled; beyond the latter it is filled from the beginning.
_MOST_PENDING, _MOST_WAITING = 5000, 50_000
#: Seconds that a read waits for others; then it reads the store. And how long filling waits after it failed.
_WAIT, _RETRY = 0.05, 600.0
_EVENTS_AFTER = f"SELECT seq, stream, content, {EVENT} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
_EVENT_SUMS = "SELECT count(*), bit_xor(event_id), bit_xor(content) FROM event WHERE seq <= ?"
#: Rows of the other tables behind a key, in order; those of nodes are read by `read_nodes`.
_ROWS_AFTER = {
    GRIPS: f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT {_PORTION}",
    PAIRS: f"SELECT event_id, canonical FROM duplicate WHERE event_id > ?::HUGEINT ORDER BY event_id LIMIT {_PORTION}",
    SEGMENTS: f"SELECT key, {SEGMENT} FROM segment_cut WHERE key > ? ORDER BY key LIMIT {_PORTION}",
    NODES: f"SELECT key FROM node WHERE current AND key > ? ORDER BY key LIMIT {_PORTION // 10}",
}
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
        self._path = directory / PATH if directory else None
        self._store_id = store_id
        self._pack_nodes = pack_nodes
        self._lock = threading.Lock()
        self._file: KeyedFile | None = None
        #: Tables that have the store's rows, but for what `_pending` holds and for events that are not taken in yet.
        self._verified: set[str] = set()
        #: Rows that were committed since.
        self._pending: dict[str, deque[Row]] = {table: deque() for table in _ROWS_AFTER}
        #: The last event in the file, and number and XORs of its events, as in `_EVENT_SUMS`.
        self._last_event, self._event_sums = 0, (0, 0, 0)
        #: The key behind which filling a table goes on.
        self._filled_to: dict[str, int] = {}
        #: After a failure, by the monotonic clock (seconds).
        self._retry_at = 0.0
        #: Tables that have to be filled whatever the file says.
        self._distrusted: set[str] = set()

    def note_rows(self, table: str, rows: Iterable[Row]) -> None:
        """Note rows of a transaction that was just committed; of nodes and segments they replace others by key."""
        # A table that is neither whole nor being filled is read from the store when it is filled.
        if table in self._verified or table in self._filled_to:
            self._pending[table].extend(rows)
            if len(self._pending[table]) > _MOST_WAITING:
                self.distrust(table)
                self._pending[table].clear()

    def distrust(self, *tables: str) -> None:
        """Copy tables (default: all) again before they are read."""
        with self._lock:
            self._distrust(tables or (EVENTS, *_ROWS_AFTER))

    def _distrust(self, tables: Iterable[str]) -> None:
        for table in tables:
            self._verified.discard(table)
            self._filled_to.pop(table, None)
            self._distrusted.add(table)

    def remove(self) -> None:
        """Remove the file, since text in it is to be forgotten. Raises OSError if it stays."""
        with self._lock:
            self._distrust((EVENTS, *_ROWS_AFTER))
            self._close()
            if self._path is not None:
                remove_file(self._path)

    def close(self) -> None:
        """Take in what was committed, and close the file."""
        with self._lock:
            with self._guard_file():
                self._note_version()
            self._close()

    def read_events(self, keys: Sequence[int]) -> list[Row] | None:
        """Return the rows (`EVENT`) of stored events; None if they have to be read from the store."""
        return self._read((EVENTS,), lambda file: file.read_events(keys))

    def read_neighbours(
        self, stream: int, position: tuple[int, int], later: bool, limit: int, select_shown: SelectRows
    ) -> list[Row] | None:
        """Return up to `limit` rows next to a position (time, key), nearest first; None as above.

        `select_shown` returns those of some rows that are shown.
        """

        def read(file: KeyedFile) -> list[Row]:
            rows: list[Row] = []
            offset = 0
            while len(rows) < limit and (some := file.read_neighbours(stream, position, later, limit + 4, offset)):
                rows += select_shown(file, some)
                offset += len(some)
            return rows[:limit]

        return self._read((EVENTS, PAIRS), read)

    def find_groups(self, words: Sequence[str], spans: Sequence[Span] | None) -> list[tuple[int, int]] | None:
        """Return the groups of events that may hold all words, as `KeyedFile.find_groups`; None also as above."""
        return self._read((EVENTS,), lambda file: file.find_groups(words, spans))

    def read_groups(self, numbers: Sequence[int], probes: Sequence[bytes]) -> list[Row] | None:
        """Return the rows of groups that hold all probes; None as above."""
        return self._read((EVENTS,), lambda file: file.read_groups(numbers, probes))

    def read_grips(self, keys: Sequence[int]) -> list[Row] | None:
        """Return the rows (`GRIP`) of stored grips; None as above."""
        return self._read((GRIPS,), lambda file: file.read_grips(keys))

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
        if not self._verified.issuperset(tables) or not self._lock.acquire(timeout=_WAIT):
            return None
        try:
            file = self._file
            if file is not None and self._verified.issuperset(tables):
                with self._guard_file():
                    return read(file) if all(self._catch_up(file, table) for table in tables) else None
            return None
        finally:
            self._lock.release()

    def _catch_up(self, file: KeyedFile, table: str) -> bool:
        """Take in what was committed; return False if that is too much for a read."""
        if table != EVENTS:
            self._take_pending(file, table)
            return True
        committed = self._numbers.committed_event
        if 0 < committed - self._last_event <= _FEW:
            self._take_events(file, committed)
        return committed <= self._last_event

    def _take_events(self, file: KeyedFile, to: int) -> None:
        # Nothing here may wait for the store's write lock: its holder may wait for the lock of this copy.
        rows = self._con.fetch_once(_EVENTS_AFTER, [self._last_event, to])
        count, ids, contents = self._event_sums
        for row in rows:
            count, ids, contents = count + 1, ids ^ row[3], contents ^ row[2]
        with file.begin_transaction():
            file.add_events([(row[1], row[3:]) for row in rows])
            file.write_meta("events", [to, count, ids, contents])
        self._last_event, self._event_sums = to, (count, ids, contents)

    def _take_pending(self, file: KeyedFile, table: str) -> None:
        pending = self._pending[table]
        if pending:
            with file.begin_transaction():
                file.add_rows(table, [pending.popleft() for _ in range(len(pending))])

    def _note_version(self) -> None:
        """Take in what was committed, and note in the file of which change it is if every table is whole."""
        file, version = self._file, self._numbers.committed
        if file is not None:
            for table in self._verified.intersection(_ROWS_AFTER):
                self._take_pending(file, table)
            if self._verified.issuperset(_ROWS_AFTER):
                file.write_meta("version", version)

    def fill(self, should_stop: Callable[[], bool]) -> int:
        """Verify the file, and copy what is missing, in portions; return how many rows were copied.

        Raises StorageError for what the store raises.
        """
        copied = 0
        if self._path is None or time.monotonic() < self._retry_at:
            return copied
        self._retry_at = time.monotonic() + _RETRY
        with self._guard_file():
            if not self._verified.issuperset((EVENTS, *_ROWS_AFTER)) and not self._filled_to:
                with self._con.hold_writes():
                    self._verify(self._store_id())
            while not should_stop() and (count := self._fill_portion()):
                copied += count
            with self._lock:
                if copied or sum(map(len, self._pending.values())) > _MOST_PENDING:
                    self._note_version()
            self._retry_at = 0.0
        return copied

    def _verify(self, store_id: str) -> None:
        """Compare unverified tables with the store; those that differ are emptied and filled.

        Under the store's write lock. Nothing is read from the store while the copy's own lock is held: a failure reopens the
        store, which calls `distrust`.
        """
        with self._lock:
            file = self._file or self._open(store_id)
            last, *sums = file.read_meta("events") or (0, 0, 0, 0)
        stored = tuple(value or 0 for value in self._con.fetch_row(_EVENT_SUMS, [last]) or ())
        with self._lock:
            if EVENTS not in self._verified:
                if tuple(sums) != stored:
                    file.clear_table(EVENTS)
                    last, sums = 0, [0, 0, 0]
                self._last_event, self._event_sums = last, (sums[0], sums[1], sums[2])
                self._verified.add(EVENTS)
            self._verify_tables(file)

    def _verify_tables(self, file: KeyedFile) -> None:
        is_current = file.read_meta("version") == self._numbers.committed
        for table in [table for table in _ROWS_AFTER if table not in self._verified]:
            self._pending[table].clear()
            if is_current and table not in self._distrusted:
                self._verified.add(table)
                continue
            file.clear_table(table)
            file.write_meta("version", -1)
            self._filled_to[table] = _FIRST_KEY
        self._distrusted.clear()

    def _fill_portion(self) -> int:
        """Copy some rows of one table; return how many, 0 at the end."""
        table, last = next(iter(self._filled_to.items()), (EVENTS, 0))
        if table != EVENTS:
            rows = self._con.fetch_rows(_ROWS_AFTER[table], [last])
            count = len(rows)
            if table == NODES and rows:
                rows = self._pack_nodes([row[0] for row in rows])
            with self._lock:
                if self._file is not None and self._filled_to.get(table) == last:
                    self._add_portion(self._file, table, rows)
            return max(count, 1)
        with self._lock:
            first = self._last_event
            if self._file is None or EVENTS not in self._verified or self._numbers.committed_event - first <= _FEW // 4:
                return 0
            self._take_events(self._file, min(first + _EVENT_PORTION, self._numbers.committed_event))
            return self._last_event - first

    def _add_portion(self, file: KeyedFile, table: str, rows: Sequence[Row]) -> None:
        if rows:
            self._filled_to[table] = rows[-1][0]
            with file.begin_transaction():
                file.add_rows(table, rows)
            return
        # What was committed meanwhile comes over what was read.
        del self._filled_to[table]
        self._take_pending(file, table)
        self._verified.add(table)

    def _open(self, store_id: str) -> KeyedFile:
        assert self._path is not None
        file = self._file = KeyedFile(self._path)
        if file.read_meta("store") != store_id:
            for table in (EVENTS, *_ROWS_AFTER):
                file.clear_table(table)
            for name, value in (("events", None), ("version", -1), ("store", store_id)):
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
