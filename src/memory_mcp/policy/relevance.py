"""Is what a layer found about the query at all, and is it good enough to stop? Evidence in, yes or no out. Pure.

Confidence is how likely such evidence is that of a right answer rather than of a query the store cannot answer. It rises
with the best score and with how many of the query's words meet in one hit, and falls with the number of segments, because
among many some hold any few words. Below a layer's floor "nothing relevant" is the answer, unless a hit holds what no
answer may leave out: every word of the query, a phrase it quotes, a name of code it gives, or its one rare word.

Constants are fitted by `bench.unanswerable --fit` on the tuning halves of queries with a judged answer and of queries
asked of a store that cannot answer them; what they are worth is told of the other halves.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory_mcp.layers.base import Hit, LayerName
from memory_mcp.model.ids import NodeId
from memory_mcp.text import iter_terms, query_terms, term_set

#: Hits looked at, best first: as many as calibration compares.
COMPARED = 10
#: A word that at most so many segments hold is rare; it alone is enough where it is at least such a share of the query's
#: weight. Any word of a single segment, whatever its share, would cost 19 to 31 points of the unanswerable recognised; all
#: that is never withheld costs 1 to 2.
RARE = 2
RARE_SHARE = 0.34
#: Segments of the smallest and of the largest store that the constants were fitted on: nothing is known beyond.
_FEWEST, _MANY = 19, 1111
#: No score says less, and none more (log odds are taken).
_LEAST, _MOST = 0.003, 0.99

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|`([^`]+)`')
_AROUND = ".,;:!?()[]{}<>\"'`“”"
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")


class Curve(NamedTuple):
    """Log odds of confidence: `at`, and each of `features` times its constant, none of which is negative."""

    score: float
    coverage: float
    size: float
    at: float
    #: Confidence below which nothing is relevant: the second percentile of answers that were right.
    floor: float


CURVES = {
    LayerName.HYBRID: Curve(1.07, 10.57, 0.41, -4.04, 0.370),
    LayerName.BM25: Curve(0.96, 10.58, 0.50, -3.72, 0.258),
    LayerName.VECTOR: Curve(2.52, 10.72, 0.27, -2.06, 0.271),
    LayerName.AGENTIC: Curve(1.45, 8.03, 0.70, -0.35, 0.248),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a layer's answer has to show for itself."""

    #: How many hits there are, and the best calibrated score, 0..1.
    hits: int
    best: float
    #: The largest share of the query's distinct terms that one hit's segment holds, 0..1. Each term counts alike: weighed
    #: by rarity, shares told answerable queries from others less well.
    coverage: float
    #: Segments of the scope that was searched.
    segments: int
    #: A hit holds a quoted phrase, a name of code, or a rare word that makes up much of the query.
    exact: bool = False
    #: The scope may hold more of the query than the hits do: one of those words, or all words together.
    overlooked: bool = False


def evidence(
    text: str,
    weights: Mapping[str, float],
    counts: Mapping[str, int],
    hits: Sequence[Hit],
    covered: Mapping[NodeId, Collection[str]],
    segments: int,
) -> Evidence:
    """What the hits, best first, show for a query.

    `text` is the query without the words that were understood as a time; `weights` and `counts` are of its terms: inverse
    document frequencies, and how many segments of the scope hold each. `covered` names the terms that a hit's whole segment
    holds; of a hit that it does not name, the words shown count. `segments` is how many the scope has.
    """
    terms = frozenset(weights)
    held = [_held(hit, terms, covered) for hit in hits[:COMPARED]]
    shown = frozenset[str]().union(*held)
    # A query that only names a time lacks no word in whatever is of that time.
    coverage = max((len(own) for own in held), default=0) / len(terms) if terms else 1.0
    phrases = [frozenset(found) for phrase in _phrases(text) if (found := query_terms(phrase))]
    telling = _names(text, terms) | _rare(weights, counts)
    quoted = any(phrase <= own for phrase in phrases for own in held)
    elsewhere = {t for t in telling.union(*phrases) if counts.get(t, 0)} - shown
    known = bool(terms) and all(counts.get(t, 0) for t in terms)
    return Evidence(
        hits=len(hits),
        best=max(map(_strength, hits), default=0.0),
        coverage=coverage,
        segments=segments,
        exact=quoted or bool(telling & shown),
        overlooked=bool(elsewhere) or (known and coverage < 1),
    )


def confidence(found: Evidence, layer: LayerName) -> float:
    """How sure it is, 0..1, that the answer is about the query; the best score itself for a layer that nothing was fitted for."""
    if not found.hits:
        return 0.0
    curve = CURVES.get(layer)
    if curve is None:
        return found.best
    score, coverage, size = features(found)
    odds = curve.at + curve.score * score + curve.coverage * coverage + curve.size * size
    return 1 / (1 + math.exp(-odds))


def features(found: Evidence) -> tuple[float, float, float]:
    """What a curve weighs: log odds of the best score, the coverage, and less for more segments."""
    best = min(max(found.best, _LEAST), _MOST)
    return math.log(best / (1 - best)), found.coverage, -math.log(min(max(found.segments, _FEWEST), _MANY))


def relevant(found: Evidence, layer: LayerName) -> bool:
    """Whether the answer is about the query; if not, "nothing relevant" is a better one.

    Where `found.overlooked`, another layer should be asked before nothing is answered.
    """
    if not found.hits:
        return False
    if layer not in CURVES or found.exact or found.coverage >= 1:
        return True
    return confidence(found, layer) >= CURVES[layer].floor


def sufficient(found: Evidence, layer: LayerName, min_confidence: float) -> bool:
    """Whether the answer is good enough that no other layer need be asked."""
    return relevant(found, layer) and confidence(found, layer) >= min_confidence


def _strength(hit: Hit) -> float:
    """Its score; of a walk's hit what the walk itself thought, which is what its curve was fitted on."""
    return dict(hit.parts).get("terms", hit.score)


def _held(hit: Hit, terms: frozenset[str], covered: Mapping[NodeId, Collection[str]]) -> frozenset[str]:
    own = covered.get(hit.node_id) if hit.node_id else None
    if own is None:
        own = term_set(" ".join((hit.quote, hit.title, *hit.keywords)))
    return terms.intersection(own)


def _phrases(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _QUOTED.findall(text)]


def _names(text: str, terms: frozenset[str]) -> frozenset[str]:
    """Words that are names of code, paths, versions or codes; numbers and words joined by a hyphen are not."""
    names = set()
    for raw in text.split():
        word = raw.strip(_AROUND)
        whole = next(iter_terms(word), "")
        if _INNER_CAPITAL.search(word) or not (whole.replace("-", "").isalpha() or whole.isdigit()):
            names.add(whole)
    return terms & names


def _rare(weights: Mapping[str, float], counts: Mapping[str, int]) -> frozenset[str]:
    total = sum(weights.values())
    return frozenset(t for t, w in weights.items() if counts.get(t, 0) <= RARE and w >= RARE_SHARE * total > 0)
