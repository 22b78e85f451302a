"""EventStore on DuckDB."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb

from memory_mcp.base.clock import Clock
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.event import HOOK, TOOL, Event, is_recap
from memory_mcp.model.ids import HASH_MASK, EventId, event_id_from, event_key
from memory_mcp.model.segment import Segment
from memory_mcp.storage.arriving import ArrivalSorter, StoredValue, make_append_result
from memory_mcp.storage.duckdb.conditions import all_of, conditions_of, either_case, held
from memory_mcp.storage.duckdb.connection import Connection, Row, insert
from memory_mcp.storage.duckdb.duplicates import SHOWN, SHOWN_IN_SESSION, Duplicates
from memory_mcp.storage.duckdb.outbox import Numbers, add_changes, forget_old_requests
from memory_mcp.storage.duckdb.projects import DuckProjects
from memory_mcp.storage.duckdb.recent import RecentEvents, RecentGrips
from memory_mcp.storage.highwater import HighWater
from memory_mcp.storage.pairing import SUMMARY
from memory_mcp.storage.records import REQUEST_KEPT_MS
from memory_mcp.storage.rows import EVENT, event_columns, event_of, sessions_of
from memory_mcp.storage.values import AppendResult, EventBatch, EventPosition, Scope, SessionInfo, StoredEvent, WriteRequest

EVENT_TYPES = ("BIGINT", "HUGEINT", "BIGINT", "BIGINT", *["VARCHAR"] * 10, "BIGINT", "VARCHAR", "VARCHAR")
#: An id begins with its time: whatever is stored at these times, so that copies need no query of their own.
#: The range lets the engine skip whole blocks of other times.
_AT = """SELECT event_id, content, session_id FROM event
WHERE event_id BETWEEN ?::HUGEINT AND ?::HUGEINT AND (event_id >> 80)::BIGINT IN (SELECT unnest(?::BIGINT[]))"""
#: Parameters: see `_spans`.
_SPANS = """unnest(?::BIGINT[]) AS own, unnest(?::BIGINT[]) AS from_ts, unnest(?::HUGEINT[]) AS from_id,
             unnest(?::BIGINT[]) AS to_ts, unnest(?::HUGEINT[]) AS to_id"""
_INSIDE = """(e.ts > s.from_ts OR (e.ts = s.from_ts AND e.event_id >= s.from_id))
  AND (e.ts < s.to_ts OR (e.ts = s.to_ts AND e.event_id <= s.to_id))"""
_WITHIN = f"(SELECT {_SPANS}) s JOIN event e ON e.stream = s.own AND {_INSIDE}"
_IN_SEGMENTS = f"""
SELECT s.key, {", ".join("e." + c for c in EVENT.split(", "))}
FROM (SELECT unnest(?::BIGINT[]) AS key, {_SPANS}) s
JOIN event e ON e.stream = s.own
WHERE {_INSIDE}
  AND (? IS NULL OR e.seq <= ?) {{which}}
