"""Merge what the keyword and the vector index found: rank messages by both, fuse lists of documents. Pure.

A message's log odds are a weighted sum of its own BM25 score, its neighbours', its segment's and the best in that, each as a
share of the query's highest possible score, and of its similarity and its segment's. The weights maximize the likelihood of
the judged messages of all corpora together (softmax over the candidates, each corpus weighted alike; the tuning halves of
`bench.quality`). Leaving out one corpus at a time makes none worse. The score is that likelihood, 0..1.

Change here: how words and meaning become one list.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.base import DocType, Match, PendingMatch
from memory_mcp.indexes.calibrate import BM25, HYBRID, REQUEST_FACTOR, VECTOR, Table, calibrate_scores
from memory_mcp.indexes.candidates import OWN_SCORE, SIMILARITY, Candidates
from memory_mcp.indexes.columns import ROLES, is_turn
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keywords import keyword_need
from memory_mcp.model.exchange import LISTED_LAST, TurnKind

#: Weight of its session's likelihood in a message's log odds; penalty for each message of the same session ranked before it,
#: and the number of first places the penalty applies to.
_SESSION, _AGAIN, _SPREAD = 0.35, 2.0, 5
#: Penalties on tool output and on what only says what will be done next, unless the question is literal. The latter: recall
#: among ten +2 and +5 on coding sessions, first sessions as before.
_TOOL, _ANNOUNCED = 1.0, 1.2
_TOOL_ROLE = ROLES.index("tool")
#: Share of what a request's log odds exceed its best reply's by that goes over to that reply: the exchange is the evidence.
_TAKEN = 0.5
#: Share of a request's similarity that a reply without a term of the query must have to take over anything.
_NEAR = 0.6
#: What a prompt that came to nothing has less, in log odds, and the shares of its words' score and of its similarity of which a
#: message that is no reply must have either to come before it in any case: whether it asks or tells is not known.
_DOUBT, _ALIKE, _CLOSE = 1.0, 0.25, 0.75
#: Least difference of log odds between neighbouring places, so that scores keep the order.
_STEP = 1e-3


@dataclass(frozen=True, slots=True)
class Weights:
    """Log odds per column of `Candidates.words` and `Candidates.meaning`.

    The first column of meaning counts squared.
    """

    words: tuple[float, float, float, float]
    meaning: tuple[float, float]


KEYWORDS = Weights((13.2, 13.2, 12.6, 7.1), (0.0, 0.0))
MEANING = Weights((0.0, 0.0, 0.0, 0.0), (13.85, 9.76))
BOTH = Weights((9.65, 11.75, 13.0, 6.86), (8.22, 2.42))


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions of candidates, best first, and scores; `(n,)` arrays."""

    places: Array
    score: Array


def join_sides(keyword: Candidates, similar: Candidates) -> Candidates:
    """Return the messages of both sides, each once, by name.

    Features are the higher of both, the grip that of the side that scores it higher; `raw` is the log odds, or the own score if
    only one side has messages.
    """
    candidates = Candidates.concatenate([keyword, similar])
    names, first, inverse = np.unique(candidates.message, return_index=True, return_inverse=True)
    words, meaning = np.zeros((len(names), 4)), np.zeros((len(names), 2))
    np.maximum.at(words, inverse, candidates.words)
    np.maximum.at(meaning, inverse, candidates.meaning)
    grip = first.copy()
    nearest = len(keyword) + np.arange(len(similar))
    says_more = BOTH.meaning[0] * similar.meaning[:, SIMILARITY] ** 2 > BOTH.words[0] * words[inverse[nearest], OWN_SCORE]
    grip[inverse[nearest[says_more]]] = nearest[says_more]
    chosen = candidates.select_rows(grip)
    raw = log_odds(words, meaning, BOTH) if len(keyword) and len(similar) else chosen.raw
    return Candidates(
        chosen.message, chosen.session, chosen.hi, chosen.lo, chosen.node_hi, chosen.node_lo, chosen.unit, chosen.start,
        chosen.role, chosen.turn, chosen.exchange, raw, words, meaning,
    )  # fmt: skip


