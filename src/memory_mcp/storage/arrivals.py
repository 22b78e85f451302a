"""Events that arrive: sorted into new and known ones, and chosen among in memory as a query of the file would.

During an import every search asks for the latest hundreds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from memory_mcp.model.event import COPY_OF, VARIANT_OF, WORDS_VARY, Event, content_hash, may_be_copied
from memory_mcp.model.ids import EventId, event_id_from, hash_parts, make_key
from memory_mcp.storage.values import AppendResult, Scope

FindPairs = Callable[[Iterable[EventId]], Mapping[EventId, EventId]]


def select_arrivals(events: Sequence[Event], scope: Scope, probes: Sequence[str], find_pairs: FindPairs) -> list[Event]:
    """Return the shown events of a scope that may hold a probe; `find_pairs` returns the hidden ones among some ids."""
    is_match = make_event_filter(scope)
    matching = [event for event in events if is_match(event) and _may_hold(event, probes)]
    hidden = find_pairs(event.event_id for event in matching)
    return [event for event in matching if event.event_id not in hidden]


def make_event_filter(scope: Scope) -> Callable[[Event], bool]:
    """Return a function with the answer of `make_conditions` for an event that has its project's present name."""
    exact = [(name, value) for name in ("project", "agent", "role") if (value := getattr(scope, name)) is not None]
    speaker = None if scope.speaker is None else scope.speaker.lower()

    def is_match(event: Event) -> bool:
        return (
            all(getattr(event, name) == value for name, value in exact)
            and (scope.window is None or scope.window.start_ms <= event.timestamp < scope.window.end_ms)
            and (speaker is None or event.speaker.lower() == speaker)
            and not any(event.session_id == s.session_id and event.timestamp >= s.since_ms for s in scope.excluded)
        )

    return is_match


def _may_hold(event: Event, probes: Sequence[str]) -> bool:
    text = " ".join((event.speaker, event.text, *event.metadata.values()))
    if not probes or not text.isascii():
        return True
    folded = text.lower()
    return any(probe in folded for probe in probes)


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
