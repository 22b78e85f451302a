"""What responses share: the mark of recalled words, the notice of lost events, the token budget, and cursors."""

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.ids import EventId, decode_base32, encode_base32, event_id_from, event_key, hash_parts
from memory_mcp.model.sentinel import MARK
from memory_mcp.requests.plain import tokens_of
from memory_mcp.storage.values import Loss

if TYPE_CHECKING:
    from memory_mcp.app import App

T = TypeVar("T")
_OFFSET_CHARS = 8
_EVENT_CHARS = 26
_CHECK_CHARS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A response that carries words from the memory; `origin` marks them, so that they are never stored again."""

    origin: str = field(default_factory=lambda: MARK)


def with_loss(app: "App", response: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON response, with a notice where events are missing."""
    loss = app.storage.loss
    notices = [*([loss_notice(loss)] if loss else ()), *([app.displaced] if app.displaced else ())]
    return {**response, "notices": [*response.get("notices", ()), *notices]} if notices else response


def loss_notice(loss: Loss) -> str:
    """Say how much is missing and how to get it back."""
    return f"{loss.description}; to get them back: {loss.recovery_hint}"


def take_fitting(app: "App", values: Iterable[T], token_budget: int) -> list[T]:
    """Return the first values that fit a token budget, uncut.

    The first that does not fit ends the list, even if shorter ones follow; it may be empty.

    Args:
        app: Its settings hold the default budget.
        values: Parts of a response, in order.
        token_budget: The request's own budget; 0 for the default.

    """
    remaining, fitting_values = budget_of(app, token_budget), list[T]()
    for value in values:
        remaining -= tokens_of(value, app.settings.retrieval.token_factor)
        if remaining < 0:
            break
        fitting_values.append(value)
    return fitting_values


def budget_of(app: "App", token_budget: int) -> int:
    """Return the request's own token budget, the default for 0."""
    return token_budget or app.settings.retrieval.bounds.max_token_budget


def offset_cursor(offset: int, *question: str) -> str:
    """Return the cursor of the page that begins at `offset`."""
    body = encode_base32(offset, _OFFSET_CHARS)
    return (body + _make_checksum(body, question)).lower()


def offset_of(cursor: str, *question: str) -> int:
    """Return a cursor's offset, 0 for ""; InvalidQuery for a foreign one."""
    return decode_base32(_verify_body(cursor, _OFFSET_CHARS, question)) if cursor else 0


def event_cursor(event_id: EventId, *question: str) -> str:
    """Return the cursor of the page that begins after an event."""
    return (event_id + _make_checksum(event_id, question)).lower()


def event_of(cursor: str, *question: str) -> EventId:
    """Return the event before a page; InvalidQuery for "" and a foreign cursor."""
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
    """Raises InvalidQuery for a cursor that is damaged or belongs to another question."""
    body, check = cursor[:length].upper(), cursor[length:].upper()
    if len(body) != length or check != _make_checksum(body, question):
        raise InvalidQuery(
            "the cursor is damaged or belongs to another question",
            "Pass next_cursor unchanged, with the same other arguments, or start again without it.",
        )
    return body
