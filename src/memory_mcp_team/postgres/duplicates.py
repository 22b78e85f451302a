"""Pairs of a memory: events of a hook and of a transcript that are the same message, and copies in other sessions.

See `storage.pairing` and `storage.copies`.

Invariants
1. Both events stay, and a pair is never removed but by forgetting.
2. Pairs are found with the memory's head locked: of two processes that store the halves one sees the other's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.model.event import HOOK, Event
from memory_mcp.model.ids import EventId, event_id_from, event_key
from memory_mcp.storage.copies import COLUMNS, CopyFinder, Stream, Utterance, repeated_ids, resolve_pairs
from memory_mcp.storage.pairing import SUMMARY, WINDOW_MS, Message, escape_json, iter_pairs, make_message, parse_message
from memory_mcp_team.postgres.conditions import is_shown
from memory_mcp_team.postgres.connection import Connection, Row, Writer, own
from memory_mcp_team.postgres.database import Statement, uuids_of

#: Beginnings of sessions are compared with those so near (milliseconds), or that they name: no index is by content.
_NEAR_MS = 7 * 86_400_000
#: Bits of a key after its time.
_TIME_SHIFT = 80
#: Sources of some sessions, one step of the index for each: a session has a few, and maybe thousands of events.
_SOURCES = f"""WITH RECURSIVE told(session_id, source) AS (
    SELECT s.session_id, (SELECT min(e.source) FROM event e WHERE {own("e")} AND e.session_id = s.session_id)
    FROM unnest(%(sessions)s::text[]) AS s(session_id)
  UNION ALL
    SELECT t.session_id, (SELECT min(e.source) FROM event e
                          WHERE {own("e")} AND e.session_id = t.session_id AND e.source > t.source)
    FROM told t WHERE t.source IS NOT NULL)
SELECT session_id, source FROM told WHERE source IS NOT NULL"""
#: Metadata is stored by `rows.pack`: compact, keys in order.
_TOLD = r"""CASE WHEN strpos(e.metadata, '"tool_use_id":"') > 0
    THEN coalesce(substring(e.metadata from '"tool_use_id":"((?:[^"\\]|\\.)*)"'), '') ELSE '' END"""
_CANDIDATES = f"""SELECT e.event_id, e.ts, e.session_id, e.thread, e.role, e.type, e.source, e.source_id, {_TOLD},
  strpos(e.metadata, '{SUMMARY}":"true"') > 0, e.text
FROM event e
WHERE {own("e")} AND e.session_id = ANY(%(sessions)s::text[]) AND starts_with(e.source, '{HOOK}') = %(hook)s
  AND (e.ts BETWEEN %(first)s AND %(last)s
       OR (e.source_id <> '' AND e.source_id = ANY(%(source_ids)s::text[]))
       OR {_TOLD} = ANY(%(tool_use_ids)s::text[]))
  AND {is_shown()}
  AND NOT EXISTS (SELECT 1 FROM duplicate d WHERE {own("d")} AND d.canonical = e.event_id)
ORDER BY e.seq"""
_PAIRS = f"""SELECT event_id, canonical FROM duplicate
WHERE {own()} AND (event_id = ANY(%(keys)s::uuid[]) OR canonical = ANY(%(keys)s::uuid[]))"""
_MOVED = f"""UPDATE duplicate d SET canonical = m.shown FROM unnest(%(hidden)s::uuid[], %(shown)s::uuid[]) m(hidden, shown)
WHERE {own("d")} AND d.canonical = m.hidden"""
_COLUMNS = ", ".join(f"e.{column}" for column in COLUMNS.split(", "))
_TWINS = f"""SELECT {_COLUMNS} FROM event e
JOIN (SELECT DISTINCT * FROM unnest(%(times)s::bigint[], %(contents)s::bigint[]) t(ts, content)) t
  ON e.ts = t.ts AND e.content = t.content
