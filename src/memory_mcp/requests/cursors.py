"""Opaque page cursors, bound to their question by a checksum."""

from typing import TYPE_CHECKING

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.ids import EventId, decode_base32, encode_base32, event_id_from, event_key, hash_parts

if TYPE_CHECKING:
    from memory_mcp.app import App

_OFFSET_CHARS = 8
_EVENT_CHARS = 26
_CHECK_CHARS = 10


def offset_cursor(offset: int, *question: str) -> str:
    """Return the cursor of the page that begins at `offset`."""
    body = encode_base32(offset, _OFFSET_CHARS)
    return (body + _make_checksum(body, question)).lower()


def offset_of(cursor: str, *question: str) -> int:
    """Return the offset of a cursor, 0 for "".

    Raises InvalidQuery if it is damaged or belongs to another question.
    """
    return decode_base32(_verify_body(cursor, _OFFSET_CHARS, question)) if cursor else 0


def event_cursor(event_id: EventId, *question: str) -> str:
    """Return the cursor of the page that begins after an event."""
    return (event_id + _make_checksum(event_id, question)).lower()


def event_of(cursor: str, *question: str) -> EventId:
    """Return the event after which a page begins.

    Raises InvalidQuery for "", a damaged cursor and one of another question.
    """
    return event_id_from(event_key(_verify_body(cursor, _EVENT_CHARS, question)))


def event_behind(app: "App", cursor: str, question: tuple[str, ...]) -> tuple[int, str] | None:
    """Return the sort key (UTC ms, event id) a page follows.

    None for the cursor "". Raises InvalidQuery for a damaged cursor or one of another question, and when the event is not
    stored any more.
    """
    if not cursor:
        return None
    last = app.storage.events.find_event(event_of(cursor, *question))
    if last is None:
        raise InvalidQuery("the cursor's event is gone", "Start again without the cursor.")
    return last.order


def _make_checksum(body: str, question: tuple[str, ...]) -> str:
    return encode_base32(hash_parts("cursor", body, *question, bits=_CHECK_CHARS * 5), _CHECK_CHARS)


def _verify_body(cursor: str, length: int, question: tuple[str, ...]) -> str:
    """Return a cursor's first `length` characters, its checksum verified.

    Raises InvalidQuery for a cursor that is damaged or belongs to another question.
    """
    body, check = cursor[:length].upper(), cursor[length:].upper()
    if len(body) != length or check != _make_checksum(body, question):
        raise InvalidQuery(
            "the cursor is damaged or belongs to another question",
            "Pass next_cursor unchanged, with the same other arguments, or start again without it.",
        )
    return body
