"""Communities of a weighted graph by Louvain's method. Pure.

Nodes move where modularity gains most, then communities are merged into nodes, until nothing changes. What a link must be
worth depends on the units that its two nodes belong to and on nothing else: the communities of one unit are the same
whatever other units the graph has, as long as no link joins them.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory_mcp.indexes.files import Array

#: The links of each node: by index of the other node, in both directions, with their strength.
Links = list[dict[int, float]]
#: Resolution of the communities that parts are joined from, and most of a part's links, by strength, that leave it: of the
#: communities of coding sessions or of a person's records 7 to 47 % leave, of such corpora as wholes up to 6 %.
_COARSE, _LEAVES = 4.0, 0.1


@dataclass(frozen=True, slots=True)
class Resolution:
    """How fine communities are, by unit of the graph: the higher, the more communities."""

    #: The unit of each node, numbered from 0, `(nodes,)`.
    unit: Array
    #: Resolution of modularity within each unit, `(units,)`.
    fineness: Array

    def scales(self, links: Links) -> list[float]:
        """Return the factor of each node's degree, so that the product of two scaled degrees is what joining costs.

        Within a unit that is the modularity of the unit alone, between two units the geometric mean of theirs.
        """
        degree = np.array([sum(strengths.values()) for strengths in links])
        total = np.bincount(self.unit, weights=degree)
        scale: list[float] = np.sqrt(self.fineness / np.maximum(total, 1e-9))[self.unit].tolist()
        return scale

    def lowered(self, excess: Array) -> "Resolution":
        """Return the resolution divided by a factor for each unit, `(units,)`."""
        return replace(self, fineness=self.fineness / excess)


def communities(links: Links, scales: Sequence[float], order: Sequence[int]) -> Array:
    """Return the community of each node, `(nodes,)` int32, numbered from 0 without gaps, in no order.

    `scales` are the factors of the nodes' degrees, `order` is the order in which nodes are visited first.
    """
    graph = _Graph(links, [sum(own.values()) * scale for own, scale in zip(links, scales, strict=True)])
    place = np.arange(len(links), dtype=np.int32)
    while True:
        _, member = np.unique(graph.moved(order), return_inverse=True)
        order = range(member.max() + 1)
        if len(graph.links) == len(order):
            return place
        place = member.astype(np.int32)[place]
        graph = graph.folded(member.tolist())


def parts(links: Links) -> Array:
    """Return the part of the memory that each segment belongs to, `(segments,)`, numbered from 0.

    Parts are communities, joined to the neighbour with most links as long as more than a tenth of their links leave them: the
    coding sessions of a memory and the records of a person are two parts, whatever the size of either.
    """
    whole = Resolution(np.zeros(len(links), dtype=np.int64), np.array([_COARSE]))
    community = communities(links, whole.scales(links), range(len(links)))
    between, volume = _between(links, community)
    part = list(range(len(volume)))
    leaving = [sum(strengths.values()) / size if size else 0.0 for strengths, size in zip(between, volume, strict=True)]
    while max(leaving) > _LEAVES:
        loose = leaving.index(max(leaving))
        target = max(between[loose], key=lambda other: (between[loose][other], -other))
        for other, strength in between[loose].items():
            del between[other][loose]
            if other != target:
                between[target][other] = between[other][target] = between[target].get(other, 0.0) + strength
        between[loose], leaving[loose] = {}, 0.0
        volume[target] += volume[loose]
        leaving[target] = sum(between[target].values()) / volume[target]
        part = [target if root == loose else root for root in part]
    return np.unique(np.array(part)[community], return_inverse=True)[1]


def _between(links: Links, community: Array) -> tuple[Links, list[float]]:
    """Return the links between communities, numbered from 0 without gaps, and the strength of all links of each."""
    number = community.tolist()
    between: Links = [{} for _ in range(max(number) + 1)]
    volume = [0.0] * len(between)
    for segment, strengths in enumerate(links):
        here = number[segment]
        for neighbour, strength in strengths.items():
            volume[here] += strength
            if (there := number[neighbour]) != here:
                between[here][there] = between[here].get(there, 0.0) + strength
    return between, volume


@dataclass(frozen=True, slots=True)
class _Graph:
    """Nodes with their links to others and their scaled degrees, links inside each included."""

    links: Links
    degree: list[float]

    def moved(self, order: Sequence[int]) -> list[int]:
        """Return the community of each node, named by a node, after moving nodes until none gains; `order` is the first round."""
        degree = self.degree
        member, total = list(range(len(degree))), list(degree)
        queue, waiting = deque(order), [True] * len(member)
        while queue:
            n = queue.popleft()
            waiting[n] = False
            total[member[n]] -= degree[n]
            best = _best(self.links[n], member, total, member[n], degree[n])
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
        degree = [0.0] * count
        for n, own in enumerate(self.links):
            here = member[n]
            degree[here] += self.degree[n]
            for other, strength in own.items():
                if (there := member[other]) != here:
                    links[here][there] = links[here].get(there, 0.0) + strength
        return _Graph(links, degree)


def _best(links: Mapping[int, float], member: Sequence[int], total: Sequence[float], now: int, price: float) -> int:
    """Return the neighbouring community with the largest gain of modularity for a node; its own if none is larger.

    The node is not in `total`, the scaled degree of each community; `now` is its own, `price` is its scaled degree.
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
