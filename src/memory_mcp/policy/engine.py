"""intelligent_search, read top to bottom: statuses, tier, the best usable layer, hits within the budget, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.clock import Clock
from memory_mcp.errors import LayerUnavailable
from memory_mcp.layers.base import Hit, Layer, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.layers.budget import Budget, StopConditions
from memory_mcp.policy.explain import Explanation, Skipped
from memory_mcp.policy.tier import detect
from memory_mcp.tracing import span

#: The order in which an Answer tries its layers (agent-retrieval-policy-prd.md, section 4); agentic is always last.
ANSWER_CHAIN = (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC)
#: What a question is taken for when nothing says otherwise (section 4, step 1).
DEFAULT_INTENT = "answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, whether there are more, and the explanation."""

    hits: tuple[Hit, ...]
    has_more: bool
    why: Explanation


class Engine:
    """Chooses a layer and answers through it."""

    def __init__(self, layers: dict[LayerName, Layer], unavailable: Sequence[LayerStatus], clock: Clock, factor: float) -> None:
        self._layers = layers
        self._unavailable = tuple(unavailable)
        self._clock = clock
        self._factor = factor

    def statuses(self) -> list[LayerStatus]:
        """Every layer, usable or not, in one call."""
        return [layer.status() for layer in self._layers.values()] + list(self._unavailable)

    def search(self, query: Query, bounds: StopConditions, min_confidence: float = 0.0, offset: int = 0) -> Answer:
        """Answer a question within bounds. Never fails because a layer is missing: agentic search always runs."""
        with span("intelligent_search"):
            return self._search(query, bounds, min_confidence, offset)

    def _search(self, query: Query, bounds: StopConditions, min_confidence: float, offset: int) -> Answer:
        statuses = {s.name: s for s in self.statuses()}
        budget = Budget(bounds, self._clock, self._factor)
        wider = Query(query.text, query.limit + offset + 1, query.project, query.agent, query.window)
        chosen, found, skipped = self._first_answer(wider, budget, statuses)
        good = [h for h in found.hits if h.score >= min_confidence][offset:]
        kept = within(good[: query.limit], budget)
        why = Explanation(
            intent=DEFAULT_INTENT,
            tier=detect(list(statuses.values())),
            method=chosen,
            fallback=chosen != ANSWER_CHAIN[0],
            skipped=tuple(skipped),
            bounds_hit=tuple(budget.hit),
            nodes_visited=budget.nodes_visited,
            rpc_calls=budget.rpc_calls,
            depth=budget.depth,
            tokens=budget.tokens,
            elapsed_ms=budget.elapsed_ms(),
            scope=query.project if query.project is not None else "all projects",
            window=found.window,
            window_words=found.window_words,
            notices=found.notices,
            path=found.path,
        )
        return Answer(tuple(kept), len(good) > len(kept), why)

    def _first_answer(
        self, query: Query, budget: Budget, statuses: Mapping[LayerName, LayerStatus]
    ) -> tuple[LayerName, LayerAnswer, list[Skipped]]:
        """The first layer of the chain that finds something, what it found, and why others were passed over."""
        skipped: list[Skipped] = []
        for name in ANSWER_CHAIN[:-1]:
            if not statuses[name].usable:
                skipped.append(Skipped(name, statuses[name].reason))
                continue
            try:
                found = self._layers[name].search(query, budget)
            except LayerUnavailable as error:
                skipped.append(Skipped(name, error.reason))
                continue
            if found.hits:
                return name, found, skipped
            skipped.append(Skipped(name, "found nothing"))
        return LayerName.AGENTIC, self._layers[LayerName.AGENTIC].search(query, budget), skipped


def within(hits: Sequence[Hit], budget: Budget) -> list[Hit]:
    """As many hits as the token budget holds, in order; a hit is left out whole, never cut."""
    kept = []
    for hit in hits:
        if not budget.spend(" ".join((hit.quote, hit.title, hit.node_id, *hit.grip_ids, hit.session_id, hit.project))):
            break
        kept.append(hit)
    return kept
