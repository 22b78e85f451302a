"""Layers 3 and 4 fused; with only one of them available the answer is marked partial."""

import time
from collections.abc import Mapping

from memory_mcp.base.errors import InvalidQuery, LayerUnavailable
from memory_mcp.base.metrics import span
from memory_mcp.indexes.base import IndexQuery
from memory_mcp.model.frozen import copy_with
from memory_mcp.search.layers.base import LayerName, LayerStatus
from memory_mcp.search.layers.score import BOTH, KEYWORDS, MEANING, fuse_matches, fuse_pending
from memory_mcp.search.layers.teleport import DEPTH, FoundDocuments, FoundHits, MessageLayer, TeleportLayer, search_sides

#: Least number of documents requested from each side: the other side's best may rank low here.
_DEPTH = 100


class HybridLayer(MessageLayer):
    """The keyword and the vector layer fused; a `Layer`."""

    name = LayerName.HYBRID

    def __init__(self, bm25: TeleportLayer, vector: TeleportLayer) -> None:
        self._bm25 = bm25
        self._vector = vector

    def status(self) -> LayerStatus:
        """Return the status: healthy if both sides are usable."""
        sides = (self._bm25.status(), self._vector.status())
        lacking = next((s for s in sides if not s.usable), None)
        reason = f"{lacking.name}: {lacking.reason}" if lacking else ""
        count = min(s.count for s in sides)
        partial = max(sides, key=lambda side: side.covered_from)
        if lacking is None and partial.covered_from:
            reason = f"{partial.name}: {partial.reason}"
        return LayerStatus(self.name, all(s.enabled for s in sides), lacking is None, count, reason, "", partial.covered_from)

    def teleport(self, query: IndexQuery) -> FoundHits:
        """Return the best documents of both sides, or of the only one.

        Filters that exclude nodes give messages. A notice tells each side that could not answer. Raises InvalidQuery for an empty
        text and LayerUnavailable when neither side can answer.
        """
        if not query.text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        if not query.filters.wants_nodes:
            return self.search_messages(query)
        with span("hybrid_search"):
            began = time.perf_counter()
            sides: dict[LayerName, FoundDocuments] = {}
            missing: dict[LayerName, LayerUnavailable] = {}
            for layer in (self._bm25, self._vector):
                try:
                    sides[layer.name] = layer.find_documents(copy_with(query, limit=max(query.limit, _DEPTH)))
                except LayerUnavailable as error:
                    missing[layer.name] = error
            if not sides:
                raise missing[LayerName.BM25]
            if missing:
                (only,) = sides.values()
                found_documents = copy_with(only, matches=only.matches[: query.limit])
            else:
                bm25, vector = sides[LayerName.BM25], sides[LayerName.VECTOR]
                matches = fuse_matches(bm25.matches, vector.matches, query.limit)
                unfiled = fuse_pending(bm25.pending, vector.pending)
                total = max(bm25.total, len({m.grip_id or m.node_id for m in (*bm25.matches, *vector.matches)}))
                notices = tuple(dict.fromkeys((*bm25.notices, *vector.notices)))
                found_documents = FoundDocuments(tuple(matches), tuple(unfiled), total, 0.0, notices, bool(notices))
            took_ms, notices = (time.perf_counter() - began) * 1000, (*found_documents.notices, *_partial_notices(missing))
            is_partial = found_documents.is_partial or bool(missing)
            return self._bm25.show_documents(
                query, copy_with(found_documents, took_ms=took_ms, notices=notices, is_partial=is_partial)
            )

    def search_messages(self, query: IndexQuery) -> FoundHits:
        """Return the best messages of both sides, or of the only one.

        Each side also rates what the other found, so that every message has both numbers whatever its rank. Raises
        LayerUnavailable when neither can answer.
        """
        with span("hybrid_search"):
            began = time.perf_counter()
            searched = search_sides((self._vector, self._bm25), copy_with(query, limit=max(DEPTH, query.limit)))
            sides, missing = searched.sides, searched.missing
            if not sides:
                raise missing[LayerName.BM25]
            weights = BOTH if not missing else KEYWORDS if LayerName.BM25 in sides else MEANING
            teleported = self._bm25.list_messages(sides, weights, query, searched.keyword_sides)
            took = (time.perf_counter() - began) * 1000
        notices = (*teleported.notices, *_partial_notices(missing))
        return copy_with(teleported, took_ms=took, notices=notices, partial=teleported.partial or bool(missing))


def _partial_notices(missing: Mapping[LayerName, LayerUnavailable]) -> list[str]:
    return [f"partial: {name} could not answer ({error.reason})" for name, error in missing.items()]
