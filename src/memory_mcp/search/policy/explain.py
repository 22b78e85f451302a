"""The explanation of an answer, built while the decisions are made.

Change here: what an answer says of itself.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.search.layers.base import Step
from memory_mcp.search.policy.plan import Mode, Skipped, Tier


class Outcome(StrEnum):
    """How a layer that was run ended."""

    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"
    #: It looked everywhere it may, and nothing is there.
    NOTHING = "nothing"
    #: Its nodes or calls ran out before it had looked everywhere, or before it began.
    CUT = "cut short"
    NOT_TRIED = "not tried"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Tried:
    """How one layer ended, what it found, and why it was left."""

    layer: str
    outcome: Outcome
    reason: str
    hits: int
    #: How likely its first results held the answer, 0..1.
    probability: float
    ms: float


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan cost, and how far it got."""

    why: str
    slices: int
    read: int
    events: int
    found: int
    ms: float


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why something is not shown, and a change that shows it."""

    id: str
    reason: str
    change: Mapping[str, object]
    #: Its place among the results if it is there after all, counted from 0.
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was understood, tried, skipped, bounded and filtered."""

    intent: str
    #: How sure the intent is, 0..1.
    intent_certainty: float
    signals: tuple[str, ...]
    tier: Tier
    mode: Mode
    why_mode: str
    method: str
    fallback: bool
    skipped: tuple[Skipped, ...]
    tried: tuple[Tried, ...]
    bounds_hit: tuple[str, ...]
    #: The bound that a soft search went beyond, "" for none.
    exceeded: str
    limits: Mapping[str, int]
    nodes_visited: int
    rpc_calls: int
    depth: int
    tokens: int
    elapsed_ms: int
    #: "all projects" or the project the search was bound to.
    scope: str
    window: TimeWindow | None
    window_words: str
    #: What was made of several layers' results, in words.
    arbitration: str = ""
    scan: Scanned | None = None
    why_not: WhyNot | None = None
    notices: tuple[str, ...] = ()
    path: tuple[Step, ...] = field(default=())

    @property
    def used(self) -> Mapping[str, int]:
        """What was used of each bound, by its name."""
        return {
            "max_depth": self.depth,
            "max_nodes_visited": self.nodes_visited,
            "max_rpc_calls": self.rpc_calls,
            "max_token_budget": self.tokens,
            "timeout_ms": self.elapsed_ms,
        }
