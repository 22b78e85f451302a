"""The routing tables: the layers that an intent tries, their order, its bounds, and whether a scan may follow.

Change here: which layer answers which intent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_mcp.question.intent import Intent
from memory_mcp.search.layers.base import LayerName

#: The order in which an intent tries its layers; agentic is always last (agent-retrieval-policy-prd.md, sections 4 and 10).
#: None stands for the best accelerator available.
CHAINS: Mapping[Intent, tuple[LayerName | None, ...]] = {
    Intent.EXPLORE: (LayerName.TOPICS, LayerName.HYBRID, LayerName.VECTOR, LayerName.BM25, LayerName.AGENTIC),
    Intent.ANSWER: (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC),
    Intent.LOCATE: (LayerName.BM25, LayerName.HYBRID, LayerName.VECTOR, LayerName.AGENTIC),
    Intent.TIME_BOXED: (None, LayerName.AGENTIC),
}
#: Accelerators, the best first, as tiers rank them.
BEST = (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR)
#: Layers that a layer is made of: once it has answered whole, asking them again adds nothing.
MADE_OF: Mapping[LayerName, frozenset[LayerName]] = {LayerName.HYBRID: frozenset({LayerName.BM25, LayerName.VECTOR})}


@dataclass(frozen=True, slots=True)
class Rules:
    """How an intent is enforced (cognitive-architecture.md; PRD section 5.5)."""

    #: Bounds that differ from the settings' defaults.
    bounds: Mapping[str, int]
    #: Probability of an answer from which no further layer is asked; 0: the usual one (`relevance.ENOUGH`).
    min_confidence: float = 0.0
    #: Whether the first result that literally holds what was asked for ends the search.
    first_match: bool = False
    #: Whether no bound may be exceeded.
    strict: bool = False
    #: Whether a scan may follow, when its trigger is met.
    escalates: bool = True
    #: The trigger in words.
    trigger: str = ""


RULES: Mapping[Intent, Rules] = {
    Intent.EXPLORE: Rules({"max_nodes_visited": 100, "beam_width": 5}, trigger="the pattern is incomplete"),
    Intent.ANSWER: Rules({"max_nodes_visited": 50}, min_confidence=0.25, trigger="the evidence is insufficient"),
    Intent.LOCATE: Rules({"max_nodes_visited": 20}, first_match=True, trigger="no exact match was found"),
    Intent.TIME_BOXED: Rules({"max_depth": 2}, strict=True, escalates=False),
}
