"""What responses share: the mark of recalled words, and keeping to a budget of tokens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from memory_mcp.app import App
from memory_mcp.model.sentinel import MARK
from memory_mcp.requests.plain import tokens_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A response that carries words from the memory; `origin` marks them, so that they are never stored again."""

    origin: str = field(default_factory=lambda: MARK)


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
