"""Judge how sure an answer is from its first results: strong, weak or none. Pure.

Nothing is withheld by it: it marks an answer, and decides whether another layer is asked. It goes by how much of the
question, by rarity in this store, the first results and their segments hold, and by how much of it the store holds
nowhere; no word of any language is listed. The numbers are chosen on the tuning halves of all corpora at once.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory_mcp.layers.base import Hit, Weighed
from memory_mcp.model.ids import NodeId
from memory_mcp.text import term_set

#: Results looked at, best first.
COMPARED = 5
#: Added to the weight that is missing from every question. Judged is the share that the results hold, by rarity, of what they
#: hold and what the store does not hold at all. Similarity, the lead of the first result, and words that only resemble the
#: question's did not separate answerable questions from others any better.
_MISSING = 0.05
#: The share at which an answer becomes strong, and log odds of sureness per share.
_SHARE, _SLOPE = 0.28, 4.5
#: Sureness from which an answer is strong, and none of the further layers is asked where the intent wants no more: two thirds
#: of the questions that nothing answers lie below, and 7 % of those answered rightly among five; a sixth in small stores of
#: German, Spanish, French or Japanese, which hold fewer of a question's words.
STRONG = 0.6


class Confidence(StrEnum):
    """How sure an answer is."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the first results show for a question; all are 0..1."""

    #: Largest share of the question's terms, by weight, that one result and its whole segment hold.
    held: float
    #: Share of its terms, by weight, that the store holds nowhere.
    unknown: float
    #: Whether a result holds word for word what the question names literally.
    literal: bool
    hits: int


def evidence(weighed: Weighed, hits: Sequence[Hit], covered: Mapping[NodeId, Collection[str]], literal: bool) -> Evidence:
    """Return what the first five hits show; `covered` maps nodes to the terms of their whole text, as far as known.

    `literal` is whether a hit holds what the question names literally.
    """
    first = hits[:COMPARED]
    own = [term_set(f"{h.quote} {h.speaker}") for h in first]
    return Evidence(
        held=max((weighed.share(own[at] | set(covered.get(h.node_id, ()))) for at, h in enumerate(first)), default=0.0),
        unknown=weighed.share({t for t in weighed.weights if not weighed.counts.get(t)}),
        literal=literal,
        hits=len(hits),
    )


def sureness(found: Evidence) -> float:
    """Return how likely such evidence is that of a right answer, 0..1; 0 without hits, 1 for a literal find."""
    if not found.hits:
        return 0.0
    if found.literal:
        return 1.0
    share = found.held / (found.held + found.unknown + _MISSING)
    odds = math.log(STRONG / (1 - STRONG)) + _SLOPE * (share - _SHARE)
    return 1 / (1 + math.exp(-odds))


def confidence(found: Evidence) -> Confidence:
    """Return STRONG from a sureness of `STRONG` on, WEAK below, and NONE only without hits."""
    if not found.hits:
        return Confidence.NONE
    return Confidence.STRONG if sureness(found) >= STRONG else Confidence.WEAK
