"""Group segments into topics. Pure; runs in a child process with numpy only.

Each segment is linked to those most similar by vectors and by common rare terms, and to the one before it in its session. The
communities of that graph (Louvain's method) are the topics, as fine as the number of segments of the project and the part of
the memory that a segment belongs to asks for (see `parts`), whatever else the memory holds. They depend on the start: they are
computed from several starts, and links weigh by the agreement of these. Remaining segments go to the nearest topic (see
`profiles`).

Invariants
1. The same segments in the same order give the same topics, in every process.
2. A topic has at least `LEAST_SEGMENTS` segments, each of which has terms.
3. Memory is linear in the number of segments: similarities are computed a block of rows at a time.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.communities import Links, Resolution, communities, parts
from memory_mcp.indexes.topics.profiles import TERMS, Profiles, Telling, common_of, less
from memory_mcp.indexes.topics.rows import Rows

#: Least segments of a topic.
LEAST_SEGMENTS = 3
#: Segments that each segment is linked to, besides those that are linked to it.
_NEIGHBOURS = 12
#: Weight of the link to the previous segment, in links of median strength.
_FOLLOWS = 1.0
#: Resolution of modularity in third roots of the number of segments, which gives about six times as many topics; most topics
#: in third roots (150 of 4,000 segments), for which the resolution is lowered.
_FINENESS, _MOST, _TRIES = 1.2, 9.5, 8
#: Links of a segment, counted from both sides: a finer resolution than segments / links leaves every segment alone.
_LINKS = 1.5 * _NEIGHBOURS
#: Number of starts, and exponent of their agreement. With one start 68 to 82 of 100 topics are found again, by half of their
#: segments, with a tenth more segments; with ten 77 to 82, and NMI is no worse.
_RUNS, _SHARPNESS = 10, 3
#: Least segments and largest share of all that a part may have to get links of its own, as a larger one decides those of the
#: memory; least share of its segments that must have some then.
_FEW, _SMALL, _LINKED = 2 * _NEIGHBOURS, 0.25, 0.9
#: Rows of similarities computed at a time.
_BLOCK = 256


def groups(rows: Rows, before: Sequence[int] | None = None) -> Array:
    """Return the topic of each segment, `(segments,)` int32: 0 is the largest, -1 none.

    Segments without terms have none, and with fewer than `LEAST_SEGMENTS` others no segment has one. `rows` without dimensions
    are grouped by terms alone; their topics are ignored. `before` is the index of the segment before each in its session, -1
    for none.
    """
    topics = np.full(len(rows), -1, dtype=np.int32)
    worded = np.flatnonzero(np.diff(rows.ptr))
    if len(worded) >= LEAST_SEGMENTS:
        topics[worded] = _topics(rows.taken(worded), None if before is None else _previous(worded.tolist(), before))
    return topics


def _previous(worded: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return the index among some segments of the one of them before each in its session; -1 for none."""
    index = {segment: n for n, segment in enumerate(worded)}
    previous = []
    for segment in worded:
        earlier = before[segment]
        while earlier >= 0 and earlier not in index:
            earlier = before[earlier]
        previous.append(index.get(earlier, -1))
    return previous


def _topics(rows: Rows, before: Sequence[int] | None) -> Array:
    """Return the topic of each segment as `groups` does; each has terms, and there are enough."""
    links, previous = _links(rows), before or [-1] * len(rows)
    with_sessions = [dict(strengths) for strengths in links]
    link_neighbours(with_sessions, previous)
    part = parts(with_sessions)
    _link_parts(links, part, rows)
    link_neighbours(links, previous)
    _, resolution = _bounded(links, _resolution(part, rows.project))
    topics, _ = _bounded(_agreed(links, resolution), resolution)
    single = np.flatnonzero(topics < 0)
    if len(single) and len(single) < len(rows):
        profiles = Profiles.of(rows.with_topics(topics, rows.relevance), int(topics.max()) + 1)
        topics[single], _ = profiles.nearest(rows.taken(single))
        topics = _numbered(topics)
    return topics


def link_neighbours(links: Links, before: Sequence[int]) -> None:
    """Add median strength, in place, to the link of each segment to the one `before` it in its session (index, -1: none)."""
    strengths = [strength for own in links for strength in own.values()]
    more = _FOLLOWS * (float(np.median(strengths)) if strengths else 1.0)
    for n, other in enumerate(before):
        if other >= 0:
            links[n][other] = links[other][n] = links[n].get(other, 0.0) + more


def _link_parts(links: Links, part: Array, rows: Rows) -> None:
    """Replace the links inside each small part, in place, by those of its segments alone; `part` is that of each segment.

    Which terms are rare and what all meanings have in common is another matter there than in the whole memory. A part of
    which that leaves some segments without links is about one thing, which all of it names, and keeps its links.
    """
    for number, size in enumerate(np.bincount(part).tolist()):
        if _FEW <= size <= _SMALL * len(rows):
            members = np.flatnonzero(part == number)
            index, inside = members.tolist(), _links(rows.taken(members))
            for n, strengths in zip(index, inside, strict=True) if sum(map(bool, inside)) >= _LINKED * size else ():
                leaving = {other: strength for other, strength in links[n].items() if part[other] != number}
                links[n] = leaving | {index[m]: strength for m, strength in strengths.items()}


