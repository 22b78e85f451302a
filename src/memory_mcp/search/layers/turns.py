"""Find the turns of single events: what follows each in its session is read from the store."""

from collections.abc import Iterable

from memory_mcp.model.event import Event
from memory_mcp.model.exchange import TurnKind, asks_memory, classify_turns, is_prompt
from memory_mcp.model.ids import EventId
from memory_mcp.storage.base import Storage

#: Events read before and after a prompt: its exchange, or enough of it.
_BEFORE, AFTER = 6, 24


def turns_of(storage: Storage, events: Iterable[Event]) -> dict[EventId, TurnKind]:
    """Return the turns of prompts and tool events; plain ones are left out.

    Each prompt costs a read of its neighbours.
    """
    turns: dict[EventId, TurnKind] = {}
    for event in events:
        if asks_memory(event):
            turns[event.event_id] = TurnKind.TO_MEMORY
        elif is_prompt(event) and not event.speaker:
            earlier, after = storage.events.get_neighbours(event, _BEFORE, AFTER)
            stretch = classify_turns([*earlier, event, *after], len(earlier) < _BEFORE)
            turns[event.event_id] = stretch.get(event.event_id, TurnKind.PLAIN)
    return turns
