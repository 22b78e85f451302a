"""The id of an event whose words changed after it was stored, as an import of its source gives it now. Pure.

An id is a hash of what the source says of an event: of its own id, or where it has none, of its words. So whatever takes words
out of a stored event gives it another id, and an event that another memory carries in gets the same one.
"""

from dataclasses import replace

from memory_mcp.model.event import MARK, SOURCE_TIME, Event, EventDraft
from memory_mcp.model.ids import HASH_MASK, digest, event_id_from, event_key

#: Most equal events before it that are tried for an event without an id of its source: their number is part of its id.
_LIKES = 16


def renamed(old: int, source: str, before: Event | EventDraft, now: Event | EventDraft) -> int:
    """Return the key of an event that was `before` under the key `old`, with the fields of `now`; its time stays.

    Returns `old` if nothing has changed that the id depends on, or if `old` cannot be recomputed from `before`.
    """
    if before.source_id:
        return old if before.source_id == now.source_id else _key(old, digest(source, now.source_id))
    told = before.metadata.get(SOURCE_TIME) or before.metadata.get(SOURCE_TIME.removeprefix(MARK))
    for time in dict.fromkeys((str(before.timestamp), "None", told or "None")):
        for like in range(_LIKES):
            if digest(source, before.session_id, time, before.role, before.text, str(like)) == old & HASH_MASK:
                return _key(old, digest(source, now.session_id, time, now.role, now.text, str(like)))
    return old


def carried_on(before: EventDraft, now: EventDraft) -> EventDraft:
    """Return `now`, a changed event of another store, under the id that its changed words give it.

    Returns `now` as it is if it carries no id of another store, or text, session and source id are the same.
    """
    said = (before.text, before.session_id, before.source_id)
    if before.carried is None or said == (now.text, now.session_id, now.source_id):
        return now
    key = renamed(event_key(before.carried.event_id), before.carried.source, before, now)
    return replace(now, carried=replace(before.carried, event_id=event_id_from(key)))


def _key(old: int, tail: int) -> int:
    """Return a key with the time of `old` and another hash, `tail`."""
    return old & ~HASH_MASK | tail
