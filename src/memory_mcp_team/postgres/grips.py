"""GripStore on PostgreSQL."""

from collections.abc import Iterable, Iterator

from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, event_id_from, event_key, grip_key
from memory_mcp.storage.rows import GRIP, grip_of
from memory_mcp_team.postgres.connection import Connection, own
from memory_mcp_team.postgres.keys import uuid_of, uuids_of

_ONE = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id = %(id)s::uuid"
#: The lower 80 bits are the last 10 bytes.
_BY_TAIL = f"SELECT {GRIP} FROM grip WHERE {own()} AND substr(uuid_send(grip_id), 7) = %(tail)s::bytea LIMIT 1"
_SOME = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id = ANY(%(ids)s::uuid[])"
#: Joined by OR the two conditions would use neither index.
_OF_EVENTS = f"""SELECT {GRIP} FROM grip WHERE {own()} AND event_start = ANY(%(ids)s::uuid[])
  UNION SELECT {GRIP} FROM grip WHERE {own()} AND event_end = ANY(%(ids)s::uuid[])
  ORDER BY event_start, span_start, span_end"""
_AFTER = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id > %(last)s::uuid ORDER BY grip_id LIMIT %(batch)s"


class PostgresGrips:
    """Quotations of one memory, a `GripStore`.

    Nothing is kept in this process.
    """

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find_grip(self, grip_id: str) -> Grip | None:
        """Return the grip of a complete id or of its hash alone."""
        key, is_whole = grip_key(grip_id)
        if is_whole:
            row = self._con.row(_ONE, id=uuid_of(key))
        else:
            row = self._con.row(_BY_TAIL, tail=(key & HASH_MASK).to_bytes(10, "big"))
        return grip_of(row) if row else None

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Return the stored grips of `ids`, by id."""
        keys = list({grip_key(i)[0] for i in ids})
        rows = self._con.rows(_SOME, ids=uuids_of(keys)) if keys else ()
        return {g.grip_id: g for g in map(grip_of, rows)}

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return the grips that begin or end in each event, in order."""
        keys = list(dict.fromkeys(map(event_key, ids)))
        if not keys:
            return {}
        by_event: dict[EventId, list[Grip]] = {event_id_from(key): [] for key in keys}
        for grip in map(grip_of, self._con.rows(_OF_EVENTS, ids=uuids_of(keys))):
            for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                if event_id in by_event:
                    by_event[event_id].append(grip)
        return {event_id: several for event_id, several in by_event.items() if several}

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """Yield every grip by id, `batch` at a time."""
        last = uuid_of(0)
        while rows := self._con.rows(_AFTER, last=last, batch=batch):
            yield [grip_of(row) for row in rows]
            last = uuid_of(rows[-1][0])
