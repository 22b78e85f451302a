"""Sizes of parts in, groups to be merged out: few parts, and each document rewritten a logarithmic number of times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

#: Documents of the smallest tier; each further one is this many times larger.
_FLOOR, _RATIO = 512, 4
#: Parts of one tier that become one.
_GROUP = 4
#: A part with more documents than this is merged with no other, and none of more than twice as many is made: a child that
#: merges holds a kilobyte of each. Every part costs a search a millisecond: of 500,000 documents, one part 18.6 and four
#: parts 23.2 ms a question, and merging them takes 7 s (measured).
_MOST = 262_144
#: A part of so many is written anew only for the sake of one in so many at least.
_LARGE, _WORTH = 131_072, 8
#: Share of replaced documents from which a part is rewritten for its own sake, and their number: a handful of periods that
#: a start left behind is replaced by the first event, and writing a part anew costs some 400 kB whatever its size.
_STALE, _STALE_MANY = 0.5, 512


@dataclass(frozen=True, slots=True)
class Size:
    """Documents of a part that count, and all that it holds."""

    living: int
    stored: int

    def is_stale(self, many: int = _STALE_MANY) -> bool:
        """Return whether half of its documents, and at least `many` of them, were replaced: then it is rewritten."""
        return self.stored - self.living >= max(many, self.stored * _STALE)


def plan(sizes: Sequence[Size]) -> list[list[int]]:
    """Groups of places, each to become one part; no place twice. Empty when nothing is due."""
    groups = []
    tiers: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        if size.living <= _MOST:
            tiers.setdefault(_tier(size.living), []).append(place)
    taken: set[int] = set()
    for places in tiers.values():
        if len(places) >= _GROUP:
            groups += _bounded(places, sizes)
            taken.update(*groups)
    for place, size in enumerate(sizes):
        if place not in taken and size.is_stale():
            groups.append([place])
    return groups


def whole(sizes: Sequence[Size]) -> list[list[int]]:
    """Groups that make as few parts as there can be: worth it when much has come or gone at once.

    The largest are left alone, and a lone large one where little has come, unless half of it is gone.
    """
    large = sum(_LARGE < s.living <= _MOST for s in sizes)
    little = sum(s.living for s in sizes if s.living <= _LARGE) * _WORTH < _LARGE
    most = _LARGE if large == 1 and little else _MOST
    groups = _bounded([place for place, size in enumerate(sizes) if size.living <= most], sizes)
    taken = {place for group in groups for place in group}
    return groups + [[place] for place, size in enumerate(sizes) if place not in taken and size.is_stale(1)]


def _bounded(places: Sequence[int], sizes: Sequence[Size]) -> list[list[int]]:
    """Groups of at least two, in order, none of which makes too large a part."""
    groups: list[list[int]] = [[]]
    total = 0
    for place in places:
        total += sizes[place].living
        if total > 2 * _MOST:
            groups.append([])
            total = sizes[place].living
        groups[-1].append(place)
    return [g for g in groups if len(g) > 1]


def _tier(living: int) -> int:
    tier = 0
    while living > _FLOOR:
        living //= _RATIO
        tier += 1
    return tier
