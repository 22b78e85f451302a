"""Expand a grip (a citation, an exact quoted span): its words, checked against the stored event, and the events around it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.model.event import Event, note_kind
from memory_mcp.model.grip import Grip, Quotation, hash_quote, join_quote
from memory_mcp.model.ids import EventId, GripId, event_key, parse_span_grip, span_grip_id
from memory_mcp.model.sentinel import FORGOTTEN

if TYPE_CHECKING:
    from memory_mcp.storage.base import Storage

#: Neighbours read at most on each side.
MAX_NEIGHBOURS = 50


@dataclass(frozen=True, slots=True)
class ExpandedGrip:
    """A quotation with the events around it.

    `verified`: the stored event still holds exactly these words, as they were said.
    """

    grip_id: GripId
    quote: str
    verified: bool
    timestamp: int
    node_segment: int | None
    before: tuple[Event, ...]
    excerpt: tuple[Event, ...]
    after: tuple[Event, ...]


class Evidence:
    """Expands grips, within the session, project and thread of the quote."""

    def __init__(self, storage: "Storage") -> None:
        self._storage = storage

    def expand_grip(self, grip_id: str, before: int = 3, after: int = 3) -> ExpandedGrip:
        """Return the quotation with its neighbours, 50 at most each side.

        `verified` is False where the words have another hash now, or something was forgotten in them. Raises NotFound for
        an unknown grip or one whose events are gone, InvalidQuery for text that is no grip id.
        """
        grip, events = self._find_grip(grip_id)
        quote = quote_events(grip, events)
        verified = hash_quote(quote) == grip.quote_hash and FORGOTTEN not in quote
        citation = ExpandedGrip(grip.grip_id, quote, verified, grip.timestamp, grip.segment or None, (), tuple(events), ())
        return self.add_neighbours(citation, before, after)

    def add_neighbours(self, citation: ExpandedGrip, before: int, after: int) -> ExpandedGrip:
        """Return the citation with its neighbours, 50 at most each side, instead of those that it has."""
        events = citation.excerpt
        earlier_limit, later_limit = (min(max(count, 0), MAX_NEIGHBOURS) for count in (before, after))
        earlier, later = list[Event](), list[Event]()
        if len(events) == 1 and (earlier_limit or later_limit):
            earlier, later = self._storage.events.get_neighbours(events[0], earlier_limit, later_limit)
        elif earlier_limit or later_limit:
            earlier, _ = self._storage.events.get_neighbours(events[0], earlier_limit, 0)
            _, later = self._storage.events.get_neighbours(events[-1], 0, later_limit)
        return replace(citation, before=tuple(earlier), after=tuple(later))

    def read_quotes(self, grips: Sequence[Grip]) -> dict[GripId, str]:
        """Return the quoted words of stored grips, without a check."""
        ids = {i for g in grips for i in (g.event_id_start, g.event_id_end)}
        return quote_grips(grips, self._storage.events.get_events(ids))

    def _find_grip(self, grip_id: str) -> tuple[Grip, list[Event]]:
        """Return a grip and the one or two events it quotes.

        A grip of a span (event id and offsets) is made from its event. Raises NotFound for an unknown grip, a span outside
        of the text, or a grip whose events are gone.
        """
        if spanned := parse_span_grip(grip_id):
            event_id, start, end = spanned
            event = self._storage.events.find_event(event_id)
            if event is None or not start < end <= len(event.text):
                raise make_unknown_grip(grip_id)
            # It is not stored and filed under no segment; its time is that of the event's id, its hash that of the words now.
            full_id, said_at = span_grip_id(event_id, start, end), event_key(event_id) >> 80
            words = hash_quote(event.text[start:end])
            return Grip(full_id, event_id, event_id, start, end, quote_hash=words, timestamp=said_at, segment=0), [event]
        grip = self._storage.grips.find_grip(grip_id)
        if grip is None:
            raise make_unknown_grip(grip_id)
        events = self._storage.events.get_events([grip.event_id_start, grip.event_id_end])
        if not {grip.event_id_start, grip.event_id_end} <= set(events):
            raise make_unknown_grip(grip_id)
        return grip, sorted(events.values(), key=lambda e: (e.event_id != grip.event_id_start, e.order))


def quote_events(grip: Grip, events: Sequence[Event]) -> str:
    """Return a grip's words from its events, unchecked."""
    return join_quote(events[0].text, events[1].text if len(events) > 1 else None, grip.span_start, grip.span_end)


def quote_grips(grips: Iterable[Grip], events: Mapping[EventId, Event]) -> dict[GripId, str]:
    """Return the words of those grips whose events are all given."""
    quotes = {}
    for grip in grips:
        if grip.event_id_start in events and grip.event_id_end in events:
            pair = [events[grip.event_id_start], events[grip.event_id_end]]
            quotes[grip.grip_id] = quote_events(grip, pair if pair[0].event_id != pair[1].event_id else pair[:1])
    return quotes


def make_quotation(grip: Grip, event: Event, quote: str) -> Quotation:
    """Return the quotation as a hit shows it.

    `event` is the grip's first event, `quote` the quoted words.
    """
    return Quotation(
        quote=quote,
        event_id=event.event_id,
        timestamp=event.timestamp,
        session_id=event.session_id,
        project=event.project,
        agent=event.agent,
        role=event.role.value,
        speaker=event.speaker,
        kind=note_kind(event),
        quote_hash=grip.quote_hash,
    )


def make_unknown_grip(grip_id: str) -> NotFound:
    """Return the NotFound error for a grip, not raised."""
    return NotFound(f"no grip {grip_id}", "Take grip ids from search results or from a node's bullets (browse_toc).")
