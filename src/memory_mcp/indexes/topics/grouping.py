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

Change here: which segments make a topic.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.communities import Links, Resolution, find_communities, find_parts
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import Rows

#: Least segments of a topic.
LEAST_SEGMENTS = 3
#: Segments that each segment is linked to, besides those that are linked to it.
_NEIGHBOURS = 12
#: Weight of the link to the previous segment, in links of median strength.
_FOLLOWS = 1.0
#: Resolution of modularity in third roots of the number of segments, which gives about six times as many topics; most topics
#: in third roots (150 of 4,000 segments), for which the resolution is lowered.
_FINENESS, _MOST = 1.2, 9.5
#: Communities that are computed to lower it, the excess that is let pass, and the power of the excess that it is divided by:
#: the number of topics follows the resolution by powers of .4 to .65.
_TRIES, _EXCESS, _STEEPNESS = 4, 1.03, 1.6
#: Links of a segment, counted from both sides: a finer resolution than segments / links leaves every segment alone.
_LINKS = 1.5 * _NEIGHBOURS
#: Number of starts, and exponent of their agreement. With one start 68 to 82 of 100 topics are found again, by half of their
#: segments, with a tenth more segments; with ten 77 to 82, and NMI is no worse.
_RUNS, _FIRST_RUNS, _SHARPNESS = 10, 3, 3
#: Least segments and largest share of all that a part may have to get links of its own, as a larger one decides those of the
#: memory; least share of its segments that must have some then.
_FEW, _SMALL, _LINKED = 2 * _NEIGHBOURS, 0.25, 0.9
#: Rows of similarities computed at a time.
_BLOCK = 64


def group_segments(rows: Rows, predecessors: Sequence[int] | None = None) -> Array:
    """Return the topic of each segment: 0 is the largest, -1 none.

    Segments without terms have none, and with fewer than `LEAST_SEGMENTS` others no segment has one. `rows` without
    dimensions are grouped by terms alone. `predecessors` are the indices of the segment before each in its session,
    -1 for none.
    """
    topics = np.full(len(rows), -1, dtype=np.int32)
    worded = np.flatnonzero(np.diff(rows.ptr))
    if len(worded) >= LEAST_SEGMENTS:
        topics[worded] = _find_topics(
            rows.select(worded), None if predecessors is None else _previous_of(worded.tolist(), predecessors)
        )
    return topics


def _previous_of(worded: Sequence[int], predecessors: Sequence[int]) -> list[int]:
    index = {segment: n for n, segment in enumerate(worded)}
    previous = []
    for segment in worded:
        earlier = predecessors[segment]
        while earlier >= 0 and earlier not in index:
            earlier = predecessors[earlier]
        previous.append(index.get(earlier, -1))
    return previous


def _find_topics(rows: Rows, predecessors: Sequence[int] | None) -> Array:
    links, previous = _link_segments(rows), predecessors or [-1] * len(rows)
    with_sessions = [dict(strengths) for strengths in links]
    link_neighbours(with_sessions, previous)
    part = find_parts(with_sessions)
    _link_parts(links, part, rows)
    link_neighbours(links, previous)
    _, resolution = _bounded_communities(links, _project_resolution(part, rows.project))
    topics, _ = _bounded_communities(_weigh_by_agreement(links, resolution), resolution)
    single = np.flatnonzero(topics < 0)
    if len(single) and len(single) < len(rows):
        profiles = Profiles.from_rows(rows.with_topics(topics, rows.relevance), int(topics.max()) + 1)
        topics[single], _ = profiles.find_nearest(rows.select(single))
        topics = _number_communities(topics)
    return topics


def link_neighbours(links: Links, predecessors: Sequence[int]) -> None:
    """Add median strength to the link of each segment to its predecessor."""
    strengths = [strength for weights in links for strength in weights.values()]
    added = _FOLLOWS * (float(np.median(strengths)) if strengths else 1.0)
    for segment, predecessor in enumerate(predecessors):
        if predecessor >= 0:
            links[segment][predecessor] = links[predecessor][segment] = links[segment].get(predecessor, 0.0) + added


