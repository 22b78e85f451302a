"""Which documents have aged out of an index: settings and a time in, moments by level out. Pure.

Only the accelerators forget by age; events, nodes and grips stay, and everything can still be found by walking the tree.
"""

from collections.abc import Mapping

from memory_mcp.errors import InvalidQuery
from memory_mcp.indexes.settings import RetentionDays

_DAY_MS = 86_400_000
#: Levels that can be pruned by hand (bm25-teleport-prd.md, FR-09); the others are few and stay.
PRUNABLE = ("segment", "day", "week")


def due(days: RetentionDays, now_ms: int, documents: int, least: int) -> Mapping[str, int]:
    """By level the moment before which units are left out; nothing while there are no more than `least` documents."""
    if documents <= least:
        return {}
    kept = {"segment": days.segment, "day": days.day, "week": days.week, "month": days.month}
    return {level: now_ms - count * _DAY_MS for level, count in kept.items() if count}


def by_hand(age_days: int, level: str, now_ms: int) -> Mapping[str, int]:
    """The same for a prune that somebody asks for: of one level, or of all that can be pruned."""
    if age_days < 1:
        raise InvalidQuery("age-days must be at least 1")
    if level not in (*PRUNABLE, "all"):
        raise InvalidQuery(f"unknown level: {level!r}", f"Levels are {', '.join(PRUNABLE)} and all.")
    return dict.fromkeys(PRUNABLE if level == "all" else (level,), now_ms - age_days * _DAY_MS)
