"""BM25 over a snapshot: reads only the postings of the query's terms.

A message's score is that of its best grip, with shares of its neighbours', its segment's and its segment's best
message's; a segment's is its own with that of its best message. Only documents that hold a term themselves are
found.

Change here: how keywords are scored.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes import keys
from memory_mcp.indexes.base import DocType, Filters, Match, Matches
from memory_mcp.indexes.bm25 import message_scores
from memory_mcp.indexes.bm25.kind import Bm25Body
from memory_mcp.indexes.bm25.postings import STEP, term_key, term_part
from memory_mcp.indexes.bm25.weights import Weights, weigh_terms
from memory_mcp.indexes.calibrate import BM25, COMPARED, SCORE_OFFSET, calibrate_scores, normalize_bm25
from memory_mcp.indexes.candidates import OWN_SCORE, Candidates
from memory_mcp.indexes.columns import expand_ranges, sort_distinct
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.ranking import RankedDocument, TableBest, merge_tables, rank_table
from memory_mcp.indexes.shard import TABLES, LiveShard
from memory_mcp.indexes.snapshot import Snapshot, visible_rows
from memory_mcp.model.calendar import TocLevel

#: Weights in a message's score of its segment's and of the best message's in that (fitted: see `layers.score`), and in a
#: segment's score of its best message's.
SEGMENT, BEST, GRIP = 0.95, 0.54, 1.0
#: A query that touches more than 1/8 of the rows is scored over whole arrays.
_MANY = 8
#: Touched rows per message wanted up to which all are smoothed, without bounding units first.
_FEW = 16
#: Units per message wanted up to which all are smoothed, without scoring the likeliest first.
_FEW_UNITS = 2
#: Factor on `_FEW` in a search for documents, which wants few and scores nodes as well.
_LONGER = 10


def find_segments(snapshot: Snapshot[Bm25Body], terms: Sequence[str], project: str | None) -> list[int]:
    """Return keys of segments that hold every term, newest first.

    `project` None means all; without terms, all segments.
    """
    hashes = np.array([term_key(t) for t in terms], dtype=np.uint64)
    filters = Filters(project=project, level=TocLevel.SEGMENT)
    segments: list[tuple[int, int]] = []
    for live in snapshot:
        postings, places = live.shard.body.nodes, live.shard.body.nodes.find_slices(hashes)
        rows = np.arange(postings.rows)
        for term_slice in places:
            rows = rows[:0] if term_slice is None else np.intersect1d(rows, postings.rows_at(term_slice), assume_unique=True)
        visible = visible_rows(live, DocType.NODE, filters)
        rows = rows if visible is None else rows[visible[rows]]
        nodes = live.shard.nodes
        segments += zip(nodes.start[rows].tolist(), live.shard.units.key[nodes.unit[rows]].tolist(), strict=True)
    return [key for _, key in sorted(segments, reverse=True)]


@dataclass(slots=True)
class _TableScores:
    """The scores of one table of one part."""

    #: Rows that hold a term, `(n,)`, ascending; None if they are many.
    rows: Array | None
    #: Scores of all rows, `(rows,)` float64.
    dense: Array

    def rows_with_terms(self) -> Array:
        """Return rows that hold a term, ascending, whether or not visible."""
        return np.flatnonzero(self.dense) if self.rows is None else self.rows


@dataclass(frozen=True, slots=True)
class _ShardSearch:
    """The search of one part: the scores of its rows, and what is wanted of them."""

    live: LiveShard[Bm25Body]
    nodes: _TableScores
    grips: _TableScores
    filters: Filters
    limit: int

    @property
    def visible_grips(self) -> Array | None:
        """Which grips may be found, `(grips,)` bool; None for all."""
        return visible_rows(self.live, DocType.GRIP, self.filters)

    def smooth_scores(self, rows: Array, also: Array | None = None) -> message_scores.SmoothedScores:
        return message_scores.smooth_scores(self.live, rows, self.grips.dense, self.visible_grips, also)

    def segment_scores(self, smoothed: message_scores.SmoothedScores) -> Array:
        scores: Array = self.nodes.dense[smoothed.units.node_first[smoothed.unit]]
        return scores

    def total_scores(self, smoothed: message_scores.SmoothedScores) -> Array:
        raw: Array = (
            smoothed.own_score
            + smoothed.neighbour_score
            + SEGMENT * self.segment_scores(smoothed)
            + BEST * smoothed.best[smoothed.unit]
        )
        return raw

    def holding_in(self, units: Array) -> Array:
        """Return rows of grips in some units, `(units,)` bool, with a term."""
        places = np.flatnonzero(units)
        rows = expand_ranges(self.live.shard.units.grip_first[places], self.live.shard.units.grip_count[places])
        return rows[self.grips.dense[rows] > 0]

    def passing_nodes(self) -> Array:
        rows, visible = self.nodes.rows_with_terms(), visible_rows(self.live, DocType.NODE, self.filters)
        return rows if visible is None else rows[visible[rows]]


@dataclass(frozen=True, slots=True)
class _ScoredBest(TableBest):
    """The best documents of one table of one part, best first."""

    #: Their own scores, without shares of others.
    own_score: Array
    #: For nodes: the row of the best grip, -1 for none.
    grip: list[int]


def search_documents(
    snapshot: Snapshot[Bm25Body], terms: Sequence[str], filters: Filters, limit: int, keywords: Sequence[str] = ()
) -> Matches:
    """Return the best `limit` documents for the terms, and how many match.

    Filters are applied first. Messages count once, however many of their grips match. Only documents that hold a
    term themselves match, those of `keywords` included, which weigh less.
    """
    weights = widened_weights(snapshot, terms, keywords, filters)
    best: dict[DocType, list[_ScoredBest]] = {t: [] for t in TABLES}
    deep, total = max(limit, COMPARED), 0
    for live in snapshot:
        with _score_shard(live, weights, filters, deep) as shard_search:
            chosen = _choose_best(shard_search)
        for best_in_shard, count in chosen:
            best[best_in_shard.table].append(best_in_shard)
            total += count

    def normalize(raw: Array) -> Array:
        """Return the normalized scores of raw ones, both `(n,)`."""
        return normalize_bm25(raw, weights.total)

    ranked_best = merge_tables(rank_table(best[table], table, deep, normalize, BM25[table]) for table in TABLES)
    return Matches(tuple(map(_as_match, ranked_best[:limit])), total)


def widened_weights(snapshot: Snapshot[Bm25Body], terms: Sequence[str], keywords: Sequence[str], filters: Filters) -> Weights:
    """Return the weights of terms and of keywords' terms.

    Keywords weigh less the more the best message holds of the terms.
    """
    weights = weigh_terms(snapshot, terms)
    if not keywords:
        return weights
    highest = 0.0
    for live in snapshot:
        with _score_shard(live, weights, filters, 1) as shard_search:
            scores = (
                shard_search.grips.dense
                if shard_search.visible_grips is None
                else shard_search.grips.dense[shard_search.visible_grips]
            )
            highest = max(highest, float(scores.max(initial=0.0)))
    return weights.with_keywords(weigh_terms(snapshot, keywords), highest)


def score_pending_texts(weights: Weights, counts: Array, lengths: Array) -> tuple[Array, Array]:
    """Return raw and calibrated scores of texts, each as the only grip found.

    `counts` are those of the query's terms in each text, `(n, terms)`; `lengths` are the numbers of all terms of each, `(n,)`.
    """
    raw = (weights.idf * term_part(counts, lengths[:, None], DocType.GRIP)).sum(axis=1)
    # Of a text alone that is its normalized score: `normalize_bm25` compares what it is given.
    return raw, calibrate_scores(BM25[DocType.GRIP], raw / (weights.total + SCORE_OFFSET))


@contextmanager
def _score_shard(live: LiveShard[Bm25Body], weights: Weights, filters: Filters, limit: int) -> Iterator[_ShardSearch]:
    try:
        nodes = _score_table(live, DocType.NODE, weights)
        grips = _score_table(live, DocType.GRIP, weights)
        yield _ShardSearch(live, nodes, grips, filters, limit)
        for scored in (nodes, grips):
            scored.dense[slice(None) if scored.rows is None else scored.rows] = 0.0
    except BaseException:
        # Otherwise their rest would be added to the next query's scores.
        message_scores.ZERO_ARRAYS.drop_all()
        raise


def _score_table(live: LiveShard[Bm25Body], table: DocType, weights: Weights) -> _TableScores:
    """Sum the postings of the query's terms by row.

    Only postings are touched: 32 times faster than dense retrieval by bm25s at 100,000 documents (measured).
    """
    postings = live.shard.body.table(table)
    dense = message_scores.ZERO_ARRAYS.take(table, postings.rows)
    touched = []
    for term_slice, weight in zip(postings.find_slices(weights.keys), weights.idf.tolist(), strict=True):
        if term_slice is not None:
            rows = postings.rows_at(term_slice)
            # A term has each row once; `add.at` is a quarter faster than `dense[rows] +=` (measured).
            np.add.at(dense, rows, postings.data[term_slice] * (weight * STEP))
            touched.append(rows)
    if sum(map(len, touched)) * _MANY > postings.rows:
        return _TableScores(None, dense)
    if len(touched) < 2:
        return _TableScores(touched[0] if touched else np.zeros(0, dtype=np.int64), dense)
    rows = np.sort(np.concatenate(touched))
    return _TableScores(rows[np.concatenate([[True], rows[1:] != rows[:-1]])], dense)


def find_candidates(snapshot: Snapshot[Bm25Body], terms: Sequence[str], filters: Filters, limit: int, also: Array) -> Candidates:
    """Return the best `limit` messages, and those named in `also`.

    All must pass the filters. `words` are shares of the query's highest possible score with `SCORE_OFFSET` added.
    """
    weights = weigh_terms(snapshot, terms)
    scale = weights.total + SCORE_OFFSET
    shard_candidates: list[Candidates] = []
    reached = np.zeros(0)
    for live in snapshot:
        with _score_shard(live, weights, filters, limit) as shard_search:
            shard_candidates.append(_shard_candidates(shard_search, scale, also, _last_of(reached, limit)))
        reached = np.concatenate([reached, shard_candidates[-1].raw[shard_candidates[-1].words[:, OWN_SCORE] > 0]])
    return Candidates.concatenate(shard_candidates).best(limit, also)


def _last_of(scores: Array, limit: int) -> float:
    return float(np.partition(scores, -limit)[-limit]) if 0 < limit <= len(scores) else 0.0


def _shard_candidates(shard_search: _ShardSearch, scale: float, also: Array, least: float) -> Candidates:
    """Messages below `least` are not among the best, and may be missing."""
    live, visible = shard_search.live, shard_search.visible_grips
    places = live.messages_named(also)
    if visible is not None:
        places = places[visible[live.messages.first[places]]]
    smoothed = shard_search.smooth_scores(_rows_worth_scoring(shard_search, places, least), places)
    raw, segment = shard_search.total_scores(smoothed), shard_search.segment_scores(smoothed)
    columns = live.shard.grips
    best = _top_indices(raw * (smoothed.own_score > 0), columns.hi[smoothed.rows], columns.lo[smoothed.rows], shard_search.limit)
    chosen = sort_distinct(np.concatenate([best, np.searchsorted(smoothed.message_index, places)]))
    rows = smoothed.rows[chosen]
    return Candidates.from_rows(
        live,
        rows,
        smoothed.unit[chosen],
        raw[chosen],
        words=np.stack([smoothed.own_score, smoothed.neighbour_score, segment, smoothed.best[smoothed.unit]], axis=1)[chosen]
        / scale,
    )


def _rows_worth_scoring(shard_search: _ShardSearch, also: Array, least: float) -> Array:
    """Return rows of units that may hold one of the best.

    With at most 16 rows per wanted message, all rows. `also` are indices of messages whose units are included.
    """
    grips, limit, units = shard_search.grips, shard_search.limit, shard_search.live.shard.units
    if grips.rows is not None and len(grips.rows) <= _FEW * limit:
        return grips.rows
    bound = message_scores.bound_messages(
        units, message_scores.highest_by_unit(units, grips.dense), shard_search.nodes.dense, SEGMENT, BEST
    )
    least = least if limit else math.inf
    if np.count_nonzero(bound >= least) > _FEW_UNITS * limit:
        likeliest = shard_search.smooth_scores(shard_search.holding_in((bound >= _last_of(bound, limit)) & (bound > 0)))
        least = max(least, _last_of(shard_search.total_scores(likeliest)[likeliest.own_score > 0], limit))
    is_kept = bound >= least
    is_kept[shard_search.live.messages.unit[also]] = True
    return shard_search.holding_in(is_kept & (bound > 0))


def _choose_best(shard_search: _ShardSearch) -> list[tuple[_ScoredBest, int]]:
    live, filters, limit, visible = shard_search.live, shard_search.filters, shard_search.limit, shard_search.visible_grips
    rows = shard_search.grips.rows_with_terms()
    passing = rows if visible is None else rows[visible[rows]]
    if filters.window is None and len(rows) > _FEW * _LONGER * limit:
        rows = _promising_rows(shard_search)
    smoothed = shard_search.smooth_scores(rows)
    choices = []
    if filters.wants_grips and len(passing):
        columns, rows = live.shard.grips, smoothed.rows
        score = shard_search.total_scores(smoothed)
        top = _top_indices(score, columns.hi[rows], columns.lo[rows], limit)
        best = _ScoredBest(live, DocType.GRIP, rows[top], score[top], shard_search.grips.dense[rows[top]], rows[top].tolist())
        choices.append((best, live.messages.count_messages(passing)))
    if filters.wants_nodes:
        choices.append(_top_nodes(shard_search, smoothed))
    return choices


def _promising_rows(shard_search: _ShardSearch) -> Array:
    units, limit = shard_search.live.shard.units, shard_search.limit
    highest = message_scores.highest_by_unit(units, shard_search.grips.dense)
    messages = message_scores.bound_messages(units, highest, shard_search.nodes.dense, SEGMENT, BEST)
    rows = shard_search.passing_nodes() if shard_search.filters.wants_nodes else np.zeros(0, dtype=np.int64)
    unit, own_scores = shard_search.live.shard.nodes.unit[rows], shard_search.nodes.dense[rows]
    reach = message_scores.bound_nodes(own_scores, highest[unit], GRIP)

    def rows_reaching(message: float, node: float) -> Array:
        is_kept = (messages >= message) & (highest > 0)
        is_kept[unit[reach >= node]] = True
        return shard_search.holding_in(is_kept)

    likeliest = shard_search.smooth_scores(rows_reaching(_last_of(messages, limit), _last_of(reach, limit)))
    least = (
        _last_of(shard_search.total_scores(likeliest)[likeliest.own_score > 0], limit)
        if shard_search.filters.wants_grips
        else math.inf
    )
    return rows_reaching(least, _last_of(own_scores + GRIP * likeliest.best[unit], limit))


def _top_nodes(shard_search: _ShardSearch, smoothed: message_scores.SmoothedScores) -> tuple[_ScoredBest, int]:
    """Return the best nodes and how many match.

    A segment that crosses the window's edge must have a matching grip inside it.
    """
    live, nodes, filters = shard_search.live, shard_search.nodes, shard_search.filters
    columns, rows = live.shard.nodes, shard_search.passing_nodes()
    if filters.window is not None:
        rows = rows[~(columns.crosses_edge(rows, filters.window) & (smoothed.best[columns.unit[rows]] <= 0))]
    score = nodes.dense[rows] + GRIP * smoothed.best[columns.unit[rows]]
    chosen = _top_indices(score, columns.hi[rows], columns.lo[rows], shard_search.limit)
    best = [smoothed.best_row(unit) for unit in columns.unit[rows[chosen]].tolist()]
    return _ScoredBest(live, DocType.NODE, rows[chosen], score[chosen], nodes.dense[rows[chosen]], best), len(rows)


def _top_indices(score: Array, hi: Array, lo: Array, limit: int) -> Array:
    """Return the indices of the best scores, ties by key."""
    near = np.arange(len(score))
    if len(score) > 4 * limit > 0:
        near = np.flatnonzero(score >= np.partition(score, len(score) - limit)[len(score) - limit])
    return near[np.lexsort((lo[near], hi[near], -score[near]))[:limit]]


def _as_match(ranked_document: RankedDocument[_ScoredBest]) -> Match:
    best, at = ranked_document.best, ranked_document.at
    own_score, grip, grips = float(best.own_score[at]), best.grip[at], best.live.shard.grips
    has_best = best.table is DocType.NODE and grip >= 0
    return ranked_document.to_match(
        ranked_document.raw,
        keys.grip_of(int(grips.hi[grip]), int(grips.lo[grip])) if has_best else None,
        (
            ("own", round(own_score, 4)),
            ("lift", round(ranked_document.raw - own_score, 4)),
            ("standing", round(ranked_document.normalized, 6)),
        ),
    )
