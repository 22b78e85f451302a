"""How sure is an answer? What its first results show for the question in, strong, weak or none out. Pure.

Nothing is withheld by it: it marks an answer, and decides whether another layer is asked. It goes by how much of the
question, by rarity in this store, the first results and their segments hold, and by how much of it the store holds
nowhere; no word of any language is listed. The weights are fitted on the tuning halves of all corpora at once.
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
#: Log odds of sureness: what no word at all is worth, and what is held and what is unknown add. How near the results are in
#: meaning and how far the first stands out told answerable questions from others no better. Four questions of five are taken
#: to have an answer, which makes up 1.4 of the first.
_AT, _HELD, _UNKNOWN = 0.4, 4.0, -2.05
#: Sureness from which an answer is strong, and none of the further layers is asked where the intent wants no more: three
#: quarters of the questions that nothing answers lie below, and 8 % of those answered rightly among five; in German, Spanish
#: and French, whose function words weigh more here, a fifth to a third.
STRONG = 0.6


class Confidence(StrEnum):
    """What an answer is worth."""

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
    #: One holds word for word what the question names literally.
    literal: bool
    hits: int


def evidence(weighed: Weighed, hits: Sequence[Hit], covered: Mapping[NodeId, Collection[str]], literal: bool) -> Evidence:
    """Return what the first hits show; `covered` names the terms that a hit's whole segment holds."""
    first = hits[:COMPARED]
    own = [term_set(f"{h.quote} {h.speaker}") for h in first]
    return Evidence(
        held=max((weighed.share(own[at] | set(covered.get(h.node_id, ()))) for at, h in enumerate(first)), default=0.0),
        unknown=weighed.share({t for t in weighed.weights if not weighed.counts.get(t)}),
        literal=literal,
        hits=len(hits),
    )


def sureness(found: Evidence) -> float:
    """Return how likely such evidence is that of a right answer rather than of a question nothing answers, 0..1."""
    if not found.hits:
        return 0.0
    if found.literal:
        return 1.0
    odds = _AT + _HELD * found.held + _UNKNOWN * found.unknown
    return 1 / (1 + math.exp(-odds))


def confidence(found: Evidence) -> Confidence:
    """Return what an answer with such evidence is worth; none only where nothing of the question was found at all."""
    if not found.hits:
        return Confidence.NONE
    return Confidence.STRONG if sureness(found) >= STRONG else Confidence.WEAK
