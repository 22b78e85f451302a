"""Judge how likely one of the first results holds the answer, and how well each result fits the question. Pure.

What goes in is what the search knows: how the results' scores stand to each other, what the indexes say of the best one, how
much of the question, by rarity in this store, its exchange holds and how close together, and which words the store holds
nowhere. What comes out is one probability, calibrated on questions of which three in four have an answer: the weights
(`relevance_weights`) are fitted by `bench.quality.fit` on the tuning halves of all corpora, and words of no language are listed.

Invariants
1. Nothing is withheld from an answer that is strong or weak; one that is none keeps its nearest results.
2. No answer is strong while a word of the question occurs nowhere in the scope, or where none of the first results holds any.
3. A result that holds no word of the question gains nothing by what is next to it: that may be the question itself.

Change here: when an answer is strong or weak.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import cjk_runs, term_set, terms
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import NodeId
from memory_mcp.search.layers.base import Hit, WordWeights
from memory_mcp.search.policy.relevance_weights import ANSWER, HIT

#: Results that are judged, best first, and results whose words count for the exchange of one of them.
COMPARED, NEIGHBOURS = 5, 14
#: Results that an answer keeps which is probably not in this memory.
NEAREST = 2
#: Probabilities from which an answer is strong, and below which it is none, also where every word of its subject is missing:
#: below the second lies 1 % of right answers on the tuning halves.
STRONG, NOTHING, ALL_MISSING = 0.8, 0.25, 0.35
#: Probability from which no further layer is asked: 97 % of the questions with an answer are above it.
ENOUGH = 0.32
#: Probabilities that a message answers from which it is close (96 % of those that do and come among the first three are), and
#: from which it is exact if it holds all words together.
CLOSE, EXACT = 0.05, 0.5
#: Share of what the scope knows of the question, by weight, that counts as all of it.
_ALL = 0.95
#: Share of the question, by weight, that counts as the whole of it; share of the terms of two results that say the same.
_WHOLE, _ALIKE = 0.9, 0.5
#: Milliseconds between messages of one exchange; terms in a row within which words stand together.
_EXCHANGE_MS, _TOGETHER = 600_000, 12
#: Bounds of a score whose log odds are taken.
_LEAST, _MOST = 1e-4, 0.97


class Confidence(StrEnum):
    """How sure an answer is."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


class Fit(StrEnum):
    """How well a result answers a question."""

    EXACT = "exact"
    CLOSE = "close"
    LOOSE = "loose"


class Signals(StrEnum):
    """What the results were found by: each has its own weights."""

    BOTH = "both"
    KEYWORDS = "keywords"
    MEANING = "meaning"
    TREE = "tree"


@dataclass(frozen=True, slots=True)
class HitEvidence:
    """What is known of one result."""

    #: Log odds of its score among all candidates, with those of results that repeat it.
    lead: float
    #: The indexes' numbers, 0..1: the message's own, its neighbours', its segment's; similarities of message and segment.
    own: float
    near: float
    segment: float
    similarity: float
    segment_similarity: float
    #: Shares of the question, by weight, that its exchange holds, and that some words of it hold close together.
    held: float
    together: float
    #: Whether it holds word for word what the question names literally.
    literal: float


