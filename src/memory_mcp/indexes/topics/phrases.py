"""Find terms to show in the documents of a group: words, and phrases of them. Pure.

Invariants
1. A shown term was in one of the documents: adjacent words, as they were most often written.
2. At least two documents name a term, if there are two.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import field

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.topics.reading import Ints, Kind, TextUnits, expand_rows

#: Units of a phrase, and characters of one in a script without spaces.
_LONGEST, _IDEOGRAPHS = 4, 8
MAX_SHOWN = 40
#: Words that tell less begin and end no phrase.
_EDGE = 0.12
#: How English adverbs end, and participles.
_ADVERB, _TAILS = "ly", ("ly", "ed")
#: Words that tell less than this are poor terms alone, as adverbs and participles are; what is left of their worth.
_DULL, _ALONE = 0.2, 0.6
#: Factors on the value of a phrase: if its best word never occurs in it, the addition if that word occurs nowhere else, and
#: for each word after the second.
_APART, _TOGETHER, _LONGER = 0.55, 0.9, 0.85
#: A pair of ideographs belongs to a word when this share of the documents has it.
_SUPPORT = 0.12
#: What a run of ideographs is worth by its length: two may be half a word, many are a clause.
_BY_LENGTH = (0.0, 0.0, 0.85, 0.95, 1.0, 1.0, 0.95, 0.9, 0.85)
#: Runs of more ideographs say as much as phrases.
_WORD = 3
#: What is left of the value of a run that has the same neighbour more often than this: it is a part of a word.
_PART, _SAME = 0.05, 0.5


@dataclass(frozen=True, slots=True)
class TermItem:
    """A term of a group: shown text, keys, score, and who names it."""

    text: str
    keys: frozenset[int]
    value: float
    docs: frozenset[int]
    size: int
    phrase: bool


def items_of(texts: TextUnits, docs: Ints, scores: Mapping[int, float]) -> list[TermItem]:
    """Return the terms of some documents, best first.

    `scores` are those of the keys that tell the group apart; each term has one of these.
    """
    at, lengths = expand_rows(texts.bounds, docs)
    units, keys = texts.units[at], texts.keys[at]
    rows = _GroupUnits(texts, units.tolist(), keys.tolist(), np.repeat(np.arange(len(docs)), lengths).tolist())
    scored_positions = np.flatnonzero(np.isin(keys, np.array(sorted(scores), dtype=np.int64)))
    items = [*rows.iter_words(scored_positions, scores, len(docs)), *rows.iter_runs(scores, len(docs))]
    return sorted(items, key=lambda item: (-round(item.value, 9), item.text))


class _GroupUnits:
    """The places of a group's documents: unit, key and document of each."""

    def __init__(self, texts: TextUnits, units: list[int], keys: list[int], docs: list[int]) -> None:
        self._texts, self._units, self._keys, self._docs = texts, units, keys, docs
        self._kinds: list[int] = texts.kinds[np.array(units, dtype=np.int64)].tolist() if units else []

    def iter_words(self, scored_positions: Ints, scores: Mapping[int, float], size: int) -> Iterator[TermItem]:
        """Phrases of a single document, and longer than `MAX_SHOWN`, are left out."""
        holders: defaultdict[int, set[int]] = defaultdict(set)
        written_forms: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for position in scored_positions.tolist():
            if self._kinds[position] >= Kind.WORD:
                holders[self._keys[position]].add(self._docs[position])
                written_forms[self._keys[position]][self._texts.shown[self._units[position]]] += 1
        for key, holding_docs in holders.items():
            text = _usual_form(written_forms[key])
            dull = self._texts.weights[key] < _DULL or (text.islower() and text.endswith(_TAILS))
            value = scores[key] * (_ALONE if dull else 1.0)
            yield TermItem(text, frozenset({key}), value, frozenset(holding_docs), size, phrase=False)
        phrases: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        written: defaultdict[tuple[int, ...], Counter[str]] = defaultdict(Counter)
        starts = {position - back for position in scored_positions.tolist() for back in range(_LONGEST) if position >= back}
        for start in sorted(starts):
            for end in self._iter_ends(start):
                keys = tuple(self._keys[i] or -self._units[i] for i in range(start, end))
                if scores.keys().isdisjoint(keys):
                    continue
                phrases[keys].add(self._docs[start])
                written[keys][" ".join(self._texts.shown[self._units[i]] for i in range(start, end))] += 1
        for keys, holding_docs in phrases.items():
            text = _usual_form(written[keys])
            content = frozenset(key for key in keys if key > 0)
            if len(holding_docs) >= min(2, size) and len(text) <= MAX_SHOWN and (len(content) > 1 or keys[-1] < 0):
                # Its words' scores, best first, each next halved, and more if they are seldom apart; less for more than two.
                scored_keys = sorted(
                    ((scores[key], key) for key in content if key in scores), key=lambda pair: (-pair[0], pair[1])
                )
                base = math.fsum(score / 2**position for position, (score, _) in enumerate(scored_keys))
                together = len(holding_docs) / max(len(holders[scored_keys[0][1]]), len(holding_docs))
                value = base * (_APART + _TOGETHER * together) * _LONGER ** max(0, len(content) - 2)
                yield TermItem(text, content, value, frozenset(holding_docs), size, phrase=True)

    def _iter_ends(self, start: int) -> Iterator[int]:
        if start < 0 or not self._is_edge(start):
            return
        joints = 0
        for end in range(start + 1, min(start + _LONGEST, len(self._units))):
            kind = self._kinds[end]
            joints += kind == Kind.JOINT
            if joints > 1 or kind in (Kind.BREAK, Kind.FUNCTION, Kind.IDEOGRAPH):
                return
            if kind == Kind.NUMBER:
                if self._kinds[end - 1] == Kind.JOINT:
                    yield end + 1
                return
            if self._is_edge(end):
                yield end + 1

    def _is_edge(self, position: int) -> bool:
        if self._kinds[position] < Kind.WORD or self._texts.shown[self._units[position]].endswith(_ADVERB):
            return False
        return bool(self._texts.weights[self._keys[position]] >= _EDGE)

    def iter_runs(self, scores: Mapping[int, float], size: int) -> Iterator[TermItem]:
        least = max(min(2, size), math.ceil(_SUPPORT * size))
        holders: defaultdict[int, set[int]] = defaultdict(set)
        for position, kind in enumerate(self._kinds):
            if kind == Kind.IDEOGRAPH and self._keys[position]:
                holders[self._keys[position]].add(self._docs[position])
        run_by_keys: defaultdict[tuple[int, ...], _Run] = defaultdict(_Run)
        for start, end in self._iter_stretches({key for key, holding_docs in holders.items() if len(holding_docs) >= least}):
            for first in range(start, end):
                for last in range(first, min(end, first + _IDEOGRAPHS - 1)):
                    run = run_by_keys[tuple(self._keys[first : last + 1])]
                    run.docs.add(self._docs[first])
                    run.position = first
                    run.times += 1
                    run.previous[self._neighbour_at(first - 1)] += 1
                    run.following[self._neighbour_at(last + 2)] += 1
        for keys, run in run_by_keys.items():
            score, best = max((scores.get(key, 0.0), key) for key in keys)
            if len(run.docs) < least or not score:
                continue
            text = "".join(self._texts.shown[u] for u in self._units[run.position : run.position + len(keys) + 1])
            value = score * math.sqrt(len(run.docs) / len(holders[best])) * _BY_LENGTH[len(text)]
            if run.times > 1 and max(*run.previous.values(), *run.following.values()) > _SAME * run.times:
                value *= _PART
            yield TermItem(text, frozenset(keys), value, frozenset(run.docs), size, phrase=len(text) > _WORD)

    def _iter_stretches(self, common: Container[int]) -> Iterator[tuple[int, int]]:
        start = -1
        for position, (kind, key) in enumerate(zip(self._kinds, self._keys, strict=True)):
            if kind == Kind.IDEOGRAPH and key in common:
                start = position if start < 0 else start
            elif start >= 0:
                yield start, position
                start = -1
        if start >= 0:
            yield start, len(self._kinds)

    def _neighbour_at(self, position: int) -> int:
        if 0 <= position < len(self._kinds) and self._kinds[position] == Kind.IDEOGRAPH:
            return self._units[position]
        return -position - 2


@dataclass(slots=True)
class _Run:
    """A run of ideographs: its documents, number, one place, and what is before and after it."""

    docs: set[int] = field(default_factory=set)
    times: int = 0
    position: int = 0
    previous: Counter[int] = field(default_factory=Counter)
    following: Counter[int] = field(default_factory=Counter)


def _usual_form(written: Counter[str]) -> str:
    return min(written, key=lambda text: (-written[text], text.lower() != text, text))
