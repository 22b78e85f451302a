"""GripStore on DuckDB."""

from collections.abc import Iterable, Iterator

from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, event_id_from, event_key, grip_key
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.rows import GRIP, grip_of


class DuckGrips:
    """Quotations in one table."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find(self, grip_id: str) -> Grip | None:
        """See GripStore."""
        key, whole = grip_key(grip_id)
        if whole:
            row = self._con.row(f"SELECT {GRIP} FROM grip WHERE grip_id = ?", [key])
        else:
            row = self._con.row(f"SELECT {GRIP} FROM grip WHERE (grip_id & ?::HUGEINT) = ?::HUGEINT", [HASH_MASK, key])
        return grip_of(row) if row else None

    def get_many(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """See GripStore."""
        keys = list({grip_key(i)[0] for i in ids})
        if not keys:
            return {}
        rows = self._con.rows(f"SELECT {GRIP} FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))", [keys])
        return {g.grip_id: g for g in map(grip_of, rows)}

    def of_events(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """See GripStore."""
        keys = list({event_key(i) for i in ids})
        if not keys:
            return {}
        # Joined by OR the two would be told for every row of the table, at twice the time.
        sql = f"""SELECT {GRIP} FROM grip WHERE event_start IN (SELECT unnest(?::HUGEINT[]))
                  UNION SELECT {GRIP} FROM grip WHERE event_end IN (SELECT unnest(?::HUGEINT[]))
                  ORDER BY event_start, span_start, span_end"""
        wanted = {event_id_from(k) for k in keys}
        found: dict[EventId, list[Grip]] = {}
        for grip in map(grip_of, self._con.rows(sql, [keys, keys])):
            for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                if event_id in wanted:
                    found.setdefault(event_id, []).append(grip)
        return found

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """See GripStore."""
        last = -1
        sql = f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT ?"
        while rows := self._con.rows(sql, [last, batch]):
            yield [grip_of(row) for row in rows]
            last = rows[-1][0]
