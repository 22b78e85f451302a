"""Chooses among events in memory as a query of the file would: during an import every search asks for the latest hundreds."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId
from memory_mcp.storage.values import Scope

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
