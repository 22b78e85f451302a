"""What every search asks the tree for, kept in memory: three quarters of a search's time went into asking (measured).

Invariants
1. What is kept was read after the last write that touched it; what a write touches is replaced or dropped before it returns.
2. Only this process writes the store, so nothing changes unnoticed.
"""

import sys
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.storage.values import Activity

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
#: Node id, and what `TocStore.stamps` says of it.
Stamped = tuple[NodeId, tuple[int, int, int]]
#: Of stamps, about 300 bytes each, and of nodes without their bullets, some 2 KB: beyond it everything is begun anew.
MAX_STAMPS, MAX_HEADS = 200_000, 4000
#: Whole nodes, some 4 KB each; a reading of more than `MAX_AT_ONCE` nodes is bulk work and keeps none.
MAX_NODES, MAX_AT_ONCE = 1000, 150
#: Spans of days whose segments are kept: a year's weeks, or some projects' months.
_SPANS = 64
#: Times whose segments are kept, and segments of one at most.
_WINDOWS, _WINDOW_CUTS = 4, 1000
#: Streams whose cuts are kept: sessions that are being written, a few hundred bytes for each cut.
_STREAMS = 128


class CutSummary(Generic[V]):
    """One value that is read from all cuts or nodes, until one is written."""

    def __init__(self) -> None:
        self._value: V | None = None
        self._writes = 0
        self._lock = threading.Lock()

    def get_value(self, read: Callable[[], V]) -> V:
        """Return the value, from memory or from `read`; it is kept unless there was a write meanwhile."""
        with self._lock:
            value, write_count = self._value, self._writes
        if value is not None:
            return value
        value = read()
        with self._lock:
            if write_count == self._writes:
                self._value = value
        return value

    def drop_value(self) -> None:
        """Drop the value; counts as a write."""
        with self._lock:
            self._writes += 1
            self._value = None


#: What happened in each project, of all cuts.
Activities = CutSummary[tuple[Activity, ...]]


class PeriodIds:
    """Ids of days, weeks, months and years by time, each level until a node is written."""

    def __init__(self, read: Callable[[TocLevel], list[tuple[int, NodeId]]]) -> None:
        """Read the beginnings (UTC milliseconds) and ids of a level, in order, with `read`."""
        self._read = read
        self._levels = {level: CutSummary[list[tuple[int, NodeId]]]() for level in TocLevel}

    def list_ids(self, level: TocLevel, window: TimeWindow | None) -> list[NodeId]:
        """Return the ids of a level that begin in a window, by time."""
        periods = self._levels[level].get_value(lambda: self._read(level))
        if window is not None:
            start, end = (bisect_left(periods, ms, key=itemgetter(0)) for ms in (window.start_ms, window.end_ms))
            periods = periods[start:end]
        return [node_id for _, node_id in periods]

    def drop_ids(self) -> None:
        """Drop every level; counts as a write."""
        for summary in self._levels.values():
            summary.drop_value()


class WindowCuts(Generic[K]):
    """Segments of the times that were asked about last, until a cut is written: one question asks for the same twice."""

    _most, _most_cuts = _WINDOWS, _WINDOW_CUTS

    def __init__(self) -> None:
        self._kept: OrderedDict[K, list[Segment]] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()

    def get_cuts(self, key: K, read: Callable[[], list[Segment]]) -> list[Segment]:
        """Return the segments of a time and what else `key` names, from memory or from `read`.

        Up to `_most_cuts` segments are kept of each of the last `_most`, unless there was a write meanwhile.
        """
        with self._lock:
            write_count = self._writes
            if key in self._kept:
                self._kept.move_to_end(key)
                return list(self._kept[key])
        cuts = read()
        with self._lock:
            if write_count == self._writes and len(cuts) <= self._most_cuts:
                self._kept[key] = cuts
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return list(cuts)

    def drop_all(self) -> None:
        """Drop every time; counts as a write."""
        with self._lock:
            self._writes += 1
            self._kept.clear()


class SpanCuts(WindowCuts[tuple[str, str, str | None]]):
    """Segments of spans of days and projects, kept up to date.

    A span is its first day, the day after its last ("" for both: all days), and the project, None for all.
    """

    _most, _most_cuts = _SPANS, sys.maxsize

    def put_cuts(self, cuts: Iterable[Segment]) -> None:
        """Put a build's cuts into the kept spans."""
        with self._lock:
            self._writes += 1
            for cut in cuts:
                for (first, after, project), cuts_of_span in self._kept.items():
                    is_all_days = not first and not after
                    if (is_all_days or first <= cut.day < after) and project in (None, cut.project):
                        _replace_cut(cuts_of_span, cut)