_HIT_VALUES = tuple(field.name for field in fields(HitEvidence))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the results show for a question."""

    #: What is known of the first results, in order.
    hits: tuple[HitEvidence, ...]
    signals: Signals
    #: Share of the question, by weight, that the scope holds nowhere.
    unknown: float
    #: Share of the other first results that are of the best one's segment.
    united: float
    #: Whether the message that is best by its words and the one that is nearest in meaning are of one segment.
    agreed: float


@dataclass(frozen=True, slots=True)
class _JudgedResult:
    hit: Hit
    parts: Mapping[str, float]
    terms: set[str]
    held_terms: set[str]
    share: float

    def repeats(self, other: "_JudgedResult") -> bool:
        """Return whether the other holds the whole question as well, and says nearly the same."""
        if other.share < _WHOLE:
            return False
        common = len(self.terms & other.terms)
        return common >= _ALIKE * (len(self.terms) + len(other.terms) - common)


class EvidenceReader:
    """Reads what results show for one question, each text once."""

    def __init__(
        self, weighed: WordWeights, subjects: Set[str], missing: Set[str] = frozenset(), *, looks_up: bool = False
    ) -> None:
        """Take the question's terms.

        Args:
            weighed: The terms with their weights and how many segments hold them.
            subjects: The terms that name what the question is about; results are judged by them, or by all if there are none.
            missing: The terms of the words that occur nowhere.
            looks_up: Whether a keyword index was asked: results without its numbers hold none of the words then.

        """
        self._looks_up = looks_up
        absent = {term for term in weighed.weights if not weighed.counts.get(term)}
        # A word that is not missing occurs in another form; a pair of ideographs that no text holds is mostly the border of two.
        borders = {term for term in absent - missing if term in subjects or cjk_runs(term)}
        weights = {term: weight for term, weight in weighed.weights.items() if term not in borders}
        subject_weights = {term: weight for term, weight in weights.items() if term in subjects} or weights
        self._asked = copy_with(weighed, weights=subject_weights)
        self._total = sum(subject_weights.values()) or 1.0
        self._unknown = copy_with(weighed, weights=weights).share_of(absent - borders)
        #: What the indexes' shares of the whole question are divided by.
        self._whole = 1 - weighed.share_of(borders) or 1.0
        self._read: dict[tuple[str, str], tuple[set[str], set[str], float]] = {}
        #: By quotation: its terms in order, until it is known how many words of the question stand together.
        self._ordered: dict[str, list[str]] = {}
        self._close: dict[str, float] = {}
        self._latest: tuple[object, Evidence] | None = None

    def read_evidence(self, hits: Sequence[Hit], literal: Sequence[bool]) -> Evidence:
        """Return what results show, best first; `literal` tells which of the first hold what the question names literally."""
        # A layer's list is judged, and then the answer, which mostly is the same list.
        key = [(hit.event_id, hit.grip_id, hit.score) for hit in hits[:NEIGHBOURS]]
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._read_uncached(hits, literal)
        return self._latest[1]

    def _read_uncached(self, hits: Sequence[Hit], literal: Sequence[bool]) -> Evidence:
        results = [_JudgedResult(hit, dict(hit.parts), *self._terms_of(hit)) for hit in hits[:NEIGHBOURS]]
        first = results[:COMPARED]
        best = max(first, key=lambda result: result.hit.score, default=None)
        literal_flags = [*literal, *([False] * len(first))]
        return Evidence(
            hits=tuple(self._hit_evidence(result, results, is_literal=literal_flags[at]) for at, result in enumerate(first)),
            signals=_find_signals(results, looks_up=self._looks_up),
            unknown=self._unknown,
            united=sum(result.hit.node_id == best.hit.node_id for result in first) / COMPARED if best else 0.0,
            agreed=float(bool(results) and _segment_with_highest(results, "own") == _segment_with_highest(results, "similarity")),
        )

    def terms_of(self, hits: Iterable[Hit]) -> set[str]:
        """Return the terms of what hits say and of who said it."""
        return set[str]().union(*(self._terms_of(hit)[0] for hit in hits))

    def _terms_of(self, hit: Hit) -> tuple[set[str], set[str], float]:
        """Return a result's terms, those of the question, and their share."""
        key = hit.quote, hit.speaker
        if key not in self._read:
            self._ordered[hit.quote] = terms(hit.quote)
            text_terms = {*self._ordered[hit.quote], *(term_set(hit.speaker) if hit.speaker else ())}
            held_terms = self._asked.weights.keys() & text_terms
            self._read[key] = text_terms, held_terms, self._share_of(held_terms)
        return self._read[key]

    def _share_of(self, held_terms: Set[str]) -> float:
        return sum(map(self._asked.weights.__getitem__, held_terms)) / self._total

    def _hit_evidence(self, result: _JudgedResult, results: Sequence[_JudgedResult], *, is_literal: bool) -> HitEvidence:
        exchange, score, node, at = set(result.held_terms), result.hit.score, result.hit.node_id, result.hit.timestamp
        trusted_parts: Mapping[str, float] = result.parts if result.held_terms else {}
        if result.held_terms:
            for other in results:
                if other.hit.node_id == node and abs(other.hit.timestamp - at) <= _EXCHANGE_MS:
                    exchange |= other.held_terms
        if result.share >= _WHOLE:
            # What says the same does not speak against it.
            for other in results:
                if other is not result and result.repeats(other):
                    score += other.hit.score
        score = min(max(score, _LEAST), _MOST)
        return HitEvidence(
            lead=math.log(score / (1 - score)),
            own=result.parts.get("own", result.parts.get("terms", 0.0)) / self._whole,
            near=trusted_parts.get("near", 0.0) / self._whole,
            segment=trusted_parts.get("segment", trusted_parts.get("coverage", 0.0)) / self._whole,
            similarity=result.parts.get("similarity", 0.0) ** 2,
            segment_similarity=result.parts.get("segment_similarity", 0.0),
            held=self._share_of(exchange),
            together=self._share_together(result),
            literal=float(is_literal),
        )

    def _share_together(self, result: _JudgedResult) -> float:
        """Return the largest share that a few words in a row hold."""
        if len(result.held_terms) < 2:
            return result.share
        text = result.hit.quote
        if text not in self._close:
            ordered_terms = self._ordered.pop(text)
            places = [(position, term) for position, term in enumerate(ordered_terms) if term in result.held_terms]
            best, start = 0.0, 0
            for end, (position, _) in enumerate(places):
                while position - places[start][0] > _TOGETHER:
                    start += 1
                best = max(best, self._share_of({term for _, term in places[start : end + 1]}))
            self._close[text] = best
        return self._close[text]


