"""What each index returns for the messages of a query, what it lacks, the candidates of all, and these as matches."""

from collections.abc import Mapping

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes import keys
from memory_mcp.indexes.base import DocType, Filters, Match, PendingMatch
from memory_mcp.indexes.candidates import NO_CANDIDATES, Candidates, PendingRow, pending_candidates
from memory_mcp.indexes.columns import is_turn
from memory_mcp.indexes.files import Array
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.exchange import LISTED_LAST, TurnKind
from memory_mcp.model.ids import EventId, NodeId
from memory_mcp.search.layers.base import LayerName
from memory_mcp.search.layers.score import join_sides
from memory_mcp.tree.toc.tree import Tree


@dataclass(frozen=True, slots=True)
class Side:
    """What one index returns for messages."""

    candidates: Candidates
    pending: tuple[PendingMatch, ...]
    shares: Mapping[EventId, float]
    notices: tuple[str, ...] = ()
    #: Whether the index lacks something of what was asked for.
    is_partial: bool = False


#: Names of the columns of `Candidates.words` and `Candidates.meaning` in a result's parts.
PARTS = ("own", "near", "segment", "best", "similarity", "segment_similarity")
#: What each index that could answer returns.
Sides = Mapping[LayerName, Side]


def pending_events(*several: Sides) -> dict[int, PendingMatch]:
    """Return the pending events of all sides, by message name."""
    indexed_names = {name for sides in several for side in sides.values() for name in side.candidates.message.tolist()}
    pending = ((keys.message_name(u.event.event_id), u) for sides in several for side in sides.values() for u in side.pending)
    return {name: unfiled for name, unfiled in pending if name not in indexed_names}


def candidates_of(sides: Sides, pending: Mapping[int, PendingMatch], turns: Mapping[EventId, TurnKind]) -> Candidates:
    """Return the messages of all sides, each once, then pending events.

    Pending events that ask the memory are left out.
    """
    indexed = join_sides(*(sides[n].candidates if n in sides else NO_CANDIDATES for n in (LayerName.BM25, LayerName.VECTOR)))
    rows: list[PendingRow] = []
    for name, unfiled in pending.items():
        event, turn = unfiled.event, turns.get(unfiled.event.event_id, TurnKind.PLAIN)
        if not turn & TurnKind.TO_MEMORY:
            share = {n: side.shares.get(event.event_id, 0.0) for n, side in sides.items()}
            words, meaning = share.get(LayerName.BM25, 0.0), share.get(LayerName.VECTOR, 0.0)
            session = keys.session_name(event.session_id)
            rows.append(PendingRow(name, session, event.timestamp, event.role.value, words, meaning, turn))
    return Candidates.concatenate([indexed, pending_candidates(rows)]) if rows else indexed


def matches_of(candidates: Candidates, score: Array) -> list[Match]:
    """Return candidates in order as matches of grips; `score` is `(n,)`.

    One not indexed yet has no grip and a node id of "". Parts are the columns named in `PARTS`, zeros left out; scores
    have six decimals.
    """
    identifiers = (candidates.hi, candidates.lo, candidates.node_hi, candidates.node_lo, candidates.unit, candidates.start)
    values = (is_turn(candidates.turn, LISTED_LAST), candidates.raw, candidates.words, candidates.meaning, score)
    rows = zip(*(column.tolist() for column in (*identifiers, *values)), strict=True)
    return [
        Match(
            doc_type=DocType.GRIP,
            node_key=unit,
            node_id=keys.node_of(node_hi, node_lo) if unit else NodeId(""),
            grip_id=keys.grip_of(hi, lo) if hi or lo else None,
            start_ms=start,
            score=round(value, 6),
            raw=raw,
            similarity=meaning[0],
            parts=tuple([(name, round(x, 4)) for name, x in zip(PARTS, (*words, *meaning), strict=True) if x]),
            asks=asks,
        )
        for hi, lo, node_hi, node_lo, unit, start, asks, raw, words, meaning, value in rows
    ]


def find_cut(tree: Tree, cutoffs: Mapping[str, int]) -> tuple[int, str]:
    """Return the time before which an index leaves out segments, and a remark.

    `cutoffs` are its own, UTC milliseconds.
    """
    cut = cutoffs.get(TocLevel.SEGMENT, 0)
    before_ms = tree.count_before(cut, None)
    if not before_ms:
        return 0, ""
    share = before_ms / tree.tally().segments
    return cut, f"leaves out {share:.1%} of all segments, those before {tree.calendar.day_of(cut)}"


def describe_gap(tree: Tree, filters: Filters, cutoffs: Mapping[str, int]) -> list[str]:
    """Return a notice of what a search with these filters lacks."""
    if filters.level is not None:
        cut = cutoffs.get(filters.level, 0)
    else:
        cut = max(cutoffs.values(), default=0) if filters.wants_nodes else cutoffs.get(TocLevel.SEGMENT, 0)
    since = 0 if filters.window is None else max(filters.window.start_ms, 0)
    until = cut if filters.window is None else min(cut, filters.window.end_ms)
    if since >= until or tree.count_before(until, filters.project) <= tree.count_before(since, filters.project):
        return []
    return [f"partial: the index leaves out what ended before {tree.calendar.day_of(cut)}"]