def ground_replies(candidates: Candidates) -> Candidates:
    """Remove what neighbours and segment add to replies that tell nothing.

    Of a reply such as "I do not know" to a message that only asks, all of that comes from the question: one is meant that holds
    no term of the query, or came to nothing.
    """
    doubted = is_turn(candidates.turn, TurnKind.REPLY) & is_turn(candidates.turn, TurnKind.DOUBTFUL)
    empty = (is_turn(candidates.turn, TurnKind.TO_QUESTION) & (candidates.words[:, OWN_SCORE] <= 0)) | doubted
    if not empty.any():
        return candidates
    words, meaning = candidates.words.copy(), candidates.meaning.copy()
    words[empty] = np.minimum(words[empty], words[empty, OWN_SCORE : OWN_SCORE + 1])
    meaning[empty] = np.minimum(meaning[empty], meaning[empty, SIMILARITY : SIMILARITY + 1])
    return replace(candidates, words=words, meaning=meaning)


def rank_candidates(candidates: Candidates, weights: Weights, literal: bool, limit: int, boost: Array | None = None) -> Ranking:
    """Return at most `limit` candidates with scores 0..1, best first.

    Those with neither a query term nor any similarity nor a boost are left out; `boost`, `(n,)`, adds to the log odds.
    Messages of one session are spread over the first five; tool output and announcements are lowered unless `literal`.
    Requests come last; of those with a reply it takes over what they would be worth.
    """
    boost = np.zeros(len(candidates)) if boost is None else boost
    counts = (candidates.words[:, OWN_SCORE] > 0) | (candidates.meaning[:, SIMILARITY] > 0) | (boost > 0)
    places = np.flatnonzero(counts)
    if not len(places):
        return Ranking(places, np.zeros(0))
    counting = candidates if len(places) == len(candidates) else candidates.select_rows(places)
    odds = log_odds(counting.words, counting.meaning, weights) + boost[places]
    if not literal:
        odds = odds - _TOOL * (counting.role == _TOOL_ROLE)
        odds = odds - _ANNOUNCED * is_turn(counting.turn, TurnKind.ANNOUNCES)
    odds = _lower_doubted(_share_with_replies(odds, counting), counting)
    requests = is_turn(counting.turn, LISTED_LAST)
    evidence = _order_candidates(candidates, places[~requests], odds[~requests])
    asking = _order_candidates(candidates, places[requests], odds[requests])
    least = float(evidence.score[-1]) if len(evidence.score) else 1.0
    score = np.concatenate([evidence.score, np.minimum(asking.score, least) * REQUEST_FACTOR])
    return Ranking(np.concatenate([evidence.places, asking.places])[:limit], score[:limit])


def _share_with_replies(odds: Array, candidates: Candidates) -> Array:
    """Give the best reply of each request a share of its log odds.

    A reply that holds no term of the query and is far less similar to it than the request takes over nothing.
    """
    joined_odds, turn, similarity = odds.copy(), candidates.turn, candidates.meaning[:, SIMILARITY]
    holds = is_turn(turn, TurnKind.REPLY) & (candidates.words[:, OWN_SCORE] > 0)
    near = is_turn(turn, TurnKind.REPLY) & (similarity > 0)
    for request in np.flatnonzero(is_turn(turn, TurnKind.ASKS)).tolist():
        tells = holds | (near & (similarity >= _NEAR * similarity[request]))
        replies = np.flatnonzero((candidates.exchange == candidates.exchange[request]) & tells)
        if len(replies):
            best = replies[np.argmax(odds[replies])]
            joined_odds[best] += _TAKEN * max(0.0, float(odds[request] - joined_odds[best]))
    return joined_odds


