"""Vectors over a snapshot: every row that may be found is compared with the query, exactly; large parts may ask a graph.

Raw scores are cosine similarities. The best of each table over all parts are calibrated side by side, then merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

import numpy as np

from memory_mcp.indexes import calibrate, keys
from memory_mcp.indexes.base import DocType, Filters, Match, Matches
from memory_mcp.indexes.calibrate import COMPARED, SIMILARITY, Table, calibrated, share
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.part import TABLES, LivePart
from memory_mcp.indexes.snapshot import Snapshot, findable, segment_of
from memory_mcp.indexes.vector.kind import Body
from memory_mcp.indexes.vector.rows import Query
from memory_mcp.model.ids import GripId

#: Of events in no document yet, which are compared with nothing else.
VECTOR: dict[DocType, Table] = {DocType.GRIP: SIMILARITY}
#: What is less similar is not found at all.
_LEAST = np.nextafter(np.float32(0), np.float32(1))
#: Share of rows below which those that pass are gathered instead of scoring all (measured: they cost the same near it).
_GATHER = 0.2
#: Rows whose maximum is taken together when the best are looked for.
_BLOCK = 256
#: Candidates that a graph is asked for, per result, and at least.
_WIDER, _CANDIDATES = 4, 64


class Nearest(Protocol):
    """What can name near rows without looking at all of them; see `graph`."""

    def serves(self, snapshot: Snapshot[Body]) -> bool:
        """Whether it is worth asking."""
        ...

    def candidates(self, live: LivePart[Body], table: DocType, query: Query, count: int) -> Array | None:
        """Some `count` rows of a table that are probably the nearest, with all that have the same text; None: unknown."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A search as every part gets it."""

    query: Query
    filters: Filters
    limit: int
    #: Smallest similarity that counts.
    floor: np.float32
    graphs: Nearest | None


@dataclass(frozen=True, slots=True)
class _Best:
    """The best of one table of one part, to be merged with those of others."""

    live: LivePart[Body]
    table: DocType
    rows: Array
    raw: Array


@dataclass(frozen=True, slots=True)
class _Ranked:
    """One of the best of a table over all parts."""

    value: float
    stand: float
    raw: float
    high: int
    low: int
    some: _Best
    row: int


def search(
    snapshot: Snapshot[Body],
    query_vector: Array,
    filters: Filters,
    limit: int,
    min_similarity: float = 0.0,
    graphs: Nearest | None = None,
) -> Matches:
    """The best `limit` documents of at least that similarity (0: of any), filters applied before choosing; ties by key.

    The total is of all documents of that similarity that pass; where a graph was asked, of those it named.
    """
    floor = max(np.float32(min_similarity), _LEAST)
    near = graphs if graphs is not None and _is_wide(filters) and graphs.serves(snapshot) else None
    # What a result's score is does not depend on how many are asked for, nor on what is asked to be left out.
    asked = _Asked(Query.of(query_vector), filters, max(limit, COMPARED), floor, near)
    found: dict[DocType, list[_Best]] = {t: [] for t in TABLES}
    total = 0
    for live in snapshot:
        for table, wanted in ((DocType.NODE, filters.wants_nodes), (DocType.GRIP, filters.wants_grips)):
            if wanted and asked.query.inverse > 0:
                best, count = _search_table(live, table, asked)
                found[table].append(best)
                total += count
    ranked = [r for table in TABLES for r in _ranked(found[table], table, asked.limit) if r.raw >= floor]
    ranked.sort(key=lambda r: (-r.value, -r.raw, r.high, r.low))
    return Matches(tuple(_match(r, asked) for r in ranked[:limit]), total)


def _is_wide(filters: Filters) -> bool:
    """Whether next to everything passes: anything narrower is scanned."""
    return filters == Filters(doc_type=filters.doc_type)


def _search_table(live: LivePart[Body], table: DocType, asked: _Asked) -> tuple[_Best, int]:
    columns = live.part.table(table)
    shown = findable(live, table, asked.filters)
    if table is DocType.NODE and asked.filters.window is not None and shown is not None:
        shown = _proven(live, shown, asked)
    rows, raw = _near(live, table, shown, asked) or _scanned(live, table, shown, asked)
    chosen = _top(raw, _LEAST, asked.limit)
    hi, lo = (c[chosen] if rows is None else c[rows[chosen]] for c in (columns.hi, columns.lo))
    chosen = chosen[np.lexsort((lo, hi, -raw[chosen]))[: asked.limit]]
    total = int(np.count_nonzero(raw >= asked.floor))
    return _Best(live, table, chosen if rows is None else rows[chosen], raw[chosen]), total


def _scanned(live: LivePart[Body], table: DocType, shown: Array | None, asked: _Asked) -> tuple[Array | None, Array]:
    """Rows (None: all) and their similarities; those that do not pass have the least there is."""
    held = live.part.body.table(table)
    passing = len(held) if shown is None else np.count_nonzero(shown)
    if shown is None or passing == len(held):
        return None, held.similarities(asked.query)
    if passing < _GATHER * len(held):
        rows = np.flatnonzero(shown)
        return rows, held.similarities(asked.query, rows)
    return None, np.where(shown, held.similarities(asked.query), np.float32(-np.inf))


