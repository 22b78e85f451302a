"""Group segments into topics. Pure; runs in a child process with numpy only.

Each segment is linked to those most similar by vectors and by common rare terms, and to the one before it in its session. The
communities of that graph (Louvain's method) are the topics. They depend on the start: they are computed from several starts,
and links weigh by the agreement of these. Remaining segments go to the nearest topic (see `profiles`).

Invariants
1. The same segments in the same order give the same topics, in every process.
2. A topic has at least `LEAST_SEGMENTS` segments.
3. Memory is linear in the number of segments: similarities are computed a block of rows at a time.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memory_mcp.indexes.files import Array
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
#: Rows of similarities computed at a time.
_BLOCK = 256

Links = list[dict[int, float]]


def groups(rows: Rows, before: Sequence[int] | None = None) -> Array:
    """Return the topic of each segment, `(segments,)` int32: 0 is the largest, -1 none.

    With fewer than `LEAST_SEGMENTS` segments none has one. `rows` without dimensions are grouped by terms alone; their topics
    are ignored. `before` is the index of the segment before each in its session, -1 for none.
    """
    count = len(rows)
    if count < LEAST_SEGMENTS:
        return np.full(count, -1, dtype=np.int32)
    links = _links(rows)
    if before is not None:
        link_neighbours(links, before)
    _, fineness = _bounded(links, min(_FINENESS * count ** (1 / 3), count / _LINKS))
    found, _ = _bounded(_agreed(links, fineness), fineness)
    left = np.flatnonzero(found < 0)
    if len(left) and len(left) < count:
        profiles = Profiles.of(rows.with_topics(found, rows.relevance), int(found.max()) + 1)
        settled = found.copy()
        settled[left], _ = profiles.nearest(rows.taken(left))
        found = _numbered(settled)
    return found


def link_neighbours(links: Links, before: Sequence[int]) -> None:
    """Add median strength, in place, to the link of each segment to the one `before` it in its session (index, -1: none)."""
    strengths = [strength for own in links for strength in own.values()]
    more = _FOLLOWS * (float(np.median(strengths)) if strengths else 1.0)
    for n, other in enumerate(before):
        if other >= 0:
            links[n][other] = links[other][n] = links[n].get(other, 0.0) + more


def _bounded(links: Links, fineness: float) -> tuple[Array, float]:
    """Return the community of each segment, numbered by size, and the resolution used, lowered at most 7 times.

    It is lowered while there are more topics than `_MOST` third roots of the segments. -1 is for communities of fewer
    than `LEAST_SEGMENTS`.
    """
    most = _MOST * len(links) ** (1 / 3)
    for _ in range(_TRIES):
        found = _numbered(communities(links, fineness, range(len(links))))
        count = int(found.max()) + 1
        if count <= most:
            break
        fineness *= most / count
    return found, fineness


def _agreed(links: Links, fineness: float) -> Links:
    """Return links weighed by the agreement of communities from ten starts; links that none agrees on are dropped."""
    # RandomState gives the same numbers in every version of numpy.
    orders = [np.random.RandomState(run).permutation(len(links)).tolist() for run in range(_RUNS)]
    found = np.stack([communities(links, fineness, order) for order in orders], axis=1)
    weighed: Links = []
    for n, own in enumerate(links):
        others = list(own)
        agreed = (found[others] == found[n]).mean(axis=1) ** _SHARPNESS if others else ()
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


def communities(links: Links, fineness: float, order: Sequence[int]) -> Array:
    """Return the community of each node, `(nodes,)` int32, by Louvain's method, numbered in no order.

    Nodes move where modularity gains most, then communities are merged into nodes, until nothing changes. The
    higher `fineness`, the more communities. `order` is the order in which nodes are visited first.
    """
    graph, place = _Graph(links, [0.0] * len(links)), np.arange(len(links), dtype=np.int32)
    while True:
        _, member = np.unique(graph.moved(fineness, order), return_inverse=True)
        order = range(member.max() + 1)
        if len(graph.links) == len(order):
            return place
        place = member.astype(np.int32)[place]
        graph = graph.folded(member.tolist())


@dataclass(frozen=True, slots=True)
class _Graph:
    """Nodes with their links, and the weight of links inside each (both directions)."""

    links: Links
    inside: list[float]

    def moved(self, fineness: float, order: Sequence[int]) -> list[int]:
        """Return the community of each node, named by a node, after moving nodes until none gains; `order` is the first round."""
        degree = [sum(own.values()) + loop for own, loop in zip(self.links, self.inside, strict=True)]
        scale = fineness / (sum(degree) or 1.0)
        member, total = list(range(len(degree))), list(degree)
        queue, waiting = deque(order), [True] * len(member)
        while queue:
            n = queue.popleft()
            waiting[n] = False
            total[member[n]] -= degree[n]
            best = _best(self.links[n], member, total, member[n], scale * degree[n])
            total[best] += degree[n]
            if best != member[n]:
                member[n] = best
                for other in self.links[n]:
                    if member[other] != best and not waiting[other]:
                        waiting[other] = True
                        queue.append(other)
        return member

    def folded(self, member: Sequence[int]) -> "_Graph":
        """Return the graph whose nodes are the communities; `member` is that of each node, numbered from 0 without gaps."""
        count = max(member) + 1
        links: Links = [{} for _ in range(count)]
        inside = [0.0] * count
        for n, own in enumerate(self.links):
            here = member[n]
            inside[here] += self.inside[n]
            for other, strength in own.items():
                there = member[other]
                if there == here:
                    inside[here] += strength
                else:
                    links[here][there] = links[here].get(there, 0.0) + strength
        return _Graph(links, inside)


def _best(links: Mapping[int, float], member: Sequence[int], total: Sequence[float], now: int, price: float) -> int:
    """Return the community that a node gains most by, of its own and its neighbours'; its own if none is better.

    The node is not in `total`, the degree of each community; `now` is its own, `price` what each unit of degree costs.
    """
    to: dict[int, float] = {now: 0.0}
    for other, strength in links.items():
        there = member[other]
        to[there] = to.get(there, 0.0) + strength
    best, most = now, to[now] - price * total[now]
    for there, strength in to.items():
        gain = strength - price * total[there]
        # Rounding must not move a node between equal communities forever.
        if gain > most + 1e-9:
            best, most = there, gain
    return best
