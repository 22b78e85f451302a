"""Vector search over a snapshot: compares exactly with all rows, or those a graph finds.

Raw scores are cosine similarities. The best of each table over all shards are calibrated together, then merged.

Change here: how similarity is scored.
"""

from dataclasses import replace

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes import keys
from memory_mcp.indexes.base import DocType, Filters, Match, Matches
from memory_mcp.indexes.calibrate import COMPARED, VECTOR, normalize_similarity
from memory_mcp.indexes.candidates import NO_CANDIDATES, Candidates
from memory_mcp.indexes.columns import expand_ranges, is_turn
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.messages import best_by_message
from memory_mcp.indexes.ranking import RankedDocument, TableBest, merge_tables, rank_table
from memory_mcp.indexes.shard import TABLES, LiveShard
from memory_mcp.indexes.snapshot import Snapshot, visible_rows
from memory_mcp.indexes.vector.kind import VectorBody
from memory_mcp.indexes.vector.rows import CodedQuery
from memory_mcp.model.exchange import LISTED_LAST
from memory_mcp.model.ids import GripId

#: Least similarity of a result.
_LEAST = np.nextafter(np.float32(0), np.float32(1))
#: Share of passing rows below which only those are scored (measured: both cost the same near it).
_GATHER = 0.2
#: Rows per block when selecting the best by block maxima: the first of which there are several times as many as are wanted.
_BLOCKS, _SEVERAL = (256, 32), 2
#: Grips per message wanted: a long message has several.
_PIECES = 3
#: Results whose best grip is looked up; longer lists are for fusion, which shows few.
_QUOTED = 40


@dataclass(frozen=True, slots=True)
class _SearchRequest:
    """The request as each part gets it."""

    query: CodedQuery
    filters: Filters
    limit: int
    #: Least similarity of a result.
    floor: np.float32


def search_documents(
    snapshot: Snapshot[VectorBody], query_vector: Array, filters: Filters, limit: int, min_similarity: float = 0.0
) -> Matches:
    """Return the documents nearest to a vector, `(dimensions,)` float32.

    Only similarities above 0, and of at least `min_similarity`; filters are applied first. Of several grips of a
    message only the best is returned. The total is of all passing documents of that similarity, grips singly; if a
    graph was used, of those it found.
    """
    floor = max(np.float32(min_similarity), _LEAST)
    # A result's score must not depend on the limit, nor on the least similarity.
    request = _SearchRequest(CodedQuery.from_vector(query_vector), filters, max(limit, COMPARED), floor)
    best_by_table: dict[DocType, list[TableBest]] = {t: [] for t in TABLES}
    total = 0
    for live in snapshot:
        for table, is_wanted in ((DocType.NODE, filters.wants_nodes), (DocType.GRIP, filters.wants_grips)):
            if is_wanted and request.query.inverse > 0:
                best, count = _search_table(live, table, request)
                best_by_table[table].append(best)
                total += count
    chosen = merge_tables(
        rank_table(best_by_table[table], table, request.limit, normalize_similarity, VECTOR[table]) for table in TABLES
    )
    message_names: set[int] = set()
    unique: list[RankedDocument[TableBest]] = []
    for document in chosen:
        grips = document.best.live.shard.grips
        name = int(grips.message[document.best.rows[document.at]]) if document.best.table is DocType.GRIP else 0
        if document.raw >= floor and not (name and name in message_names):
            message_names.add(name)
            unique.append(document)
    return Matches(tuple(_as_match(r, request, rank < _QUOTED) for rank, r in enumerate(unique[:limit])), total)


def find_candidates(snapshot: Snapshot[VectorBody], query: CodedQuery, filters: Filters, limit: int) -> Candidates:
    """Return the `limit` messages nearest to a query.

    Only similarities above 0; fewer if long messages have more than three of the nearest grips on average.
    """
    request = _SearchRequest(query, replace(filters, doc_type=DocType.GRIP), limit * _PIECES, _LEAST)
    if query.inverse <= 0:
        return NO_CANDIDATES
    shard_candidates = []
    for live in snapshot:
        best, _ = _search_table(live, DocType.GRIP, request)
        order = np.argsort(best.rows)
        shard_candidates.append(_message_candidates(live, query, best.rows[order], best.raw[order], limit))
    return Candidates.concatenate(shard_candidates).best(limit, np.zeros(0, dtype=np.uint64))


def rate_messages(snapshot: Snapshot[VectorBody], query: CodedQuery, names: Array) -> Candidates:
    """Return named messages with their similarities; no filter applies."""
    shard_candidates = []
    for live in snapshot:
        messages = live.messages
        places = live.messages_named(names)
        rows = expand_ranges(*messages.rows_of(places))
        raw = live.shard.body.table(DocType.GRIP).compute_similarities(query, rows)
        shard_candidates.append(_message_candidates(live, query, rows, raw))
    return Candidates.concatenate(shard_candidates)


def _message_candidates(
    live: LiveShard[VectorBody], query: CodedQuery, rows: Array, raw: Array, limit: int | None = None
) -> Candidates:
    """Return the messages of some rows, the `limit` nearest of them.

    In `meaning` questions lose some similarity, and none is below 0.
    """
    places, similarity, best = best_by_message(live.messages, rows, raw.astype(np.float64))
    if limit is not None and len(places) > limit:
        grips = live.shard.grips
        nearest = np.lexsort((grips.lo[best], grips.hi[best], -similarity))[:limit]
        places, similarity, best = places[nearest], similarity[nearest], best[nearest]
    unit = live.messages.unit[places]
    units, back = np.unique(unit, return_inverse=True)
    segment = live.shard.body.table(DocType.NODE).compute_similarities(query, live.shard.units.node_first[units])
    meaning = np.stack([similarity * np.sqrt(live.score_factors[best]), segment[back]], axis=1)
    return Candidates.from_rows(live, best, unit, similarity, meaning=np.maximum(meaning, 0.0))


