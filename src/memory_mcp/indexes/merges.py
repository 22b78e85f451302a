"""Choose the shards to merge: few shards, and each document rewritten rarely. Pure.

Change here: when parts become one.
"""

from collections.abc import Sequence

from memory_mcp.base.dataclass import dataclass

#: Documents of the smallest tier, and the ratio between tiers.
_FLOOR, _RATIO = 512, 4
#: Parts of one tier that become one.
_GROUP = 4
#: Documents above which a part is not merged; no part of more than twice as many is made, because merging takes a kilobyte of
#: memory each. Every part costs a search a millisecond: 500,000 documents take 18.6 ms a question in one part and 23.2 in
#: four, and merging them takes 7 s (measured).
MERGE_LIMIT = 262_144
#: Documents of a large part, and the least share (one in ...) of others that the largest is merged for.
_LARGE, _WORTH = 131_072, 8
#: Least number of documents besides those of the largest part for which all become one part at rest: with three parts of
#: keywords and two of vectors in place of one each a question takes 6 % more, and merging 48,000 documents .8 s (measured).
_SCATTERED = 2_000
#: Least share and number of replaced documents for which a part is rewritten alone: the first event after a start replaces a
#: few periods, and rewriting a part costs about 400 kB whatever its size.
_STALE, _STALE_MANY = 0.5, 512


@dataclass(frozen=True, slots=True)
class ShardSize:
    """Number of living documents of a shard, and of all it holds."""

    living: int
    stored: int

    def is_stale(self, many: int = _STALE_MANY) -> bool:
        """Return whether half of its documents, and at least `many`, are gone."""
        return self.stored - self.living >= max(many, self.stored * _STALE)


def plan_merges(sizes: Sequence[ShardSize]) -> list[list[int]]:
    """Return groups of indices to merge into one shard each.

    Four shards of a tier are due, and any that is stale, alone. Shards above `MERGE_LIMIT` documents are not
    joined.
    """
    groups = []
    tiers: dict[int, list[int]] = {}
    for index, size in enumerate(sizes):
        if size.living <= MERGE_LIMIT:
            tier, living = 0, size.living
            while living > _FLOOR:
                living //= _RATIO
                tier += 1
            tiers.setdefault(tier, []).append(index)
    grouped_indices: set[int] = set()
    for places in tiers.values():
        if len(places) >= _GROUP:
            groups += _split_groups(places, sizes)
            grouped_indices.update(*groups)
    for index, size in enumerate(sizes):
        if index not in grouped_indices and size.is_stale():
            groups.append([index])
    return groups


def is_scattered(sizes: Sequence[ShardSize]) -> bool:
    """Return whether the parts next to the largest that may be merged are worth a full merge."""
    mergeable = [size.living for size in sizes if size.living <= MERGE_LIMIT]
    largest = max(mergeable, default=0)
    return sum(mergeable) - largest >= max(_SCATTERED, largest / _WORTH)


def plan_full_merge(sizes: Sequence[ShardSize]) -> list[list[int]]:
    """Return groups that give few shards, after a bulk change.

    Leaves out shards above `MERGE_LIMIT` documents, and a lone large one if less than an eighth was added, unless
    half of it was replaced.
    """
    large = sum(_LARGE < s.living <= MERGE_LIMIT for s in sizes)
    little = sum(s.living for s in sizes if s.living <= _LARGE) * _WORTH < _LARGE
    most = _LARGE if large == 1 and little else MERGE_LIMIT
    groups = _split_groups([index for index, size in enumerate(sizes) if size.living <= most], sizes)
    grouped_indices = {index for group in groups for index in group}
    return groups + [[index] for index, size in enumerate(sizes) if index not in grouped_indices and size.is_stale(1)]


def _split_groups(places: Sequence[int], sizes: Sequence[ShardSize]) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    total = 0
    for index in places:
        total += sizes[index].living
        if total > 2 * MERGE_LIMIT:
            groups.append([])
            total = sizes[index].living
        groups[-1].append(index)
    return [g for g in groups if len(g) > 1]