WHERE {own("e")} ORDER BY e.seq"""
_OPENINGS = f"""SELECT {_COLUMNS} FROM event e WHERE {own("e")} AND e.content = ANY(%(contents)s::bigint[])
  AND (e.ts BETWEEN %(first)s AND %(last)s OR e.session_id = ANY(%(sessions)s::text[]))"""
_IN_STREAM = f"{own('e')} AND e.session_id = %(session)s AND e.thread = %(thread)s AND e.source = %(source)s"
_FIRST = f"SELECT e.event_id FROM event e WHERE {_IN_STREAM} ORDER BY e.seq LIMIT 1"
_STREAM = f"SELECT {_COLUMNS} FROM event e WHERE {_IN_STREAM} ORDER BY e.seq"


class _CopyFinder(CopyFinder):
    #: The transaction that stores.
    writer: Writer

    def _read_twins(self, times: Sequence[int], contents: Sequence[int]) -> Sequence[Sequence[Any]]:
        return self.writer.rows(_TWINS, times=times, contents=contents)

    def _read_openings(self, firsts: Sequence[Utterance]) -> Sequence[Sequence[Any]]:
        times = [u.time_ms for u in firsts]
        return self.writer.rows(
            _OPENINGS,
            contents=sorted({u.words[-1] for u in firsts}),
            first=min(times) - _NEAR_MS,
            last=max(times) + _NEAR_MS,
            sessions=sorted({u.forked_from for u in firsts if u.forked_from}),
        )

    def _find_first_key(self, stream: Stream, source: str) -> int | None:
        row = self.writer.row(_FIRST, session=stream[0], thread=stream[1], source=source)
        return int(row[0]) if row else None

    def _read_stream(self, stream: Stream, source: str) -> Sequence[Sequence[Any]]:
        return self.writer.rows(_STREAM, session=stream[0], thread=stream[1], source=source)


class Duplicates:
    """The pairs of a memory."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._copies = _CopyFinder()

    def find_copies(self, writer: Writer, fresh: Sequence[Event], sources: Sequence[Row]) -> set[EventId]:
        """Store the pairs that `fresh` makes; return the ids of copies.

        `sources` are rows of `make_sources_query` at this moment, for all sessions of `fresh`. A copy says again what another
        session holds.
        """
        self._copies.writer = writer
        newest_ms = writer.head.newest >> _TIME_SHIFT
        times = {event.timestamp for event in fresh if event.timestamp <= newest_ms}
        copies = self._copies.find_pairs(fresh, {session for session, _ in sources}, times)
        if new_pairs := [*self._pair_hooks(writer, fresh, sources), *copies]:
            keys = uuids_of(sorted({key for pair in new_pairs for key in pair}))
            hidden = resolve_pairs(new_pairs, dict(writer.rows(_PAIRS, keys=keys)))
            columns = [uuids_of(hidden), uuids_of(hidden.values())]
            if hidden:
                writer.send_later(_MOVED, hidden=columns[0], shown=columns[1])
                writer.insert_rows("duplicate", "event_id, canonical", ("uuid", "uuid"), columns)
        return repeated_ids(copies, fresh)

    def _pair_hooks(self, writer: Writer, fresh: Sequence[Event], sources: Sequence[Row]) -> list[tuple[int, int]]:
        """Return pairs with hooks' events, as keys (hidden, shown)."""
        met = {session for session, source in sources if source.startswith(HOOK)}
        # A session that only hooks have recorded, as most are while they last, has no other half to be looked for.
        mixed = {session for session, source in sources if not source.startswith(HOOK)}
        hooked = met | {e.session_id for e in fresh if e.source.startswith(HOOK)}
        messages = [make_message(e) for e in fresh if e.session_id in hooked]
        if not messages:
            return []
        older = _read_older(writer, [m for m in messages if m.hook and m.session in mixed], False)
        older += _read_older(writer, [m for m in messages if not m.hook and m.session in met], True)
        return [(hidden.key, canonical.key) for hidden, canonical in iter_pairs([*older, *messages])]

    def find_pairs(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Return the pairs with one of `ids`: hidden id to shown id."""
        keys = uuids_of(event_key(i) for i in ids)
        if not keys:
            return {}
        return {event_id_from(hidden): event_id_from(canonical) for hidden, canonical in self._con.rows(_PAIRS, keys=keys)}


def make_sources_query(events: Iterable[Event]) -> Statement:
    """Return the query for the rows (session, source) of events' sessions."""
    return Statement(_SOURCES, {"sessions": sorted({e.session_id for e in events})})


def _read_older(writer: Writer, fresh: Sequence[Message], hook: bool) -> list[Message]:
    if not fresh:
        return []
    times = [t.time_ms for t in fresh]
    rows = writer.rows(
        _CANDIDATES,
        sessions=sorted({t.session for t in fresh}),
        hook=hook,
        first=min(times) - WINDOW_MS,
        last=max(times) + WINDOW_MS,
        tool_use_ids=[escape_json(t.tool_use_id) for t in fresh if t.tool_use_id],
        source_ids=[t.source_id for t in fresh if t.source_id],
    )
    return [parse_message(row) for row in rows]