class StreamCuts:
    """All cuts of the streams that were asked for last, by start."""

    def __init__(self, read: Callable[[list[int]], dict[int, list[Segment]]]) -> None:
        """Read cuts that are not kept with `read`."""
        self._read = read
        self._kept: OrderedDict[int, list[Segment]] = OrderedDict()
        self._by_key: dict[int, Segment] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def get_cuts(self, streams: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the cuts of each stream; missing ones are read together.

        What was read is kept, for up to 128 streams, unless there was a write meanwhile or more were read at once.
        """
        with self._lock:
            write_count = self._writes
            cached = {stream: list(self._kept[stream]) for stream in streams if stream in self._kept}
            for stream in cached:
                self._kept.move_to_end(stream)
        missing = [stream for stream in streams if stream not in cached]
        if not missing:
            return cached
        loaded = self._read(missing)
        with self._lock:
            if write_count == self._writes and len(missing) <= _STREAMS:
                for stream, cuts in loaded.items():
                    self._kept[stream] = list(cuts)
                    self._by_key.update((cut.key, cut) for cut in cuts)
                while len(self._kept) > _STREAMS:
                    _, old = self._kept.popitem(last=False)
                    for cut in old:
                        self._by_key.pop(cut.key, None)
        return cached | loaded

    def find_cached(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Return those cuts that are kept in memory, by key."""
        with self._lock:
            return {key: self._by_key[key] for key in keys if key in self._by_key}

    def put_cuts(self, cuts: Iterable[Segment]) -> None:
        """Put a build's cuts into the kept streams."""
        with self._lock:
            self._writes += 1
            for cut in cuts:
                stream_cuts = self._kept.get(cut.stream)
                if stream_cuts is not None:
                    _replace_cut(stream_cuts, cut)
                    self._by_key[cut.key] = cut

    def drop_all(self) -> None:
        """Drop every cut; counts as a write."""
        with self._lock:
            self._writes += 1
            self._kept.clear()
            self._by_key.clear()


def _replace_cut(cached_cuts: list[Segment], cut: Segment) -> None:
    at = bisect_left(cached_cuts, cut.start, key=lambda c: c.start)
    while at < len(cached_cuts) and cached_cuts[at].start == cut.start:
        if cached_cuts[at].key == cut.key:
            cached_cuts[at] = cut
            return
        at += 1
    cached_cuts.insert(at, cut)


class NodeCache(Generic[V]):
    """What was read of each node, by key; None if it does not exist."""

    def __init__(self, read: Callable[[Sequence[int]], dict[int, V]], most: int, at_once: int | None = None) -> None:
        """Keep what `read` returns of up to `most` nodes.

        A reading of more than `at_once` nodes is not kept.
        """
        self._read = read
        self._most = most
        self._at_once = most if at_once is None else at_once
        self._kept: dict[int, V | None] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def get_values(self, keys: Sequence[int]) -> list[V]:
        """Return the values of existing nodes, in order of keys.

        Keys that are not kept are read together; what was read is kept unless there was a write meanwhile or it is more
        than `at_once`.
        """
        with self._lock:
            write_count = self._writes
            cached = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in keys if key not in cached]
        if missing:
            read = self._read(missing)
            fresh = {key: read.get(key) for key in missing}
            cached |= fresh
            with self._lock:
                # A write since the reading may have touched any of these.
                if write_count == self._writes and len(fresh) <= self._at_once:
                    if len(self._kept) + len(fresh) > self._most:
                        self._kept.clear()
                    self._kept |= fresh
        return [value for key in keys if (value := cached[key]) is not None]

    def put_values(self, values: Mapping[int, V]) -> None:
        """Add what a build wrote; more than `at_once` only drops those kept."""
        with self._lock:
            self._writes += 1
            if len(self._kept) + len(values) > self._most:
                self._kept.clear()
            if len(values) <= self._at_once:
                self._kept |= values
            else:
                for key in values:
                    self._kept.pop(key, None)

    def drop_values(self, keys: Iterable[int] | None = None) -> None:
        """Drop the values of these nodes; None: of all."""
        with self._lock:
            self._writes += 1
            if keys is None:
                self._kept.clear()
            else:
                for key in keys:
                    self._kept.pop(key, None)
