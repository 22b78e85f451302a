"""Merge and rewrite the parts of an index while it is in use."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from memory_mcp.base.metrics import span
from memory_mcp.indexes import merges
from memory_mcp.indexes.generation import PartEntry
from memory_mcp.indexes.part import Kind, LivePart, Part, merged
from memory_mcp.indexes.shelf import Built, Shelf, entry_of
from memory_mcp.indexes.snapshot import Snapshot, sorted_keys

B = TypeVar("B")

#: Documents from which a child process merges: 20,000 take about 50 ms.
ASIDE = 20_000


class Merging(ABC, Generic[B]):
    """The merging half of `live.LiveIndex`, which sets its fields."""

    kind: Kind[B]
    #: Merges large parts in a child process, if set.
    merge_aside: Callable[[Sequence[PartEntry], bool], AbstractContextManager[Built]] | None
    _shelf: Shelf
    _lock: threading.RLock
    #: Held during a merge.
    _merging: threading.Lock
    _disk: list[LivePart[B]]
    _snapshot: Snapshot[B] | None
    _dirty: bool
    _closed: bool

    @abstractmethod
    def verify(self) -> bool:
        """Return whether it is healthy and its files are unchanged; else it becomes unhealthy; as `LiveIndex.verify`."""

    @abstractmethod
    def commit(self) -> bool:
        """Write all changes to disk; return False when closed, unsearchable or without any; as `LiveIndex.commit`."""

    @abstractmethod
    def _commit(self, verified: bool = False) -> None:
        """Write all changes to disk; nothing if files were changed from outside, unless `verified`; as `LiveIndex._commit`."""
        ...

    def merge(self, thoroughly: bool = False, improve: bool = False) -> bool:
        """Merge one group of parts if due, or with `thoroughly` wherever possible; return whether there was a group.

        Changes continue meanwhile; waits for another merge. With `improve`, instead rewrite one part in a
        child process in its faster form. False also when closed or unsearchable. The result is committed, or
        dropped if its parts are no longer in use. Errors of reading and writing are passed on.
        """
        with self._merging:
            with self._lock:
                sizes = [merges.Size(p.size, p.part.size) for p in self._disk]
                if improve:
                    disk = self._disk if self.merge_aside is not None else []
                    groups = [[i] for i, p in enumerate(disk) if self.kind.improved(p.part.body) is not None]
                else:
                    groups = merges.whole(sizes) if thoroughly else merges.plan(sizes)
                if self._snapshot is None or self._closed or not groups:
                    return False
                chosen = [self._disk[i] for i in groups[0]]
            self._make_one(chosen, improve)
        return True

    def scrub(self) -> int:
        """Commit, and rewrite every part with replaced or dropped documents, of which no byte is left then.

        Changes continue meanwhile. Returns the number of such parts; 0, with nothing done, when closed or unsearchable.
        """
        with self._merging:
            with self._lock:
                self._dirty = self._snapshot is not None
                if self._closed or not self.commit():
                    return 0
                chosen = [live for live in self._disk if live.alive is not None]
            for live in chosen:
                self._make_one([live])
        return len(chosen)

    def _make_one(self, chosen: Sequence[LivePart[B]], improve: bool = False) -> None:
        """Merge some parts into one and put it in their place, committed; with `improve`, in the faster form.

        A child process makes it if `improve`, or from 20,000 living documents on.
        """
        with span("index_merge"):
            if self.merge_aside is not None and (improve or sum(p.size for p in chosen) >= ASIDE):
                with self.merge_aside(list(map(entry_of, chosen)), improve) as built:
                    self._replace(chosen, self._shelf.read(self.kind, built.name, built.files))
            else:
                with self._shelf.making("m") as name:
                    self._replace(chosen, self._shelf.write(self.kind, merged(self.kind, chosen), name))

    def _replace(self, chosen: Sequence[LivePart[B]], merged_part: Part[B]) -> None:
        """Replace parts by the merged one, without units dropped from them meanwhile, and commit.

        Does nothing when closed, unsearchable, changed from outside, or when one of the parts is no longer in use.
        """
        with self._lock:
            now = {p.part.name: p for p in self._disk}
            if self._snapshot is None or self._closed or not self.verify() or any(p.part.name not in now for p in chosen):
                return
            gone = [k for p in chosen for k in p.part.units.key[p.lost_in(now[p.part.name])].tolist()]
            names = {p.part.name for p in chosen}
            live_part = LivePart(merged_part)
            live_part = live_part.without(live_part.places(sorted_keys(gone)))
            self._disk = [p for p in self._disk if p.part.name not in names] + [live_part]
            self._dirty = True
            # Commits the write buffer too: the manifest has one position for everything.
            self._commit(verified=True)
