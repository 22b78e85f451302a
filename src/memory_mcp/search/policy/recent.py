"""Remembers which question each message was shown for last, so that opening it can show what bears on that question.

Kept in memory alone, bounded, and lost with the process: a message that is not remembered is opened without a question.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from memory_mcp.capture.running import CallerProcess
from memory_mcp.model.ids import EventId

#: Answers remembered: an agent opens what it was shown a few calls ago.
_MOST = 64


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """A question's weighted terms, and its words as typed."""

    weights: Mapping[str, float]
    words: Set[str]


#: Of a message that was shown for no question.
NO_TERMS = QuestionTerms({}, frozenset())


@dataclass(slots=True)
class RecentQuestions:
    """The newest answers: their callers, messages and questions."""

    _answers: deque[tuple[CallerProcess | None, frozenset[str], QuestionTerms]] = field(
        default_factory=lambda: deque(maxlen=_MOST)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def remember(self, caller: CallerProcess | None, event_ids: Iterable[str], question: QuestionTerms) -> None:
        """Remember an answer that showed the messages with these ids."""
        with self._lock:
            self._answers.appendleft((caller, frozenset(event_ids), question))

    def find(self, caller: CallerProcess | None, event_id: EventId) -> QuestionTerms:
        """Return the terms of a caller's newest question that showed a message.

        `NO_TERMS` without any.
        """
        with self._lock:
            questions = (terms for reader, event_ids, terms in self._answers if reader == caller and event_id in event_ids)
            return next(questions, NO_TERMS)