def _link_parts(links: Links, part: Array, rows: Rows) -> None:
    """Replace the links inside each small part by those of it alone.

    Which terms are rare and what all meanings have in common is another matter there than in the whole memory. A
    part of which that leaves some segments without links is about one thing, which all of it names, and keeps its
    links.
    """
    for number, size in enumerate(np.bincount(part).tolist()):
        if _FEW <= size <= _SMALL * len(rows):
            members = np.flatnonzero(part == number)
            index, inside = members.tolist(), _link_segments(rows.select(members))
            for n, strengths in zip(index, inside, strict=True) if sum(map(bool, inside)) >= _LINKED * size else ():
                outside = {other: strength for other, strength in links[n].items() if part[other] != number}
                links[n] = outside | {index[m]: strength for m, strength in strengths.items()}


def _project_resolution(part: Array, projects: Array) -> Resolution:
    _, unit, sizes = np.unique(np.stack([part, projects]), axis=1, return_inverse=True, return_counts=True)
    return Resolution(unit.reshape(-1), np.minimum(_FINENESS * sizes ** (1 / 3), sizes / _LINKS))


def _bounded_communities(links: Links, resolution: Resolution) -> tuple[Array, Resolution]:
    """Return each segment's community, by size, and the resolution used.

    It is lowered where there are more topics than `_MOST` third roots of the segments of a unit, which has a share
    of each topic.
    """
    limits = _MOST * np.bincount(resolution.unit) ** (1 / 3)
    for _ in range(_TRIES):
        topics = _number_communities(find_communities(resolution.scale_links(links), range(len(links))))
        inside = topics >= 0
        share = 1 / np.bincount(topics[inside])[topics[inside]]
        excess = np.bincount(resolution.unit[inside], weights=share, minlength=len(limits)) / limits
        if (excess <= _EXCESS).all():
            break
        resolution = resolution.divided_by(np.where(excess > _EXCESS, excess**_STEEPNESS, 1.0))
    return topics, resolution


def _weigh_by_agreement(links: Links, resolution: Resolution) -> Links:
    """Weigh links by the agreement of communities from ten starts.

    The first starts are from single segments, the others from those that the first all keep together.
    """
    graph = resolution.scale_links(links)
    # RandomState gives the same numbers in every version of numpy.
    first = [find_communities(graph, np.random.RandomState(run).permutation(len(graph)).tolist()) for run in range(_FIRST_RUNS)]
    _, core = np.unique(np.stack(first, axis=1), axis=0, return_inverse=True)
    cores = graph.fold_communities(core.reshape(-1))
    orders = [np.random.RandomState(run).permutation(len(cores)).tolist() for run in range(_FIRST_RUNS, _RUNS)]
    runs = np.stack([*first, *(find_communities(cores, order)[core.reshape(-1)] for order in orders)], axis=1)
    weighed: Links = []
    for segment, strengths in enumerate(links):
        neighbours = list(strengths)
        shares = (runs[neighbours] == runs[segment]).mean(axis=1) ** _SHARPNESS if neighbours else np.zeros(0)
        weighed.append({n: strengths[n] * share for n, share in zip(neighbours, shares.tolist(), strict=True) if share})
    return weighed


def _number_communities(communities_of: Array) -> Array:
    numbers, first, sizes = np.unique(communities_of, return_index=True, return_counts=True)
    order = [n for n in np.lexsort((first, -sizes)).tolist() if numbers[n] >= 0 and sizes[n] >= LEAST_SEGMENTS]
    renumbered = np.full(int(communities_of.max()) + 2, -1, dtype=np.int32)
    renumbered[numbers[order]] = np.arange(len(order))
    return renumbered[communities_of]


def _link_segments(rows: Rows) -> Links:
    links: Links = [{} for _ in range(len(rows))]
    count = min(_NEIGHBOURS, len(rows) - 1)
    for start, similarity in _iter_similarities(rows):
        nearest_ids = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        strengths = np.take_along_axis(similarity, nearest_ids, axis=1)
        for segment, (neighbours, shares) in enumerate(zip(nearest_ids.tolist(), strengths.tolist(), strict=True), start):
            for neighbour, strength in zip(neighbours, shares, strict=True):
                if strength > 0:
                    links[segment][neighbour] = links[neighbour][segment] = strength
    return links


def _iter_similarities(rows: Rows) -> Iterator[tuple[int, Array]]:
    """Yield the first row of each block, and `(block, rows)` similarities.

    0 to itself. It is the fit of each to a topic of each segment alone.
    """
    profiles = Profiles.from_rows(rows.with_topics(np.arange(len(rows)), rows.relevance), len(rows))
    for start in range(0, len(rows), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(rows)))
        similarity = profiles.fits(rows.select(block))
        similarity[block - start, block] = 0
        yield start, similarity
