"""Which segments hold most of a query, by reading the events of a stretch of time: for what a walk has no bounds left for.

The store's engine compares the texts, a slice of time in one call; nothing is kept, so this is no index. What it names is
a candidate: the walk reads it and compares its words like any other segment's.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_mcp.layers.agentic.match import Weighted
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.ids import ROOT
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Place, Scope
from memory_mcp.text import probe
from memory_mcp.toc.tree import Tree

#: Events of one slice where time is short: the engine compares some three hundred in a millisecond.
SLICE = 1_000
#: The same where there is time.
LARGE_SLICE = 100_000
#: Messages looked at for each segment wanted: several may lie in one.
_PER_SEGMENT = 3


class Sift:
    """Reads events by slices of time."""

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree

    def slices(self, scope: Scope, size: int) -> list[Scope]:
        """Return the scope cut by weeks into parts of about `size` events, the newest first; together they are the scope."""
        tally = self._tree.tally(scope.project)
        per_segment = tally.events / max(tally.segments, 1)
        weeks = self._tree.descendants(ROOT, TocLevel.WEEK, scope.project, scope.window)
        starts, held = [], 0.0
        for week in reversed(weeks):
            held += self._tree.count_below(week, scope) * per_segment
            if held >= size:
                starts.append(self._tree.calendar.window(week).start_ms)
                held = 0.0
        ends = [_LAST, *starts]
        windows = [TimeWindow(start, end) for start, end in zip([*starts, 0], ends, strict=True)]
        parts = [w if scope.window is None else w.meet(scope.window) for w in windows]
        whole = len(parts) == 1
        return [scope if whole else replace(scope, window=w) for w in parts if w.start_ms < w.end_ms]

    def likely(self, scope: Scope, query: Weighted, most: int) -> tuple[list[Segment], bool]:
        """Return at most `most` segments whose messages hold most of the query, by weight, and whether there may be more.

        The latest come first among equals.
        """
        probes: dict[str, float] = {}
        for term, weight in query.weights.items():
            probes[probe(term)] = max(weight, probes.get(probe(term), 0.0))
        _, places = self._storage.events.likely(scope, probes, most * _PER_SEGMENT)
        cuts = self._storage.toc.cuts({p.stream for p in places})
        found = (_segment_of(place, cuts) for place in places)
        segments = list(dict.fromkeys(s for s in found if s is not None))
        return segments[:most], len(segments) > most or len(places) == most * _PER_SEGMENT


#: Behind every event.
_LAST = 250_000_000_000_000


def _segment_of(place: Place, cuts: Mapping[int, Sequence[Segment]]) -> Segment | None:
    """The segment that an event lies in; None while it is not filed."""
    own = cuts.get(place.stream, ())
    at = bisect_right([s.start for s in own], place.order) - 1
    return own[at] if at >= 0 and place.order <= own[at].end else None
