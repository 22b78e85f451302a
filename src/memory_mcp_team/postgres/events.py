"""EventStore on PostgreSQL. Nothing of it is kept in memory: other processes write too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_mcp.base.clock import Clock
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.event import HOOK, TOOL, Event, is_recap
from memory_mcp.model.ids import HASH_MASK, EventId, event_id_from, event_key
from memory_mcp.model.segment import Segment
from memory_mcp.storage.arrivals import ArrivalSorter, StoredValue, make_append_result
from memory_mcp.storage.base import EventStore
from memory_mcp.storage.pairing import SUMMARY
from memory_mcp.storage.records import REQUEST_KEPT_MS
from memory_mcp.storage.rows import EVENT, event_columns, event_of, sessions_of
from memory_mcp.storage.values import (
    AppendResult,
    EventBatch,
    EventPosition,
    Scope,
    SessionInfo,
    StoredEvent,
    WordReading,
    WriteRequest,
)
from memory_mcp_team.postgres.conditions import (
    EVENT_WORDS,
    Conditions,
    add_text_condition,
    fold_case,
    is_shown,
    make_scope_conditions,
    shown_in_session,
    sum_weights,
)
from memory_mcp_team.postgres.connection import Connection, Row, Writer, own
from memory_mcp_team.postgres.database import Statement, uuid_of, uuids_of
from memory_mcp_team.postgres.duplicates import Duplicates, make_sources_query
from memory_mcp_team.postgres.outbox import forget_old_requests
from memory_mcp_team.postgres.projects import PostgresProjects

_COLUMNS = """seq, event_id, ts, stream, session_id, agent, project, thread, speaker, type, role, trust, source, source_id,
  content, text, metadata"""
EVENT_TYPES = ("bigint", "uuid", "bigint", "bigint", *["text"] * 10, "bigint", "text", "text")
_EVENT = ", ".join(f"e.{column}" for column in EVENT.split(", "))
_STORED = f"SELECT event_id, content, session_id FROM event WHERE {own()} AND event_id = ANY(%(keys)s::uuid[])"
_REPLAY = f"SELECT key, answer FROM request WHERE {own()} AND key = ANY(%(keys)s::text[]) AND at_ms >= %(since)s"
_PUT_ANSWERS = """INSERT INTO request (tenant, space, key, answer, at_ms)
  SELECT %(tenant)s, %(space)s, key, answer, %(at_ms)s
  FROM unnest(%(keys)s::text[], %(answers)s::text[]) AS given(key, answer)
  ON CONFLICT (tenant, space, key) DO UPDATE SET answer = excluded.answer, at_ms = excluded.at_ms"""
#: Whether they are there is asked of so few events before it is known that it must be.
_LOOKUP_LIMIT = 64
#: Answers to re-sent writes that are too old are removed this often (milliseconds).
_FORGET_MS = 600_000
_GET = f"SELECT {_EVENT} FROM event e WHERE {own('e')} AND e.event_id = ANY(%(keys)s::uuid[])"
#: The lower 80 bits of a key are the last ten of its sixteen bytes.
_TAILS = f"SELECT event_id FROM event WHERE {own()} AND substring(uuid_send(event_id) from 7) = ANY(%(tails)s::bytea[])"
_AFTER = f"SELECT e.seq, {_EVENT} FROM event e WHERE {own('e')} AND e.seq > %(seq)s AND e.seq <= %(to)s ORDER BY e.seq"
#: Parameters: see `_spans`.
_SPANS = """unnest(%(keys)s::bigint[], %(streams)s::bigint[], %(from_ts)s::bigint[], %(from_ids)s::uuid[], %(to_ts)s::bigint[],
  %(to_ids)s::uuid[]) AS s(key, stream, from_ts, from_id, to_ts, to_id)"""
_INSIDE = """e.stream = s.stream AND (e.ts, e.event_id) >= (s.from_ts, s.from_id) AND (e.ts, e.event_id) <= (s.to_ts, s.to_id)"""
_IN_SEGMENTS = f"""SELECT s.key, {_EVENT} FROM {_SPANS} JOIN event e ON {_INSIDE}
WHERE {own("e")} AND (%(last_seq)s::bigint IS NULL OR e.seq <= %(last_seq)s) AND {{which}} ORDER BY s.key, e.ts, e.event_id"""
_HIDDEN_BY_LATER = f"""EXISTS (SELECT 1 FROM duplicate d JOIN event o ON {own("o")} AND o.event_id = d.canonical
  WHERE {own("d")} AND d.event_id = e.event_id AND o.seq > e.seq)"""
_RECAPS = f"""SELECT {_EVENT} FROM event e
WHERE {own("e")} AND e.stream = ANY(%(streams)s) AND e.type = 'note' AND strpos(e.metadata, '{SUMMARY}"') > 0 AND {is_shown()}
ORDER BY e.ts, e.event_id"""
#: What is shown in the place of a hidden event is no neighbour of it.
_NEAR = f"""(SELECT {_EVENT} FROM event e
WHERE {own("e")} AND e.stream = %(stream)s AND (e.ts, e.event_id) {{where}} (%(ts)s, %(key)s::uuid)
  AND {shown_in_session("%(session)s")}
  AND NOT EXISTS (SELECT 1 FROM duplicate d WHERE {own("d")} AND d.event_id = %(key)s::uuid AND d.canonical = e.event_id)
ORDER BY e.ts {{order}}, e.event_id {{order}} LIMIT %({{limit}})s)"""
_AROUND = " UNION ALL ".join(
    [_NEAR.format(where="<", order="DESC", limit="before"), _NEAR.format(where=">", order="ASC", limit="after")]
)


class _PlainReading(WordReading):
    """Searches the database for each question; nothing that was read is kept."""

    def __init__(self, events: EventStore, scope: Scope, words: Sequence[str]) -> None:
        self._events = events
        self._scope = scope
        self._words = words

    def list_newest(self, limit: int, segments: Sequence[Segment] | None = None, *, is_followed: bool = False) -> list[Event]:
        del is_followed
        return self._events.search_words(self._scope, self._words, limit, segments)

    def find_all(self, limit: int) -> list[Event] | None:
        """Return None: any word may be in any text."""
        del limit
        return None


class PostgresEvents(EventStore):
    """Layer 0 of one memory, an `EventStore`. No event is kept in this process."""

    def __init__(self, con: Connection, clock: Clock, projects: PostgresProjects) -> None:
        self._con, self._clock, self._projects = con, clock, projects
        self._pairs = Duplicates(con)
        self._forgot_ms = 0

    def append(self, events: Sequence[Event], request: WriteRequest | None = None) -> AppendResult:
        return self.append_batches([EventBatch(events, request)])[0]

    def append_batches(self, batches: Sequence[EventBatch]) -> list[AppendResult]:
        now = self._clock.now_ms()
        with self._con.open_writer(*self._make_questions(batches, now)) as writer:
            sources, replayed, *known_rows = writer.answers
            answers = {str(key): str(answer) for key, answer in replayed}
            replies, fresh = dict[str, str](), list[Event]()
            sorted_out: list[tuple[list[Event], list[EventId], str | None]] = []
            if known_rows:
                stored = _index_contents(known_rows[0])
            else:
                # An id begins with its time: what is later than all before need not be looked up.
                events = (event for batch in batches for event in batch.events)
                stored = _read_stored(writer, [e for e in events if event_key(e.event_id) <= writer.head.newest])
            arriving = ArrivalSorter(stored, lambda variants: _read_stored(writer, variants))
            for batch in batches:
                key = batch.request.key if batch.request else ""
                if batch.request and (answer := answers.get(key, replies.get(key))) is not None:
                    sorted_out.append(([], [], answer))
                    continue
                new, old_ids = arriving.sort_events(batch.events)
                fresh += new
                sorted_out.append((new, old_ids, None))
                if batch.request:
                    replies[key] = batch.request.answer or " ".join(e.event_id for e in new)
            copies = self._insert_events(writer, fresh, sources) if fresh else set[EventId]()
            if replies:
                if abs(now - self._forgot_ms) > _FORGET_MS:
                    forget_old_requests(writer, now)
                    self._forgot_ms = now
                writer.send_later(_PUT_ANSWERS, keys=list(replies), answers=list(replies.values()), at_ms=now)
            failpoint("events.before_commit")
        failpoint("events.committed")
        return [replace(make_append_result(new, old_ids, copies), replayed_answer=answer) for new, old_ids, answer in sorted_out]

    def _make_questions(self, batches: Sequence[EventBatch], now: int) -> list[Statement]:
        events = [event for batch in batches for event in batch.events]
        keys = [batch.request.key for batch in batches if batch.request]
        statements = [make_sources_query(events), Statement(_REPLAY, {"keys": keys, "since": now - REQUEST_KEPT_MS})]
        if len(events) <= _LOOKUP_LIMIT:
            statements.append(Statement(_STORED, {"keys": uuids_of(event_key(e.event_id) for e in events)}))
        return statements

    def _insert_events(self, writer: Writer, fresh: Sequence[Event], sources: Sequence[Row]) -> set[EventId]:
        copies = self._pairs.find_copies(writer, fresh, sources)
        first = writer.head.last_event + 1
        writer.head.last_event += len(fresh)
        columns = event_columns(fresh, first)
        writer.head.newest = max(writer.head.newest, *columns[1])
        columns[1] = uuids_of(columns[1])
        writer.insert_rows("event", _COLUMNS, EVENT_TYPES, columns)
        writer.add_changes([(ChangeKind.EVENTS_APPENDED, str(first + len(fresh) - 1))])
        writer.call_after_commit(lambda: self._projects.note_stored(fresh))
        return copies

    def _make_event(self, row: Row) -> Event:
        event = event_of(row)
        return event.with_display_project(self._projects.names.display_name(event.project, event.session_id))

    def _read_events(self, text: str, **parameters: Any) -> list[Event]:
        return [self._make_event(row) for row in self._con.rows(text, **parameters)]

    def _make_conditions(self, scope: Scope, session_id: str | None = None) -> Conditions:
        return make_scope_conditions(scope, session_id, self._projects.names)

    def find_event(self, event_id: EventId) -> Event | None:
        return next(iter(self._read_events(_GET, keys=[uuid_of(event_key(event_id))])), None)

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        keys = uuids_of({event_key(i) for i in ids})
        return {e.event_id: e for e in self._read_events(_GET, keys=keys)} if keys else {}

    def find_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        if not tails:
            return {}
        rows = self._con.rows(_TAILS, tails=[tail.to_bytes(10, "big") for tail in tails])
        return {row[0] & HASH_MASK: event_id_from(row[0]) for row in rows}

    def read_after(self, seq: int, limit: int) -> list[StoredEvent]:
        if seq >= self._con.get_head().last_event:
            return []
        return [StoredEvent(row[0], self._make_event(row[1:])) for row in self._con.rows(_AFTER, seq=seq, to=seq + limit)]

    def list_arrivals(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        conditions = self._make_conditions(scope)
        conditions.add_condition("e.seq > {} AND e.seq <= {}", after, to)
        if live:
            conditions.add_condition("(e.source = {} OR starts_with(e.source, {}))", TOOL, HOOK)
        if probes:
            either = " OR ".join(f"strpos({fold_case(EVENT_WORDS)}, {{}}) > 0" for _ in probes)
            conditions.add_condition(f"(octet_length({EVENT_WORDS}) <> char_length({EVENT_WORDS}) OR {either})", *probes)
        return self._read_events(
            f"SELECT {_EVENT} FROM event e WHERE {own('e')} AND {conditions.text} ORDER BY e.seq", **conditions.parameters
        )

    def last_seq(self) -> int:
        return self._con.get_head().last_event

    def find_duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        return self._pairs.find_pairs(ids)

    def events_by_segment(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        by_segment = self._read_segments(segments, last_seq, is_shown())
        # Copies may also be hidden by what was stored before them.
        for which in (_HIDDEN_BY_LATER, "true"):
            by_segment |= self._read_segments([s for s in segments if s.key not in by_segment], last_seq, which)
        return by_segment

    def _read_segments(self, segments: Sequence[Segment], last_seq: int | None, which: str) -> dict[int, list[Event]]:
        by_segment: dict[int, list[Event]] = {}
        if segments:
            for row in self._con.rows(_IN_SEGMENTS.format(which=which), last_seq=last_seq, **_make_spans(segments)):
                by_segment.setdefault(row[0], []).append(self._make_event(row[1:]))
        return by_segment

    def list_recaps(self, streams: Iterable[int]) -> list[Event]:
        return list(filter(is_recap, self._read_events(_RECAPS, streams=list(streams))))

    def get_neighbours(self, event: Event, earlier_limit: int, later_limit: int) -> tuple[list[Event], list[Event]]:
        at = {
            "stream": event.stream,
            "ts": event.timestamp,
            "key": uuid_of(event_key(event.event_id)),
            "session": event.session_id,
        }
        near = sorted(self._read_events(_AROUND, before=earlier_limit, after=later_limit, **at), key=lambda e: e.order)
        return [e for e in near if e.order < event.order], [e for e in near if e.order > event.order]

    def list_events(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        conditions = self._make_conditions(scope, session_id)
        if after:
            conditions.add_condition("(e.ts, e.event_id) > ({}, {}::uuid)", after[0], uuid_of(event_key(after[1])))
        text = f"SELECT {_EVENT} FROM event e WHERE {own('e')} AND {conditions.text} ORDER BY e.ts, e.event_id LIMIT %(limit)s"
        return self._read_events(text, **conditions.parameters, limit=limit)

    def search_words(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> list[Event]:
        conditions = self._make_conditions(scope)
        table, span_parameters = "event e", dict[str, Any]()
        if segments is not None:
            table, span_parameters = f"{_SPANS} JOIN event e ON {_INSIDE}", _make_spans(segments)
        for word in words:
            add_text_condition(conditions, word)
        text = f"""SELECT {_EVENT} FROM {table} WHERE {own("e")} AND {conditions.text}
                   ORDER BY e.ts DESC, e.event_id DESC LIMIT %(limit)s"""
        return self._read_events(text, **span_parameters, **conditions.parameters, limit=limit)

    def read_words(self, scope: Scope, words: Sequence[str]) -> WordReading:
        return _PlainReading(self, scope, words)

    def count_events(self, scope: Scope, windows: Sequence[TimeWindow]) -> list[int]:
        conditions = self._make_conditions(scope)
        starts, ends = ([getattr(window, name) for window in windows] for name in ("start_ms", "end_ms"))
        count = f"SELECT count(*) FROM event e WHERE {own('e')} AND {conditions.text} AND e.ts >= w.first AND e.ts < w.after"
        windows_table = "unnest(%(starts)s::bigint[], %(ends)s::bigint[]) WITH ORDINALITY w (first, after, position)"
        text = f"SELECT ({count}) FROM {windows_table} ORDER BY w.position"
        return [row[0] for row in self._con.rows(text, **conditions.parameters, starts=starts, ends=ends)]

    def rank_positions(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[EventPosition]]:
        conditions = self._make_conditions(scope)
        weight = sum_weights(conditions, probes)
        # Without the fences each probe would put the words together, and fold them, again.
        text = f"""SELECT stream, ts, event_id, ({weight}) / ln(20 + length(whole) / 10.0::float8) AS weight, count(*) OVER ()
                   FROM (SELECT *, {fold_case("whole")} AS folded FROM (
                     SELECT e.stream, e.ts, e.event_id, {EVENT_WORDS} AS whole FROM event e
                     WHERE {own("e")} AND {conditions.text} OFFSET 0
                   ) w OFFSET 0) f
                   ORDER BY weight DESC, ts DESC, event_id DESC LIMIT %(limit)s"""
        rows = self._con.rows(text, **conditions.parameters, limit=limit)
        places = [EventPosition(row[0], (row[1], event_id_from(row[2]))) for row in rows if row[3] > 0]
        return rows[0][4] if rows else 0, places

    def get_span(self, scope: Scope) -> TimeWindow | None:
        conditions = self._make_conditions(scope)
        query = f"SELECT e.ts FROM event e WHERE {own('e')} AND {conditions.text} ORDER BY e.ts {{0}}, e.event_id {{0}} LIMIT 1"
        row = self._con.row(f"SELECT ({query.format('ASC')}), ({query.format('DESC')})", **conditions.parameters)
        return None if row is None or row[0] is None else TimeWindow(row[0], row[1] + 1)

    def list_sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        conditions = self._make_conditions(scope)
        text = f"""SELECT e.session_id, e.project, max(e.agent COLLATE "C"), min(e.ts), max(e.ts), count(*)
                   FROM event e WHERE {own("e")} AND {conditions.text}
                   GROUP BY e.session_id, e.project ORDER BY max(e.ts) DESC, e.session_id COLLATE "C" LIMIT %(limit)s"""
        return sessions_of(self._con.rows(text, **conditions.parameters, limit=limit), self._projects.names)

    def list_speakers(self, scope: Scope) -> list[str]:
        conditions = self._make_conditions(scope)
        conditions.add_condition("e.speaker <> ''")
        text = f"SELECT DISTINCT e.speaker FROM event e WHERE {own('e')} AND {conditions.text}"
        return sorted(row[0] for row in self._con.rows(text, **conditions.parameters))

    def count_matches(self, begin: str, pattern: str) -> dict[str, int]:
        conditions = self._make_conditions(Scope())
        conditions.add_condition("(strpos(e.text, {}) > 0 OR strpos(e.metadata, {}) > 0)", begin, begin)
        text = f"""SELECT m.groups[1], count(*) FROM event e,
                     LATERAL regexp_matches(e.text || chr(10) || e.metadata, %(pattern)s, 'g') AS m(groups)
                   WHERE {own("e")} AND {conditions.text} GROUP BY 1"""
        return dict(sorted(self._con.rows(text, **conditions.parameters, pattern=pattern)))


def _read_stored(writer: Writer, events: Sequence[Event]) -> dict[EventId, StoredValue]:
    if not events:
        return {}
    return _index_contents(writer.rows(_STORED, keys=uuids_of(event_key(e.event_id) for e in events)))


def _index_contents(rows: Sequence[Row]) -> dict[EventId, StoredValue]:
    return {event_id_from(key): (content, session) for key, content, session in rows}


def _make_spans(segments: Sequence[Segment]) -> dict[str, list[Any]]:
    return {
        "keys": [s.key for s in segments],
        "streams": [s.stream for s in segments],
        "from_ts": [s.start[0] for s in segments],
        "from_ids": uuids_of(event_key(s.start[1]) for s in segments),
        "to_ts": [s.end[0] for s in segments],
        "to_ids": uuids_of(event_key(s.end[1]) for s in segments),
    }
