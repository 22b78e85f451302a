"""Layers 3 and 4 as one: both are asked, and their results fused. With one of them it works, and says that it is partial."""

import time
from dataclasses import replace

from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.indexes.base import Filters, Match
from memory_mcp.indexes.settings import HybridSettings
from memory_mcp.layers.base import CONTRACTS, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.layers.budget import Budget
from memory_mcp.layers.fuse import fuse, fuse_unfiled
from memory_mcp.layers.teleport import WIDER, Found, Teleported, TeleportLayer, as_layer, one_per_node
from memory_mcp.tracing import span

#: Documents each side is asked for at least: what the other side puts first may stand far behind here.
_DEPTH = 100


class HybridLayer:
    """See Layer."""

    name = LayerName.HYBRID

    def __init__(self, bm25: TeleportLayer, vector: TeleportLayer, settings: HybridSettings) -> None:
        self.contract = CONTRACTS[self.name]
        self._bm25 = bm25
        self._vector = vector
        self._settings = settings

    def status(self) -> LayerStatus:
        """Whole only with both sides; what one of them lacks is the reason."""
        sides = (self._bm25.status(), self._vector.status())
        lacking = next((s for s in sides if not s.usable), None)
        reason = f"{lacking.name}: {lacking.reason}" if lacking else ""
        count = min(s.count for s in sides)
        return LayerStatus(self.name, all(s.enabled for s in sides), lacking is None, count, reason)

    def teleport(self, text: str, filters: Filters, limit: int, per_node: bool = False) -> Teleported:
        """The best of both; of one when the other cannot answer; LayerUnavailable when neither can.

        With `per_node` the best nodes, each once with its grips.
        """
        if not text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        with span("hybrid_search"):
            began = time.perf_counter()
            sides: dict[LayerName, Found] = {}
            missing: dict[LayerName, LayerUnavailable] = {}
            for layer in (self._bm25, self._vector):
                try:
                    sides[layer.name] = layer.find(text, filters, max(limit, _DEPTH))
                except LayerUnavailable as error:
                    missing[layer.name] = error
            if not sides:
                raise missing[LayerName.BM25]
            found = self._fused(sides, limit * WIDER if per_node else limit)
            found = one_per_node(found, limit) if per_node else found
            took = (time.perf_counter() - began) * 1000
            notices = (*found.notices, *(f"partial: {name} could not answer ({e.reason})" for name, e in missing.items()))
            shown = self._bm25.show(text, filters, limit, replace(found, took_ms=took, notices=notices))
        return replace(shown, partial=bool(missing))

    def _fused(self, sides: dict[LayerName, Found], limit: int) -> Found:
        """One list; where one side alone answered, its own, in its own order and with its own scores."""
        if len(sides) == 1:
            (only,) = sides.values()
            return replace(only, matches=only.matches[:limit])
        bm25, vector = sides[LayerName.BM25], sides[LayerName.VECTOR]
        weights = (self._settings.bm25_weight, self._settings.vector_weight)
        by_rank = self._settings.fusion == "rrf"
        matches: list[Match] = fuse(bm25.matches, vector.matches, weights, by_rank, limit)
        notices = bm25.notices or vector.notices
        total = max(bm25.total, len({m.grip_id or m.node_id for m in (*bm25.matches, *vector.matches)}))
        return Found(tuple(matches), tuple(fuse_unfiled(bm25.unfiled, vector.unfiled, weights)), total, 0.0, notices)

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """See Layer."""
        return as_layer(query, budget, lambda text, filters, limit: self.teleport(text, filters, limit, per_node=True))
