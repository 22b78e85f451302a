"""Hits in, the same hits with what ranking goes by out: kind, salience, pins, successors.

No hit costs a query of its own: pins and successors are kept in memory by the store, nodes are at hand, and a kind is read
from the words. A `kind` that a hit already has is the one that was given with its words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from memory_mcp.layers.base import Hit
from memory_mcp.model.ids import GripId, NodeId, parse_span_grip
from memory_mcp.model.superseded import RETRACTED, Superseded
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.summarize.kinds import cues_of, kind_of
from memory_mcp.summarize.sentences import clean, spans

#: Characters of a quotation that are read for its kind: the longest stored grip, and a few lines more.
_READ = 1200
#: Quotations whose kinds are remembered, some 400 bytes each: one question leads to the next, and to the same memories.
_REMEMBERED = 2000


def with_standing(hits: Sequence[Hit], nodes: Mapping[NodeId, TocNode], storage: Storage) -> list[Hit]:
    """`hits` as they stand in the store; `nodes` are those they lie in, as far as they are known."""
    pins = storage.toc.pins()
    over = {} if storage.superseded.is_empty() else _over(hits, storage)
    return [_standing(hit, nodes.get(hit.node_id), pins, over) for hit in hits]


def _over(hits: Sequence[Hit], storage: Storage) -> dict[GripId, Superseded]:
    """What of the words shown holds no more; of words that are named by their place, what the stored grips there say."""
    over = storage.superseded.of({i for h in hits for i in _grips(h)})
    shown = {grips[0] for h in hits if (grips := _grips(h)) and grips[0] not in over}
    spans = {grip: span for grip in shown if (span := parse_span_grip(grip))}
    stored = storage.grips.of_events({event for event, *_ in spans.values()}) if spans else {}
    ended = storage.superseded.of({g.grip_id for grips in stored.values() for g in grips})
    for grip, (event, start, end) in spans.items():
        for other in stored.get(event, ()):
            if other.grip_id in ended and other.span_start < end and start < other.span_end:
                over[grip] = replace(ended[other.grip_id], old=grip)
    return over


def _standing(hit: Hit, node: TocNode | None, pins: frozenset[str], over: Mapping[GripId, Superseded]) -> Hit:
    grips = _grips(hit)
    ended = over.get(grips[0]) if grips else None
    if ended is not None and not (ended.concerns(hit.quote) or ended.concerns(clean(hit.quote))):
        ended = None
    # Reading for kinds costs 0.1 ms a hit (measured), and a node's own is the most durable of what is worth telling in it.
    plain = node is not None and node.kind is MemoryKind.OBSERVATION and not hit.kind
    return replace(
        hit,
        kind="" if plain else kind_said(hit.quote, hit.kind),
        salience=node.salience if node else 0.0,
        pinned=bool(pins) and _is_pinned(hit, grips, pins),
        superseded_by=(ended.new or RETRACTED) if ended else "",
        why_superseded=ended.reason if ended else "",
    )


def _is_pinned(hit: Hit, grips: Sequence[GripId], pins: frozenset[str]) -> bool:
    return hit.node_id in pins or not pins.isdisjoint(grips) or hit.event_id in _events_in(pins)


@lru_cache(maxsize=2)
def _events_in(pins: frozenset[str]) -> frozenset[str]:
    """Events that pins name by their own id, as that of a note does: it was pinned before any grip of it was stored."""
    return frozenset(spanned[0] for spanned in map(parse_span_grip, pins) if spanned)


def _grips(hit: Hit) -> tuple[GripId, ...]:
    """The grips of a hit; the first is that of the words shown."""
    return (GripId(hit.grip_id), *hit.grip_ids) if hit.grip_id else hit.grip_ids


@lru_cache(maxsize=_REMEMBERED)
def kind_said(words: str, told: str = "") -> str:
    """The kind of memory that words are, the most durable of their sentences; "" for an observation.

    `told` is the kind that whoever wrote them gave.
    """
    if told in _KINDS:
        return told if told != MemoryKind.OBSERVATION else ""
    text = words[:_READ]
    said = (text[s.start : s.end] for s in spans(text))
    kind = max((kind_of(s, cues_of(s)) for s in said), key=KIND_SALIENCE.__getitem__, default=MemoryKind.OBSERVATION)
    return "" if kind is MemoryKind.OBSERVATION else kind.value


_KINDS = frozenset(k.value for k in MemoryKind)
