"""Labels that somebody gave, and which of them hold. Pure.

Invariants
1. An agent's label holds always, a language model's only while the topic's own words are those it was made from.
2. No two topics of one scope have one label by a language model's doing.
"""

from collections.abc import Collection, Mapping

from memory_mcp.indexes.topics.base import Name
from memory_mcp.model.ids import TopicId, digest
from memory_mcp.model.toc import written_from
from memory_mcp.model.topic import TopicLabel
from memory_mcp.text import term_set

#: A topic, and the project whose callers are meant, or (None) those who see all.
Place = tuple[TopicId, str | None]
#: Keywords that a language model's label depends on beside the topic's own: those behind them come and go with every segment.
_FIRST = 3


def folded(label: str) -> frozenset[str]:
    """Return what a label says, without case and order: labels of one scope differ in it."""
    return frozenset(term_set(label)) or frozenset({label.casefold()})


def source_of(name: Name) -> str:
    """Return the digest of what a topic calls itself: what a language model makes of it is good as long as this stays."""
    return f"{digest('label', name.label, *sorted(name.keywords[:_FIRST])):020x}"


def in_force(given: Collection[TopicLabel], own: Mapping[Place, Name]) -> dict[Place, TopicLabel]:
    """Return the labels that hold, where `own` is what topics call themselves.

    Of two topics that language models called the same, the one that was called so first keeps it.
    """
    held = {(one.topic_id, one.project): one for one in given if not written_from(one.author)}
    taken = {(project, folded(name.label)): topic_id for (topic_id, project), name in own.items()}
    taken |= {(project, folded(one.label)): topic_id for (topic_id, project), one in held.items()}
    for one in sorted((one for one in given if written_from(one.author)), key=lambda one: (one.at_ms, one.topic_id)):
        place = (one.topic_id, one.project)
        if place not in own or source_of(own[place]) != written_from(one.author):
            continue
        if taken.setdefault((one.project, folded(one.label)), one.topic_id) == one.topic_id:
            held[place] = one
    return held