def _resolution(part: Array, projects: Array) -> Resolution:
    """Return the resolution of the segments of each project within each part, by their number."""
    _, unit, sizes = np.unique(np.stack([part, projects]), axis=1, return_inverse=True, return_counts=True)
    return Resolution(unit.reshape(-1), np.minimum(_FINENESS * sizes ** (1 / 3), sizes / _LINKS))


def _bounded(links: Links, resolution: Resolution) -> tuple[Array, Resolution]:
    """Return the community of each segment, numbered by size, and the resolution used, lowered at most 7 times.

    It is lowered where there are more topics than `_MOST` third roots of the segments of a unit, which has a share of each
    topic. -1 is for communities of fewer than `LEAST_SEGMENTS`.
    """
    most = _MOST * np.bincount(resolution.unit) ** (1 / 3)
    for _ in range(_TRIES):
        topics = _numbered(communities(links, resolution.scales(links), range(len(links))))
        inside = topics >= 0
        share = 1 / np.bincount(topics[inside])[topics[inside]]
        excess = np.bincount(resolution.unit[inside], weights=share, minlength=len(most)) / most
        if (excess <= 1).all():
            break
        resolution = resolution.lowered(np.maximum(excess, 1))
    return topics, resolution


def _agreed(links: Links, resolution: Resolution) -> Links:
    """Return links weighed by the agreement of communities from ten starts; links that none agrees on are dropped."""
    # RandomState gives the same numbers in every version of numpy.
    orders = [np.random.RandomState(run).permutation(len(links)).tolist() for run in range(_RUNS)]
    scales = resolution.scales(links)
    runs = np.stack([communities(links, scales, order) for order in orders], axis=1)
    weighed: Links = []
    for n, own in enumerate(links):
        others = list(own)
        agreed = (runs[others] == runs[n]).mean(axis=1) ** _SHARPNESS if others else ()
        weighed.append({o: own[o] * share for o, share in zip(others, np.asarray(agreed).tolist(), strict=True) if share})
    return weighed


def _numbered(found: Array) -> Array:
    """Return topics renumbered by size, ties by first segment; -1 for those with fewer than `LEAST_SEGMENTS`."""
    numbers, first, sizes = np.unique(found, return_index=True, return_counts=True)
    order = [n for n in np.lexsort((first, -sizes)).tolist() if numbers[n] >= 0 and sizes[n] >= LEAST_SEGMENTS]
    new = np.full(int(found.max()) + 2, -1, dtype=np.int32)
    new[numbers[order]] = np.arange(len(order))
    return new[found]


def _links(rows: Rows) -> Links:
    """Return the links of each segment: to its up to 12 most similar ones, and to those it is among these of.

    A link is in both directions, by index of the other segment, and its strength is the similarity, always above 0.
    """
    links: Links = [{} for _ in range(len(rows))]
    most = min(_NEIGHBOURS, len(rows) - 1)
    for start, alike in _similarities(rows):
        near = np.argpartition(-alike, most - 1, axis=1)[:, :most]
        strengths = np.take_along_axis(alike, near, axis=1)
        for n, (others, how) in enumerate(zip(near.tolist(), strengths.tolist(), strict=True), start):
            for other, strength in zip(others, how, strict=True):
                if strength > 0:
                    links[n][other] = links[other][n] = strength
    return links


def _similarities(rows: Rows) -> Iterator[tuple[int, Array]]:
    """Yield the index of the first of a block of rows, and the similarity of each to all, 0..1, `(block, rows)` float32.

    0 to itself. Terms weigh .8, vectors the rest; without vectors terms alone count.
    """
    row, place, share = Telling.of(rows).shares(rows)
    share = share.astype(np.float32)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(int(place.max(initial=-1)) + 2)).tolist()
    held = [(row[order[a:b]], share[order[a:b]]) for a, b in pairwise(ends)]
    begins = np.searchsorted(row, np.arange(len(rows) + 1)).tolist()
    apart = less(rows.vectors, common_of(rows)) if rows.vectors.shape[1] else None
    for start in range(0, len(rows), _BLOCK):
        stop = min(start + _BLOCK, len(rows))
        alike = np.zeros((stop - start, len(rows)), dtype=np.float32)
        for n in range(start, stop):
            for entry in range(begins[n], begins[n + 1]):
                who, how = held[place[entry]]
                alike[n - start][who] += share[entry] * how
        if apart is not None:
            alike *= TERMS
            alike += (1 - TERMS) * np.maximum(apart[start:stop] @ apart.T, 0)
        alike[np.arange(stop - start), np.arange(start, stop)] = 0
        yield start, alike
