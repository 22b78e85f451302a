"""Detect the capability tier from the status of the layers (agent-retrieval-policy-prd.md, section 5). Pure."""

from collections.abc import Sequence
from enum import IntEnum

from memory_mcp.search.layers.base import LayerName, LayerStatus


class Tier(IntEnum):
    """What the memory can do at the moment; 5 always works."""

    FULL = 1
    HYBRID = 2
    SEMANTIC = 3
    KEYWORD = 4
    AGENTIC = 5

    @property
    def label(self) -> str:
        """The tier's name as people read it."""
        return self.name.capitalize()


def detect_tier(statuses: Sequence[LayerStatus]) -> Tier:
    """Return the tier of the usable layers."""
    usable = {s.name for s in statuses if s.usable}
    topics, vector, bm25 = (n in usable for n in (LayerName.TOPICS, LayerName.VECTOR, LayerName.BM25))
    if vector and bm25:
        return Tier.FULL if topics else Tier.HYBRID
    if vector:
        return Tier.SEMANTIC
    return Tier.KEYWORD if bm25 else Tier.AGENTIC
