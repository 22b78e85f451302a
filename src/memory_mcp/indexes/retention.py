"""Compute which documents are too old for an index. Pure.

Only indexes drop documents by age; events, nodes and grips stay, and the walk of the tree still finds them.
"""

from collections.abc import Mapping

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.indexes.settings import RetentionDays

_DAY_MS = 86_400_000
#: Levels that can be pruned on request (bm25-teleport-prd.md, FR-09).
PRUNABLE = ("segment", "day", "week")


def due(days: RetentionDays, now_ms: int, documents: int, least: int) -> Mapping[str, int]:
    """Return by level the time (UTC milliseconds) before which units are dropped; not for 0 days, {} up to `least` documents."""
    if documents <= least:
        return {}
    days_by_level = {"segment": days.segment, "day": days.day, "week": days.week, "month": days.month}
    return {level: now_ms - count * _DAY_MS for level, count in days_by_level.items() if count}


def by_hand(age_days: int, level: str, now_ms: int) -> Mapping[str, int]:
    """Return by level the time, UTC milliseconds, before which a requested prune drops units.

    `level` is segment, day, week or "all" of these. Raises InvalidQuery for another, or for an age below one day.
    """
    if age_days < 1:
        raise InvalidQuery("age-days must be at least 1")
    if level not in (*PRUNABLE, "all"):
        raise InvalidQuery(f"unknown level: {level!r}", f"Levels are {', '.join(PRUNABLE)} and all.")
    return dict.fromkeys(PRUNABLE if level == "all" else (level,), now_ms - age_days * _DAY_MS)