def _search_table(live: LiveShard[VectorBody], table: DocType, request: _SearchRequest) -> tuple[TableBest, int]:
    columns = live.shard.table(table)
    visible = visible_rows(live, table, request.filters)
    if table is DocType.NODE and request.filters.window is not None and visible is not None:
        visible = _drop_unproven(live, visible, request)
    rows, raw = _compare_rows(live, table, visible, request)
    chosen = _top_indices(raw, _LEAST, request.limit)
    hi, lo = (c[chosen] if rows is None else c[rows[chosen]] for c in (columns.hi, columns.lo))
    chosen = chosen[np.lexsort((lo, hi, -raw[chosen]))[: request.limit]]
    total = int(np.count_nonzero(raw >= request.floor))
    return TableBest(live, table, chosen if rows is None else rows[chosen], raw[chosen]), total


def _compare_rows(
    live: LiveShard[VectorBody], table: DocType, visible: Array | None, request: _SearchRequest
) -> tuple[Array | None, Array]:
    table_rows = live.shard.body.table(table)
    # With any filter but the type and an excluded session too few of the graph's rows may pass.
    if table_rows.graph is not None and replace(request.filters, excluded_sessions=frozenset()) == Filters(
        doc_type=request.filters.doc_type
    ):
        near = table_rows.graph.find_near(request.query.codes)
        if near is not None and visible is not None:
            near = near[visible[near]]
        if near is not None and len(near) >= request.limit:
            return near, table_rows.compute_similarities(request.query, near)
    passing = len(table_rows) if visible is None else np.count_nonzero(visible)
    if visible is None or passing == len(table_rows):
        return None, table_rows.compute_similarities(request.query)
    if passing < _GATHER * len(table_rows):
        rows = np.flatnonzero(visible)
        return rows, table_rows.compute_similarities(request.query, rows)
    return None, np.where(visible, table_rows.compute_similarities(request.query), np.float32(-np.inf))


def _drop_unproven(live: LiveShard[VectorBody], visible: Array, request: _SearchRequest) -> Array:
    """Drop segments that cross the window's edge without a near grip inside."""
    assert request.filters.window is not None
    rows = np.flatnonzero(visible)
    rows = rows[live.shard.nodes.crosses_edge(rows, request.filters.window)]
    if not len(rows):
        return visible
    units = live.shard.nodes.unit[rows]
    asked_for, proven = (np.zeros(len(live.shard.units), dtype=bool) for _ in range(2))
    asked_for[units] = True
    inside = visible_rows(live, DocType.GRIP, request.filters)
    of_them = asked_for[live.shard.grips.unit]
    grips = np.flatnonzero(of_them if inside is None else of_them & inside)
    near = live.shard.body.grips.compute_similarities(request.query, grips) >= request.floor
    proven[live.shard.grips.unit[grips[near]]] = True
    proven_rows = visible.copy()
    proven_rows[rows[~proven[units]]] = False
    return proven_rows


def _top_indices(raw: Array, floor: np.float32, limit: int) -> Array:
    size = next((size for size in _BLOCKS if len(raw) // size > _SEVERAL * limit), 0)
    if not size:
        near = np.flatnonzero(raw >= floor)
    else:
        count = len(raw) // size
        # A block has every `count`-th row: so their maxima are those of whole stretches.
        blocks = raw[: count * size].reshape(size, count)
        highest = blocks.max(axis=0)
        # `limit` blocks have a row of at least this, so nothing below it is among the best.
        floor = max(floor, np.partition(highest, count - limit)[count - limit])
        chosen = np.flatnonzero(highest >= floor)
        position, block = np.nonzero(blocks[:, chosen] >= floor)
        remainder = np.flatnonzero(raw[count * size :] >= floor) + count * size
        near = np.concatenate([position * count + chosen[block], remainder])
    if len(near) > limit:
        values = raw[near]
        near = near[values >= np.partition(values, len(values) - limit)[len(values) - limit]]
    return near


def _as_match(ranked_document: RankedDocument[TableBest], request: _SearchRequest, quoted: bool) -> Match:
    best = ranked_document.best
    # Rounding may exceed 1.
    similarity = min(ranked_document.raw, 1.0)
    unit = int(best.live.shard.table(best.table).unit[int(best.rows[ranked_document.at])])
    return ranked_document.to_match(
        similarity,
        _best_grip(best.live, unit, request) if best.table is DocType.NODE and quoted else None,
        (("similarity", round(similarity, 6)), ("standing", round(ranked_document.normalized, 6))),
    )


def _best_grip(live: LiveShard[VectorBody], unit: int, request: _SearchRequest) -> GripId | None:
    units, grips = live.shard.units, live.shard.grips
    rows = int(units.grip_first[unit]) + np.arange(int(units.grip_count[unit]))
    visible = visible_rows(live, DocType.GRIP, request.filters)
    rows = rows if visible is None else rows[visible[rows]]
    if not len(rows):
        return None
    raw = live.shard.body.grips.compute_similarities(request.query, rows)
    asks = is_turn(grips.turn[rows], LISTED_LAST)
    row = int(rows[np.argmax(np.where(asks, 0.01 * raw, raw))])
    return keys.grip_of(int(grips.hi[row]), int(grips.lo[row])) if raw.max() > 0 else None
