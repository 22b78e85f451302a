"""Where new segments are put at once, beside where grouping everything anew would put them."""

import time

import numpy as np

from bench.topics.references import Reference
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.grouping import group_segments
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
    all_topics = group_segments(rows, material.before)
    unmoved = int((_profiles(rows, all_topics).find_nearest(rows)[0] == all_topics).sum())
    agreed = unplaced = in_span = with_span = 0
    spent = 0.0
    for fold in range(_PARTS):
        remaining = np.array([n for n in range(count) if n % _PARTS != fold])
        index_of = {int(n): i for i, n in enumerate(remaining)}
        predecessors = [index_of.get(material.before[n], -1) for n in remaining]
        topics = group_segments(rows.select(remaining), predecessors)
        profiles = _profiles(rows.select(remaining), topics)
        topic_of = {t: _most(all_topics[remaining[topics == t]].tolist()) for t in range(int(topics.max()) + 1)}
        spans = {t: _most([reference.documents[n].reference for n in remaining[topics == t]]) for t in topic_of}
        for n in range(fold, count, _PARTS):
            began = time.process_time()
            best = int(profiles.find_nearest(rows.select(np.array([n])))[0][0])
            spent += time.process_time() - began
            unplaced += best < 0
            agreed += (topic_of[best] if best >= 0 else -1) == all_topics[n]
            if span := reference.documents[n].reference:
                with_span += 1
                in_span += best >= 0 and spans[best] == span
    return (
        f"{reference.name}: of {count} segments {unmoved / count:.1%} fit best where grouping put them; left out and placed, "
        f"{agreed / count:.1%} come where grouping everything puts them, {unplaced / count:.1%} nowhere; "
        f"{in_span / max(with_span, 1):.1%} of {with_span} come to a topic most of which has their reference; "
        f"{1000 * spent / count:.2f} ms each"
    )


def _profiles(rows: Rows, topics: Array) -> Profiles:
    return Profiles.from_rows(rows.with_topics(topics, rows.relevance), int(topics.max(initial=-1)) + 1)


def _most(values: list) -> object:  # type: ignore[type-arg]
    """What most are."""
    return max(sorted(set(values)), key=values.count)
