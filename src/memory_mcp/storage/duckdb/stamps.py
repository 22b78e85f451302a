"""What every search asks the tree for, kept in memory: three quarters of a search's time went into asking (measured).

Invariants
1. What is kept was read after the last write that touched it; what a write touches is replaced or dropped before it returns.
2. Only this process writes the store, so nothing changes unnoticed.
"""

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment

V = TypeVar("V")
#: Node id, and what `TocStore.stamps` says of it.
Stamped = tuple[NodeId, tuple[int, int, int]]
#: Of stamps, about 300 bytes each, and of nodes without their bullets, some 2 KB: beyond it everything is begun anew.
STAMPS, HEADS = 200_000, 4000
#: Whole nodes, some 4 KB each; a reading of more than `AT_ONCE` nodes is bulk work and keeps none.
NODES, AT_ONCE = 1000, 150
#: Spans of days whose segments are kept: a year's weeks, or some projects' months.
_SPANS = 64
#: Streams whose cuts are kept: sessions that are being written, a few hundred bytes for each cut.
_STREAMS = 128


class Spans:
    """Segments of a span of days and a project, as last read and brought up to date with every build."""

    def __init__(self) -> None:
        """Begin without any span."""
        self._kept: OrderedDict[tuple[str, str, str | None], list[Segment]] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()

    def of(self, span: tuple[str, str, str | None], read: Callable[[], list[Segment]]) -> list[Segment]:
        """Return the segments of a span in a list of its own, from memory or from `read`.

        A span is its first day, the day after its last ("" for both: all days), and the project, None for all. What
        was read is kept, for up to 64 spans, unless there was a write meanwhile.
        """
        with self._lock:
            before = self._writes
            if span in self._kept:
                self._kept.move_to_end(span)
                return list(self._kept[span])
        found = read()
        with self._lock:
            if before == self._writes:
                self._kept[span] = found
                while len(self._kept) > _SPANS:
                    self._kept.popitem(last=False)
        return list(found)

    def put(self, cuts: Iterable[Segment]) -> None:
        """Put the cuts that a build has written into the kept spans of their day and project, in place of their earlier form."""
        with self._lock:
            self._writes += 1
            for cut in cuts:
                for (first, after, project), kept in self._kept.items():
                    whole = not first and not after
                    if (whole or first <= cut.day < after) and project in (None, cut.project):
                        _set(kept, cut)

    def forget(self) -> None:
        """Drop every span, since segments were moved; counts as a write, so that what is being read now is not kept."""
        with self._lock:
            self._writes += 1
            self._kept.clear()


class Streams:
    """All cuts of the streams that were asked for last, in order of start."""

    def __init__(self, read: Callable[[list[int]], dict[int, list[Segment]]]) -> None:
        """Read cuts that are not kept with `read`: it returns all cuts of each given stream, [] for one without cuts."""
        self._read = read
        self._kept: OrderedDict[int, list[Segment]] = OrderedDict()
        self._by_key: dict[int, Segment] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def of(self, streams: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the cuts of each stream, in lists of their own; streams that are not kept are read together.

        What was read is kept, for up to 128 streams, unless there was a write meanwhile or more were read at once.
        """
        with self._lock:
            before = self._writes
            found = {stream: list(self._kept[stream]) for stream in streams if stream in self._kept}
            for stream in found:
                self._kept.move_to_end(stream)
        missing = [stream for stream in streams if stream not in found]
        if not missing:
            return found
        read = self._read(missing)
        with self._lock:
            if before == self._writes and len(missing) <= _STREAMS:
                for stream, cuts in read.items():
                    self._kept[stream] = list(cuts)
                    self._by_key.update((cut.key, cut) for cut in cuts)
                while len(self._kept) > _STREAMS:
                    _, old = self._kept.popitem(last=False)
                    for cut in old:
                        self._by_key.pop(cut.key, None)
        return found | read

    def named(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Return by segment key those cuts that are kept in memory; a key that is left out may still be in the store."""
        with self._lock:
            return {key: self._by_key[key] for key in keys if key in self._by_key}

    def put(self, cuts: Iterable[Segment]) -> None:
        """Put the cuts that a build has written into those kept streams to which they belong, in place of their earlier form."""
        with self._lock:
            self._writes += 1
            for cut in cuts:
                kept = self._kept.get(cut.stream)
                if kept is not None:
                    _set(kept, cut)
                    self._by_key[cut.key] = cut

    def forget(self) -> None:
        """Drop every cut, since segments were moved; counts as a write, so that what is being read now is not kept."""
        with self._lock:
            self._writes += 1
            self._kept.clear()
            self._by_key.clear()


def _set(kept: list[Segment], cut: Segment) -> None:
    """Put a cut into a list ordered by start: in the place of the cut with its key, or inserted where there is none."""
    at = bisect_left(kept, cut.start, key=lambda c: c.start)
    while at < len(kept) and kept[at].start == cut.start:
        if kept[at].key == cut.key:
            kept[at] = cut
            return
        at += 1
    kept.insert(at, cut)


class ByNode(Generic[V]):
    """What was read of each node, by its key; None stands for a node that does not exist."""

    def __init__(self, read: Callable[[Sequence[int]], dict[int, V]], most: int, at_once: int | None = None) -> None:
        """Keep what `read` returns of up to `most` nodes; a reading of more than `at_once` nodes is not kept."""
        self._read = read
        self._most = most
        self._at_once = most if at_once is None else at_once
        self._kept: dict[int, V | None] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def of(self, keys: Sequence[int]) -> list[V]:
        """Return the values of those of the keys that are nodes, in their order; keys that are not kept are read together.

        What was read is kept unless there was a write meanwhile or it is more than `at_once`; if it does not fit, all
        else is dropped.
        """
        with self._lock:
            before = self._writes
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in keys if key not in found]
        if missing:
            read = self._read(missing)
            fresh = {key: read.get(key) for key in missing}
            found |= fresh
            with self._lock:
                # A write since the reading may have touched any of these.
                if before == self._writes and len(fresh) <= self._at_once:
                    if len(self._kept) + len(fresh) > self._most:
                        self._kept.clear()
                    self._kept |= fresh
        return [value for key in keys if (value := found[key]) is not None]

    def put(self, values: Mapping[int, V]) -> None:
        """Take in what a build wrote; more than `at_once` only drop those kept. If they do not fit, all else is dropped."""
        with self._lock:
            self._writes += 1
            if len(self._kept) + len(values) > self._most:
                self._kept.clear()
            if len(values) <= self._at_once:
                self._kept |= values
            else:
                for key in values:
                    self._kept.pop(key, None)

    def forget(self, keys: Iterable[int] | None = None) -> None:
        """Drop the values of nodes that a write touched; None: of all nodes."""
        with self._lock:
            self._writes += 1
            if keys is None:
                self._kept.clear()
            else:
                for key in keys:
                    self._kept.pop(key, None)
