"""Match query terms against texts and term sets: the scores of layer 2. Pure.

A match's `score` is the matched share of the query's terms (agentic-toc-search-plan.md); a node's relevance is the share by
weight, each term weighing its inverse document frequency. The score of a hit is how often a message with such a score was the
expected one, 0..1.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.text import probe, query_terms, snippet, term_hash, term_set, terms
from memory_mcp.indexes.keywords import keyword_terms
from memory_mcp.model.ids import GripId
from memory_mcp.model.toc import TocNode
from memory_mcp.search.layers.base import Hit
from memory_mcp.tree.derive.terms import Frequencies, Hashes

#: Saturation and length weight of the term-frequency part (measured: better than the usual 1.2 and 0.75 on dialogue).
K1, B = 0.9, 0.4
_SNIPPET = 240
#: Highest factor on the weight of a keyword's term, and of all of them together as a share of the query's own weight.
_KEYWORD, _KEYWORDS = 0.5, 0.5


class SearchField(StrEnum):
    """Searchable parts of a node; `below` is its subtree."""

    TITLE = "title"
    SUMMARY = "summary"
    BULLETS = "bullets"
    KEYWORDS = "keywords"
    BELOW = "below"


#: The fields a caller may name.
FIELDS = (SearchField.TITLE, SearchField.SUMMARY, SearchField.BULLETS, SearchField.KEYWORDS)


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """A query's distinct terms with their hashes and weights."""

    text: str
    weights: Mapping[str, float]
    hashes: Mapping[str, int]
    #: Number of segments of the scope that hold each term.
    counts: Mapping[str, int]
    #: Prefixes of all words with one of the query's stems: most texts need not be split into terms.
    probes: tuple[str, ...]
    #: Those of the terms that are keywords: they add to what the query's own give, up to that of all of these.
    keywords: frozenset[str] = frozenset()

    def may_be_in(self, text: str) -> bool:
        """Return False only for an ASCII text without any of the terms."""
        if not text.isascii():
            return True
        lower = text.lower()
        return any(probe in lower for probe in self.probes)

    def probes_in(self, text: str) -> int:
        """Return the number of probes that a text may hold."""
        if not text.isascii():
            return len(self.probes)
        lower = text.lower()
        return sum(probe in lower for probe in self.probes)

    @property
    def distinct_terms(self) -> frozenset[str]:
        """The query's distinct terms."""
        return frozenset(self.weights)

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all terms but keywords."""
        return sum(weight for term, weight in self.weights.items() if term not in self.keywords)

    def share_of(self, held_terms: Iterable[str]) -> float:
        """Return the share of the query's weight of some terms, 0..1.

        Raises KeyError for other terms.
        """
        return min(sum(self.weights[t] for t in held_terms) / self.total_weight, 1.0) if self.total_weight else 0.0


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """One field of a node that holds query terms."""

    field: SearchField
    text: str
    grip_ids: tuple[GripId, ...]
    score: float
    terms: frozenset[str]


def parse_fields(names: Sequence[str] | None) -> tuple[SearchField, ...]:
    """Return fields by name, all without any.

    Raises InvalidQuery for an unknown name.
    """
    fields_by_name = {f.value: f for f in FIELDS}
    for name in names or ():
        if name not in fields_by_name:
            raise InvalidQuery(f"unknown field: {name!r}", f"Fields are {', '.join(fields_by_name)}.")
    return tuple(fields_by_name[n] for n in names) if names else FIELDS


def weigh_query(
    text: str, frequencies: Frequencies, project: str | None, segments: int, keywords: Sequence[str] = ()
) -> WeightedQuery:
    """Return a query's terms with IDF weights in a project.

    Terms of `keywords` weigh less, all together at most `_KEYWORDS` of the others. Raises InvalidQuery without terms.
    """
    question_terms = query_terms(text)
    if not question_terms:
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    keyword_only_terms = keyword_terms(keywords, question_terms)
    hashes = {t: term_hash(t) for t in (*question_terms, *keyword_only_terms)}
    counts = {t: frequencies.segment_count(h, project) for t, h in hashes.items()}
    weights = {t: math.log(1 + (max(segments, n) - n + 0.5) / (n + 0.5)) for t, n in counts.items()}
    if keyword_only_terms:
        total, most = (sum(weights[t] for t in several) for several in (keyword_only_terms, question_terms))
        factor = min(_KEYWORD, _KEYWORDS * most / total)
        weights |= {t: factor * weights[t] for t in keyword_only_terms}
    return WeightedQuery(text, weights, hashes, counts, tuple({probe(t) for t in weights}), frozenset(keyword_only_terms))


def shares_of(query: WeightedQuery, sets: Sequence[Hashes | None]) -> list[float]:
    """Return the share of the query's weight of each term set.

    As `terms_below`, but fast for thousands of sets. A set is `(n,)` uint32, sorted; one that is None holds nothing.
    """
    query_hashes = np.fromiter(query.hashes.values(), dtype="<u4", count=len(query.hashes))
    weights = np.fromiter((query.weights[t] for t in query.hashes), dtype="f8", count=len(query.hashes))
    total = query.total_weight or 1.0
    shares = []
    for hashes in sets:
        if hashes is None or not len(hashes):
            shares.append(0.0)
            continue
        positions = hashes.searchsorted(query_hashes)
        positions[positions == len(hashes)] = 0
        shares.append(min(float(weights[hashes[positions] == query_hashes].sum() / total), 1.0))
    return shares


def terms_below(query: WeightedQuery, hashes: Hashes) -> frozenset[str]:
    """Return the query terms in a node's set, `(n,)` sorted uint32."""
    if not len(hashes):
        return frozenset()
    query_hashes = np.fromiter(query.hashes.values(), dtype="<u4", count=len(query.hashes))
    positions = np.minimum(np.searchsorted(hashes, query_hashes), len(hashes) - 1)
    return frozenset(t for t, hit in zip(query.hashes, hashes[positions] == query_hashes, strict=True) if hit)


