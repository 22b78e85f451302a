"""Where new segments are put at once, beside where grouping everything anew would put them."""

import time

import numpy as np

from bench.topics.references import Reference
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.grouping import groups
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import Rows

#: One segment in so many is left out, each once.
_PARTS = 10


def placing(reference: Reference) -> str:
    """Leave out a tenth, group the rest, place the tenth, and compare with grouping all of them; ten times.

    A topic of the rest stands for the topic of the whole that most of its segments are in. A placed segment agrees when its
    topic stands for the one that grouping everything gives it, or neither gives it one.
    """
    material = reference.material()
    rows, count = material.rows(), len(material.named)
    whole = groups(rows, material.before)
    same = int((_profiles(rows, whole).nearest(rows)[0] == whole).sum())
    agreed = none = right = known = 0
    spent = 0.0
    for part in range(_PARTS):
        kept = np.array([n for n in range(count) if n % _PARTS != part])
        place = {int(n): i for i, n in enumerate(kept)}
        before = [place.get(material.before[n], -1) for n in kept]
        found = groups(rows.select(kept), before)
        profiles = _profiles(rows.select(kept), found)
        stands = {t: _most(whole[kept[found == t]].tolist()) for t in range(int(found.max()) + 1)}
        spans = {t: _most([reference.documents[n].reference for n in kept[found == t]]) for t in stands}
        for n in range(part, count, _PARTS):
            began = time.process_time()
            best = int(profiles.nearest(rows.select(np.array([n])))[0][0])
            spent += time.process_time() - began
            none += best < 0
            agreed += (stands[best] if best >= 0 else -1) == whole[n]
            if told := reference.documents[n].reference:
                known += 1
                right += best >= 0 and spans[best] == told
    return (
        f"{reference.name}: of {count} segments {same / count:.1%} fit best where grouping put them; left out and placed, "
        f"{agreed / count:.1%} come where grouping everything puts them, {none / count:.1%} nowhere; "
        f"{right / max(known, 1):.1%} of {known} come to a topic most of which has their reference; "
        f"{1000 * spent / count:.2f} ms each"
    )


def _profiles(rows: Rows, found: Array) -> Profiles:
    return Profiles.of(rows.with_topics(found, rows.relevance), int(found.max(initial=-1)) + 1)


def _most(found: list) -> object:  # type: ignore[type-arg]
    """What most are."""
    return max(sorted(set(found)), key=found.count)
