"""What responses share: the mark of recalled words, and keeping to a budget of tokens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memory_mcp.app import App
from memory_mcp.model.sentinel import MARK
from memory_mcp.requests.plain import tokens_of
from memory_mcp.storage.values import Loss

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A response that carries words from the memory; `origin` marks them, so that they are never stored again."""

    origin: str = field(default_factory=lambda: MARK)


def with_loss(app: App, response: dict[str, Any]) -> dict[str, Any]:
    """Return a response as JSON knows it, with what is missing of the memory among its notices; whoever asks is told."""
    loss = app.storage.loss
    return {**response, "notices": [*response.get("notices", ()), loss_notice(loss)]} if loss else response


def loss_notice(loss: Loss) -> str:
    """Say what is missing, and what a person does about it."""
    return f"{loss.told}; to get them back: {loss.way_back}"


def fitting(app: App, values: Iterable[T], token_budget: int) -> list[T]:
    """Return as many values as a budget holds, in order; one is left out whole, never cut.

    Args:
        app: Its settings have the budget of requests that name none.
        values: Parts of a response.
        token_budget: The request's own budget; 0 for none.

    """
    left, kept = budget_of(app, token_budget), list[T]()
    for value in values:
        left -= tokens_of(value, app.settings.retrieval.token_factor)
        if left < 0:
            break
        kept.append(value)
    return kept


def budget_of(app: App, token_budget: int) -> int:
    """Return the tokens that a response may have."""
    return token_budget or app.settings.retrieval.bounds.max_token_budget
