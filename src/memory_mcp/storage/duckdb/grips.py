"""GripStore on DuckDB."""

from collections.abc import Iterable, Iterator

from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, event_id_from, event_key, grip_key
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.rows import GRIP, grip_of

#: Events whose grips are kept from one reading: more of them are bulk work.
_KEPT_AT_ONCE = 200
#: Joined by OR the two would be told for every row of the table, at twice the time.
_OF_EVENTS = f"""SELECT {GRIP} FROM grip WHERE event_start IN (SELECT unnest(?::HUGEINT[]))
  UNION SELECT {GRIP} FROM grip WHERE event_end IN (SELECT unnest(?::HUGEINT[])) ORDER BY event_start, span_start, span_end"""


class DuckGrips:
    """Quotations, a `GripStore`; those of events that were quoted or read lately are kept in memory."""

    def __init__(self, con: Connection, recent: RecentGrips) -> None:
        """Read and write over `con`; `recent` is shared with whatever stores events and grips, which keeps it up to date."""
        self._con = con
        self._recent = recent

    def find_grip(self, grip_id: str) -> Grip | None:
        """Return the grip of a whole id or its lower 80 bits (a hash); None for an unknown one, InvalidQuery for no id."""
        key, whole = grip_key(grip_id)
        if whole:
            row = self._con.row(f"SELECT {GRIP} FROM grip WHERE grip_id = ?", [key])
        else:
            row = self._con.row(f"SELECT {GRIP} FROM grip WHERE (grip_id & ?::HUGEINT) = ?::HUGEINT", [HASH_MASK, key])
        return grip_of(row) if row else None

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Return those of `ids` that exist, by id: from memory where they are there, the rest in one query."""
        kept = {i: grip for i in ids if (grip := self._recent.get(i)) is not None} if (ids := list(ids)) else {}
        keys = list({grip_key(i)[0] for i in ids if i not in kept})
        if not keys:
            return kept
        rows = self._con.rows(f"SELECT {GRIP} FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))", [keys])
        return kept | {g.grip_id: g for g in map(grip_of, rows)}

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return by event the grips that begin or end in it, in the order of their places; events without any are left out.

        What was read for up to 200 events at once is then kept in memory.
        """
        wanted = list(dict.fromkeys(ids))
        seen = self._recent.writes
        found = {i: own for i in wanted if (own := self._recent.of(i)) is not None}
        if missing := [i for i in wanted if i not in found]:
            keys = [event_key(i) for i in missing]
            read: dict[EventId, list[Grip]] = {i: [] for i in map(event_id_from, keys)}
            for grip in map(grip_of, self._con.rows(_OF_EVENTS, [keys, keys])):
                for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                    if event_id in read:
                        read[event_id].append(grip)
            if len(missing) <= _KEPT_AT_ONCE:
                self._recent.keep(read, seen)
            found |= read
        return {event_id: own for event_id, own in found.items() if own}

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """Yield every grip in the order of ids, `batch` at a time, each batch a read of its own."""
        last = -1
        sql = f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT ?"
        while rows := self._con.rows(sql, [last, batch]):
            yield [grip_of(row) for row in rows]
            last = rows[-1][0]
