"""The policy's explanation of an answer as both doors show it, lean or whole. Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from memory_mcp.model.calendar import Calendar
from memory_mcp.policy import explain
from memory_mcp.requests.plain import copied, tokens_of
from memory_mcp.requests.shapes import Skipped, Window, window

#: Tokens that a lean explanation keeps to, as far as leaving out what `detail="full"` says better achieves that.
LEAN_TOKENS = 80
_BRACKETS = re.compile(r" \([^()]*\)")


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why something is missing, and the arguments with which it shows."""

    id: str
    reason: str
    change: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was understood and which layer answered; what did not happen is left out."""

    intent: str
    tier_used: int
    method_used: str
    fallback_occurred: bool
    skipped: tuple[Skipped, ...] = ()
    bounds_hit: tuple[str, ...] = ()
    scope: str = ""
    window: Window | None = None
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
    confidence: float
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


def lean_explanation(why: explain.Explanation, calendar: Calendar) -> Explanation:
    """Return the part of an explanation that a model needs.

    Where it is longer than `LEAN_TOKENS`, first text in brackets is left out, then layers that only
    lack another one which is named itself, then layers that were tried; it may stay longer.
    """
    value = window(why.window, why.window_words, calendar)
    made = copied(
        Explanation,
        why,
        tier_used=int(why.tier),
        method_used=str(why.method),
        fallback_occurred=why.fallback,
        skipped=_skipped(why),
        window=None if value is None else replace(value, since=value.since[:16], until=value.until[:16]),
        why_not=None,
    )
    if tokens_of(made, 1.0) <= LEAN_TOKENS:
        return made
    skipped = tuple(replace(s, reason=_BRACKETS.sub("", s.reason)) for s in made.skipped)
    made = replace(made, skipped=skipped, notices=tuple(_BRACKETS.sub("", n) for n in made.notices))
    names, tried = {s.layer for s in skipped}, {t.layer for t in why.tried}
    shorter = tuple(s for s in skipped if s.reason.partition(":")[0] not in names)
    for fewer in (shorter, tuple(s for s in shorter if s.layer not in tried)):
        if tokens_of(made, 1.0) > LEAN_TOKENS:
            made = replace(made, skipped=fewer)
    return made


def full_explanation(why: explain.Explanation, query: str, calendar: Calendar) -> FullExplanation:
    """Return everything that was decided, with each bound's limit and use, and the steps of a walk through the tree."""
    used, path = why.used, [asdict(step) | {"score": round(step.score, 3)} for step in why.path]
    # What matched is left out where nothing did.
    shown = [{n: v for n, v in step.items() if n != "searched_level" and (n != "matched" or v)} for step in path]
    bounds = {n: {"limit": limit} | ({"used": used[n]} if n in used else {}) for n, limit in why.limits.items()}
    return copied(
        FullExplanation,
        why,
        query=query,
        tier_used=int(why.tier),
        method_used=str(why.method),
        fallback_occurred=why.fallback,
        skipped=_skipped(why),
        confidence=round(why.confidence, 3),
        mode=why.mode.value,
        bounds=bounds,
        window=window(why.window, why.window_words, calendar),
        path=tuple(shown),
        why_not=None,
    )


def _skipped(why: explain.Explanation) -> tuple[Skipped, ...]:
    """Return the layers that were not used, in the policy's order, each as its name and the reason."""
    return tuple(Skipped(str(s.layer), s.reason) for s in why.skipped)
