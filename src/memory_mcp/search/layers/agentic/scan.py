"""Search events word by word in stretches of time, whatever the layers find.

If a keyword index knows which segments hold the words, only those and the events without a node are read.
"""

import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.base.text import probe, terms
from memory_mcp.indexes.index_reader import IndexReader, SegmentMatches
from memory_mcp.model.calendar import TimeWindow, TocLevel, level_of
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import LISTED_LAST, TurnKind, asks_memory, is_prompt
from memory_mcp.model.ids import ROOT, NodeId, span_grip_id
from memory_mcp.model.segment import Segment
from memory_mcp.search.layers.agentic.match import WeightedQuery
from memory_mcp.search.layers.agentic.read import fold_text, scope_of
from memory_mcp.search.layers.base import Hit, Query, Slice, pending_hit
from memory_mcp.search.layers.showing import turns_of
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope, WordReading
from memory_mcp.tree.toc.tree import Tree

#: Most segments to read one by one: of more, comparing all events is faster.
_FEW = 300
#: Most slices of a scan.
SLICES = 8
#: Score of a scan's hit, which holds every word. Not calibrated: no layer found it, so it is compared with nothing.
SCORE = 0.5
#: Score of a hit that holds the whole question verbatim.
WHOLE = 0.97
#: Characters quoted around the words.
_SPAN = 400
_WEEK = dt.timedelta(days=7)


