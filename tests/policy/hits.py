"""Hits by hand, of as many fields as a test is about."""

from dataclasses import replace

from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.search.layers.base import Hit


def hit(
    name: str, score: float = 0.5, quote: str = "", at: int = 0, session: str = "s", node: str = "", speaker: str = ""
) -> Hit:
    """A message of that name; of no segment where `node` is not given."""
    return Hit(
        node_id=NodeId(node),
        title="",
        quote=quote or name,
        grip_ids=(GripId(f"grip:{name}"),),
        timestamp=at,
        session_id=session,
        project="",
        agent="",
        role="user",
        speaker=speaker,
        score=score,
        event_id=f"evt:{name}",
        grip_id=f"grip:{name}",
    )


def listed(prefix: str, *scores: float) -> list[Hit]:
    """Hits of these scores, named by their places."""
    return [hit(f"{prefix}{n}", score) for n, score in enumerate(scores)]


def outside(found: Hit) -> Hit:
    """Return the hit marked as lying outside the time that was named."""
    return replace(found, outside=True)
