"""Cache the lists that questions were answered from: pages cut from one list never repeat or lose a result."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

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
    return replace(query, limit=0), how.intent, how.mode, bounds, how.min_confidence, how.without, how.as_of
