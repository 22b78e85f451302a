"""What a search asks for again and again, kept in memory: three quarters of its time went into asking (measured).

Invariants
1. What is kept was read after the last write that touched it; whatever a write touches is forgotten before it returns.
2. Only this process writes the store, so nothing changes unnoticed.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment

V = TypeVar("V")
#: Node id, and what `TocStore.stamps` says of it.
Stamped = tuple[NodeId, tuple[int, int, int]]
#: Of stamps, about 300 bytes each, and of nodes without their bullets, some 2 KB: beyond it everything is begun anew.
STAMPS, HEADS = 200_000, 4000
#: Spans of days whose segments are kept: a year's weeks, or some projects' months.
_SPANS = 64


class Spans:
    """Segments of a span of days and a project, as last read, until any segment is written."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str | None], list[Segment]] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()

    def of(self, span: tuple[str, str, str | None], read: Callable[[], list[Segment]]) -> list[Segment]:
        """A list of the caller's own."""
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

    def forget(self) -> None:
        """A segment was written."""
        with self._lock:
            self._writes += 1
            self._kept.clear()


class ByNode(Generic[V]):
    """What was read of each node, by its key; None stands for a node that does not exist."""

    def __init__(self, read: Callable[[Sequence[int]], dict[int, V]], most: int) -> None:
        self._read = read
        self._most = most
        self._kept: dict[int, V | None] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def of(self, keys: Sequence[int]) -> list[V]:
        """Of those of the keys that are nodes."""
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
                if before == self._writes:
                    if len(self._kept) + len(fresh) > self._most:
                        self._kept.clear()
                    self._kept |= fresh
        return [value for key in keys if (value := found[key]) is not None]

    def forget(self, keys: Iterable[int] | None = None) -> None:
        """A write touched these nodes; None: any of them."""
        with self._lock:
            self._writes += 1
            if keys is None:
                self._kept.clear()
            else:
                for key in keys:
                    self._kept.pop(key, None)
