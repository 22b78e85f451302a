"""Find what was said beside hits: what a reply answers, and what was answered to a question between people."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from memory_mcp.layers.base import Aside, Hit
from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import GripId, segment_key_of, span_grip_id
from memory_mcp.storage.base import Storage
from memory_mcp.text import term_set

#: What ends a question.
_ASKING = ("?", "？", "؟")
#: Longest quotation of an event that no grip covers, characters.
_SPAN = 400


def with_beside(storage: Storage, hits: Sequence[Hit], wanted: Set[str]) -> list[Hit]:
    """Return hits with the messages beside them; `wanted` are the query's terms, which choose what of a message is quoted.

    Beside an assistant's reply it is the user's message right before it; beside a question in a dialogue between people
    the next turn. Neighbours are looked for in the hit's own segment.
    """
    keys = {key for hit in hits if hit.event_id and (key := segment_key_of(hit.node_id)) is not None}
    segments = storage.toc.segments(keys) if keys else {}
    if not segments:
        return list(hits)
    sequences = storage.events.in_segments(list(segments.values()))
    pairs: dict[str, tuple[Event | None, Event | None]] = {}
    for events in sequences.values():
        for before, event, after in zip([None, *events], events, [*events[1:], None], strict=False):
            pairs[event.event_id] = before, after
    found = {hit.event_id: _neighbour(hit, *pairs.get(hit.event_id, (None, None))) for hit in hits}
    grips = storage.grips.of_events([event.event_id for event in found.values() if event is not None])
    asides = {name: _aside(event, grips.get(event.event_id, ()), wanted) for name, event in found.items() if event is not None}
    return [replace(hit, beside=(asides[hit.event_id],)) if hit.event_id in asides else hit for hit in hits]


def _neighbour(hit: Hit, before: Event | None, after: Event | None) -> Event | None:
    """Return the message beside a hit, from the events right before and after its own; None if there is none."""
    if hit.speaker:
        return after if after is not None and after.speaker and hit.quote.rstrip().endswith(_ASKING) else None
    is_prompt = before is not None and before.role is Role.USER and before.type is EventType.USER_MESSAGE
    return before if is_prompt and hit.role == Role.ASSISTANT else None


def _aside(event: Event, grips: Iterable[Grip], wanted: Set[str]) -> Aside:
    """Return a message as it is shown: the quotation of it that holds most of the terms."""
    spans = {
        grip.grip_id: event.text[grip.span_start : grip.span_end]
        for grip in grips
        if grip.event_id_start == grip.event_id_end == event.event_id
    }
    end = min(len(event.text), _SPAN)
    quotes: Mapping[GripId, str] = spans or {span_grip_id(event.event_id, 0, end): event.text[:end]}
    grip_id = max(quotes, key=lambda name: len(wanted & term_set(quotes[name])))
    return Aside(quotes[grip_id], grip_id, event.role.value, event.speaker, event.event_id)
