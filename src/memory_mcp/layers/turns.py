"""Find the turns of single events: what follows each in its session is read from the store."""

from collections.abc import Iterable

from memory_mcp.model.event import Event
from memory_mcp.model.exchange import Turn, asks_memory, is_prompt, turns_in
from memory_mcp.model.ids import EventId
from memory_mcp.storage.base import Storage

#: Events read before and after a prompt: its exchange, or enough of it.
_BEFORE, AFTER = 6, 24


def turns_of(storage: Storage, events: Iterable[Event]) -> dict[EventId, Turn]:
    """Return the turns of prompts and of tools' events among some events; plain ones are left out.

    Each prompt costs a read of its neighbours.
    """
    turns: dict[EventId, Turn] = {}
    for event in events:
        if asks_memory(event):
            turns[event.event_id] = Turn.TO_MEMORY
        elif is_prompt(event) and not event.speaker:
            before, after = storage.events.around(event, _BEFORE, AFTER)
            turns[event.event_id] = turns_in([*before, event, *after], len(before) < _BEFORE).get(event.event_id, Turn.PLAIN)
    return turns