class Scan:
    """Searches events by slices of time, or in named segments."""

    def __init__(self, storage: Storage, tree: Tree, reader: IndexReader) -> None:
        self._storage = storage
        self._tree = tree
        self._reader = reader

    def read_named(self, query: Query, words: Sequence[str], settles: Callable[[Hit], bool] = lambda _: False) -> Slice | None:
        """Return the events with all of `words`, in segments that an index names.

        None if all events must be read: the index cannot tell, more than 300 segments hold the words, or too few of a literal
        text were found among the newest. A hit that surely does not ask and `settles` comes alone: nodes and turns are not read.
        """
        return self._read_named(query, words, settles, self._storage.events.read_words(scope_of(query, query.window), words))

    def _read_named(
        self, query: Query, words: Sequence[str], settles: Callable[[Hit], bool], reading: WordReading
    ) -> Slice | None:
        # A literal text may begin and end inside words, which an index does not know.
        inner = [" ".join(w.split()[1:-1]) for w in words] if query.literal else words
        matches = self._segments_with(inner, query.project)
        if matches is not None and len(matches.segments) <= _FEW:
            return self._read_segments(matches, query, words, settles, reading)
        # Most literal texts are whole words: read the newest segments that hold these, and everything only if none does.
        matches = self._segments_with(words, query.project) if query.literal else matches
        if matches is None or not matches.segments:
            return None
        least_count = 1 if len(matches.segments) <= _FEW else query.limit
        newest, is_followed = replace(matches, segments=matches.segments[:_FEW]), least_count == query.limit
        events_slice = self._read_segments(newest, query, words, settles, reading, is_followed=is_followed)
        return events_slice if len(events_slice.hits) >= least_count else None

    def read_at_once(self, query: Query, words: Sequence[str]) -> Slice | None:
        """Return what `read_named` would, else the events with all of `words` with the number of the scope's events.

        None if the store does not know where they are.
        """
        scope = scope_of(query, query.window)
        reading = self._storage.events.read_words(scope, words)
        named_slice = self._read_named(query, words, lambda _: False, reading)
        if named_slice is not None:
            return named_slice
        events = reading.find_all(query.limit)
        if events is None:
            return None
        is_whole_project = scope == Scope(query.project)
        count = self._tree.tally(query.project).events if is_whole_project else sum(n for _, n in self.list_slices(query))
        return Slice(tuple(self._make_hits(events, words, {})), count)

    def list_slices(self, query: Query) -> list[tuple[TimeWindow, int]]:
        """Return the scope's time, cut at Mondays into at most 8 stretches, and how many events each has.

        The newest comes first; each is cut down to the query's window.
        """
        calendar = self._tree.calendar
        span = self._storage.events.get_span(scope_of(query, query.window))
        if span is None:
            return []
        first, last = (calendar.to_local(ms).date() for ms in (span.start_ms, span.end_ms))
        monday = first - dt.timedelta(days=first.weekday())
        weeks = (last - monday).days // 7 + 1
        step = -(-weeks // SLICES) * _WEEK
        starts = [monday + n * step for n in range(-(-weeks * _WEEK // step))]
        windows = [calendar.days_window(day, day + step).intersection(query.window) for day in reversed(starts)]
        return list(zip(windows, self._storage.events.count_events(scope_of(query, None), windows), strict=True))

    def read_slice(self, query: Query, words: Sequence[str]) -> tuple[Hit, ...]:
        """Return the newest events that hold all of `words`."""
        events = self._storage.events.search_words(scope_of(query, query.window), words, query.limit)
        return tuple(self._make_hits(events, words, {}))

    def _segments_with(self, texts: Sequence[str], project: str | None) -> SegmentMatches | None:
        return self._reader.find_segments(list(dict.fromkeys(t for text in texts for t in terms(text))), project)

    def _read_segments(
        self,
        where: SegmentMatches,
        query: Query,
        words: Sequence[str],
        settles: Callable[[Hit], bool],
        reading: WordReading,
        *,
        is_followed: bool = False,
    ) -> Slice:
        scope = scope_of(query, query.window)
        last, folded_words = self._storage.events.last_seq(), [fold_text(w) for w in words]
        waiting = self._storage.events.list_arrivals(where.events, last, scope) if last > where.events else []
        events = {e.event_id: e for e in waiting if all(w in fold_text(e.text) for w in folded_words)}
        count, segments = len(waiting), self._storage.toc.get_segments(where.segments) if where.segments else {}
        if segments:
            matching_events = reading.list_newest(query.limit, list(segments.values()), is_followed=is_followed)
            count, events = count + sum(s.events for s in segments.values()), events | {e.event_id: e for e in matching_events}
        newest = sorted(events.values(), key=lambda e: e.order, reverse=True)[: query.limit]
        telling = (_quote_around(e, words, SCORE) for e in newest if not asks_memory(e) and (e.speaker or not is_prompt(e)))
        settling_hit = next(filter(settles, telling), None)
        return Slice((settling_hit,) if settling_hit else tuple(self._make_hits(newest, words, segments)), count)

    def _make_hits(self, events: Sequence[Event], words: Sequence[str], known_segments: Mapping[int, Segment]) -> list[Hit]:
        grips = self._storage.grips.grips_by_event([e.event_id for e in events])
        keys = {g.segment for several in grips.values() for g in several if g.segment}
        missing = keys - known_segments.keys()
        segments = {**known_segments, **(self._storage.toc.get_segments(missing) if missing else {})}
        node_ids = {segments[key].node_id for key in keys if key in segments}
        nodes = self._storage.toc.get_heads(node_ids)
        hits: dict[str, Hit] = {}
        turns = turns_of(self._storage, events, self._reader)
        score = WHOLE if len(words) == 1 and len(words[0].split()) > 1 else SCORE
        for event in events:
            turn = turns.get(event.event_id, TurnKind.PLAIN)
            if turn & TurnKind.TO_MEMORY:
                continue
            hit = _quote_around(event, words, score)
            segment = next((segments[g.segment] for g in grips.get(event.event_id, ()) if g.segment in segments), None)
            node = nodes.get(segment.node_id) if segment is not None else None
            if node is not None:
                hit = replace(hit, node_id=node.node_id, title=node.title, level=node.level, keywords=node.keywords)
            hits.setdefault(hit.event_id, replace(hit, parts=(("scan", score),), asks=bool(turn & LISTED_LAST)))
        return sorted(hits.values(), key=lambda hit: hit.asks)


def _quote_around(event: Event, words: Sequence[str], score: float) -> Hit:
    start = 0
    if len(event.text) > _SPAN:  # at white space up to 100 characters before the first of the words
        lower = event.text.lower()
        places = [p for p in (lower.find(w.lower()) for w in words) if p >= 0]
        start = event.text.rfind(" ", 0, max(0, min(places, default=0) - _SPAN // 4) + 1) + 1
    end = min(len(event.text), start + _SPAN)
    return pending_hit(event, span_grip_id(event.event_id, start, end), event.text[start:end], score)


#: Events of one slice when time is short: 10 to 30 ms, of which 4 go to the question itself.
SLICE = 8_000
#: Events of one slice when there is time.
LARGE_SLICE = 100_000
#: Messages selected per segment wanted: several may lie in one.
_PER_SEGMENT = 3
#: A time after every event, in milliseconds.
_LAST = 250_000_000_000_000


class Sift:
    """Selects the segments that hold most of a query from the events of a slice of time.

    For what a walk has no bounds left for. The store compares the texts of a slice in one call; nothing is kept. The segments are
    candidates: the walk reads them and compares their words like any others.
    """

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree

    def fits_slice(self, segments: int, project: str | None) -> bool:
        """Return whether so many segments have the events of one slice."""
        return segments * self._events_per_segment(project) <= SLICE

    def _events_per_segment(self, project: str | None) -> float:
        tally = self._tree.tally(project)
        return tally.events / max(tally.segments, 1)

    def list_slices(self, scope: Scope, start: NodeId, *, is_hasty: bool) -> list[Scope]:
        """Return the scope below a node, cut into slices, newest first."""
        size = SLICE if is_hasty else LARGE_SLICE
        if start != ROOT and level_of(start) is not TocLevel.SEGMENT:
            scope = replace(scope, window=self._tree.calendar.node_window(start).intersection(scope.window))
        per_segment = self._events_per_segment(scope.project)
        weeks = self._tree.descendants(ROOT, TocLevel.WEEK, scope.project, scope.window)
        starts, event_count = [], 0.0
        for week in reversed(weeks):
            event_count += self._tree.count_below(week, scope) * per_segment
            if event_count >= size:
                starts.append(self._tree.calendar.node_window(week).start_ms)
                event_count = 0.0
        ends = [_LAST, *starts]
        windows = [TimeWindow(start, end) for start, end in zip([*starts, 0], ends, strict=True)]
        parts = [w if scope.window is None else w.intersection(scope.window) for w in windows]
        is_single = len(parts) == 1
        return [scope if is_single else replace(scope, window=w) for w in parts if w.start_ms < w.end_ms]

    def find_likely(self, scope: Scope, query: WeightedQuery, most: int) -> tuple[list[Segment], bool]:
        """Return the segments with most of the query, and whether more exist.

        Ordered by weight, latest first among equals; messages without a segment are left out.
        """
        probes: dict[str, float] = {}
        for term, weight in query.weights.items():
            probes[probe(term)] = max(weight, probes.get(probe(term), 0.0))
        _, places = self._storage.events.rank_positions(scope, probes, most * _PER_SEGMENT)
        cuts = self._storage.toc.get_cuts({p.stream for p in places})
        segments_found: dict[Segment, None] = {}
        for position in places:
            stream_segments = cuts.get(position.stream, ())
            at = bisect_right([s.start for s in stream_segments], position.order) - 1
            if at >= 0 and position.order <= stream_segments[at].end:
                segments_found[stream_segments[at]] = None
        segments = list(segments_found)
        return segments[:most], len(segments) > most or len(places) == most * _PER_SEGMENT