def _find_signals(results: Sequence[_JudgedResult], *, looks_up: bool) -> Signals:
    by_words, by_meaning = (any(name in result.parts for result in results) for name in ("segment", "similarity"))
    by_words = by_words or (looks_up and by_meaning)
    if by_words:
        return Signals.BOTH if by_meaning else Signals.KEYWORDS
    return Signals.MEANING if by_meaning else Signals.TREE


def is_of_tree(hit: Hit) -> bool:
    """Return whether a hit was found by walking the tree."""
    return any(name == "terms" for name, _ in hit.parts)


def _segment_with_highest(results: Sequence[_JudgedResult], name: str) -> NodeId:
    return max(results, key=lambda result: result.parts.get(name, 0.0)).hit.node_id


def probability(evidence: Evidence) -> float:
    """Return how likely one of the first results holds the answer."""
    return logistic(ANSWER[evidence.signals], values_of(evidence)) if evidence.hits else 0.0


def holds_words(evidence: Evidence) -> bool:
    """Return whether a first result holds a word or literal piece."""
    return any(hit.together or hit.literal for hit in evidence.hits)


def holds_known(evidence: Evidence) -> bool:
    """Return whether a first result holds all words that are known."""
    known_share = 1 - evidence.unknown
    return known_share > 0 and any(hit.together >= _ALL * known_share for hit in evidence.hits)


def values_of(evidence: Evidence) -> dict[str, float]:
    """Return what speaks for an answer, by the names of the weights."""
    return hit_values(max(evidence.hits, key=lambda hit: hit.lead)) | {
        "unknown": evidence.unknown,
        "united": evidence.united,
        "agreed": evidence.agreed,
        "literal": max(hit.literal for hit in evidence.hits),
    }


def hit_values(hit: HitEvidence) -> dict[str, float]:
    """Return what speaks for a result, by the names of the weights."""
    return {name: getattr(hit, name) for name in _HIT_VALUES}


def logistic(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    """Return the probability, 0..1, that weights give to values by name; the weight called "" is added."""
    odds = weights[""] + sum(weight * values[name] for name, weight in weights.items() if name)
    return 1 / (1 + math.exp(-odds))


def judge_confidence(
    sure: float,
    missing: Sequence[str],
    *,
    has_hits: bool,
    is_whole: bool = False,
    all_missing: bool = False,
    holds_words: bool = True,
) -> Confidence:
    """Return the word for a probability.

    Never STRONG with a word missing. Not NONE where a result `is_whole`, as it is exact or holds all that is known. `all_missing`
    is whether no word that names the subject occurs; `holds_words` whether one of the first results holds any word.
    """
    if not has_hits or (sure < (ALL_MISSING if all_missing else NOTHING) and not is_whole):
        return Confidence.NONE
    return Confidence.STRONG if sure >= STRONG and holds_words and not missing else Confidence.WEAK


def judge_fits(evidence: Evidence) -> list[Fit]:
    """Return how well each of the first results fits."""
    known_share = 1 - evidence.unknown
    return [_judge_fit(hit, logistic(HIT[evidence.signals], hit_values(hit)), known_share) for hit in evidence.hits]


def _judge_fit(hit: HitEvidence, sure: float, known_share: float) -> Fit:
    """Return how well a result fits that is right so likely."""
    if hit.literal or (sure >= EXACT and known_share > 0 and hit.together >= _ALL * known_share):
        return Fit.EXACT
    return Fit.CLOSE if sure >= CLOSE else Fit.LOOSE
