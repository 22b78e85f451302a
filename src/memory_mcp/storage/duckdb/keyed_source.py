"""Reads from the store what its keyed copy takes in."""

from collections.abc import Callable, Sequence

from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.keyed_file import GRIPS, NODES, PAIRS, SEGMENTS
from memory_mcp.storage.duckdb.outbox import Numbers
from memory_mcp.storage.rows import EVENT, GRIP, SEGMENT

#: Events of a portion with long texts; rows of one of another table.
_LONG_PORTION, _PORTION = 10, 2000
_EVENTS_AFTER = f"SELECT seq, stream, content, {EVENT} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
_EVENT_SUMS = "SELECT count(*), bit_xor(event_id), bit_xor(content) FROM event WHERE seq <= ?"
#: Rows of the other tables behind a key, in order; those of nodes are read by `read_nodes`.
_ROWS_AFTER = {
    GRIPS: f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT {_PORTION}",
    PAIRS: f"SELECT event_id, canonical FROM duplicate WHERE event_id > ?::HUGEINT ORDER BY event_id LIMIT {_PORTION}",
    SEGMENTS: f"SELECT key, {SEGMENT} FROM segment_cut WHERE key > ? ORDER BY key LIMIT {_PORTION}",
    NODES: f"SELECT key FROM node WHERE current AND key > ? ORDER BY key LIMIT {_PORTION // 4}",
}
#: The tables that are copied, but events.
COPIED = tuple(_ROWS_AFTER)


class CopySource:
    """The store as its keyed copy sees it. Methods raise StorageError."""

    def __init__(self, con: Connection, numbers: Numbers, pack_nodes: Callable[[Sequence[int]], list[Row]]) -> None:
        """`pack_nodes` reads nodes as (key, packed node)."""
        self._con, self._numbers, self._pack_nodes = con, numbers, pack_nodes

    def sum_events(self, last: int) -> tuple[int, ...]:
        """Return number, XOR of keys and XOR of contents of events up to a number."""
        return tuple(value or 0 for value in self._con.fetch_row(_EVENT_SUMS, [last]) or ())

    def fetch_events(self, after: int, to: int, for_much: bool = False) -> tuple[list[Row], int]:
        """Return the rows of events up to a number, at most `to`: what could not be stored yet is taken in later."""
        # Not waiting for the store's write lock: its holder may wait for the lock of the copy.
        with self._con.lend_cursor(for_much) as cursor:
            to = min(to, self._numbers.stored_event)
            return cursor.execute(_EVENTS_AFTER, [after, to]).fetchall(), to

    def fetch_portion(self, after: int, to: int) -> tuple[list[Row], int]:
        """Return as `fetch_events`, of very long texts fewer: so many at once are more than the store's memory."""
        try:
            # With all memory: beside other reads the resting limit is too little.
            return self.fetch_events(after, to, for_much=True)
        except ResourceExhausted:
            return self.fetch_events(after, min(to, after + _LONG_PORTION), for_much=True)

    def fetch_rows(self, table: str, key: int) -> tuple[list[Row], int]:
        """Return rows of another table behind a key, nodes packed, and how many were read."""
        rows = self._con.fetch_rows(_ROWS_AFTER[table], [key])
        count = len(rows)
        return (self._pack_nodes([row[0] for row in rows]) if table == NODES and rows else rows), count
