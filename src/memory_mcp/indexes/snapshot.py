"""The living shards of an index at one moment. Immutable; a reader uses one throughout."""

from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.base import DocType, Filters, Position
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import node_of
from memory_mcp.indexes.shard import TABLES, LiveShard, Shard
from memory_mcp.model.ids import NodeId

B = TypeVar("B")

#: Cached masks per part: a connection searches with the same scope repeatedly.
_MASKS = 24


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[B]):
    """Shards, oldest first, the last may be the write buffer; and their position."""

    shards: tuple[LiveShard[B], ...]
    position: Position
    #: Number of living documents by table.
    counts: dict[DocType, int]

    @classmethod
    def from_shards(cls, shards: tuple[LiveShard[B], ...], position: Position) -> "Snapshot[B]":
        """Return the snapshot of some shards, with counts by table."""
        counts = {t: sum(p.counts[t] for p in shards) for t in TABLES}
        return cls(shards, position, counts)

    def __iter__(self) -> Iterator[LiveShard[B]]:
        return iter(self.shards)


def visible_rows(live: LiveShard[B], table: DocType, filters: Filters) -> Array | None:
    """Return which rows are alive and pass the filters; None for all.

    The document type is not looked at. The result is cached for the last 24 filters: do not change it.
    """
    if not live.shard.strings:
        return live.alive_rows(table)
    key = (table, filters)
    mask = live.masks.get(key)
    if mask is None:
        mask = live.shard.table(table).passes_filters(filters, live.shard.strings)
        for session, since_ms in filters.excluded_sessions:
            mask &= live.rows_outside(table, session, since_ms)
        alive = live.alive_rows(table)
        if alive is not None:
            mask = mask & alive
        while len(live.masks) >= _MASKS:
            live.masks.pop(next(iter(live.masks)), None)
        live.masks[key] = mask
    return mask


def sorted_keys(keys: list[int]) -> Array:
    """Return unit keys as a sorted uint64 array; equal ones stay."""
    return np.sort(np.array(keys, dtype=np.uint64))


def segment_of(shard: Shard[B], grip_row: int) -> NodeId:
    """Return the node id of the segment of a row of grips."""
    row = int(shard.units.node_first[shard.grips.unit[grip_row]])
    return node_of(int(shard.nodes.hi[row]), int(shard.nodes.lo[row]))
