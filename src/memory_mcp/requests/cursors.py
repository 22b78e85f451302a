"""Where a page ended, as a text that tells nothing and cannot be bent: bound to its question, checked on return."""

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.model.ids import EventId, decode, digest, encode, event_id_from, event_key

_OFFSET_CHARS = 8
_EVENT_CHARS = 26
_CHECK_CHARS = 10


def offset_cursor(offset: int, *question: str) -> str:
    """A cursor for the page that begins at `offset` of this question's answer."""
    body = encode(offset, _OFFSET_CHARS)
    return (body + _check(body, question)).lower()


def offset_of(cursor: str, *question: str) -> int:
    """The offset a cursor stands for, 0 for none; InvalidQuery when it is damaged or belongs to another question."""
    return decode(_body(cursor, _OFFSET_CHARS, question)) if cursor else 0


def event_cursor(event_id: EventId, *question: str) -> str:
    """A cursor for the page that begins behind an event."""
    return (event_id + _check(event_id, question)).lower()


def event_of(cursor: str, *question: str) -> EventId:
    """The event behind which a page begins; InvalidQuery as for `offset_of`."""
    return event_id_from(event_key(_body(cursor, _EVENT_CHARS, question)))


def event_behind(app: App, cursor: str, question: tuple[str, ...]) -> tuple[int, str] | None:
    """Return the place in the order of events behind which a page begins; None for no cursor.

    Raises:
        InvalidQuery: as for `offset_of`, or the event is not stored any more.

    """
    if not cursor:
        return None
    last = app.storage.events.find(event_of(cursor, *question))
    if last is None:
        raise InvalidQuery("the cursor's event is gone", "Start again without the cursor.")
    return last.order


def _check(body: str, question: tuple[str, ...]) -> str:
    return encode(digest("cursor", body, *question, bits=_CHECK_CHARS * 5), _CHECK_CHARS)


def _body(cursor: str, length: int, question: tuple[str, ...]) -> str:
    body, check = cursor[:length].upper(), cursor[length:].upper()
    if len(body) != length or check != _check(body, question):
        raise InvalidQuery(
            "the cursor is damaged or belongs to another question",
            "Pass next_cursor unchanged, with the same other arguments, or start again without it.",
        )
    return body
