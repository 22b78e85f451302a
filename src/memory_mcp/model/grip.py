"""Grip: an exact quotation, kept as a span and a hash; the words stay in the event."""

from dataclasses import dataclass

from memory_mcp.model.ids import EventId, GripId, digest, grip_id_from, key_of

#: Rules that choose spans (derive/grips.py); part of a grip's identity.
GRIP_CUTTER_VERSION = 1
#: Between the two halves of a quotation that runs from a tool call into its result.
JOINT = "\n⤷ "


@dataclass(frozen=True, slots=True)
class Grip:
    """A quotation of one event, or of a tool call together with its result.

    For one event the quote is `text[span_start:span_end]`. For two it is the first event's text from `span_start`,
    `JOINT`, and the second's text up to `span_end`. Offsets count characters.
    """

    grip_id: GripId
    event_id_start: EventId
    event_id_end: EventId
    span_start: int
    span_end: int
    #: 60-bit hash of the quoted text, checked whenever the grip is expanded.
    quote_hash: int
    #: Source time of the first event, UTC milliseconds.
    timestamp: int
    segment: int


@dataclass(frozen=True, slots=True)
class Said:
    """A quotation, and the fields of its event that a hit shows."""

    quote: str
    event_id: EventId
    #: When it was said, UTC milliseconds.
    timestamp: int
    session_id: str
    project: str
    agent: str
    role: str
    speaker: str
    #: The kind that its author gave; "" where none was given.
    kind: str
    quote_hash: int


def quote_of(first: str, last: str | None, span_start: int, span_end: int) -> str:
    """Return the quoted words: of one event (`last` is None) its span, of a pair what the grip quotes of each.

    Of a pair: `first` from `span_start` on, `JOINT`, and `last` up to `span_end`.
    """
    if last is None:
        return first[span_start:span_end]
    return first[span_start:] + JOINT + last[:span_end]


def quote_hash(quote: str) -> int:
    """Return a 60-bit hash of a quoted text."""
    return digest("quote", quote, bits=60)


def make_grip_id(timestamp: int, first: EventId, last: EventId, start: int, end: int) -> GripId:
    """Return the id of a grip, the same for the same arguments: its time, and a hash of them and the version of the cutter."""
    span = f"{start}-{end}"
    return grip_id_from(key_of(timestamp, digest("grip", first, last, span, str(GRIP_CUTTER_VERSION))))
