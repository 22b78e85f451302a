"""Outbox, positions and request answers, and the counters that number everything."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import duckdb

from memory_mcp.base.clock import Clock
from memory_mcp.model.change import NODE_CHANGES, Change, ChangeKind
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.recent import RecentChanges
from memory_mcp.storage.duckdb.statements import insert_columns, run_parsed
from memory_mcp.storage.records import DERIVER, REQUEST_KEPT_MS
from memory_mcp.storage.values import WriteRequest

#: Keys of requests kept in memory, some 70 bytes each; with more, each is looked up.
_MOST_KEYS = 100_000
#: Answers to re-sent writes that are too old are removed this often (milliseconds).
_FORGET_MS = 600_000
#: The key of a request, its answer, and when it was answered (UTC ms).
RequestRow = tuple[str, str, int]
_OUTBOX = ("BIGINT", "VARCHAR", "VARCHAR")


class Numbers:
    """The last numbers given out: read once when the file is opened, and given out under the write lock."""

    def __init__(self, con: Connection) -> None:
        """Read the counters from the store, see `load`."""
        self._con = con
        self.last_event: int = 0
        self.last_change: int = 0
        #: The highest event id: whatever lies above it is new.
        self.newest: int = -1
        #: The last numbers whose transaction is committed: what a reader may count on.
        self.committed: int = 0
        self.committed_event: int = 0
        #: The last event in the file; later ones wait in the log.
        self.stored_event: int = 0
        #: The last change in the file; later ones wait.
        self.stored_change: int = 0
        #: How far the deriver got.
        self.derived: int = 0
        self.changes = RecentChanges()
        #: What to do once the transaction under way is committed.
        self._settling: list[Callable[[], None]] = []
        self.load()

    def load(self) -> None:
        """Read the counters from the store, after opening or a rollback.

        While writes wait they are ahead of it, and stay at what was published.
        """
        self._settling.clear()
        if not self.are_stored:
            self.last_event, self.last_change = self.committed_event, self.committed
            return
        row = self._con.fetch_row(
            """SELECT (SELECT coalesce(max(seq), 0) FROM event), (SELECT coalesce(max(seq), 0) FROM outbox),
                      (SELECT coalesce(max(event_id), -1) FROM event), (SELECT max(value) FROM checkpoint WHERE name = ?)""",
            [DERIVER],
        )
        self.last_event, self.last_change, self.newest, derived = row or (0, 0, -1, None)
        self.derived = int(derived or 0)
        self.settle()

    def once_committed(self, act: Callable[[], None]) -> None:
        """Call `act` when the running transaction is committed, if ever."""
        self._settling.append(act)

    def settle(self) -> None:
        """Call what waits for the commit, in order."""
        for act in self._settling:
            act()
        self._settling.clear()
        self.publish()
        self.stored_event, self.stored_change = self.last_event, self.last_change

    def settle_waiting(self) -> None:
        """Call what waits for a commit, in order: what it is about waits for the file, but counts as committed."""
        acts, self._settling = self._settling, []
        self.publish()
        for act in acts:
            act()

    @property
    def are_stored(self) -> bool:
        """Whether the file holds everything that readers count on."""
        return self.stored_event >= self.committed_event and self.stored_change >= self.committed

    def note_derived(self, event: int) -> None:
        """Note how far the deriver got."""
        self.derived = event

    def publish(self) -> None:
        """Let readers count on every number given out."""
        self.committed, self.committed_event = self.last_change, self.last_event

    def number_changes(self, changes: Sequence[tuple[ChangeKind, str]]) -> list[Change]:
        """Return entries (kind, subject) with the next numbers; they come into memory once they are committed."""
        entries = [Change(seq, kind, subject) for seq, (kind, subject) in enumerate(changes, self.last_change + 1)]
        self.last_change += len(entries)
        self.once_committed(lambda: self.changes.add_changes(entries))
        return entries


def add_changes(con: duckdb.DuckDBPyConnection, numbers: Numbers, changes: Sequence[tuple[ChangeKind, str]]) -> int:
    """Write outbox entries (kind, subject); return the last number given out.

    Inside the caller's transaction; they come into memory once it is committed.
    """
    if changes:
        insert_changes(con, numbers.number_changes(changes))
    return numbers.last_change


def insert_changes(con: duckdb.DuckDBPyConnection, entries: Sequence[Change]) -> None:
    """Insert numbered entries of the outbox."""
    columns: list[list[Any]] = [[c.seq for c in entries], [c.kind.value for c in entries], [c.subject for c in entries]]
    insert_columns(con, "outbox", _OUTBOX, columns)


def put_checkpoint(con: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    """Store one position; that of the deriver has to be noted in memory too."""
    stored = run_parsed(con, "UPDATE checkpoint SET value = ? WHERE name = ?", [value, name]).fetchone()
    if not stored or not stored[0]:
        con.execute("INSERT INTO checkpoint VALUES (?, ?)", [name, value])


class Requests:
    """Requests that were answered, and which may be: to know without reading that one is new. Under the write lock."""

    def __init__(self, con: Connection, clock: Clock) -> None:
        self._con, self._clock = con, clock
        #: Hashes of the stored keys; read when they are first needed.
        self._hashes: set[int] | None = None
        self._forgot_ms = 0

    def may_hold(self, request: WriteRequest) -> bool:
        """Return False only if the request is not stored."""
        if self._hashes is None:
            rows = self._con.fetch_rows("SELECT key FROM request LIMIT ?", [_MOST_KEYS + 1])
            self._hashes = {hash(row[0]) for row in rows}
        return len(self._hashes) > _MOST_KEYS or hash(request.key) in self._hashes

    def find_answer(self, con: duckdb.DuckDBPyConnection, request: WriteRequest) -> str | None:
        """Return the answer of a repeated request; remove old answers now and then."""
        now = self._clock.now_ms()
        if abs(now - self._forgot_ms) > _FORGET_MS:
            forget_old_requests(con, now)
            self.drop()
            self._forgot_ms = now
        sql = "SELECT answer FROM request WHERE key = ? AND at_ms >= ?"
        rows = con.execute(sql, [request.key, now - REQUEST_KEPT_MS]).fetchall()
        return str(rows[0][0]) if rows else None

    def make_row(self, request: WriteRequest, ids: Iterable[str]) -> RequestRow:
        """Return the row of a request that stores events with these ids."""
        if self._hashes is not None:
            self._hashes.add(hash(request.key))
        return request.key, request.answer or " ".join(ids), self._clock.now_ms()

    def drop(self) -> None:
        """Read the keys again when they are next needed."""
        self._hashes = None


def insert_requests(con: duckdb.DuckDBPyConnection, rows: Sequence[RequestRow]) -> None:
    """Insert answered requests, if any."""
    if rows:
        insert_columns(con, "request", ("VARCHAR", "VARCHAR", "BIGINT"), [list(column) for column in zip(*rows, strict=True)])


def forget_old_requests(con: duckdb.DuckDBPyConnection, now_ms: int) -> int:
    """Remove answers older than an hour; return how many."""
    row = con.execute("DELETE FROM request WHERE at_ms < ?", [now_ms - REQUEST_KEPT_MS]).fetchone()
    return int(row[0]) if row else 0


class DuckOutbox:
    """Changes, positions of followers and importers, and answers to requests."""

    def __init__(self, con: Connection, numbers: Numbers) -> None:
        """Use `con` for reads and `numbers`, those of the whole store, for what is in memory."""
        self._con = con
        self._numbers = numbers
        self._changed: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())

    def nodes_changed_since(self, seq: int) -> frozenset[str] | None:
        """Return changed nodes; None beyond the last 20,000 changes."""
        last = self._numbers.committed
        if seq >= last:
            return frozenset()
        if self._changed[0] != (seq, last):
            later = self._numbers.changes.read_after(seq)
            if later is None:
                return None
            subjects = (c.subject if c.kind in NODE_CHANGES else "" for c in later if c.seq <= last)
            self._changed = ((seq, last), frozenset(subjects))
        return self._changed[1]

    def read_after(self, seq: int, limit: int) -> list[Change]:
        if seq >= self._numbers.committed:
            return []
        recent = self._numbers.changes.read_after(seq, limit)
        if recent is not None:
            return recent
        rows = self._con.fetch_rows("SELECT seq, kind, subject FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", [seq, limit])
        return [Change(row[0], ChangeKind(row[1]), row[2]) for row in rows]

    def get_checkpoint(self, follower: str) -> int:
        if follower == DERIVER:
            return self._numbers.derived
        row = self._con.fetch_row("SELECT value FROM checkpoint WHERE name = ?", [follower])
        return int(row[0]) if row else 0

    def set_position(self, follower: str, value: str) -> None:
        with self._con.begin_transaction() as con:
            put_checkpoint(con, follower, value)
            if follower == DERIVER:
                self._numbers.once_committed(partial(self._numbers.note_derived, int(value)))

    def set_positions(self, values: Mapping[str, str]) -> None:
        """Store positions; the deriver's must not be among them."""
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM checkpoint WHERE name IN (SELECT unnest(?::VARCHAR[]))", [list(values)])
            columns = [list(values), list(values.values())]
            con.execute("INSERT INTO checkpoint SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])", columns)

    def get_positions(self, prefix: str) -> dict[str, str]:
        return dict(self._con.fetch_rows("SELECT name, value FROM checkpoint WHERE starts_with(name, ?)", [prefix]))

    def store_waiting(self) -> None:
        if not self._numbers.are_stored:
            # What waits is stored before it.
            with self._con.begin_transaction():
                pass

    def forget_requests(self, now_ms: int) -> int:
        with self._con.begin_transaction() as con:
            return forget_old_requests(con, now_ms)
