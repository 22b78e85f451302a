"""Labels that somebody gave, and which of them hold. Pure.

Invariants
1. An agent's label holds always, a language model's only while most of the words it was made from are the topic's own.
2. No two topics of one scope have one label by a language model's doing.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from memory_mcp.indexes.topics.base import Name
from memory_mcp.model.ids import TopicId, digest
from memory_mcp.model.toc import written_from
from memory_mcp.model.topic import TopicLabel
from memory_mcp.text import term_set

#: A topic, and the project whose callers are meant, or (None) those who see all.
Place = tuple[TopicId, str | None]
#: A language model's label is made from a topic's own label and these first keywords, and holds while the topic calls itself
#: by this share of their words, in whatever order: so do 96 to 98 % of the topics that stay when a memory has grown by 2 or by
#: 10 % and is grouped anew, and 0.1 to 2.4 % of all others. Of the same topics 35 to 55 % keep even their own label.
_FIRST, _KEPT = 8, 0.5
#: Hexadecimal digits of a word's hash.
_DIGITS = 4
#: Every graph asks again which labels hold, and most of what they say was asked of the one before.
_REMEMBERED = 8192


@lru_cache(maxsize=_REMEMBERED)
def folded(label: str) -> frozenset[str]:
    """Return what a label says, without case and order: labels of one scope differ in it."""
    return frozenset(term_set(label)) or frozenset({label.casefold()})


def source_of(name: Name) -> str:
    """Return hashes of the words that a topic calls itself by, in one: what a language model makes of it rests on these."""
    return "".join(sorted(_hashes(name.label, name.keywords[:_FIRST])))


@lru_cache(maxsize=_REMEMBERED)
def holds(source: str, name: Name) -> bool:
    """Whether a topic still calls itself by most of the words behind a source."""
    wanted = [source[i : i + _DIGITS] for i in range(0, len(source), _DIGITS)]
    there = _hashes(name.label, name.keywords)
    return sum(one in there for one in wanted) >= _KEPT * len(wanted)


def _hashes(label: str, keywords: Sequence[str]) -> set[str]:
    words = term_set(" ".join((label, *keywords))) or {label.casefold()}
    return {f"{digest('word', word, bits=4 * _DIGITS):0{_DIGITS}x}" for word in words}


def in_force(given: Collection[TopicLabel], own: Mapping[Place, Name]) -> dict[Place, TopicLabel]:
    """Return the labels that hold, where `own` is what topics call themselves.

    Of two topics that language models called the same, the one that was called so first keeps it.
    """
    held = {(one.topic_id, one.project): one for one in given if not written_from(one.author)}
    if len(held) == len(given):
        return held
    taken = {(project, folded(name.label)): topic_id for (topic_id, project), name in own.items()}
    taken |= {(project, folded(one.label)): topic_id for (topic_id, project), one in held.items()}
    for one in sorted((one for one in given if written_from(one.author)), key=lambda one: (one.at_ms, one.topic_id)):
        place = (one.topic_id, one.project)
        if place not in own or not holds(written_from(one.author), own[place]):
            continue
        if taken.setdefault((one.project, folded(one.label)), one.topic_id) == one.topic_id:
            held[place] = one
    return held
