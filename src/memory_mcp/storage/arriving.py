"""Sort events to be stored into new and known ones; shared by the engines."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from memory_mcp.model.event import COPY_OF, VARIANT_OF, WORDS_VARY, Event, content_hash, may_be_copied
from memory_mcp.model.ids import EventId, event_id_from, hash_parts, make_key
from memory_mcp.storage.values import AppendResult

#: Hash of an event's text, and its session.
StoredValue = tuple[int, str]


class ArrivalSorter:
    """Sorts the events of one transaction into new and stored ones."""

    def __init__(
        self, stored: Mapping[EventId, StoredValue], look_up: Callable[[Sequence[Event]], dict[EventId, StoredValue]]
    ) -> None:
        """Take text and session of stored events by id, and a look-up of others."""
        self._stored, self._look_up = dict(stored), look_up
        #: Text and session by id, of what is stored and of what arrived.
        self._values_by_id = dict(stored)

    def sort_events(self, events: Sequence[Event]) -> tuple[list[Event], list[EventId]]:
        """Return the new events and the known ids, in order of arrival.

        An event whose id is taken by another text, or by the same text in another session, gets an id that is made of that
        id and of its text or session, and its metadata name the id as `VARIANT_OF` or `COPY_OF`. Texts of one id are the same
        where an event is marked with `WORDS_VARY`. A later call of the same instance knows what earlier ones returned.
        """
        valued_events: list[tuple[Event, StoredValue]] = []
        renamed: list[Event] = []
        for event in events:
            value = (content_hash(event.text), event.session_id)
            first_value = self._values_by_id.setdefault(event.event_id, value)
            is_same_text = first_value[0] == value[0] or WORDS_VARY in event.metadata
            if is_same_text and (first_value[1] == value[1] or not may_be_copied(event)):
                valued_events.append((event, value))
            else:
                kind, mark, part = ("copy", COPY_OF, value[1]) if is_same_text else ("variant", VARIANT_OF, value[0])
                key = make_key(event.timestamp, hash_parts(kind, event.event_id, str(part)))
                metadata = {**event.metadata, mark: event.event_id}
                renamed.append(replace(event, event_id=event_id_from(key), metadata=metadata))
                valued_events.append((renamed[-1], value))
        self._stored |= self._look_up(renamed)
        fresh: list[Event] = []
        known_ids: list[EventId] = []
        for event, value in valued_events:
            if event.event_id in self._stored:
                known_ids.append(event.event_id)
            else:
                self._stored[event.event_id] = value
                fresh.append(event)
        return fresh, known_ids


def make_append_result(fresh: Sequence[Event], known_ids: Sequence[EventId], copies: Set[EventId]) -> AppendResult:
    """Return the result of an append; copies count as known."""
    new_ids = tuple(e.event_id for e in fresh if e.event_id not in copies)
    return AppendResult(new_ids, (*known_ids, *(e.event_id for e in fresh if e.event_id in copies)))
