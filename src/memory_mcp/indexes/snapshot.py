"""What an index can be asked at one moment: its living parts. Never changes; a reader keeps the one it took."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from memory_mcp.indexes.base import DocType, Filters, Position
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import node_of
from memory_mcp.indexes.part import TABLES, LivePart, Part
from memory_mcp.model.ids import NodeId

B = TypeVar("B")

#: Masks of filters kept per part: a connection asks with the same scope again and again.
_MASKS = 24


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[B]):
    """Parts, oldest first, the last maybe not on disk yet; and how far into the store they reach."""

    parts: tuple[LivePart[B], ...]
    position: Position
    #: Documents by table that count.
    counts: dict[DocType, int]

    @classmethod
    def of(cls, parts: tuple[LivePart[B], ...], position: Position) -> "Snapshot[B]":
        """From parts."""
        counts = {t: sum(p.counts[t] for p in parts) for t in TABLES}
        return cls(parts, position, counts)

    def __iter__(self) -> Iterator[LivePart[B]]:
        """Its parts."""
        return iter(self.parts)


def findable(live: LivePart[B], table: DocType, filters: Filters) -> Array | None:
    """Which rows of a table count and pass the filters; None: all of them."""
    if not live.part.strings:
        return live.alive_rows(table)
    key = (table, filters)
    found = live.masks.get(key)
    if found is None:
        found = live.part.table(table).mask(filters, live.part.strings)
        alive = live.alive_rows(table)
        if alive is not None:
            found = found & alive
        while len(live.masks) >= _MASKS:
            live.masks.pop(next(iter(live.masks)), None)
        live.masks[key] = found
    return found


def sorted_keys(keys: list[int]) -> Array:
    """Unit keys, sorted, as parts look them up."""
    return np.sort(np.array(keys, dtype=np.uint64))


def segment_of(part: Part[B], grip_row: int) -> NodeId:
    """The segment a grip belongs to."""
    row = int(part.units.node_first[part.grips.unit[grip_row]])
    return node_of(int(part.nodes.hi[row]), int(part.nodes.lo[row]))
