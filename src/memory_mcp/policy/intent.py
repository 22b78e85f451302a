"""Words in, what their asker wants out: explore, answer, locate, or an answer within a time. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Intent(StrEnum):
    """What a query is after (agent-retrieval-policy-prd.md, section 3)."""

    EXPLORE = "explore"
    ANSWER = "answer"
    LOCATE = "locate"
    TIME_BOXED = "time_boxed"


@dataclass(frozen=True, slots=True)
class Classified:
    """An intent and what it was read from."""

    intent: Intent
    confidence: float
    signals: tuple[str, ...]
    exact: tuple[str, ...]
    deadline_ms: int | None
    rest: str


def classify(text: str, timeout_ms: int | None = None) -> Classified:
    """The intent of a query."""
    return Classified(Intent.TIME_BOXED if timeout_ms else Intent.ANSWER, 0.5, (), (), timeout_ms, text)
