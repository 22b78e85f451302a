"""EventStore on DuckDB."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from memory_mcp.base.clock import Clock
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.change import Change, ChangeKind
from memory_mcp.model.event import HOOK, TOOL, Event, is_recap
from memory_mcp.model.ids import HASH_MASK, EventId, event_id_from, event_key
from memory_mcp.model.segment import Segment
from memory_mcp.storage.arrivals import ArrivalSorter, StoredValue, make_append_result, select_arrivals
from memory_mcp.storage.base import EventStore
from memory_mcp.storage.duckdb.conditions import make_case_pattern, make_conditions, make_where
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.deferred import EVENT_TYPES, DeferredWrite, DeferredWrites
from memory_mcp.storage.duckdb.duplicates import SHOWN, SHOWN_IN_SESSION, Duplicates, select_shown
from memory_mcp.storage.duckdb.keyed_file import KeyedFile
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.neighbours import fetch_neighbours, list_later_ids
from memory_mcp.storage.duckdb.outbox import Numbers, Requests, add_changes, insert_requests
from memory_mcp.storage.duckdb.projects import DuckProjects
from memory_mcp.storage.duckdb.recent import RecentArrivals, RecentGrips
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.duckdb.text_search import IN_SEGMENTS, DuckWordReading, list_spans, span_columns
from memory_mcp.storage.highwater import HighWater
from memory_mcp.storage.pairing import SUMMARY
from memory_mcp.storage.rows import EVENT, event_columns, event_of, sessions_of
from memory_mcp.storage.values import AppendResult, EventBatch, EventPosition, Scope, SessionInfo, StoredEvent, WriteRequest

#: An id begins with its time: whatever is stored at these times. The range lets the engine skip whole blocks of other times.
_AT = """SELECT event_id, content, session_id FROM event
WHERE event_id BETWEEN ?::HUGEINT AND ?::HUGEINT AND (event_id >> 80)::BIGINT IN (SELECT unnest(?::BIGINT[]))"""
_RECAPS = f"""SELECT {EVENT} FROM event
WHERE stream IN (SELECT unnest(?::BIGINT[])) AND type = 'note' AND contains(metadata, '{SUMMARY}"') AND {SHOWN}
ORDER BY ts, event_id"""
#: One stretch of a stream to its end, its times as constants: what lies before it is not looked at.
_TAIL = f"""SELECT seq, {EVENT} FROM event WHERE stream = ? AND ts >= ? AND (ts > ? OR event_id >= ?) ORDER BY seq"""
#: With more segments than this the reading is bulk work, and nothing of it is kept.
_LIVE = 8
#: Events of segments that are read from the keyed copy: a fifth to two thirds of the engine's time. Others wait for its lock.
_MOST_COPIED = 2_000
#: Events of a write that is logged; more are stored at once.
_MOST_DEFERRED = 50
#: Events whose texts are read at once: 48,000 take 60 ms, and in eight slices of time 45 each, since a slice skips no column.
_READ_AT_ONCE = 60_000
#: Times in ids bound what of the pairs is looked at.
_SHOWN_IN = "AND e.event_id NOT IN (SELECT d.event_id FROM duplicate d WHERE d.event_id BETWEEN ? AND ?)"
_OUTDONE_IN = """AND e.event_id IN (SELECT d.event_id FROM duplicate d, event o
                                   WHERE d.event_id = e.event_id AND o.event_id = d.canonical AND o.seq > e.seq)"""


class DuckEvents(EventStore):
    """Layer 0 in the DuckDB file; the latest events are kept in memory."""

    def __init__(
        self,
        con: Connection,
        numbers: Numbers,
        clock: Clock,
        mark: HighWater,
        quoted: RecentGrips,
        projects: DuckProjects,
        keyed: KeyedRows,
    ) -> None:
        self._con, self._numbers, self._mark, self._quoted = con, numbers, mark, quoted
        #: What takes writes for which nothing has to be read; None in memory, and until what it has from before is stored.
        self.deferred: DeferredWrites | None = None
        self._requests, self._arrivals = Requests(con, clock), RecentArrivals()
        self._keyed, self._projects = keyed, projects
        self._pairs = Duplicates(con, numbers, keyed)
        self._recent = keyed.recent_events
        self._arrivals.begin(numbers.newest)

    def append(self, events: Sequence[Event], request: WriteRequest | None = None) -> AppendResult:
        """Log events that are surely new; store others, looking up only ids that are not above all others.

        The mark next to the store is written after that, without a sync.
        """
        if (logged := self._defer_write(events, request)) is not None and self.deferred:
            self.deferred.await_sync(logged)
            failpoint("events.committed")
            self._mark.write_mark()
            return make_append_result(events, (), set())
        with self._con.begin_transaction() as con:
            replay = self._requests.find_answer(con, request) if request else None
            if replay is not None:
                return AppendResult((), (), replay)
            # An id begins with its time: most events that come alone are later than all before, so nothing need be looked up.
            newest = self._numbers.newest
            stored = _read_stored(con, [e for e in events if event_key(e.event_id) <= newest])
            fresh, known_ids = ArrivalSorter(stored, lambda variants: _read_stored(con, variants)).sort_events(events)
            copies = self._insert_events(con, fresh, stored) if fresh else set[EventId]()
            if request:
                insert_requests(con, [self._requests.make_row(request, [e.event_id for e in fresh])])
            failpoint("events.before_commit")
        failpoint("events.committed")
        if fresh:
            self._mark.write_mark()
        return make_append_result(fresh, known_ids, copies)

    def append_batches(self, batches: Sequence[EventBatch]) -> list[AppendResult]:
        """Append each batch in its own transaction."""
        return [self.append(batch.events, batch.request) for batch in batches]

    def _defer_write(self, events: Sequence[Event], request: WriteRequest | None) -> int | None:
        """Log a write for which nothing has to be read; return its number, None if that was not done."""
        deferred = self.deferred
        if deferred is None or not 0 < len(events) <= _MOST_DEFERRED:
            return None
        with self._con.hold_for_log() as may_defer:
            if not may_defer or (request and self._requests.may_hold(request)) or self._pairs.may_pair(events):
                return None
            first = self._numbers.last_event + 1
            columns = event_columns(events, first)
            if not self._arrivals.are_new(columns[1], columns[14]):
                return None
            change = Change(self._numbers.last_change + 1, ChangeKind.EVENTS_APPENDED, str(first + len(events) - 1))
            failpoint("events.before_commit")
            request_row = self._requests.make_row(request, [e.event_id for e in events]) if request else None
            if (number := deferred.add_write(DeferredWrite(columns, change, request_row))) is None:
                return None
            self._numbers.last_event, self._numbers.last_change = first + len(events) - 1, change.seq
            self._numbers.changes.add_changes([change])
            self._pairs.note_events(events)
            self._note_stored(events, columns, self._quoted.writes)
            self._numbers.publish()
            self._con.commits += 1
        if deferred.is_full:
            with self._con.hold_writes():
                pass
        return number

    def _insert_events(self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event], stored: Iterable[EventId]) -> set[EventId]:
        """Number and store new events; return ids that repeat others.

        Inside the caller's transaction, with their pairs and one outbox entry; `stored` are the ids at their times. What is in
        memory follows once it is committed.
        """
        first = self._numbers.last_event + 1
        self._numbers.last_event += len(fresh)
        columns = event_columns(fresh, first)
        insert_columns(con, "event", EVENT_TYPES, columns)
        copies = self._pairs.store_pairs(con, fresh, {event_key(i) >> 80 for i in stored})
        add_changes(con, self._numbers, [(ChangeKind.EVENTS_APPENDED, str(first + len(fresh) - 1))])
        write_count = self._quoted.writes
        self._numbers.once_committed(lambda: self._note_stored(fresh, columns, write_count))
        return copies

    def _note_stored(self, events: Sequence[Event], columns: Sequence[list[Any]], write_count: int) -> None:
        """Take stored events into the mark and into what is kept in memory; none has grips."""
        self._numbers.newest = max(self._numbers.newest, *columns[1])
        self._mark.add_events(columns[0][-1], columns[1], columns[14], columns[12], columns[2])
        self._recent.add_events(columns[0][0], self._projects.take(events))
        self._arrivals.add_events(columns[1], columns[14])
        self._quoted.keep_grips(dict.fromkeys((e.event_id for e in events), ()), write_count)

    def _parse_event(self, row: Row) -> Event:
        event = event_of(row)
        return event.with_display_project(self._projects.names.display_name(event.project, event.session_id))

    def drop_recent(self) -> None:
        """Drop the events kept in memory: numbers or names may have changed."""
        self._recent.drop_all()
        self._pairs.drop_beginnings()

    def drop_memory(self) -> None:
        """Drop whatever is kept in memory of the store; under the write lock."""
        self.drop_recent()
        self._requests.drop()
        self._arrivals.begin(self._numbers.newest)

    def find_event(self, event_id: EventId) -> Event | None:
        return self.get_events([event_id]).get(event_id_from(event_key(event_id)))

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        requested_ids, drop_count = set(ids), self._recent.drops
        events = self._recent.find_events(requested_ids)
        if keys := list({event_key(i) for i in requested_ids if i not in events}):
            rows, missing = self._keyed.read_events(keys)
            if missing:
                sql = f"SELECT {EVENT} FROM event WHERE event_id IN (SELECT unnest(?::HUGEINT[]))"
                rows = rows + self._con.fetch_rows(sql, [list(missing)])
            read = {e.event_id: e for e in map(self._parse_event, rows)}
            self._recent.keep_read(read, drop_count)
            events |= read
        return events

    def find_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        sql = "SELECT event_id FROM event WHERE (event_id & ?::HUGEINT) IN (SELECT unnest(?::HUGEINT[]))"
        rows = self._con.fetch_rows(sql, [HASH_MASK, list(tails)])
        return {row[0] & HASH_MASK: event_id_from(row[0]) for row in rows}

    def read_after(self, seq: int, limit: int) -> list[StoredEvent]:
        if seq >= self._numbers.committed_event:
            return []
        recent = self._recent.read_after(seq, limit)
        if recent is not None:
            return recent
        sql = f"SELECT seq, {EVENT} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
        return [StoredEvent(row[0], self._parse_event(row[1:])) for row in self._con.fetch_rows(sql, [seq, seq + limit])]

    def list_arrivals(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        """Return arrivals; text other than ASCII counts as holding a probe, since the engine may fold it in another way."""
        # What is being stored is numbered already.
        if (to := min(to, self._numbers.committed_event)) <= after:
            return []
        if recent := self._recent.list_arrived(after, to):
            earlier = self.list_arrivals(after, recent[0].seq - 1, scope, probes, live) if recent[0].seq > after + 1 else []
            events = [s.event for s in recent if not live or s.event.source == TOOL or s.event.source.startswith(HOOK)]
            return earlier + select_arrivals(events, scope, probes, self._pairs.find_pairs)
        where, parameters = self._make_conditions(scope, None)
        if live:
            where.append("(source = ? OR starts_with(source, ?))")
            parameters += [TOOL, HOOK]
        if probes:
            where.append(f"(strlen(folded) <> length(folded) OR {' OR '.join(['contains(folded, ?)'] * len(probes))})")
            parameters += probes
        sql = f"""SELECT {EVENT} FROM (
                    SELECT seq, {EVENT}, lower(concat_ws(' ', speaker, text, metadata)) AS folded
                    FROM event WHERE seq > ? AND seq <= ?) {make_where(where)} ORDER BY seq"""
        return [self._parse_event(row) for row in self._con.fetch_rows(sql, [after, to, *parameters])]

    def last_seq(self) -> int:
        return self._numbers.last_event

    def find_duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        return self._pairs.find_pairs(ids)

    def events_by_segment(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        """Return events; hidden ones whose shown other was stored later come first."""
        events: dict[int, list[Event]] = {}
        for segment in segments if len(segments) <= _LIVE else ():
            if recent := self._recent_segment(segment, last_seq):
                events[segment.key] = recent
        remaining = [s for s in segments if s.key not in events]
        if remaining and last_seq is None and sum(s.events for s in remaining) <= _MOST_COPIED:
            for segment, rows in zip(remaining, self._keyed.read_spans(list_spans(remaining)) or (), strict=False):
                events |= {segment.key: list(map(self._parse_event, rows))} if rows else {}
            remaining = [s for s in remaining if s.key not in events]
        if not remaining:
            return events
        if not self._pairs.any:
            return events | self._read_segments(remaining, last_seq, "", [])
        ends = [event_key(event_id) for s in remaining for _, event_id in (s.start, s.end)]
        events |= self._read_segments(remaining, last_seq, _SHOWN_IN, [min(ends), max(ends)])
        # Copies may also be hidden by what was stored before them.
        for condition in (_OUTDONE_IN, ""):
            if empty := [s for s in remaining if s.key not in events]:
                events |= self._read_segments(empty, last_seq, condition, [])
        return events

    def _recent_segment(self, segment: Segment, last_seq: int | None) -> list[Event]:
        """Return a growing segment's shown events from memory, or [].

        The stream's end is read from the file once if it is not in memory and the segment is open.
        """
        recent = self._recent.segment_events(segment, last_seq)
        if recent is None and segment.open:
            last_seen = self._numbers.committed_event
            start = (segment.start[0], segment.start[0], event_key(segment.start[1]))
            rows = self._con.fetch_rows(_TAIL, [segment.stream, *start])
            self._recent.keep_stream_end(
                segment.stream, segment.start, [StoredEvent(row[0], self._parse_event(row[1:])) for row in rows], last_seen
            )
            recent = self._recent.segment_events(segment, last_seq)
        hidden = self._pairs.find_pairs(e.event_id for e in recent) if recent else {}
        return [e for e in recent or () if e.event_id not in hidden]

    def _read_segments(
        self, segments: Sequence[Segment], last_seq: int | None, condition: str, bounds: Sequence[int]
    ) -> dict[int, list[Event]]:
        parameters: list[Any] = [[s.key for s in segments], *span_columns(segments), *(last_seq, last_seq), *bounds]
        events: dict[int, list[Event]] = {}
        for row in self._con.fetch_rows(IN_SEGMENTS.format(which=condition), parameters):
            events.setdefault(row[0], []).append(self._parse_event(row[1:]))
        return events

    def list_recaps(self, streams: Iterable[int]) -> list[Event]:
        return list(filter(is_recap, map(self._parse_event, self._con.fetch_rows(_RECAPS, [list(streams)]))))

    def get_neighbours(self, event: Event, earlier_limit: int, later_limit: int) -> tuple[list[Event], list[Event]]:
        recent = None if earlier_limit else self._recent.list_later(event.stream, event.order, later_limit)
        if recent is not None and not self._pairs.find_pairs([event.event_id, *(later.event_id for later in recent)]):
            return [], recent
        key = event_key(event.event_id)
        position = (event.timestamp, key)

        def select_rows(file: KeyedFile, rows: list[Row]) -> list[Row] | None:
            return select_shown(file, rows, key, event.session_id) if self._pairs.any else rows

        rows = self._keyed.read_neighbours(event.stream, position, (earlier_limit, later_limit), select_rows)
        if rows is not None:
            return [self._parse_event(row) for row in reversed(rows[0])], [self._parse_event(row) for row in rows[1]]
        earlier, later = fetch_neighbours(self._con, event, (earlier_limit, later_limit), self._pairs.any)
        return [self._parse_event(row) for row in reversed(earlier)], [self._parse_event(row) for row in later]

    def list_followers(self, events: Sequence[Event], limit: int) -> list[list[Event]]:
        if len(events) <= _LIVE:
            return super().list_followers(events, limit)
        later_ids = list_later_ids(self._con, events, limit)
        ids = {i for several in later_ids for i in several}
        pairs = self._pairs.find_pairs(ids.union(e.event_id for e in events))
        paired = {*pairs, *pairs.values()}
        stored = self.get_events(ids - paired)
        return [
            [stored[i] for i in several if i in stored]
            if paired.isdisjoint((event.event_id, *several))
            else self.get_neighbours(event, 0, limit)[1]
            for event, several in zip(events, later_ids, strict=True)
        ]

    def list_events(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        where, parameters = self._make_conditions(scope, session_id)
        if after:
            where.append("(ts > ? OR (ts = ? AND event_id > ?))")
            parameters += [after[0], after[0], event_key(after[1])]
        sql = f"SELECT {EVENT} FROM event {make_where(where)} ORDER BY ts, event_id LIMIT ?"
        return [self._parse_event(row) for row in self._con.fetch_rows(sql, [*parameters, limit])]

    def search_words(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> list[Event]:
        return self.read_words(scope, words).list_newest(limit, segments)

    def read_words(self, scope: Scope, words: Sequence[str]) -> DuckWordReading:
        is_small, conditions = self._numbers.committed_event <= _READ_AT_ONCE, self._make_conditions(scope, None)
        names = self._projects.names
        return DuckWordReading(self._con, self._keyed, scope, names, words, conditions, self._parse_event, is_small)

    def count_events(self, scope: Scope, windows: Sequence[TimeWindow]) -> list[int]:
        where, parameters = self._make_conditions(scope, None)
        counts = ", ".join(["count(*) FILTER (WHERE ts >= ? AND ts < ?)"] * len(windows))
        bounds = [time for window in windows for time in (window.start_ms, window.end_ms)]
        sql = f"SELECT {counts} FROM event {make_where(where)}"
        return list(self._con.fetch_rows(sql, [*bounds, *parameters])[0]) if windows else []

    def rank_positions(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[EventPosition]]:
        """Rank by speaker, text and metadata; events without a probe are left out."""
        where, parameters = self._make_conditions(scope, None)
        weight_sum = " + ".join(["? * regexp_matches(whole, ?)::INTEGER"] * len(probes)) or "0"
        weights = [part for text, weight in probes.items() for part in (weight, make_case_pattern(text))]
        sql = f"""SELECT stream, ts, event_id, ({weight_sum}) / ln(20 + length(whole) / 10.0) AS weight, count(*) OVER () FROM (
                    SELECT stream, ts, event_id, concat_ws(' ', speaker, text, metadata) AS whole
                    FROM event {make_where(where)})
                  ORDER BY weight DESC, ts DESC, event_id DESC LIMIT ?"""
        rows = self._con.fetch_rows(sql, [*weights, *parameters, limit])
        places = [EventPosition(row[0], (row[1], event_id_from(row[2]))) for row in rows if row[3] > 0]
        return rows[0][4] if rows else 0, places

    def get_span(self, scope: Scope) -> TimeWindow | None:
        where, parameters = self._make_conditions(scope, None)
        first, last = self._con.fetch_rows(f"SELECT min(ts), max(ts) FROM event {make_where(where)}", parameters)[0]
        return None if first is None else TimeWindow(first, last + 1)

    def list_sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        where, parameters = self._make_conditions(scope, None)
        sql = f"""SELECT session_id, project, max(agent), min(ts), max(ts), count(*) FROM event {make_where(where)}
                  GROUP BY session_id, project ORDER BY max(ts) DESC, session_id LIMIT ?"""
        return sessions_of(self._con.fetch_rows(sql, [*parameters, limit]), self._projects.names)

    def list_speakers(self, scope: Scope) -> list[str]:
        where, parameters = self._make_conditions(scope, None)
        sql = f"SELECT DISTINCT speaker FROM event {make_where([*where, 'speaker <> ?'])} ORDER BY speaker"
        return [row[0] for row in self._con.fetch_rows(sql, [*parameters, ""])]

    def count_matches(self, begin: str, pattern: str) -> dict[str, int]:
        where, parameters = self._make_conditions(Scope(), None)
        condition = make_where([*where, "(contains(text, ?) OR contains(metadata, ?))"])
        sql = f"""SELECT mark, count(*) FROM (
                    SELECT unnest(regexp_extract_all(text || chr(10) || metadata, ?, 1)) AS mark FROM event {condition})
                  GROUP BY mark ORDER BY mark"""
        return {row[0]: row[1] for row in self._con.fetch_rows(sql, [pattern, *parameters, begin, begin])}

    def _make_conditions(self, scope: Scope, session_id: str | None) -> tuple[list[str], list[Any]]:
        where, parameters = make_conditions(scope, session_id, self._projects.names)
        if not self._pairs.any:
            return where, parameters
        return ([SHOWN, *where], parameters) if session_id is None else ([SHOWN_IN_SESSION, *where], [session_id, *parameters])


def _read_stored(con: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> dict[EventId, StoredValue]:
    """Return text and session of events stored at these times, by id."""
    if not events:
        return {}
    times = sorted({event_key(e.event_id) >> 80 for e in events})
    rows = con.execute(_AT, [times[0] << 80, (times[-1] + 1 << 80) - 1, times]).fetchall() if times else []
    return {event_id_from(key): (content, session) for key, content, session in rows}
