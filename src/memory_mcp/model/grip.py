"""Grip: a citation, kept as a span and a hash; also its openings and what replaced it.

The words stay in the event.
"""

from operator import attrgetter

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import EventId, GripId, grip_id_from, hash_parts, make_key

#: Rules that choose spans (derive/grips.py); part of a grip's identity.
GRIP_CUTTER_VERSION = 1
#: Between the two halves of a quotation that runs from a tool call into its result.
JOINT = "\n⤷ "


@dataclass(frozen=True, slots=True)
class Grip:
    """A quotation of one event, or of a tool call and its result.

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

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the fields, as events are."""
        return Grip, _fields_of(self)


_fields_of = attrgetter(*Grip.__slots__)


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation with the fields of its event that a hit shows."""

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


def join_quote(first: str, last: str | None, span_start: int, span_end: int) -> str:
    """Return the quoted words of one event or of a pair.

    `last` is None for one event. Of a pair: `first` from `span_start` on, `JOINT`, and `last` up to `span_end`.
    """
    if last is None:
        return first[span_start:span_end]
    return first[span_start:] + JOINT + last[:span_end]


def hash_quote(quote: str) -> int:
    """Return a 60-bit hash of a quoted text."""
    return hash_parts("quote", quote, bits=60)


def make_grip_id(timestamp: int, first: EventId, last: EventId, start: int, end: int) -> GripId:
    """Return the id of a grip: its time, and a hash of the rest.

    The version of the cutter is part of the hash.
    """
    span = f"{start}-{end}"
    return grip_id_from(make_key(timestamp, hash_parts("grip", first, last, span, str(GRIP_CUTTER_VERSION))))


@dataclass(frozen=True, slots=True)
class GripUsage:
    """Times at which a grip was opened: UTC milliseconds, in order."""

    times: tuple[int, ...]


#: Takes the place of a successor's id for a statement that was retracted.
RETRACTED = "retracted"
#: Author and reason if the program itself noticed that a newer statement contradicts an older one.
CONTRADICTION_AUTHOR, CONTRADICTION_REASON = "contradiction", "a later statement says otherwise"


@dataclass(frozen=True, slots=True)
class Supersession:
    """`old` is replaced by `new`, or retracted if that is None."""

    old: GripId
    new: GripId | None
    #: UTC milliseconds.
    at_ms: int
    reason: str = ""
    #: `person`, an agent's name, or `contradiction` where the program noticed it.
    author: str = ""
    #: Of what the program noticed the words that hold no more, of which the quotation may hold others; "": all of it.
    words: str = ""

    def applies_to(self, text: str) -> bool:
        """Return whether a text holds words that are no longer valid."""
        return not self.words or self.words in text
