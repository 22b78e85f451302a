"""The last resort: events read word by word, in slices of time, when an intent allows it and nothing else sufficed.

No index is asked and nothing is embedded; what exists is found unless a bound ends the scan, and then the slices already
read count. Several slices are read at once.
"""

import contextvars
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memory_mcp.layers.base import Hit, Query, Scanner, Slice
from memory_mcp.layers.budget import Budget
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.policy.explain import Scanned
from memory_mcp.text import STOPWORDS

#: Slices read at once: more only wait for each other on a small machine.
AT_ONCE = 2
#: Words that every event found must hold; a longer question is not one that was said in those words.
_MOST_WORDS = 6
#: Shortest word that is looked for.
_SHORTEST = 2


def looked_for(text: str, exact: Sequence[str]) -> tuple[str, ...]:
    """What an event must hold: the literal things a question names, else its few words; nothing where there are many."""
    if exact:
        return tuple(exact)
    words = [w.strip(".,;:!?()[]{}\"'`").lower() for w in text.split()]
    wanted = dict.fromkeys(w for w in words if len(w) >= _SHORTEST and w not in STOPWORDS)
    return tuple(wanted) if len(wanted) <= _MOST_WORDS else ()


class _Scan:
    """Slices handed out to threads, and what came back."""

    def __init__(
        self, scanner: Scanner, query: Query, words: Sequence[str], budget: Budget, slices: Sequence[TimeWindow]
    ) -> None:
        self._scanner = scanner
        self._query = query
        self._words = words
        self._budget = budget
        self._left: Iterator[tuple[int, TimeWindow]] = iter(enumerate(slices))
        self._lock = threading.Lock()
        self.read: dict[int, Slice] = {}
        self.errors: list[BaseException] = []

    def work(self) -> None:
        """Read slices until none is left, there is enough, or a bound says so."""
        while True:
            with self._lock:
                found = sum(len(s.hits) for s in self.read.values())
                place, window = next(self._left, (-1, None))
                if window is None or self.errors or found >= self._query.limit or not self._budget.call():
                    return
            try:
                got = self._scanner.read(replace(self._query, window=window), self._words)
            except BaseException as error:  # handed to whoever waits
                with self._lock:
                    self.errors.append(error)
                return
            with self._lock:
                self.read[place] = got


def escalate(scanner: Scanner, query: Query, words: Sequence[str], budget: Budget, why: str) -> tuple[tuple[Hit, ...], Scanned]:
    """Read the query's time, the newest first, as far as the budget goes; what was found and what it cost."""
    began = budget.clock.monotonic()
    slices = scanner.slices(query)
    scan = _Scan(scanner, query, words, budget, slices)
    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(scan.work,), name="scan", daemon=True)
        for _ in range(min(AT_ONCE, len(slices)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if scan.errors and not scan.read:
        raise scan.errors[0]
    hits = tuple(h for place in sorted(scan.read) for h in scan.read[place].hits)[: query.limit]
    ms = round((budget.clock.monotonic() - began) * 1000, 1)
    events = sum(s.events for s in scan.read.values())
    return hits, Scanned(why, len(slices), len(scan.read), events, len(hits), ms)
