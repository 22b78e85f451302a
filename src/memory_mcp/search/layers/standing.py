"""Add to hits what ranking needs: kind, salience, pins and successors.

No hit costs a query of its own: the store keeps pins and successors in memory, nodes are given, and a kind is read from the
words. A `kind` that a hit already has was given by the author.

Change here: what a hit tells the ranking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import RETRACTED, Supersession
from memory_mcp.model.ids import GripId, NodeId, parse_span_grip
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocNode
from memory_mcp.search.layers.base import Hit
from memory_mcp.storage.base import Storage
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import clean_text, find_spans

#: Characters of a quotation read for its kind: somewhat more than the longest stored grip.
_READ = 1200
#: Quotations whose kinds are cached, about 400 bytes each: successive questions find the same memories.
_REMEMBERED = 2000
_KINDS = frozenset(k.value for k in MemoryKind)


def add_standing(hits: Sequence[Hit], nodes: Mapping[NodeId, TocNode], storage: Storage) -> list[Hit]:
    """Return `hits` with kind, salience, pin and successor.

    Salience is 0 unless the hit's node is in `nodes`.
    """
    pins = storage.toc.list_pins()
    over = {} if storage.superseded.is_empty() else _find_supersessions(hits, storage)
    return [_add_standing(hit, nodes.get(hit.node_id), pins, over) for hit in hits]


def _find_supersessions(hits: Sequence[Hit], storage: Storage) -> dict[GripId, Supersession]:
    """Return the supersessions of the quoted words by grip.

    Words cited by a span count as superseded where a superseded stored grip of that event overlaps them.
    """
    over = storage.superseded.get_successors({i for h in hits for i in _grips_of(h)})
    shown_grips = {grips[0] for h in hits if (grips := _grips_of(h)) and grips[0] not in over}
    spans = {grip: span for grip in shown_grips if (span := parse_span_grip(grip))}
    stored = storage.grips.grips_by_event({event for event, *_ in spans.values()}) if spans else {}
    ended = storage.superseded.get_successors({g.grip_id for grips in stored.values() for g in grips})
    for grip, (event, start, end) in spans.items():
        for other in stored.get(event, ()):
            if other.grip_id in ended and other.span_start < end and start < other.span_end:
                over[grip] = replace(ended[other.grip_id], old=grip)
    return over


def _add_standing(hit: Hit, node: TocNode | None, pins: frozenset[str], over: Mapping[GripId, Supersession]) -> Hit:
    """Return a hit with its standing; `over` maps superseded grips.

    A supersession counts only if it concerns the quoted words. The kind is read from the quotation, but "" without reading where
    the node is an observation and the hit has no kind.
    """
    grips = _grips_of(hit)
    ended = over.get(grips[0]) if grips else None
    if ended is not None and not (ended.applies_to(hit.quote) or ended.applies_to(clean_text(hit.quote))):
        ended = None
    # Reading kinds costs 0.1 ms a hit (measured); a node that is an observation holds no bullet of another kind.
    plain = node is not None and node.kind is MemoryKind.OBSERVATION and not hit.kind
    pinned = hit.node_id in pins or not pins.isdisjoint(grips) or hit.event_id in _events_in(pins)
    return copy_with(
        hit,
        kind="" if plain else read_kind(hit.quote, hit.kind),
        salience=node.salience if node else 0.0,
        pinned=pinned,
        superseded_by=(ended.new or RETRACTED) if ended else "",
        why_superseded=ended.reason if ended else "",
    )


@lru_cache(maxsize=2)
def _events_in(pins: frozenset[str]) -> frozenset[str]:
    """Return the events that pins name: a note can be pinned before its grips."""
    return frozenset(spanned[0] for spanned in map(parse_span_grip, pins) if spanned)


def _grips_of(hit: Hit) -> tuple[GripId, ...]:
    return (GripId(hit.grip_id), *hit.grip_ids) if hit.grip_id else hit.grip_ids


@lru_cache(maxsize=_REMEMBERED)
def read_kind(words: str, author_kind: str = "") -> str:
    """Return the most durable kind of `words`, or the author's.

    "" for an observation. The first 1200 characters are read.
    """
    if author_kind in _KINDS:
        return author_kind if author_kind != MemoryKind.OBSERVATION else ""
    text = words[:_READ]
    sentences = (text[s.start : s.end] for s in find_spans(text))
    # No cues are sought: but for a question mark a kind depends on none of them.
    kind = max((kind_of(s, cues_of(s, 0)) for s in sentences), key=KIND_SALIENCE.__getitem__, default=MemoryKind.OBSERVATION)
    return "" if kind is MemoryKind.OBSERVATION else kind.value
