"""Outbox, checkpoints, request answers and the counters that number everything."""

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from memory_mcp.model.change import Change, ChangeKind
from memory_mcp.storage.duckdb.connection import Connection

#: Answers to re-sent writes are kept this long (milliseconds).
REQUEST_KEPT_MS = 3_600_000
#: The last changes are kept in memory, some 150 bytes each: readers of an index ask what it does not hold yet.
_RECENT = 20_000


class Numbers:
    """Last numbers given out; read once on open, handed out under the write lock."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self.last_event: int = 0
        self.last_change: int = 0
        #: The last change whose transaction is committed: what a reader may count on.
        self.committed: int = 0
        #: The last changes, and the number from which they are all there; those of an open transaction stand aside.
        self._recent: deque[tuple[int, str]] = deque(maxlen=_RECENT)
        self._open: list[tuple[int, str]] = []
        self._since = 0
        self._changed: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())
        self.load()
        self._since = self.last_change

    def load(self) -> None:
        """Read the counters from the store, after opening and after a failed transaction."""
        row = self._con.row("SELECT (SELECT coalesce(max(seq), 0) FROM event), (SELECT coalesce(max(seq), 0) FROM outbox)")
        self.last_event, self.last_change = row or (0, 0)
        self._open.clear()
        self.settle()

    def settle(self) -> None:
        """What was handed out is committed."""
        for change in self._open:
            if len(self._recent) == _RECENT:
                self._since = self._recent[0][0]
            self._recent.append(change)
        self._open.clear()
        self.committed = self.last_change

    def note(self, first: int, subjects: Sequence[str]) -> None:
        """Nodes that the open transaction changes, by number from `first` on."""
        self._open += zip(itertools.count(first), subjects)

    def changed_since(self, seq: int) -> frozenset[str] | None:
        """Nodes changed behind that number; None where it lies further back than is known."""
        last = self.committed
        if seq >= last:
            return frozenset()
        if seq < self._since:
            return None
        if self._changed[0] != (seq, last):
            behind = (subject for number, subject in self._recent.copy() if seq < number <= last)
            self._changed = ((seq, last), frozenset(behind))
        return self._changed[1]

    def take_events(self, count: int) -> int:
        """The first of `count` new event numbers."""
        self.last_event += count
        return self.last_event - count + 1

    def take_changes(self, count: int) -> int:
        """The first of `count` new outbox numbers."""
        self.last_change += count
        return self.last_change - count + 1


def add_changes(con: duckdb.DuckDBPyConnection, numbers: Numbers, changes: Sequence[tuple[ChangeKind, str]]) -> int:
    """Write outbox entries inside the caller's transaction; the number of the last."""
    if changes:
        first = numbers.take_changes(len(changes))
        con.execute(
            "INSERT INTO outbox SELECT unnest(?::BIGINT[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [list(range(first, first + len(changes))), [k.value for k, _ in changes], [s for _, s in changes]],
        )
        numbers.note(first, ["" if k is ChangeKind.EVENTS_APPENDED else s for k, s in changes])
    return numbers.last_change


def put_checkpoint(con: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    """Replace one checkpoint inside the caller's transaction."""
    con.execute("DELETE FROM checkpoint WHERE name = ?", [name])
    con.execute("INSERT INTO checkpoint VALUES (?, ?)", [name, value])


def forget_old_requests(con: duckdb.DuckDBPyConnection, now_ms: int) -> int:
    """Drop answers nobody will ask for again; how many."""
    row = con.execute("DELETE FROM request WHERE at_ms < ?", [now_ms - REQUEST_KEPT_MS]).fetchone()
    return int(row[0]) if row else 0


class DuckOutbox:
    """The outbox and everybody's position in it."""

    def __init__(self, con: Connection, numbers: Numbers) -> None:
        self._con = con
        self._numbers = numbers

    def changed_since(self, seq: int) -> frozenset[str] | None:
        """See Outbox."""
        return self._numbers.changed_since(seq)

    def after(self, seq: int, limit: int) -> list[Change]:
        """See Outbox."""
        rows = self._con.rows("SELECT seq, kind, subject FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", [seq, limit])
        return [Change(row[0], ChangeKind(row[1]), row[2]) for row in rows]

    def checkpoint(self, follower: str) -> int:
        """See Outbox."""
        row = self._con.row("SELECT value FROM checkpoint WHERE name = ?", [follower])
        return int(row[0]) if row else 0

    def mark(self, follower: str, value: str) -> None:
        """See Outbox."""
        with self._con.writing() as con:
            put_checkpoint(con, follower, value)

    def mark_all(self, values: Mapping[str, str]) -> None:
        """See Outbox."""
        with self._con.writing() as con:
            con.execute("DELETE FROM checkpoint WHERE name IN (SELECT unnest(?::VARCHAR[]))", [list(values)])
            columns = [list(values), list(values.values())]
            con.execute("INSERT INTO checkpoint SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])", columns)

    def marks(self, prefix: str) -> dict[str, str]:
        """See Outbox."""
        parameters: list[Any] = [prefix]
        return {
            row[0]: row[1] for row in self._con.rows("SELECT name, value FROM checkpoint WHERE starts_with(name, ?)", parameters)
        }

    def forget_requests(self, now_ms: int) -> int:
        """See Outbox."""
        with self._con.writing() as con:
            return forget_old_requests(con, now_ms)
