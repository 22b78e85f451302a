"""Tell which openings many segments share, so that they name none of them, and find the segments that have one.

The hash of an opening is a term of its segment like any other: the store's document frequencies count it, and the term sets
of periods lead to the segments.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.model.calendar import TocLevel, level_of
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import TocStore
from memory_mcp.tree.derive.build import SegmentWork
from memory_mcp.tree.derive.terms import Hashes, children_of_each, read_sets

#: Segments from which an opening is common to them. On three it may be a task that was taken up again.
COMMON = 4
#: Openings of a run that are remembered, some 150 bytes each.
_MOST = 100_000


def common_among(counts: Mapping[int, int]) -> frozenset[int]:
    """Return the openings that many segments have."""
    return frozenset(opening for opening, count in counts.items() if count >= COMMON)


def mark_common(work: Sequence[SegmentWork], common: frozenset[int]) -> list[SegmentWork]:
    """Return the work with its common openings marked."""
    return [replace(item, repeated=common.intersection(item.openings)) for item in work]


class OpeningHolders:
    """The segments of one run by their openings, so that the store need not be walked for them."""

    def __init__(self) -> None:
        self._ids: dict[int, tuple[NodeId, ...]] = {}
        self._openings: dict[NodeId, frozenset[int]] = {}

    def note_segments(self, work: Iterable[SegmentWork]) -> None:
        """Note published segments; of an opening that is common already no more are noted."""
        if len(self._ids) > _MOST:
            self.clear()
        for item in work:
            node_id = item.segment.node_id
            for opening in self._openings.get(node_id, frozenset()) - item.openings:
                self._ids[opening] = tuple(other for other in self._ids[opening] if other != node_id)
            self._openings[node_id] = item.openings
            for opening in item.openings:
                ids = self._ids.get(opening, ())
                if len(ids) < COMMON and node_id not in ids:
                    self._ids[opening] = (*ids, node_id)

    def clear(self) -> None:
        """Drop everything: others may have changed the store."""
        self._ids.clear()
        self._openings.clear()

    def find_holders(self, store: TocStore, counts: Mapping[int, int]) -> list[NodeId]:
        """Return the stored segments that have any of some openings; `counts`: in how many each is."""
        unknown = [opening for opening, count in counts.items() if len(self._ids.get(opening, ())) != count]
        known_ids = {node_id for opening in counts for node_id in self._ids.get(opening, ())}
        return sorted(known_ids.union(holders_of(store, unknown) if unknown else ()))


def holders_of(store: TocStore, openings: Collection[int]) -> list[NodeId]:
    """Return the segments that have any of these openings."""
    opening_hashes = np.array(sorted(openings), dtype="<u4")
    segment_ids: list[NodeId] = []
    level = list(dict.fromkeys(NodeId(f"toc:year:{day[:4]}") for day, _ in store.count_segments_by_day()))
    while level:
        holder_ids = [node_id for node_id, hashes in read_sets(store, level).items() if _has_any(hashes, opening_hashes)]
        segment_ids += [node_id for node_id in holder_ids if level_of(node_id) is TocLevel.SEGMENT]
        below = children_of_each(store, [node_id for node_id in holder_ids if level_of(node_id) is not TocLevel.SEGMENT])
        level = [child for children in below.values() for child in children]
    return segment_ids


def _has_any(hashes: Hashes, other_hashes: Hashes) -> bool:
    positions = np.minimum(np.searchsorted(hashes, other_hashes), max(len(hashes) - 1, 0))
    return bool(len(hashes)) and bool((hashes[positions] == other_hashes).any())