ORDER BY s.key, e.ts, e.event_id"""
_RECAPS = f"""SELECT {EVENT} FROM event
WHERE stream IN (SELECT unnest(?::BIGINT[])) AND type = 'note' AND contains(metadata, '{SUMMARY}"') AND {SHOWN}
ORDER BY ts, event_id"""
#: One stretch of a stream to its end, its times as constants: what lies before it is not looked at.
_TAIL = f"""SELECT seq, {EVENT} FROM event WHERE stream = ? AND ts >= ? AND (ts > ? OR event_id >= ?) ORDER BY seq"""
#: With more segments than this the reading is bulk work, and nothing of it is kept.
_LIVE = 8
#: Answers to re-sent writes that are too old are removed this often (milliseconds).
_FORGET_MS = 600_000
#: Times in ids bound what of the pairs is looked at.
_SHOWN_IN = "AND e.event_id NOT IN (SELECT d.event_id FROM duplicate d WHERE d.event_id BETWEEN ? AND ?)"
_OUTDONE_IN = """AND e.event_id IN (SELECT d.event_id FROM duplicate d, event o
                                   WHERE d.event_id = e.event_id AND o.event_id = d.canonical AND o.seq > e.seq)"""
_BEFORE = f"""
SELECT {EVENT} FROM event WHERE stream = ? AND (ts < ? OR (ts = ? AND event_id < ?)) {{which}}
ORDER BY ts DESC, event_id DESC LIMIT ?"""
_AFTER = f"""
SELECT {EVENT} FROM event WHERE stream = ? AND (ts > ? OR (ts = ? AND event_id > ?)) {{which}}
ORDER BY ts, event_id LIMIT ?"""


class DuckEvents:
    """Layer 0 in the DuckDB file, an `EventStore`; the latest events are kept in memory."""

    def __init__(
        self, con: Connection, numbers: Numbers, clock: Clock, mark: HighWater, quoted: RecentGrips, projects: DuckProjects
    ) -> None:
        """Read whether there is any pair; the other parts are those of the whole store, kept up to date here."""
        self._con = con
        self._projects = projects
        self._numbers = numbers
        self._clock = clock
        self._mark = mark
        self._pairs = Duplicates(con)
        self._recent = RecentEvents()
        self._quoted = quoted
        self._forgot_ms = 0

    def append(self, events: Sequence[Event], request: WriteRequest | None = None) -> AppendResult:
        """Store the events that are new, in one transaction; return the ids of these and of those stored before.

        A `request` answered within the last hour stores nothing and gets that answer. The mark beside the store is
        written after the commit, without a sync. Events whose ids are above all stored ids are taken as new without a
        look-up.
        """
        with self._con.writing() as con:
            replay = self._replay(con, request)
            if replay is not None:
                return AppendResult((), (), replay)
            # An id begins with its time: most events that come alone are later than all before, so nothing need be looked up.
            newest = self._numbers.newest
            stored = _stored(con, [e for e in events if event_key(e.event_id) <= newest])
            fresh, known = ArrivalSorter(stored, lambda variants: _stored(con, variants)).sort_events(events)
            copies = self._insert(con, fresh, stored) if fresh else set[EventId]()
            if request:
                answer = request.answer or " ".join(e.event_id for e in fresh)
                con.execute("INSERT INTO request VALUES (?, ?, ?)", [request.key, answer, self._clock.now_ms()])
            failpoint("events.before_commit")
        failpoint("events.committed")
        if fresh:
            self._mark.write_mark()
        return make_append_result(fresh, known, copies)

    def append_batches(self, batches: Sequence[EventBatch]) -> list[AppendResult]:
        """Append each batch in turn, in a transaction of its own (an error leaves earlier ones stored); return all results."""
        return [self.append(batch.events, batch.request) for batch in batches]

    def _insert(self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event], stored: Iterable[EventId]) -> set[EventId]:
        """Number and store new events, their pairs and one outbox entry, inside the caller's transaction.

        `stored` are the ids at their times. Return the ids of those that say again what another session holds.

        Mark, recent events and empty grips in memory follow once it is committed.
        """
        first = self._numbers.last_event + 1
        self._numbers.last_event += len(fresh)
        columns = event_columns(fresh, first)
        insert(con, "event", EVENT_TYPES, columns)
        copies = self._pairs.decide(con, fresh, {event_key(i) >> 80 for i in stored})
        add_changes(con, self._numbers, [(ChangeKind.EVENTS_APPENDED, str(first + len(fresh) - 1))])
        self._numbers.newest = max(self._numbers.newest, *columns[1])
        seen = self._quoted.writes

        def settle() -> None:
            """Add the new events to the mark, to the recent events and, as not quoted yet, to the recent grips."""
            self._mark.add_events(columns[0][-1], columns[1], columns[14], columns[12], columns[2])
            self._recent.add(first, self._projects.take(fresh))
            self._quoted.keep(dict.fromkeys((e.event_id for e in fresh), ()), seen)

        self._numbers.once_committed(settle)
        return copies

    def _replay(self, con: duckdb.DuckDBPyConnection, request: WriteRequest | None) -> str | None:
        """Return the answer that the request was given within the last hour; None where there is none, or no request.

        At most every ten minutes, too old answers are removed, inside the caller's transaction.
        """
        if request is None:
            return None
        now = self._clock.now_ms()
        if abs(now - self._forgot_ms) > _FORGET_MS:
            forget_old_requests(con, now)
            self._forgot_ms = now
        sql = "SELECT answer FROM request WHERE key = ? AND at_ms >= ?"
        found = con.execute(sql, [request.key, now - REQUEST_KEPT_MS]).fetchall()
        return str(found[0][0]) if found else None

    def _event(self, row: Row) -> Event:
        """Return the event of a row of `EVENT` columns, with the name that its project has now."""
        event = event_of(row)
        return event.with_display_project(self._projects.names.display_name(event.project, event.session_id))

    def reread(self) -> None:
        """Drop the events that are kept in memory, as numbers or names may be others now."""
        self._recent.forget()

    def find_event(self, event_id: EventId) -> Event | None:
        """Return the event of this id, shown or not, with its project's present name; None for an unknown id."""
        if recent := self._recent.get(event_id):
            return recent
        row = self._con.row(f"SELECT {EVENT} FROM event WHERE event_id = ?", [event_key(event_id)])
        return self._event(row) if row else None

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        """Return those of `ids` that are stored, shown or not, by id, with their projects' present names; others are left out."""
        wanted = set(ids)
        found = {i: event for i in wanted if (event := self._recent.get(i)) is not None}
        if keys := list({event_key(i) for i in wanted if i not in found}):
            rows = self._con.rows(f"SELECT {EVENT} FROM event WHERE event_id IN (SELECT unnest(?::HUGEINT[]))", [keys])
            found |= {e.event_id: e for e in map(self._event, rows)}
        return found

    def find_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        """Return the stored ids whose lower 80 bits (a hash of the event's source) are among `tails`, by these bits."""
        sql = "SELECT event_id FROM event WHERE (event_id & ?::HUGEINT) IN (SELECT unnest(?::HUGEINT[]))"
        rows = self._con.rows(sql, [HASH_MASK, list(tails)])
        return {row[0] & HASH_MASK: event_id_from(row[0]) for row in rows}

    def read_after(self, seq: int, limit: int) -> list[StoredEvent]:
        """Return the committed events, shown or not, numbered from `seq` + 1 to `seq` + `limit`, in order; [] for none."""
        if seq >= self._numbers.committed_event:
            return []
        found = self._recent.after(seq, limit)
        if found is not None:
            return found
        sql = f"SELECT seq, {EVENT} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
        return [StoredEvent(row[0], self._event(row[1:])) for row in self._con.rows(sql, [seq, seq + limit])]

    def list_arrivals(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        """Return, in order of arrival, the shown events of a scope numbered above `after` up to `to` that may hold a probe.

        Probes, in lower case, are looked for in speaker, text and metadata; without any, all such events are returned.
        What is not ASCII may be folded in ways that the engine does not know, so every such event is taken to hold a
        probe. With `live` only events of hooks and tools.
        """
        where, parameters = self._conditions(scope, None)
        if live:
            where.append("(source = ? OR starts_with(source, ?))")
            parameters += [TOOL, HOOK]
        if probes:
            holds = " OR ".join(["contains(folded, ?)"] * len(probes))
            where.append(f"(strlen(folded) <> length(folded) OR {holds})")
            parameters += probes
        sql = f"""SELECT {EVENT} FROM (
                    SELECT seq, {EVENT}, lower(concat_ws(' ', speaker, text, metadata)) AS folded FROM event
                    WHERE seq > ? AND seq <= ?)
                  {all_of(where)} ORDER BY seq"""
        return [self._event(row) for row in self._con.rows(sql, [after, to, *parameters])]

    def last_seq(self) -> int:
        """Return the highest number of arrival that was given out, from memory; 0 in an empty store."""
        return self._numbers.last_event

    def find_duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Return the pairs in which one of `ids` takes part: by the id of the event that is not shown the one that is."""
        return self._pairs.of(ids)

    def segment_events(self, segment: Segment) -> list[Event]:
        """Return the events of a segment in order: the shown ones, else hidden ones as `in_segments` does; [] for none."""
        return self.events_by_segment([segment]).get(segment.key, [])

    def events_by_segment(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        """Return by segment key its events in order, numbered up to `last_seq` (None: all); segments without any are left out.

        Where none is shown, the hidden ones whose shown other was stored later, else all.
        """
        found: dict[int, list[Event]] = {}
        for segment in segments if len(segments) <= _LIVE else ():
            if own := self._live(segment, last_seq):
                found[segment.key] = own
        rest = [s for s in segments if s.key not in found]
        if not rest:
            return found
        if not self._pairs.any:
            return found | self._in_segments(rest, last_seq, "", [])
        ends = [event_key(event_id) for s in rest for _, event_id in (s.start, s.end)]
        found |= self._in_segments(rest, last_seq, _SHOWN_IN, [min(ends), max(ends)])
        # Copies may also be hidden by what was stored before them.
        for which in (_OUTDONE_IN, ""):
            if empty := [s for s in rest if s.key not in found]:
                found |= self._in_segments(empty, last_seq, which, [])
        return found

    def _live(self, segment: Segment, last_seq: int | None) -> list[Event]:
        """Return the shown events of a segment that is being written, from memory; [] when the file has to be asked.

        The stream's end is read from the file once if it is not in memory and the segment is open.
        """
        inside = self._recent.inside(segment, last_seq)
        if inside is None and segment.open:
            seen = self._numbers.committed_event
            start = (segment.start[0], segment.start[0], event_key(segment.start[1]))
            rows = self._con.rows(_TAIL, [segment.stream, *start])
            self._recent.keep(segment.stream, segment.start, [StoredEvent(row[0], self._event(row[1:])) for row in rows], seen)
            inside = self._recent.inside(segment, last_seq)
        hidden = self._pairs.of(e.event_id for e in inside) if inside else {}
        return [e for e in inside or () if e.event_id not in hidden]

    def _in_segments(
        self, segments: Sequence[Segment], last_seq: int | None, which: str, bounds: Sequence[int]
    ) -> dict[int, list[Event]]:
        """Return the events of segments by key, in order of time, under the condition `which` with parameters `bounds`."""
        parameters: list[Any] = [[s.key for s in segments], *_spans(segments), *(last_seq, last_seq), *bounds]
        found: dict[int, list[Event]] = {}
        for row in self._con.rows(_IN_SEGMENTS.format(which=which), parameters):
            found.setdefault(row[0], []).append(self._event(row[1:]))
        return found

    def list_recaps(self, streams: Iterable[int]) -> list[Event]:
        """Return every shown recap (a client's summary of its conversation) of these streams, in order of time."""
        return list(filter(is_recap, map(self._event, self._con.rows(_RECAPS, [list(streams)]))))

    def get_neighbours(self, event: Event, before: int, after: int) -> tuple[list[Event], list[Event]]:
        """Return up to `before` earlier and `after` later shown events of an event's session, project, thread, in order."""
        own = event_key(event.event_id)
        at: list[Any] = [event.stream, event.timestamp, event.timestamp, own]
        which = ""
        if self._pairs.any:
            # What is shown in the place of a hidden event is no neighbour of it.
            which = f"AND {SHOWN_IN_SESSION} AND event_id NOT IN (SELECT canonical FROM duplicate WHERE event_id = ?)"
            at += [event.session_id, own]
        earlier = self._con.rows(_BEFORE.format(which=which), [*at, before]) if before else []
        later = self._con.rows(_AFTER.format(which=which), [*at, after]) if after else []
        return [self._event(row) for row in reversed(earlier)], [self._event(row) for row in later]

    def list_events(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        """Return up to `limit` shown events of a scope (of one session, if named) behind order `after`, by (timestamp, id)."""
        where, parameters = self._conditions(scope, session_id)
        if after:
            where.append("(ts > ? OR (ts = ? AND event_id > ?))")
            parameters += [after[0], after[0], event_key(after[1])]
        sql = f"SELECT {EVENT} FROM event {all_of(where)} ORDER BY ts, event_id LIMIT ?"
        return [self._event(row) for row in self._con.rows(sql, [*parameters, limit])]

    def search_words(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> tuple[int, list[Event]]:
        """Return how many events of a scope are shown, and up to `limit` of them that hold every one of `words`, newest first.

        Words are looked for in texts alone, whatever their case. With `segments` only their events are looked at, and
        the number is the sum of their counts, read from nothing.
        """
        where, parameters = self._conditions(scope, None)
        table, within = "event", list[Any]()
        if segments is None:
            (count,) = self._con.rows(f"SELECT count(*) FROM event {all_of(where)}", parameters)[0]
        else:
            count, table, within = sum(s.events for s in segments), _WITHIN, _spans(segments)
        for word in words:
            condition, pattern = held(word)
            where.append(condition)
            parameters.append(pattern)
        sql = f"SELECT {EVENT} FROM {table} {all_of(where)} ORDER BY ts DESC, event_id DESC LIMIT ?"
        return count, [self._event(row) for row in self._con.rows(sql, [*within, *parameters, limit])]

    def rank_positions(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[EventPosition]]:
        """Return how many events of a scope are shown, and the places of up to `limit` that hold most of some texts, best first.

        By the weights of the probes in speaker, text or metadata, over the length's logarithm; events without any are left
        out. The number is 0 with a `limit` of 0.
        """
        where, parameters = self._conditions(scope, None)
        held = " + ".join(["? * regexp_matches(whole, ?)::INTEGER"] * len(probes)) or "0"
        weighed = [part for text, weight in probes.items() for part in (weight, either_case(text))]
        sql = f"""SELECT stream, ts, event_id, ({held}) / ln(20 + length(whole) / 10.0) AS weight, count(*) OVER () FROM (
                    SELECT stream, ts, event_id, concat_ws(' ', speaker, text, metadata) AS whole
                    FROM event {all_of(where)})
                  ORDER BY weight DESC, ts DESC, event_id DESC LIMIT ?"""
        rows = self._con.rows(sql, [*weighed, *parameters, limit])
        places = [EventPosition(row[0], (row[1], event_id_from(row[2]))) for row in rows if row[3] > 0]
        return rows[0][4] if rows else 0, places

    def get_span(self, scope: Scope) -> TimeWindow | None:
        """Return the time from the first to the last shown event of a scope (end excluded); None where there is none."""
        where, parameters = self._conditions(scope, None)
        first, last = self._con.rows(f"SELECT min(ts), max(ts) FROM event {all_of(where)}", parameters)[0]
        return None if first is None else TimeWindow(first, last + 1)

    def list_sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        """Return up to `limit` sessions of a scope that have shown events, the latest first; counts are within the scope."""
        where, parameters = self._conditions(scope, None)
        sql = f"""SELECT session_id, project, max(agent), min(ts), max(ts), count(*) FROM event {all_of(where)}
                  GROUP BY session_id, project ORDER BY max(ts) DESC, session_id LIMIT ?"""
        return sessions_of(self._con.rows(sql, [*parameters, limit]), self._projects.names)

    def list_speakers(self, scope: Scope) -> list[str]:
        """Return the names of those who said the shown events of a scope, as recorded, in alphabetical order, without ""."""
        where, parameters = self._conditions(scope, None)
        sql = f"SELECT DISTINCT speaker FROM event {all_of([*where, 'speaker <> ?'])} ORDER BY speaker"
        return [row[0] for row in self._con.rows(sql, [*parameters, ""])]

    def count_matches(self, begin: str, pattern: str) -> dict[str, int]:
        """Return how often texts and metadata of shown events with `begin` in them match `pattern`, by what its group matches."""
        where, parameters = self._conditions(Scope(), None)
        held = all_of([*where, "(contains(text, ?) OR contains(metadata, ?))"])
        sql = f"""SELECT mark, count(*) FROM (
                    SELECT unnest(regexp_extract_all(text || chr(10) || metadata, ?, 1)) AS mark FROM event {held})
                  GROUP BY mark ORDER BY mark"""
        return {row[0]: row[1] for row in self._con.rows(sql, [pattern, *parameters, begin, begin])}

    def _conditions(self, scope: Scope, session_id: str | None) -> tuple[list[str], list[Any]]:
        """Return conditions and parameters for the shown events of a scope and a session (None: of any)."""
        where, parameters = conditions_of(scope, session_id, self._projects.names)
        if not self._pairs.any:
            return where, parameters
        return ([SHOWN, *where], parameters) if session_id is None else ([SHOWN_IN_SESSION, *where], [session_id, *parameters])

    def iter_all(self, batch: int = 2000) -> Iterator[list[StoredEvent]]:
        """Yield every event in order of arrival, `batch` at a time, each batch a read of its own."""
        seq = 0
        while found := self.read_after(seq, batch):
            yield found
            seq = found[-1].seq


def _spans(segments: Sequence[Segment]) -> list[Any]:
    """Return the parameters of `_SPANS`: streams, first times, first keys, last times and last keys, as lists."""
    return [
        [s.stream for s in segments],
        [s.start[0] for s in segments],
        [event_key(s.start[1]) for s in segments],
        [s.end[0] for s in segments],
        [event_key(s.end[1]) for s in segments],
    ]


def _stored(con: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> dict[EventId, StoredValue]:
    """Return text and session of what is stored at the times in the events' ids, by id; read inside the caller's transaction."""
    if not events:
        return {}
    times = sorted({event_key(e.event_id) >> 80 for e in events})
    rows = con.execute(_AT, [times[0] << 80, (times[-1] + 1 << 80) - 1, times]).fetchall() if times else []
    return {event_id_from(key): (content, session) for key, content, session in rows}
