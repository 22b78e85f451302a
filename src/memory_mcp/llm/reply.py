"""What comes of asking a language model once: an answer and its cost, or what went wrong."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from memory_mcp.llm.prompt import Prompt

#: Tokens that an answer may have, thoughts included; so many are held ready of the budget for each question.
MAX_OUT = 3000


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    text: str
    tokens_in: int
    tokens_out: int
    #: The tokens were counted here, because nobody told them.
    estimated: bool


class Refused(Exception):
    """Only this question gets no answer, and another may; its text says why, without a word of either."""

    def __init__(self, reason: str, tokens_in: int = 0) -> None:
        super().__init__(reason)
        self.tokens_in = tokens_in


class Unavailable(Exception):
    """Nobody answers now. `again`: another try may help, `after` so many seconds where that was told."""

    def __init__(self, reason: str, again: bool, after: float | None = None, tokens_in: int = 0) -> None:
        super().__init__(reason)
        self.again = again
        self.after = after
        #: Tokens that were probably spent for nothing, estimated.
        self.tokens_in = tokens_in


#: Asks once. The event is set when the answer is no longer wanted.
Ask = Callable[[Prompt, threading.Event], Reply]
