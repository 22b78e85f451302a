"""What is remembered of the newest questions: the lists that pages are cut from, and what each message was shown for.

Pages that are cut from one list never repeat or lose a result. Kept in memory alone, bounded, and lost with the process: a page
is searched again then, and a message that is not remembered is opened without a question.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.running import CallerProcess
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import EventId
from memory_mcp.search.layers.base import Hit, Query, Theme
from memory_mcp.search.policy.explain import Explanation
from memory_mcp.search.policy.plan import How
from memory_mcp.search.policy.relevance import Confidence

#: Questions whose lists are kept; each is some 30 kB.
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Judgement:
    """How sure an answer is."""

    confidence: Confidence
    #: How likely one of the first results holds the answer, 0..1.
    probability: float
    #: The words of the question that occur nowhere in the scope, as typed.
    missing: tuple[str, ...] = ()


#: Of an answer that lists what happened, and of one without results.
SURE, NO_RESULT = Judgement(Confidence.STRONG, 1.0), Judgement(Confidence.NONE, 0.0)


@dataclass(frozen=True, slots=True)
class ResultList:
    """The list that a question's pages are cut from, best first."""

    hits: tuple[Hit, ...]
    #: Whether there may be more after the last.
    goes_on: bool
    why: Explanation
    judgement: Judgement
    complete: bool
    themes: tuple[Theme, ...] = ()


class Pages:
    """The lists of the latest questions; any thread may call it."""

    def __init__(self) -> None:
        self._lists: OrderedDict[object, ResultList] = OrderedDict()
        self._lock = threading.Lock()

    def find_list(self, query: Query, how: How) -> ResultList | None:
        """Return the list that a further page continues, if it is kept."""
        if not how.offset:
            return None
        with self._lock:
            return self._lists.get(_request_key(query, how))

    def keep_list(self, query: Query, how: How, listed: ResultList) -> None:
        """Keep a list for further pages; the oldest of more than 64 are dropped."""
        with self._lock:
            key = _request_key(query, how)
            self._lists[key] = listed
            self._lists.move_to_end(key)
            while len(self._lists) > _KEPT:
                self._lists.popitem(last=False)

    def forget_lists(self) -> None:
        """Drop all lists: further pages are searched again."""
        with self._lock:
            self._lists.clear()


def _request_key(query: Query, how: How) -> object:
    bounds = tuple(sorted((name, value) for name, value in how.bounds.items() if name not in ("timeout_ms", "max_token_budget")))
    return copy_with(query, limit=0), how.intent, how.mode, bounds, how.min_confidence, how.without, how.as_of


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
