"""Why an answer is what it is: a value built while the decision is made."""

from dataclasses import dataclass

from memory_mcp.layers.base import Step
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.policy.tier import Tier


@dataclass(frozen=True, slots=True)
class Skipped:
    """A layer that was not used, and why."""

    layer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was tried, skipped, bounded and filtered."""

    intent: str
    tier: Tier
    method: str
    fallback: bool
    skipped: tuple[Skipped, ...]
    bounds_hit: tuple[str, ...]
    nodes_visited: int
    rpc_calls: int
    depth: int
    tokens: int
    elapsed_ms: int
    #: "all projects" or the project the search was bound to.
    scope: str
    window: TimeWindow | None
    window_words: str
    notices: tuple[str, ...]
    path: tuple[Step, ...]
