"""Turns stored events into the events that get_events shows: lean, or with their origin, size and quotations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event as Stored
from memory_mcp.model.grip import Grip
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.shapes import Event, shape_event

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of one value of an event's metadata.
_VALUE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedSpan:
    """A citation of an event, and the characters of its text that it quotes."""

    grip_id: str
    start: int
    end: int
    #: Whether it is superseded.
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FullEvent(Event):
    """An event with its origin, and the citations of it."""

    agent: str = ""
    project: str = ""
    #: The subagent inside the session; "" is the main thread.
    thread: str = ""
    trust: str = ""
    #: Characters of the whole text, and of those left out before `text`.
    size: int = 0
    offset: int = 0
    metadata: Mapping[str, str] | None = None
    quotes: Sequence[QuotedSpan] = ()


def shape_events(app: "App", stored_events: Sequence[Stored], full: bool, most: int, offsets: Mapping[str, int]) -> list[Event]:
    """Return stored events as get_events shows them, in their order.

    Args:
        app: Holds the citations and the calendar.
        stored_events: What was read.
        full: Whether origin, size and citations are wanted; the events are FullEvent then, metadata cut to `_VALUE` characters.
        most: Characters of a text; 0 for all of them.
        offsets: Characters left out at the beginning of a text, by event id.

    """
    lean = [shape_event(record, app.calendar) for record in stored_events]
    cut = []
    for record in lean:
        first = offsets.get(record.event_id, 0)
        cut.append(replace(record, text=record.text[first : first + most] if most else record.text[first:]))
    if not full:
        return cut
    grips = app.storage.grips.grips_by_event([record.event_id for record in stored_events])
    over = app.storage.superseded.get_successors({grip.grip_id for several in grips.values() for grip in several})
    return [
        copy_fields(
            FullEvent,
            shape,
            agent=record.agent,
            project=record.project,
            thread=record.thread,
            trust=record.trust.value,
            size=len(record.text),
            offset=min(offsets.get(record.event_id, 0), len(record.text)),
            metadata={name: value[:_VALUE] for name, value in record.metadata.items()},
            quotes=[_shape_span(grip, record, grip.grip_id in over) for grip in grips.get(record.event_id, ())],
        )
        for shape, record in zip(cut, stored_events, strict=True)
    ]


def _shape_span(grip: Grip, stored: Stored, over: bool) -> QuotedSpan:
    """Return which characters of an event's text a grip quotes.

    A grip over two events quotes the first from its start to the end of the text, and the second up to its
    end.
    """
    start, end = grip.span_start, grip.span_end
    if grip.event_id_start != grip.event_id_end:
        start, end = (start, len(stored.text)) if stored.event_id == grip.event_id_start else (0, end)
    return QuotedSpan(grip_id=grip.grip_id, start=start, end=min(end, len(stored.text)), over=over)
