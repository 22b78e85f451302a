"""The policy's explanation of an answer as all interfaces show it, lean or whole. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.shapes import Skipped, Window, shape_window
from memory_mcp.search.policy import explain


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why something is missing, and the arguments with which it shows."""

    id: str
    reason: str
    change: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What changes what to do next; empty where nothing does."""

    #: Where it is not what the call names, and more may be found elsewhere.
    scope: str = ""
    #: The time that was read from the question.
    window: Window | None = None
    bounds_hit: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    why_not: WhyNot | None = None


@dataclass(frozen=True, slots=True)
class FullExplanation:
    """Everything that was decided."""

    query: str
    intent: str
    tier_used: int
    method_used: str
    fallback_occurred: bool
    skipped: tuple[Skipped, ...]
    bounds_hit: tuple[str, ...]
    nodes_visited: int
    rpc_calls: int
    scope: str
    intent_certainty: float
    mode: str
    why_mode: str
    depth: int
    tokens: int
    elapsed_ms: int
    signals: tuple[str, ...] = ()
    tried: tuple[explain.Tried, ...] = ()
    arbitration: str = ""
    scan: explain.Scanned | None = None
    bounds: Mapping[str, Mapping[str, int]] | None = None
    window: Window | None = None
    notices: tuple[str, ...] = ()
    path: tuple[Mapping[str, Any], ...] = ()
    why_not: WhyNot | None = None


def lean_explanation(why: explain.Explanation, scope: str, calendar: Calendar) -> Explanation:
    """Return what changes a reader's next step; `scope` is shown as it is."""
    value = shape_window(why.window, why.window_words, calendar) if why.window_words else None
    return Explanation(
        scope=scope,
        window=None if value is None else replace(value, since=value.since[:16], until=value.until[:16]),
        bounds_hit=why.bounds_hit,
        notices=why.notices,
    )


def full_explanation(why: explain.Explanation, query: str, calendar: Calendar) -> FullExplanation:
    """Return all decisions: bounds with their use, steps of a walk."""
    used, path = why.used, [asdict(step) | {"score": round(step.score, 3)} for step in why.path]
    # What matched is left out where nothing did.
    steps = [{n: v for n, v in step.items() if n != "searched_level" and (n != "matched" or v)} for step in path]
    bounds = {n: {"limit": limit} | ({"used": used[n]} if n in used else {}) for n, limit in why.limits.items()}
    return copy_fields(
        FullExplanation,
        why,
        query=query,
        tier_used=int(why.tier),
        method_used=str(why.method),
        fallback_occurred=why.fallback,
        skipped=tuple(Skipped(str(s.layer), s.reason) for s in why.skipped),
        intent_certainty=round(why.intent_certainty, 3),
        mode=why.mode.value,
        bounds=bounds,
        window=shape_window(why.window, why.window_words, calendar),
        path=tuple(steps),
        why_not=None,
    )
