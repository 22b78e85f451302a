"""Decide which given labels are valid. Pure.

Invariants
1. An agent's label is always valid, a language model's only while most of the words it was made from are the topic's own.
2. No two topics of one scope have the same label from language models.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from memory_mcp.base.text import term_set
from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.model.ids import TopicId, hash_parts
from memory_mcp.model.toc import author_digest
from memory_mcp.model.topic import TopicLabel

#: A topic and a scope: a project, or None for all.
LabelScope = tuple[TopicId, str | None]
#: First keywords of a topic that a language model's label is made from, besides its own label, and the share of all their words
#: that the topic must keep for the label to stay valid. When a memory has grown by 2 or 10 % and is grouped again, 96 to 98 % of
#: the topics that stay do, and 0.1 to 2.4 % of all others; 35 to 55 % keep their own label.
_FIRST, _KEPT = 8, 0.5
#: Hexadecimal digits of a word's hash.
_DIGITS = 4
#: Cache size: successive graphs check mostly the same labels.
_REMEMBERED = 8192


@lru_cache(maxsize=_REMEMBERED)
def fold_label(label: str) -> frozenset[str]:
    """Return a label's terms, by which labels of one scope must differ."""
    return frozenset(term_set(label)) or frozenset({label.casefold()})


def source_of(name: TopicName) -> str:
    """Return the hashes of a topic's words, a label's basis.

    4 digits each, of the label and the first 8 keywords, sorted and joined.
    """
    return "".join(sorted(_word_hashes(name.label, name.keywords[:_FIRST])))


@lru_cache(maxsize=_REMEMBERED)
def holds_words(source: str, name: TopicName) -> bool:
    """Return whether a name has half of the words of a `source_of`."""
    basis = [source[start : start + _DIGITS] for start in range(0, len(source), _DIGITS)]
    hashes = _word_hashes(name.label, name.keywords)
    return sum(word in hashes for word in basis) >= _KEPT * len(basis)


def _word_hashes(label: str, keywords: Sequence[str]) -> set[str]:
    words = term_set(" ".join((label, *keywords))) or {label.casefold()}
    return {f"{hash_parts('word', word, bits=4 * _DIGITS):0{_DIGITS}x}" for word in words}


def valid_labels(labels: Collection[TopicLabel], words_names: Mapping[LabelScope, TopicName]) -> dict[LabelScope, TopicLabel]:
    """Return the labels that are valid by topic and project.

    A language model's label is dropped if its topic is gone or has lost most of its words, or if another topic of
    the scope has that label: its own, an agent's, or one a model gave earlier.
    """
    valid = {(label.topic_id, label.project): label for label in labels if not author_digest(label.author)}
    if len(valid) == len(labels):
        return valid
    used = {(project, fold_label(name.label)): topic_id for (topic_id, project), name in words_names.items()}
    used |= {(project, fold_label(label.label)): topic_id for (topic_id, project), label in valid.items()}
    by_model = (label for label in labels if author_digest(label.author))
    for label in sorted(by_model, key=lambda label: (label.at_ms, label.topic_id)):
        scope = (label.topic_id, label.project)
        if scope not in words_names or not holds_words(author_digest(label.author), words_names[scope]):
            continue
        if used.setdefault((label.project, fold_label(label.label)), label.topic_id) == label.topic_id:
            valid[scope] = label
    return valid
