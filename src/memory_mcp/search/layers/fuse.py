"""Fuse the ranked lists of the keyword and the vector index into one. Pure.

Both sides' scores are probabilities of relevance, so their weighted log odds are added. A document that one side did not
return has the lowest score of that side's table there. Messages are fused in `score` instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.indexes.base import DocType, Match, PendingMatch
from memory_mcp.indexes.calibrate import BM25, HYBRID, REQUEST_FACTOR, VECTOR, Table, calibrate_scores

#: Highest score that counts for a side.
_SUREST = 0.999
#: Least calibrated similarity at which meaning alone finds an event that is not indexed yet.
_SURE = 0.1
#: Shares of the two sides in a fused score: the best on the tuning halves of the judged queries.
_SHARES = {"bm25": 0.6, "vector": 0.4}
_TABLES: dict[str, dict[DocType, Table]] = {"bm25": BM25, "vector": VECTOR}


def fuse_matches(keyword: Sequence[Match], similar: Sequence[Match], limit: int | None = None) -> list[Match]:
    """Merge both lists, best first; each document once, ties by id.

    If only one side found anything, its matches are returned in their order with their own scores. Otherwise `score` is
    calibrated once more, `raw` is the fused number, and `parts` divides the score between "bm25" and "vector".
    """
    sides = {name: side for name, side in (("bm25", keyword), ("vector", similar)) if side}
    if len(sides) < 2:
        return [match for side in sides.values() for match in side][:limit]
    matches: dict[str, Match] = {}
    shares_by_side: dict[str, dict[str, float]] = {}
    for name, side in sides.items():
        for match in side:
            identity = match.grip_id or match.node_id
            first_match = matches.setdefault(identity, match)
            matches[identity] = replace(first_match, best_grip=first_match.best_grip or match.best_grip)
            shares_by_side.setdefault(identity, {})[name] = _bounded_score(match.score, name, match.doc_type)
    raw = {i: _pool_scores(shares_by_side[i], m.doc_type) for i, m in matches.items()}
    scores: dict[str, float] = {}
    for doc_type, table in HYBRID.items():
        ids = [i for i, m in matches.items() if m.doc_type is doc_type]
        values = calibrate_scores(table, np.array([raw[i] for i in ids])).tolist()
        scores.update({i: v * REQUEST_FACTOR if matches[i].asks else v for i, v in zip(ids, values, strict=True)})
    fused = []
    for i in sorted(matches, key=lambda i: (-scores[i], -raw[i], i))[:limit]:
        total = sum(value * _SHARES[name] for name, value in shares_by_side[i].items())
        parts = tuple((name, round(scores[i] * value * _SHARES[name] / total, 6)) for name, value in shares_by_side[i].items())
        fused.append(replace(matches[i], score=round(scores[i], 6), raw=raw[i], parts=parts))
    return fused


def fuse_pending(keyword: Sequence[PendingMatch], similar: Sequence[PendingMatch]) -> list[PendingMatch]:
    """Return the pending events of both sides, each once, in their order.

    One found by meaning alone is left out below a score of `_SURE`.
    """
    shares_by_side: dict[str, dict[str, float]] = {}
    events: dict[str, PendingMatch] = {}
    for name, side in (("bm25", keyword), ("vector", similar)):
        for pending_match in side:
            identity = pending_match.event.event_id
            events.setdefault(identity, pending_match)
            shares_by_side.setdefault(identity, {})[name] = _bounded_score(pending_match.score, name, DocType.GRIP)
    likely_ids = [i for i, g in shares_by_side.items() if "bm25" in g or g["vector"] >= _SURE]
    raw = [_pool_scores(shares_by_side[i], DocType.GRIP) for i in likely_ids]
    scores = calibrate_scores(HYBRID[DocType.GRIP], np.array(raw)).tolist()
    return [replace(events[i], score=s, raw=r) for i, s, r in zip(likely_ids, scores, raw, strict=True)]


def _pool_scores(scores_by_side: Mapping[str, float], doc_type: DocType) -> float:
    """Return the fused score; a missing side counts as its lowest."""
    odds = 0.0
    for name, share in _SHARES.items():
        score = scores_by_side.get(name, _lowest_score(name, doc_type))
        odds += share * math.log(score / (1 - score))
    return 1 / (1 + math.exp(-odds))


def _bounded_score(score: float, side: str, doc_type: DocType) -> float:
    return min(max(score, _lowest_score(side, doc_type)), _SUREST)


def _lowest_score(side: str, doc_type: DocType) -> float:
    return _TABLES[side][doc_type][0][1]
