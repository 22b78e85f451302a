"""Two ranked lists of documents in, one out. Pure.

Both sides' scores are shares of what was right, so their weighted log odds are added, and a document that one side does
not name has there what no standing at all is worth. Messages have a way of their own: see `score`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.indexes.base import DocType, Match, Unfiled
from memory_mcp.indexes.calibrate import BM25, HYBRID, VECTOR, Table, calibrated

#: No side is surer than this.
_SUREST = 0.999
#: A calibrated similarity from which it finds something by itself.
_SURE = 0.1
#: Shares of the two sides in a fused score: the best on the tuning halves of the judged queries.
_SHARES = {"bm25": 0.6, "vector": 0.4}
_TABLES: dict[str, dict[DocType, Table]] = {"bm25": BM25, "vector": VECTOR}


def fuse(keyword: Sequence[Match], similar: Sequence[Match], limit: int | None = None) -> list[Match]:
    """Both lists, best first, as one, at most `limit` of it; a document is named once, and a tie goes to its id.

    Where only one side found anything its own list as it is. Otherwise a score is calibrated once more; `raw` is the fused
    number, and the parts share the score as the sides did.
    """
    sides = {name: side for name, side in (("bm25", keyword), ("vector", similar)) if side}
    if len(sides) < 2:
        return [match for side in sides.values() for match in side][:limit]
    found: dict[str, Match] = {}
    given: dict[str, dict[str, float]] = {}
    for name, side in sides.items():
        for match in side:
            identity = match.grip_id or match.node_id
            found[identity] = _both(found.get(identity), match)
            given.setdefault(identity, {})[name] = _within(match.score, name, match.doc_type)
    raw = {i: _pooled(given[i], m.doc_type) for i, m in found.items()}
    scores = _calibrated(found, raw)
    order = sorted(found, key=lambda i: (-scores[i], -raw[i], i))[:limit]
    return [replace(found[i], score=round(scores[i], 6), raw=raw[i], parts=_parts(given[i], scores[i])) for i in order]


def fuse_unfiled(keyword: Sequence[Unfiled], similar: Sequence[Unfiled]) -> list[Unfiled]:
    """The same for events that no document holds yet. Meaning alone finds one only where it is rather sure: all resemble."""
    given: dict[str, dict[str, float]] = {}
    events: dict[str, Unfiled] = {}
    for name, side in (("bm25", keyword), ("vector", similar)):
        for found in side:
            identity = found.event.event_id
            events.setdefault(identity, found)
            given.setdefault(identity, {})[name] = _within(found.score, name, DocType.GRIP)
    wanted = [i for i, g in given.items() if "bm25" in g or g["vector"] >= _SURE]
    raw = [_pooled(given[i], DocType.GRIP) for i in wanted]
    scores = calibrated(HYBRID[DocType.GRIP], np.array(raw)).tolist()
    return [replace(events[i], score=s, raw=r) for i, s, r in zip(wanted, scores, raw, strict=True)]


def _pooled(given: Mapping[str, float], doc_type: DocType) -> float:
    """As a share again."""
    odds = sum(s * _log_odds(given.get(name, _nothing(name, doc_type))) for name, s in _SHARES.items())
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


def _parts(given: Mapping[str, float], score: float) -> tuple[tuple[str, float], ...]:
    total = sum(value * _SHARES[name] for name, value in given.items())
    return tuple((name, round(score * value * _SHARES[name] / total, 6)) for name, value in given.items())


def _both(held: Match | None, match: Match) -> Match:
    """What is known of a document from either side."""
    if held is None:
        return match
    return replace(held, best_grip=held.best_grip or match.best_grip)