def _near(live: LivePart[Body], table: DocType, shown: Array | None, asked: _Asked) -> tuple[Array | None, Array] | None:
    """The same, of what a graph names; None where there is none, or where it names too little that passes."""
    if asked.graphs is None:
        return None
    rows = asked.graphs.candidates(live, table, asked.query, max(asked.limit * _WIDER, _CANDIDATES))
    if rows is None:
        return None
    passing = rows if shown is None else rows[shown[rows]]
    if len(passing) < asked.limit:
        return None
    return passing, live.part.body.table(table).similarities(asked.query, passing)


def _proven(live: LivePart[Body], shown: Array, asked: _Asked) -> Array:
    """Without segments that reach over the window's edge and hold nothing inside it that is near the query."""
    assert asked.filters.window is not None
    rows = np.flatnonzero(shown)
    rows = rows[live.part.nodes.partly(rows, asked.filters.window)]
    if not len(rows):
        return shown
    units = live.part.nodes.unit[rows]
    asked_for, proven = (np.zeros(len(live.part.units), dtype=bool) for _ in range(2))
    asked_for[units] = True
    inside = findable(live, DocType.GRIP, asked.filters)
    of_them = asked_for[live.part.grips.unit]
    grips = np.flatnonzero(of_them if inside is None else of_them & inside)
    near = live.part.body.grips.similarities(asked.query, grips) >= asked.floor
    proven[live.part.grips.unit[grips[near]]] = True
    kept = shown.copy()
    kept[rows[~proven[units]]] = False
    return kept


def _top(raw: Array, floor: np.float32, limit: int) -> Array:
    """Places of the best `limit` and of all that equal the last of them, in any order."""
    whole = len(raw) // _BLOCK
    if whole <= limit:
        near = np.flatnonzero(raw >= floor)
    else:
        blocks = raw[: whole * _BLOCK].reshape(whole, _BLOCK)
        highest = blocks.max(axis=1)
        # As many rows as blocks reach this, so that nothing below it is among the best.
        floor = max(floor, np.partition(highest, whole - limit)[whole - limit])
        chosen = np.flatnonzero(highest >= floor)
        block, column = np.nonzero(blocks[chosen] >= floor)
        rest = np.flatnonzero(raw[whole * _BLOCK :] >= floor) + whole * _BLOCK
        near = np.concatenate([chosen[block] * _BLOCK + column, rest])
    if len(near) > limit:
        values = raw[near]
        near = near[values >= np.partition(values, len(values) - limit)[len(values) - limit]]
    return near


def _ranked(best: Sequence[_Best], table: DocType, limit: int) -> list[_Ranked]:
    """The best of one table over all parts, calibrated side by side."""
    found = []
    for some in best:
        columns = some.live.part.table(table)
        high, low = columns.hi[some.rows].tolist(), columns.lo[some.rows].tolist()
        rows = zip(some.raw.tolist(), high, low, some.rows.tolist(), strict=True)
        found += [(-raw, h, lo, some, row) for raw, h, lo, row in rows]
    found.sort(key=itemgetter(0, 1, 2))
    found = found[:limit]
    stands = share(np.array([-f[0] for f in found]))
    values = calibrated(calibrate.VECTOR[table], stands).tolist()
    return [_Ranked(v, stand, -f[0], *f[1:]) for v, stand, f in zip(values, stands.tolist(), found, strict=True)]


def _match(ranked: _Ranked, asked: _Asked) -> Match:
    part, row = ranked.some.live.part, ranked.row
    columns = part.table(ranked.some.table)
    node = ranked.some.table is DocType.NODE
    # Two roundings may carry it past 1.
    similarity = min(ranked.raw, 1.0)
    return Match(
        doc_type=ranked.some.table,
        node_key=int(part.units.key[columns.unit[row]]),
        node_id=keys.node_of(ranked.high, ranked.low) if node else segment_of(part, row),
        grip_id=None if node else keys.grip_of(ranked.high, ranked.low),
        start_ms=int(columns.start[row]),
        score=round(ranked.value, 6),
        raw=similarity,
        best_grip=_best_grip(ranked.some.live, int(columns.unit[row]), asked) if node else None,
        parts=(("similarity", round(similarity, 6)), ("standing", round(ranked.stand, 6))),
    )


def _best_grip(live: LivePart[Body], unit: int, asked: _Asked) -> GripId | None:
    """Of a unit's grips that pass the filters the one nearest to the query; the first of equals."""
    units, grips = live.part.units, live.part.grips
    rows = int(units.grip_first[unit]) + np.arange(int(units.grip_count[unit]))
    shown = findable(live, DocType.GRIP, asked.filters)
    rows = rows if shown is None else rows[shown[rows]]
    if not len(rows):
        return None
    raw = live.part.body.grips.similarities(asked.query, rows)
    row = int(rows[np.argmax(raw)])
    return keys.grip_of(int(grips.hi[row]), int(grips.lo[row])) if raw.max() > 0 else None
