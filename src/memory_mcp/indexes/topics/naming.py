"""Name groups of segments: a readable label and keywords for each. Pure.

A term's score is the share of a group's segments that name it, times how much more often they name it than
others do: a term of a third of a topic ranks before one of two segments and no others. Words that are adjacent
in several segments are one term. See class-based TF-IDF (BERTopic).

Invariants
1. Labels of one call differ from each other by more than case and order, and are at most `MAX_LABEL` characters.
2. Names depend only on the documents of the call: those of a project are computed from its own.
3. The same input gives the same names in every process.

Change here: what a topic is called.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.indexes.topics.labels import fold_label
from memory_mcp.indexes.topics.phrases import TermItem, items_of
from memory_mcp.indexes.topics.reading import Ints, TextUnits, expand_rows
from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.tree.summarize.titles import make_headline, without_date

MAX_KEYWORDS = 12
#: Added to both shares of a ratio: a word that nobody else names is no better than one that every thirtieth segment names.
_FLOOR = 0.03
#: Weight of a word that other topics name as often: in a store about one subject all topics are about it.
_ANYHOW = 0.3
#: How sharply rarity of a word in the language counts, as in titles.
_RARITY = 0.5
#: A name is common in a topic that has it so often; how sharply it counts that it is so in several: those of the people and
#: places of a store are everywhere.
_COMMON, _SPREAD = 0.25, 0.5
#: Names of those who speak, and names of code, against words.
_SPEAKER, _CODE = 0.1, 0.5
#: Most segments of a group that are searched for phrases, evenly spaced: ideographs of a thousand took a minute.
_READ = 200
#: Most terms of a group that phrases may be made of.
_CANDIDATES = 32
#: A further term of a label counts by the share of segments that it adds, and by this much where it adds none; it counts this
#: share of the first term at least.
_ANYWAY, _SECOND = 0.5, 0.15
#: Beside a single word, which says little alone, a term may count less.
_LONELY = 0.5
#: A phrase that this share of the segments has is a label alone.
_ENOUGH, _FEW = 0.6, 1
_MOST_TERMS = 3
_BETWEEN = ", "
#: An old label is kept while its best term is worth, and its terms cover, this share of what the new one's do.
_NEARLY = 0.75


def name_topics(
    texts: TextUnits,
    topics: Sequence[Sequence[int]],
    unassigned: Sequence[int] = (),
    used_labels: Iterable[str] = (),
    former_labels: Sequence[str] = (),
) -> list[TopicName]:
    """Return a name for each topic of one scope, in their order.

    `topics` are for each topic the numbers of its documents in `texts`, those of the scope only; `unassigned` those in no
    topic, which are the background with the topics'. Labels in `used_labels` were given by others and are not given
    again; `former_labels` are the former labels, "" for a new topic: they are kept while they are nearly as good as new
    ones.
    """
    groups = _score_groups(texts, topics, unassigned)
    used = _UsedLabels(used_labels)
    names_by_topic: dict[int, TopicName] = {}
    # The largest topic chooses first.
    for n in sorted(range(len(topics)), key=lambda n: (-len(topics[n]), n)):
        docs = groups[n].docs[:: 1 + (len(groups[n].docs) - 1) // _READ]
        items = items_of(texts, docs, groups[n].scores)
        # A topic without a telling word has the title of its first segment.
        titles = (make_headline(without_date(texts.titles[doc]), MAX_LABEL) for doc in groups[n].docs)
        fallback = next((title for title in titles if title), "no words")
        label = used.choose_label(items, fallback, former_labels[n] if former_labels else "")
        names_by_topic[n] = TopicName(label, tuple(item.text for item in _distinct_items(items, MAX_KEYWORDS)))
    return [names_by_topic[n] for n in range(len(topics))]


@dataclass(slots=True)
class _Group:
    """One topic: its documents, and the scores of its best `_CANDIDATES` keys."""

    docs: Ints
    scores: dict[int, float] = field(default_factory=dict)


def _score_groups(texts: TextUnits, topics: Sequence[Sequence[int]], unassigned: Sequence[int]) -> list[_Group]:
    """A key counts if two documents of a topic name it."""
    groups = [_Group(np.array(sorted(topic), dtype=np.int64)) for topic in topics]
    docs = np.concatenate([*(group.docs for group in groups), np.array(unassigned, dtype=np.int64)])
    at, lengths = expand_rows(texts.named_bounds, docs)
    of_topic = np.repeat(np.repeat(np.arange(len(groups) + 1), [*(len(g.docs) for g in groups), len(unassigned)]), lengths)
    size = len(texts.weights)
    total = np.bincount(texts.named_keys[at], texts.named_weights[at], minlength=size)
    codes, row = np.unique(of_topic * size + texts.named_keys[at], return_inverse=True)
    inside = np.bincount(row, texts.named_weights[at])
    named_by = np.bincount(row)
    tells = texts.weights**_RARITY
    tells[texts.code] *= _CODE
    speakers = frozenset[int]().union(*(texts.speakers[n] for n in docs))
    tells[list(speakers)] *= _SPEAKER
    tells = np.asarray(tells * texts.noun_shares(docs))
    bounds = np.searchsorted(codes, np.arange(len(groups) + 1) * size)
    shares = inside / np.array([*(max(len(group.docs), 1) for group in groups), np.inf])[codes // size]
    common = np.maximum(np.bincount(codes[shares >= _COMMON] % size, minlength=size), 1.0)
    tells *= np.where(texts.are_capitalized(docs), common**-_SPREAD, 1.0)
    for n, group in enumerate(groups):
        group_slice = slice(bounds[n], bounds[n + 1])
        keys = codes[group_slice] % size
        share = shares[group_slice]
        outside = (total[keys] - inside[group_slice]) / max(len(docs) - len(group.docs), 1)
        score = share * (_ANYHOW + np.maximum(np.log((share + _FLOOR) / (outside + _FLOOR)), 0.0)) * tells[keys]
        score[named_by[group_slice] < min(2, len(group.docs))] = 0.0
        best = np.lexsort((keys, -np.round(score, 9)))[:_CANDIDATES]
        group.scores = {int(keys[i]): float(score[i]) for i in best if score[i] > 0}
    return groups


def _distinct_items(items: Sequence[TermItem], limit: int) -> list[TermItem]:
    chosen: list[TermItem] = []
    used: set[int] = set()
    for item in items:
        if len(chosen) < limit and 2 * len(item.keys & used) < len(item.keys) and not _repeats_any(item, chosen):
            chosen.append(item)
            used |= item.keys
    return chosen


class _UsedLabels:
    """The labels of one scope, all distinct."""

    def __init__(self, used_labels: Iterable[str]) -> None:
        self._used: set[frozenset[str]] = {fold_label(label) for label in used_labels}

    def choose_label(self, items: Sequence[TermItem], fallback: str, former_label: str) -> str:
        parts = _keep_former(items, former_label) or _choose_items(items)
        label = next(
            (candidate for candidate in self._iter_candidates(items, parts, fallback) if fold_label(candidate) not in self._used),
            "",
        )
        self._used.add(fold_label(label))
        return label

    def _iter_candidates(self, items: Sequence[TermItem], parts: Sequence[TermItem], fallback: str) -> Iterable[str]:
        base = _join_items(parts) or fallback
        yield base
        other_items = [
            item for item in items if not any(item.keys & part.keys for part in parts) and not _repeats_any(item, parts)
        ]
        for kept_count in range(len(parts), 0, -1):
            for other in other_items:
                label = _join_items([*parts[:kept_count], other])
                if len(label) <= MAX_LABEL:
                    yield label
        for number in range(len(self._used) + 1):
            mark = f" ({_letter_mark(number)})"
            yield make_headline(base, MAX_LABEL - len(mark)) + mark


def _choose_items(items: Sequence[TermItem]) -> list[TermItem]:
    parts = list(items[:1])
    while parts and len(parts) < _MOST_TERMS:
        covered = _covered_docs(parts)
        if any(part.phrase for part in parts) and len(covered) >= _ENOUGH * (parts[0].size + _FEW):
            break
        used = frozenset[int]().union(*(part.keys for part in parts))
        least = _SECOND * parts[0].value
        if len(parts) == 1 and not parts[0].phrase:
            least *= _LONELY
        best: TermItem | None = None
        for item in items:
            worth = item.value * (_ANYWAY + len(item.docs - covered) / item.size)
            fits = worth > least and not item.keys & used and len(_join_items([*parts, item])) <= MAX_LABEL
            if fits and not _repeats_any(item, parts):
                best, least = item, worth
        if best is None:
            break
        parts.append(best)
    return parts


def _keep_former(items: Sequence[TermItem], former_label: str) -> list[TermItem]:
    by_text = {item.text.casefold(): item for item in items}
    texts = former_label.split(_BETWEEN)
    parts = [replace(by_text[text.casefold()], text=text) for text in texts if text.casefold() in by_text]
    if not parts or _join_items(parts) != former_label:
        return []
    chosen = _choose_items(items)
    covers = len(_covered_docs(parts)) >= _NEARLY * len(_covered_docs(chosen))
    return parts if covers and max(part.value for part in parts) >= _NEARLY * chosen[0].value else []


def _covered_docs(parts: Iterable[TermItem]) -> frozenset[int]:
    return frozenset[int]().union(*(part.docs for part in parts))


def _repeats_any(item: TermItem, other_items: Sequence[TermItem]) -> bool:
    text = item.text.casefold()
    return any(text in other.text.casefold() or other.text.casefold() in text for other in other_items)


def _join_items(parts: Sequence[TermItem]) -> str:
    return _BETWEEN.join(part.text for part in parts)


def _letter_mark(number: int) -> str:
    text = ""
    number += 2
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text