def _lower_doubted(odds: Array, candidates: Candidates) -> Array:
    """Put prompts that came to nothing after messages that say the same.

    A reply does with any term of the query.
    """
    doubted = is_turn(candidates.turn, TurnKind.DOUBTFUL) & ~is_turn(candidates.turn, TurnKind.REPLY)
    if not doubted.any():
        return odds
    lowered, is_known = odds.copy(), ~is_turn(candidates.turn, TurnKind.DOUBTFUL | LISTED_LAST)
    is_reply = is_turn(candidates.turn, TurnKind.REPLY)
    own_words, similarity = candidates.words[:, OWN_SCORE], candidates.meaning[:, SIMILARITY]
    for position in np.flatnonzero(doubted).tolist():
        by_words = (own_words > 0) & ((own_words >= _ALIKE * own_words[position]) | is_reply)
        by_meaning = (similarity > 0) & (similarity >= _CLOSE * similarity[position])
        alike = is_known & (by_words | by_meaning)
        highest = float(odds[alike].max()) if alike.any() else np.inf
        lowered[position] = min(odds[position], highest) - _DOUBT
    return lowered


def _order_candidates(candidates: Candidates, places: Array, odds: Array) -> Ranking:
    if not len(places):
        return Ranking(places, odds)
    total_mass = _summed_odds(odds, np.zeros(len(places), dtype=np.int64))[0]
    session = np.unique(candidates.session[places], return_inverse=True)[1]
    odds = odds + _SESSION * (_summed_odds(odds, session)[session] - odds)
    order, values = _spread_sessions(odds, session, np.lexsort((candidates.lo[places], candidates.hi[places], -odds)))
    values = values - _STEP * np.arange(len(values))
    return Ranking(places[order], np.exp(np.minimum(values - total_mass, 0.0)))


def log_odds(words: Array, meaning: Array, weights: Weights) -> Array:
    """Return the log odds, `(n,)`, of `(n, 4)` words and `(n, 2)` meaning.

    The message's own similarity is squared.
    """
    similarity = meaning.copy()
    similarity[:, SIMILARITY] **= 2
    odds: Array = words @ np.array(weights.words) + similarity @ np.array(weights.meaning)
    return odds


def _summed_odds(odds: Array, group: Array) -> Array:
    highest = odds.max()
    total = np.zeros(int(group.max()) + 1)
    np.add.at(total, group, np.exp(odds - highest))
    masses: Array = np.log(np.maximum(total, np.finfo(float).tiny)) + highest
    return masses


def _spread_sessions(odds: Array, session: Array, order: Array) -> tuple[Array, Array]:
    """Spread the first five positions over sessions; values never rise.

    `order` is that by `odds`, best first; `session` is each one's, all `(n,)`.
    """
    value, group = odds[order], session[order]
    session_counts = np.zeros(int(group.max()) + 1)
    chosen = np.zeros(min(len(order), _SPREAD), dtype=np.int64)
    values = np.zeros(len(chosen))
    is_left = np.ones(len(order), dtype=bool)
    for position in range(len(chosen)):
        worth = np.where(is_left, value - _AGAIN * session_counts[group], -np.inf)
        best = int(np.argmax(worth))
        chosen[position], values[position], is_left[best] = best, worth[best], False
        session_counts[group[best]] += 1
    rest_values = value[is_left]
    if len(rest_values):  # shifted below the last chosen place; distances between them stay
        rest_values = rest_values - max(0.0, float(rest_values[0]) - float(values[-1]))
    return order[np.concatenate([chosen, np.flatnonzero(is_left)])], np.concatenate([values, rest_values])


#: Factors on the log odds of words and of meaning, against those of the question.
_WORDS, _MEANING = 0.85, 0.7
#: Agreement up to which keywords do not count, and from which they count in full.
_APART, _TOGETHER = 0.6, 0.8
#: How much they count without agreement, and how much where the question's best match also holds at most `_LITTLE` of the
#: highest possible score; from `_SOME` on no more than that.
_LEAST, _ALONE, _LITTLE, _SOME = 0.15, 0.75, 0.04, 0.12


