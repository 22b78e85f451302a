"""Merge and rewrite the shards of an index while it is in use."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from memory_mcp.base import metrics
from memory_mcp.base.metrics import span
from memory_mcp.indexes import merges
from memory_mcp.indexes.generation import ShardEntry
from memory_mcp.indexes.shard import IndexKind, LiveShard, Shard, merge_shards
from memory_mcp.indexes.shard_store import BuiltShard, ShardStore, entry_of
from memory_mcp.indexes.snapshot import Snapshot, sorted_keys

B = TypeVar("B")

#: Documents from which a child process merges: 20,000 take about 50 ms.
CHILD_FROM = 20_000


class MergingIndex(ABC, Generic[B]):
    """The merging half of `live.LiveIndex`, which sets its fields."""

    kind: IndexKind[B]
    #: Merges large parts in a child process, if set.
    merge_in_child: Callable[[Sequence[ShardEntry], bool], AbstractContextManager[BuiltShard]] | None
    _shards: ShardStore
    _lock: threading.RLock
    #: Held during a merge.
    _merge_lock: threading.Lock
    _disk_shards: list[LiveShard[B]]
    _snapshot: Snapshot[B] | None
    _dirty: bool
    _closed: bool

    @abstractmethod
    def verify_files(self) -> bool:
        """As `LiveIndex.verify_files`."""

    @abstractmethod
    def commit(self) -> bool:
        """As `LiveIndex.commit`."""

    @abstractmethod
    def _commit_changes(self, verified: bool = False) -> None:
        """As `LiveIndex._commit_changes`."""
        ...

    def merge_once(self, thoroughly: bool = False, improve: bool = False) -> bool:
        """Merge one group of shards if due; return whether there was one.

        `thoroughly` merges wherever possible; `improve` instead rewrites one shard in a child process in its faster
        form. Changes continue meanwhile. The result is committed, or dropped if its shards are no longer in use. Errors
        of files are passed on.
        """
        with self._merge_lock:
            with self._lock:
                sizes = self._list_sizes()
                if improve:
                    disk = self._disk_shards if self.merge_in_child is not None else []
                    groups = [[i] for i, p in enumerate(disk) if self.kind.improve_body(p.shard.body) is not None]
                else:
                    groups = merges.plan_full_merge(sizes) if thoroughly else merges.plan_merges(sizes)
                if self._snapshot is None or self._closed or not groups:
                    return False
                chosen = [self._disk_shards[i] for i in groups[0]]
            self._merge_into_one(chosen, improve)
        return True

    @property
    def is_scattered(self) -> bool:
        """Whether merging all of its parts is worth while."""
        with self._lock:
            return merges.is_scattered(self._list_sizes())

    def _list_sizes(self) -> list[merges.ShardSize]:
        return [merges.ShardSize(p.size, p.shard.size) for p in self._disk_shards]

    def scrub_dropped(self) -> int:
        """Commit, and rewrite every shard with dropped documents.

        No byte of these is left then. Returns the number of such shards; 0, with nothing done, when closed or
        unsearchable.
        """
        with self._merge_lock:
            with self._lock:
                self._dirty = self._snapshot is not None
                if self._closed or not self.commit():
                    return 0
                chosen = [live for live in self._disk_shards if live.alive is not None]
            for live in chosen:
                self._merge_into_one([live])
        return len(chosen)

    def _merge_into_one(self, chosen: Sequence[LiveShard[B]], improve: bool = False) -> None:
        with span("index_merge"):
            if self.merge_in_child is not None and (improve or sum(p.size for p in chosen) >= CHILD_FROM):
                with self.merge_in_child(list(map(entry_of, chosen)), improve) as built:
                    self._replace_shards(chosen, self._shards.read_shard(self.kind, built.name, built.files))
            else:
                with self._shards.reserve_name("m") as name:
                    self._replace_shards(chosen, self._shards.write_shard(self.kind, merge_shards(self.kind, chosen), name))

    def _replace_shards(self, chosen: Sequence[LiveShard[B]], merged_shard: Shard[B]) -> None:
        with self._lock:
            now = {p.shard.name: p for p in self._disk_shards}
            if self._snapshot is None or self._closed or not self.verify_files() or any(p.shard.name not in now for p in chosen):
                return
            gone = [k for p in chosen for k in p.shard.units.key[p.dropped_in(now[p.shard.name])].tolist()]
            names = {p.shard.name for p in chosen}
            live_shard = LiveShard(merged_shard)
            live_shard = live_shard.without_units(live_shard.find_units(sorted_keys(gone)))
            self._disk_shards = [p for p in self._disk_shards if p.shard.name not in names] + [live_shard]
            self._dirty = True
            # Commits the write buffer too: the manifest has one position for everything.
            self._commit_changes(verified=True)

    def _count_changes(self, added: int, deleted: int) -> None:
        for op, number in (("add", added), ("delete", deleted)):
            if number:
                metrics.count(f"{self.kind.name}_index_operations_total", number, op=op)
