"""What a layer found in, whether it answers out: enough, something, or nothing relevant. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.layers.base import Hit, LayerName
from memory_mcp.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the decision looks at."""

    best: float
    coverage: float


def evidence(hits: Sequence[Hit], covered: Mapping[NodeId, float]) -> Evidence:
    """Of the first ten hits."""
    some = hits[:10]
    return Evidence(max((h.score for h in some), default=0.0), max((covered.get(h.node_id, 0.0) for h in some), default=0.0))


def relevant(found: Evidence, layer: LayerName) -> bool:
    """Whether any of it is worth showing."""
    return found.best > 0 and (layer is not LayerName.VECTOR or found.best > 0)


def sufficient(found: Evidence, layer: LayerName, min_confidence: float) -> bool:
    """Whether no further layer need be asked."""
    least = min(min_confidence, 0.3) if layer is not LayerName.AGENTIC else 0.0
    return found.best > 0 and found.coverage >= least
