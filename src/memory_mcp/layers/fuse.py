"""Two ranked lists in, one out. Pure.

Both sides' scores are shares of what was right, so their weighted log odds are added, and a document that one side does
not name has there what no standing at all is worth. Sums of the shares themselves, raw scores brought to one range and
reciprocal ranks found less on the tuning half of the judged queries (`bench.judged`); ranks can be asked for nevertheless.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.indexes.base import DocType, Match, Unfiled
from memory_mcp.indexes.calibrate import BM25, HYBRID, VECTOR, Table, calibrated

#: Constant of reciprocal rank fusion (Cormack et al. 2009).
RRF_K = 60
#: No side is surer than this.
_SUREST = 0.999
#: A calibrated similarity from which it finds something by itself.
_SURE = 0.1
_TABLES: dict[str, dict[DocType, Table]] = {"bm25": BM25, "vector": VECTOR}


def fuse(
    keyword: Sequence[Match], similar: Sequence[Match], weights: tuple[float, float], by_rank: bool, limit: int | None = None
) -> list[Match]:
    """Both lists, best first, as one, at most `limit` of it; a document is named once, and a tie goes to its id.

    Where only one side found anything, or has any weight, its own list as it is. Otherwise a score is calibrated once more,
    unless it is of ranks; `raw` is the fused number, and the parts share the score as the sides did.
    """
    sides = {"bm25": (keyword, weights[0]), "vector": (similar, weights[1])}
    sides = {name: (side, weight) for name, (side, weight) in sides.items() if side and weight > 0}
    if len(sides) < 2:
        return [match for side, _ in sides.values() for match in side][:limit]
    shares = {name: weight / (weights[0] + weights[1]) for name, (_, weight) in sides.items()}
    found: dict[str, Match] = {}
    given: dict[str, dict[str, float]] = {}
    for name, (side, _) in sides.items():
        values = _by_rank(side) if by_rank else [_within(m.score, name, m.doc_type) for m in side]
        for match, value in zip(side, values, strict=True):
            identity = match.grip_id or match.node_id
            found[identity] = _both(found.get(identity), match)
            given.setdefault(identity, {})[name] = value
    raw = {i: (_summed if by_rank else _pooled)(given[i], shares, m.doc_type) for i, m in found.items()}
    scores = raw if by_rank else _calibrated(found, raw)
    order = sorted(found, key=lambda i: (-scores[i], -raw[i], i))[:limit]
    return [replace(found[i], score=round(scores[i], 6), raw=raw[i], parts=_parts(given[i], shares, scores[i])) for i in order]


def fuse_unfiled(keyword: Sequence[Unfiled], similar: Sequence[Unfiled], weights: tuple[float, float]) -> list[Unfiled]:
    """The same for events that no document holds yet. Meaning alone finds one only where it is rather sure: all resemble."""
    given: dict[str, dict[str, float]] = {}
    events: dict[str, Unfiled] = {}
    for name, side in (("bm25", keyword), ("vector", similar)):
        for found in side:
            identity = found.event.event_id
            events.setdefault(identity, found)
            given.setdefault(identity, {})[name] = _within(found.score, name, DocType.GRIP)
    shares = {"bm25": weights[0] / sum(weights), "vector": weights[1] / sum(weights)}
    wanted = [i for i, g in given.items() if "bm25" in g or g["vector"] >= _SURE]
    raw = [_pooled(given[i], shares, DocType.GRIP) for i in wanted]
    scores = calibrated(HYBRID[DocType.GRIP], np.array(raw)).tolist()
    return [replace(events[i], score=s, raw=r) for i, s, r in zip(wanted, scores, raw, strict=True)]


def _by_rank(side: Sequence[Match]) -> list[float]:
    """1 for the first, less for each further; equals alike."""
    ranks: list[int] = []
    for place, match in enumerate(side):
        equal = place > 0 and (match.score, match.raw) == (side[place - 1].score, side[place - 1].raw)
        ranks.append(ranks[-1] if equal else place)
    return [(RRF_K + 1) / (RRF_K + 1 + rank) for rank in ranks]


def _summed(given: dict[str, float], shares: dict[str, float], _: DocType) -> float:
    return sum(value * shares[name] for name, value in given.items())


def _pooled(given: dict[str, float], shares: dict[str, float], doc_type: DocType) -> float:
    """As a share again."""
    odds = sum(s * _log_odds(given.get(name, _nothing(name, doc_type))) for name, s in shares.items())
    return 1 / (1 + math.exp(-odds))


def _log_odds(value: float) -> float:
    return math.log(value / (1 - value))


def _within(score: float, side: str, doc_type: DocType) -> float:
    return min(max(score, _nothing(side, doc_type)), _SUREST)


def _nothing(side: str, doc_type: DocType) -> float:
    """What no standing at all is worth."""
    return _TABLES[side][doc_type][0][1]


def _calibrated(found: dict[str, Match], raw: dict[str, float]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for table in HYBRID:
        ids = [i for i, m in found.items() if m.doc_type is table]
        scores.update(zip(ids, calibrated(HYBRID[table], np.array([raw[i] for i in ids])).tolist(), strict=True))
    return scores


def _parts(given: dict[str, float], shares: dict[str, float], score: float) -> tuple[tuple[str, float], ...]:
    total = _summed(given, shares, DocType.NODE)
    return tuple((name, round(score * value * shares[name] / total, 6)) for name, value in given.items())


def _both(held: Match | None, match: Match) -> Match:
    """What is known of a document from either side."""
    if held is None:
        return match
    return replace(held, best_grip=held.best_grip or match.best_grip)
