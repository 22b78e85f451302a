"""Which of the events that are to be stored are new; shared by the engines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.event import VARIANT_OF, WORDS_VARY, Event, content_hash
from memory_mcp.model.ids import EventId, digest, event_id_from, key_of


class Arriving:
    """Sorts events that are to be stored in one transaction into new ones and ones that are stored already."""

    def __init__(self, stored: Mapping[EventId, int], look_up: Callable[[Sequence[Event]], dict[EventId, int]]) -> None:
        """`stored`: content hashes of those events that are stored, by id; `look_up` returns the same of other events."""
        self._stored, self._look_up = dict(stored), look_up
        #: Content hash by id, of what is stored and of what arrived.
        self._taken = dict(stored)

    def sort_out(self, events: Sequence[Event]) -> tuple[list[Event], list[EventId]]:
        """Return the new events, and the ids of those that are stored or arrived before, both in the order of arrival.

        An event whose id is taken by another text becomes a variant, unless it is marked with `WORDS_VARY`: its id is made of
        that id and of its text, and its metadata name the id as `VARIANT_OF`. A later call of the same instance knows what
        earlier ones returned.
        """
        named: list[tuple[Event, int]] = []
        variants: list[Event] = []
        for event in events:
            content = content_hash(event.text)
            taken = self._taken.setdefault(event.event_id, content)
            if taken == content or WORDS_VARY in event.metadata:
                named.append((event, taken))
            else:
                key = key_of(event.timestamp, digest("variant", event.event_id, str(content)))
                metadata = {**event.metadata, VARIANT_OF: event.event_id}
                variants.append(replace(event, event_id=event_id_from(key), metadata=metadata))
                named.append((variants[-1], content))
        self._stored |= self._look_up(variants)
        fresh: list[Event] = []
        known: list[EventId] = []
        for event, content in named:
            if event.event_id in self._stored:
                known.append(event.event_id)
            else:
                self._stored[event.event_id] = content
                fresh.append(event)
        return fresh, known
