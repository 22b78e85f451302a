"""Two ranked lists in, one out. Pure.

Scores are fused, not ranks, unless that is asked for: reciprocal ranks lost up to 3 points where one side is much weaker,
scores never did (engine-facts, section 4).
"""

from collections.abc import Sequence
from dataclasses import replace

from memory_mcp.indexes.base import Match

#: Constant of reciprocal rank fusion (Cormack et al. 2009).
RRF_K = 60


def fuse(keyword: Sequence[Match], similar: Sequence[Match], weights: tuple[float, float], by_rank: bool) -> list[Match]:
    """Both lists, best first, as one; a document is named once, and a tie goes to its id."""
    total = sum(weights)
    found: dict[str, Match] = {}
    parts: dict[str, dict[str, float]] = {}
    for name, weight, side in (("bm25", weights[0], keyword), ("vector", weights[1], similar)):
        for rank, match in enumerate(side, start=1):
            identity = match.grip_id or match.node_id
            found[identity] = _both(found.get(identity), match)
            value = (RRF_K + 1) / (RRF_K + rank) if by_rank else match.score
            parts.setdefault(identity, {})[name] = value * weight / total
    fused = [
        replace(m, score=round(sum(parts[i].values()), 6), raw=sum(parts[i].values()), parts=tuple(parts[i].items()))
        for i, m in found.items()
    ]
    return sorted(fused, key=lambda m: (-m.raw, m.grip_id or m.node_id))


def _both(held: Match | None, match: Match) -> Match:
    """What is known of a document from either side."""
    if held is None:
        return match
    return replace(held, best_grip=held.best_grip or match.best_grip)
