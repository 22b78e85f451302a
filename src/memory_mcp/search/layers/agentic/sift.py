"""Select the segments that hold most of a query by reading the events of a stretch of time.

Used for what a walk has no bounds left for. The store compares the texts of one slice of time per call; nothing is kept. The
segments are candidates: the walk reads them and compares their words like any others.
"""

from bisect import bisect_right
from dataclasses import replace

from memory_mcp.base.text import probe
from memory_mcp.model.calendar import TimeWindow, TocLevel, level_of
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.search.layers.agentic.match import WeightedQuery
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.tree import Tree

#: Events of one slice when time is short: 10 to 30 ms, of which 4 go to the question itself.
SLICE = 8_000
#: Events of one slice when there is time.
LARGE_SLICE = 100_000
#: Messages selected per segment wanted: several may lie in one.
_PER_SEGMENT = 3
#: A time after every event, in milliseconds.
_LAST = 250_000_000_000_000


class Sift:
    """Searches events by slices of time."""

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
