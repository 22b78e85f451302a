"""Outbox and positions on PostgreSQL; any number of servers follow them."""

from collections.abc import Mapping

from memory_mcp.model.change import NODE_CHANGES, Change, ChangeKind
from memory_mcp.storage.records import DERIVER, REQUEST_KEPT_MS
from memory_mcp_team.postgres.connection import Connection, Writer, own

#: More changes than this after a number are not listed one by one.
_TOLD = 20_000

_PUT = """INSERT INTO checkpoint (tenant, space, name, value) VALUES (%(tenant)s, %(space)s, %(name)s, %(value)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET value = excluded.value"""
_PUT_ALL = """INSERT INTO checkpoint (tenant, space, name, value)
  SELECT %(tenant)s, %(space)s, name, value FROM unnest(%(names)s::text[], %(values)s::text[]) given(name, value)
  ON CONFLICT (tenant, space, name) DO UPDATE SET value = excluded.value"""
_AFTER = f"SELECT seq, kind, subject FROM outbox WHERE {own()} AND seq > %(seq)s ORDER BY seq LIMIT %(limit)s"
_MARKS = f"SELECT name, value FROM checkpoint WHERE {own()} AND starts_with(name, %(prefix)s)"


def put_checkpoint(writer: Writer, name: str, value: str) -> None:
    """Put one position inside the caller's transaction.

    The deriver's, as a number, goes into the memory's head.
    """
    if name == DERIVER:
        writer.head.derived = int(value)
    else:
        writer.send_later(_PUT, name=name, value=value)


_FORGET = f"DELETE FROM request WHERE {own()} AND at_ms < %(until)s"


def forget_old_requests(writer: Writer, now_ms: int) -> None:
    """Remove, in the caller's transaction, answers older than an hour."""
    writer.send_later(_FORGET, until=now_ms - REQUEST_KEPT_MS)


class PostgresOutbox:
    """Changes, positions of followers, and answers to requests; an `Outbox`."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._changed: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())

    def read_after(self, seq: int, limit: int) -> list[Change]:
        if seq >= self._con.get_head().last_change:
            return []
        return [Change(row[0], ChangeKind(row[1]), row[2]) for row in self._con.rows(_AFTER, seq=seq, limit=limit)]

    def nodes_changed_since(self, seq: int) -> frozenset[str] | None:
        last = self._con.get_head().last_change
        if seq >= last:
            return frozenset()
        if self._changed[0] != (seq, last):
            changes = self.read_after(seq, _TOLD + 1)
            if len(changes) > _TOLD:
                return None
            node_ids = (change.subject if change.kind in NODE_CHANGES else "" for change in changes)
            self._changed = ((seq, last), frozenset(node_ids))
        return self._changed[1]

    def get_checkpoint(self, follower: str) -> int:
        if follower == DERIVER:
            return self._con.get_head().derived
        row = self._con.row(f"SELECT value FROM checkpoint WHERE {own()} AND name = %(name)s", name=follower)
        return int(row[0]) if row else 0

    def set_position(self, follower: str, value: str) -> None:
        with self._con.open_writer() as writer:
            put_checkpoint(writer, follower, value)

    def set_positions(self, values: Mapping[str, str]) -> None:
        with self._con.open_writer() as writer:
            other_values = {name: value for name, value in values.items() if name != DERIVER}
            if DERIVER in values:
                put_checkpoint(writer, DERIVER, values[DERIVER])
            if other_values:
                writer.send_later(_PUT_ALL, names=list(other_values), values=list(other_values.values()))

    def get_positions(self, prefix: str) -> dict[str, str]:
        rows = self._con.rows(_MARKS, prefix=prefix)
        positions = {str(name): str(value) for name, value in rows}
        if DERIVER.startswith(prefix) and (derived := self._con.get_head().derived):
            positions[DERIVER] = str(derived)
        return positions

    def store_waiting(self) -> None:
        pass

    def forget_requests(self, now_ms: int) -> int:
        with self._con.open_writer() as writer:
            return writer.execute(_FORGET, until=now_ms - REQUEST_KEPT_MS)
