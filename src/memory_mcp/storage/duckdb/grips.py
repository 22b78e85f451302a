"""GripStore on DuckDB."""

from collections.abc import Iterable, Iterator

from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, event_id_from, event_key, grip_key
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.rows import GRIP, grip_of

#: Events whose grips are kept from one reading: more of them are bulk work.
_KEPT_AT_ONCE = 200
#: Joined by OR the two would be told for every row of the table, at twice the time.
_OF_EVENTS = f"""SELECT {GRIP} FROM grip WHERE event_start IN (SELECT unnest(?::HUGEINT[]))
  UNION SELECT {GRIP} FROM grip WHERE event_end IN (SELECT unnest(?::HUGEINT[])) ORDER BY event_start, span_start, span_end"""


class DuckGrips:
    """Quotations; those of recently quoted or read events are in memory."""

    def __init__(self, con: Connection, recent: RecentGrips, keyed: KeyedRows) -> None:
        """Share `recent` with whatever stores events and grips."""
        self._con = con
        self._keyed = keyed
        self._recent = recent

    def find_grip(self, grip_id: str) -> Grip | None:
        key, is_complete = grip_key(grip_id)
        rows = self._keyed.read_grips([key]) if is_complete else self._keyed.find_grip(key)
        if rows is not None:
            return grip_of(rows[0]) if rows else None
        if is_complete:
            row = self._con.fetch_row(f"SELECT {GRIP} FROM grip WHERE grip_id = ?", [key])
        else:
            row = self._con.fetch_row(f"SELECT {GRIP} FROM grip WHERE (grip_id & ?::HUGEINT) = ?::HUGEINT", [HASH_MASK, key])
        return grip_of(row) if row else None

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        requested_ids, write_count = set(ids), self._recent.writes
        cached = self._recent.find_grips(requested_ids)
        keys = list({grip_key(i)[0] for i in requested_ids if i not in cached})
        if not keys:
            return cached
        rows = self._keyed.read_grips(keys)
        if rows is None:
            rows = self._con.fetch_rows(f"SELECT {GRIP} FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))", [keys])
        read = {g.grip_id: g for g in map(grip_of, rows)}
        self._recent.keep_read(read, write_count)
        return cached | read

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return grips; those of up to 200 events are then kept in memory."""
        event_ids = list(dict.fromkeys(ids))
        write_count = self._recent.writes
        grips = {i: cached for i in event_ids if (cached := self._recent.event_grips(i)) is not None}
        if missing := [i for i in event_ids if i not in grips]:
            keys = [event_key(i) for i in missing]
            read: dict[EventId, list[Grip]] = {i: [] for i in map(event_id_from, keys)}
            rows = self._keyed.read_event_grips(keys)
            for grip in map(grip_of, self._con.fetch_rows(_OF_EVENTS, [keys, keys]) if rows is None else rows):
                for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                    if event_id in read:
                        read[event_id].append(grip)
            if len(missing) <= _KEPT_AT_ONCE:
                self._recent.keep_grips(read, write_count)
            grips |= read
        return {event_id: cached for event_id, cached in grips.items() if cached}

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        last = -1
        sql = f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT ?"
        while rows := self._con.fetch_rows(sql, [last, batch]):
            yield [grip_of(row) for row in rows]
            last = rows[-1][0]