def match_node(node: TocNode, query: WeightedQuery, fields: Sequence[SearchField]) -> list[FieldMatch]:
    """Return the matches in a node's own text, best first.

    Ties are in the order title, summary, bullets, keywords. A score is the share of the query's terms, 0..1, by number.
    """
    candidates: list[tuple[SearchField, str, tuple[GripId, ...]]] = []
    if SearchField.TITLE in fields:
        candidates.append((SearchField.TITLE, node.title, ()))
    if SearchField.SUMMARY in fields and node.summary:
        candidates.append((SearchField.SUMMARY, node.summary, ()))
    if SearchField.BULLETS in fields:
        candidates += [(SearchField.BULLETS, b.text, b.grip_ids) for b in node.bullets]
    if SearchField.KEYWORDS in fields and query.may_be_in(" ".join(node.keywords)):
        candidates += [(SearchField.KEYWORDS, k, ()) for k in node.keywords]
    matches = []
    for field, text, grips in candidates:
        found = query.distinct_terms & term_set(text) if query.may_be_in(text) else None
        if found:
            share = round(len(found) / len(query.weights), 3)
            matches.append(FieldMatch(field, snippet(text, found, _SNIPPET), grips, share, found))
    return sorted(matches, key=lambda m: -m.score)


def text_score(query: WeightedQuery, counts: Mapping[str, int], length: float, mean_length: float) -> float:
    """Return the score, 0..1, of a text of `length` terms.

    `counts` are how often each term occurs; `mean_length` 0 leaves length out.
    """
    norm = K1 * (1 - B + B * length / mean_length) if mean_length else K1
    score = sum(w * counts[t] / (counts[t] + norm) for t, w in query.weights.items() if counts.get(t)) / query.total_weight
    return min(score, 1.0)


def count_terms(query: WeightedQuery, text: str) -> Counter[str]:
    """Return how often each of the query's terms occurs in a text."""
    if text.isascii():
        # Tokens do not cross white space, and most runs hold no query word: an eighth of the time (measured).
        runs = zip(text.split(), text.lower().split(), strict=True)
        text = " ".join(run for run, lower in runs if any(probe in lower for probe in query.probes))
    return Counter(t for t in terms(text) if t in query.weights)


#: Results that share the odds, and the log odds of a score difference of 1.
_COMPARED, _SHARPNESS = 10, 36.0
#: Normalized score and the share that was right. The first is for a score of 0, the last for a message that holds the query
#: verbatim (not fitted: the corpora have no such queries).
_TABLE = (
    (0.0, 0.0035), (0.0004, 0.021), (0.0012, 0.041), (0.0026, 0.055), (0.0043, 0.074), (0.0057, 0.1), (0.0085, 0.134),
    (0.0124, 0.196), (0.0206, 0.221), (0.0497, 0.295), (0.1014, 0.433), (0.1908, 0.568), (0.8, 0.95),
)  # fmt: skip
#: Name of the part of a score that is the segment's `text_score`.
TERMS = "terms"


def calibrate_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits of one search with calibrated scores, in their order.

    Calibrated like the indexes' scores (`indexes.calibrate`), so that both can be compared. The normalized score is the score
    times its share among the best ten. Fitted on the tuning halves of conversations and of phone records (English and Chinese)
    whose answering messages are known, with layer 2 alone; expected calibration error on the other halves .009.
    """
    if not hits:
        return []
    scores = np.array([h.score for h in hits])
    odds = np.exp(_SHARPNESS * (scores - scores[0]))
    standings = scores * odds / odds[:_COMPARED].sum()
    values = np.interp(standings, [x for x, _ in _TABLE], [y for _, y in _TABLE]).tolist()
    return [replace(h, score=round(value, 4)) for h, value in zip(hits, values, strict=True)]
