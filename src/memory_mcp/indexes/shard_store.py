"""Read and write shards in the folder of an index, under new names."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.files import FileChecksum
from memory_mcp.indexes.generation import IndexFolder, ShardEntry
from memory_mcp.indexes.shard import IndexKind, LiveShard, Shard, read_shard, write_shard

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class BuiltShard:
    """A shard on disk that no manifest names yet."""

    name: str
    files: Mapping[str, FileChecksum]


class ShardStore:
    """The shards in one folder."""

    def __init__(self, folder: IndexFolder) -> None:
        self._folder = folder
        self._made = 0

    def read_shard(self, kind: IndexKind[B], name: str, files: Mapping[str, FileChecksum], trusted: bool = False) -> Shard[B]:
        """Return a shard; raises IndexUnreadable if changed, unless `trusted`."""
        return read_shard(kind, self._folder.shards_path / name, dict(files), self._folder.directory, trusted)

    def read_live_shard(self, kind: IndexKind[B], entry: ShardEntry, trusted: bool) -> LiveShard[B]:
        """Return a shard of a manifest without its dead units.

        Raises IndexUnreadable when its files have changed, unless `trusted`, or the manifest does not fit it.
        """
        live = LiveShard(self.read_shard(kind, entry.name, entry.files, trusted))
        if any(not 0 <= index < len(live.shard.units) for index in entry.dead):
            raise IndexUnreadable("the manifest of the index contradicts a part")
        return live.without_units(np.array(entry.dead, dtype=np.int64))

    def write_shard(self, kind: IndexKind[B], shard: Shard[B], name: str) -> Shard[B]:
        """Write a shard and read it back, out of this process's memory."""
        return self.read_shard(kind, name, write_shard(kind, shard, self._folder.shards_path / name))

    def new_name(self, prefix: str) -> str:
        """Return an unused name of a shard."""
        self._made += 1
        return f"{prefix}{time.time_ns():x}-{self._made}"

    @contextmanager
    def reserve_name(self, prefix: str) -> Iterator[str]:
        """Yield a new name, safe from removal inside the block."""
        name = self.new_name(prefix)
        token = name.partition("-")[0]
        self._folder.protected_prefixes.add(token)
        try:
            yield name
        finally:
            self._folder.protected_prefixes.discard(token)


def entry_of(live: LiveShard[B]) -> ShardEntry:
    """Return the manifest entry of a shard on disk."""
    return ShardEntry(live.shard.name, live.shard.files or {}, tuple(live.dead_units()))
