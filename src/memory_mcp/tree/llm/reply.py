"""The outcome of one request to a language model: an answer and its cost, or an error."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from memory_mcp.tree.llm.prompt import Prompt

#: Most tokens of an answer, thoughts included; this much of the budget is reserved for each request.
MAX_OUT = 3000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a model."""

    text: str
    tokens_in: int
    tokens_out: int
    #: Whether the tokens were estimated here, because the endpoint did not state them.
    estimated: bool


class Refused(Exception):
    """A request cannot be answered, while others may be; the text says why, without a word of request or answer."""

    def __init__(self, reason: str, tokens_in: int = 0) -> None:
        """Give the reason, and the tokens that were probably spent for nothing, estimated."""
        super().__init__(reason)
        self.tokens_in = tokens_in


class Unavailable(Exception):
    """No model answers now. `again` is whether another try may help, `after` the seconds to wait if the endpoint states them."""

    def __init__(self, reason: str, again: bool, after: float | None = None, tokens_in: int = 0) -> None:
        """Give the reason, whether another try may help, the seconds to wait, and the tokens probably spent for nothing."""
        super().__init__(reason)
        self.again = again
        self.after = after
        self.tokens_in = tokens_in


#: Asks once. The event is set when the answer is no longer wanted.
Ask = Callable[[Prompt, threading.Event], Reply]