def keyword_boost(question: Candidates, keywords: Candidates, weights: Weights) -> Array:
    """Return what keywords add to each candidate's log odds, `(n,)`.

    Keywords are searched as a query of their own, so that its features are shares of the highest score that they could have:
    eight count no more than two. They count less than the question's own words, the less the more its best match holds of
    those, and the less both agree, unless the own words find next to nothing. With good keywords the best message for both has
    .94 of the most that each gives alone, with those of another question of the same store .58 (medians of 132 questions, the
    tuning halves of ten corpora in seven languages). At these weights good ones put the right session first for 91 of the 132,
    wrong ones for 58, none for 68.

    `keywords` are messages with the features of the keywords, in any order; what is not among them gets nothing.
    """
    if not len(question) or not len(keywords):
        return np.zeros(len(question))
    order = np.argsort(keywords.message)
    places = order[np.minimum(np.searchsorted(keywords.message, question.message, sorter=order), len(keywords) - 1)]
    is_scored = (keywords.message[places] == question.message)[:, np.newaxis]
    words, meaning = keywords.words[places] * is_scored, keywords.meaning[places] * is_scored
    from_words = log_odds(words, np.zeros_like(meaning), weights)
    from_meaning = log_odds(np.zeros_like(words), meaning, weights)
    # What only asks repeats the question's words: that they are found there says nothing of the answer.
    is_evidence = ~is_turn(question.turn, LISTED_LAST)[:, np.newaxis]
    evidence_words = question.words * is_evidence
    question_odds = log_odds(evidence_words, question.meaning * is_evidence, weights)
    reach = float(evidence_words[:, OWN_SCORE].max())
    trust = _keyword_trust(_find_agreement(question_odds, from_words + from_meaning), reach)
    boost: Array = trust * keyword_need(reach) * (_WORDS * from_words + _MEANING * from_meaning)
    return boost


def _keyword_trust(agreement: float, reach: float) -> float:
    agreed = min(max((agreement - _APART) / (_TOGETHER - _APART), 0.0), 1.0)
    lost = min(max((_SOME - reach) / (_SOME - _LITTLE), 0.0), 1.0)
    return max(agreed, _LEAST + (_ALONE - _LEAST) * lost)


def _find_agreement(question_odds: Array, keyword_odds: Array) -> float:
    highest = float(question_odds.max() * keyword_odds.max())
    return float((question_odds * keyword_odds).max()) / highest if highest > 0 else 1.0


#: Highest score that counts for a side.
_SUREST = 0.999
#: Least calibrated similarity at which meaning alone finds an event that is not indexed yet.
_SURE = 0.1
#: Shares of the two sides in a fused score: the best on the tuning halves of the judged queries.
_SHARES = {"bm25": 0.6, "vector": 0.4}
_TABLES: dict[str, dict[DocType, Table]] = {"bm25": BM25, "vector": VECTOR}


def fuse_matches(keyword: Sequence[Match], similar: Sequence[Match], limit: int | None = None) -> list[Match]:
    """Merge both lists, best first; each document once, ties by id.

    Both sides' scores are probabilities of relevance, so their weighted log odds are added. A document that one side did not
    return has the lowest score of that side's table there.

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
    odds = 0.0
    for name, share in _SHARES.items():
        score = scores_by_side.get(name, _lowest_score(name, doc_type))
        odds += share * math.log(score / (1 - score))
    return 1 / (1 + math.exp(-odds))


def _bounded_score(score: float, side: str, doc_type: DocType) -> float:
    return min(max(score, _lowest_score(side, doc_type)), _SUREST)


def _lowest_score(side: str, doc_type: DocType) -> float:
    return _TABLES[side][doc_type][0][1]
