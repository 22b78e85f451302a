"""Events before and after others in their streams, as the engine reads them."""

from collections.abc import Sequence

from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId, event_id_from, event_key
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.duplicates import SHOWN_IN_SESSION
from memory_mcp.storage.rows import EVENT

_BEFORE = f"""
SELECT {EVENT} FROM event WHERE stream = ? AND (ts < ? OR (ts = ? AND event_id < ?)) {{which}}
ORDER BY ts DESC, event_id DESC LIMIT ?"""
_AFTER = f"""
SELECT {EVENT} FROM event WHERE stream = ? AND (ts > ? OR (ts = ? AND event_id > ?)) {{which}}
ORDER BY ts, event_id LIMIT ?"""
#: What is shown in the place of a hidden event is no neighbour of it.
_NEAR_HIDDEN = f"AND {SHOWN_IN_SESSION} AND event_id NOT IN (SELECT canonical FROM duplicate WHERE event_id = ?)"
_LATER = """
SELECT s.number, e.event_id
FROM (SELECT unnest(?::INTEGER[]) AS number, unnest(?::BIGINT[]) AS own, unnest(?::BIGINT[]) AS from_ts,
             unnest(?::HUGEINT[]) AS from_id) s
JOIN event e ON e.stream = s.own
WHERE e.ts > s.from_ts OR (e.ts = s.from_ts AND e.event_id > s.from_id)
QUALIFY row_number() OVER (PARTITION BY s.number ORDER BY e.ts, e.event_id) <= ?
ORDER BY s.number, e.ts, e.event_id"""


def fetch_neighbours(con: Connection, event: Event, limits: tuple[int, int], has_pairs: bool) -> tuple[list[Row], list[Row]]:
    """Return up to so many shown rows before and after an event, nearest first."""
    key = event_key(event.event_id)
    at = [event.stream, event.timestamp, event.timestamp, key, *((event.session_id, key) if has_pairs else ())]
    which = _NEAR_HIDDEN if has_pairs else ""
    earlier, later = (
        con.fetch_rows(sql.format(which=which), [*at, limit]) if limit else []
        for sql, limit in zip((_BEFORE, _AFTER), limits, strict=True)
    )
    return earlier, later


def list_later_ids(con: Connection, events: Sequence[Event], limit: int) -> list[list[EventId]]:
    """Return the ids of up to `limit` later events of each event's stream, in order, hidden ones too.

    A hundred events take 11 ms, one by one 700.
    """
    keys = [event_key(event.event_id) for event in events]
    columns = [[*range(len(events))], [event.stream for event in events], [event.timestamp for event in events], keys]
    ids: list[list[EventId]] = [[] for _ in events]
    for number, key in con.fetch_rows(_LATER, [*columns, limit]):
        ids[number].append(event_id_from(key))
    return ids
