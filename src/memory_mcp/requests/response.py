"""What responses share: the mark of recalled words, the notice of lost events, and the token budget."""

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.sentinel import MARK
from memory_mcp.requests.plain import tokens_of
from memory_mcp.storage.values import Loss

if TYPE_CHECKING:
    from memory_mcp.app import App

T = TypeVar("T")


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
