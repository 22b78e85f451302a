"""Search the events themselves: where nothing else sufficed, and for words that perhaps only questions hold.

No index is asked for a scan and nothing is embedded; what exists is found unless a bound ends it, and then the slices already
read count. Several slices are read at once.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded, StorageError
from memory_mcp.base.text import STOPWORDS, cjk_runs, term_set, terms
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import NodeId
from memory_mcp.search.layers.base import Hit, LayerName, Query, Scanner, Slice, Words, WordWeights
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.policy.explain import Scanned
from memory_mcp.search.policy.path import SCAN, Interrupt, reserve_ms, stop
from memory_mcp.search.policy.plan import Plan
from memory_mcp.search.policy.relevance import COMPARED, NEIGHBOURS

log = logging.getLogger(__name__)

#: Slices read at once: more only wait for each other on a small machine.
AT_ONCE = 2
#: Less for each hit that was said earlier.
_LATER = 0.001
#: Most words that every event found must hold; no one says a longer question in those words.
_MOST_WORDS = 6
#: Least and most characters of a question that is searched for as a phrase.
_SHORTEST_PHRASE, _LONGEST_PHRASE = 10, 200
#: Shortest word that is searched for.
_SHORTEST = 2
#: Seconds between two checks whether the caller has gone.
_LOOK = 0.01


def words_to_find(text: str, exact: Sequence[str]) -> tuple[str, ...]:
    """Return the literal pieces `exact`, else up to six words.

    Words are in lower case, without stop words and single characters; of more than six none is searched for.
    """
    if exact:
        return tuple(exact)
    words = [w.strip(".,;:!?()[]{}\"'`").lower() for w in text.split()]
    distinct_words = dict.fromkeys(w for w in words if len(w) >= _SHORTEST and w not in STOPWORDS)
    return tuple(distinct_words) if len(distinct_words) <= _MOST_WORDS else ()


def iter_searches(plan: Plan, question: str, hits: Sequence[Hit], is_enough: bool, was_cut: bool) -> Iterator[tuple[str, ...]]:
    """Yield what scans look for, in turn until one finds it.

    Where a walk alone was asked and did not suffice or see everything, first the question itself, word for word, if it has 10
    to 200 characters and the best hit does not hold it; then words that nothing found, or literal pieces not found surely.
    """
    alone = set(plan.order) <= {LayerName.TOPICS, LayerName.AGENTIC} and not plan.browses
    phrase = " ".join(question.strip().strip('"“”`').split())
    is_held = any(phrase.lower() in " ".join(h.quote.split()).lower() for h in hits[:1])
    if alone and (was_cut or not is_enough) and not is_held and _SHORTEST_PHRASE <= len(phrase) <= _LONGEST_PHRASE:
        yield (phrase,)
    words = words_to_find(plan.text, plan.exact)
    if words and not is_enough and (not hits or plan.first_match):
        yield words


class _Scan:
    def __init__(self, scanner: Scanner, query: Query, words: Sequence[str], budget: Budget) -> None:
        self._scanner = scanner
        self._query = query
        self._words = words
        self._budget = budget
        self._left: Iterator[tuple[int, tuple[TimeWindow, int]]] | None = None
        self._handing_out = threading.Lock()
        self._working: set[int] = set()
        self.woken = threading.Condition()
        self.slices = 0
        self.read: dict[int, Slice] = {}
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start two threads with the caller's context.

        The caller waits on `woken` until no thread is at work.
        """
        context = contextvars.copy_context()
        for number in range(AT_ONCE):
            thread = threading.Thread(target=context.copy().run, args=(self._work,), name=f"{SCAN}{number}", daemon=True)
            with self.woken:
                thread.start()
                self._working.add(thread.ident or 0)

    def working_threads(self) -> list[int]:
        """Return the identities of the threads still at work."""
        return list(self._working)

    def stop(self, interrupt: Interrupt) -> None:
        """Cancel the scan and interrupt its threads, without waiting."""
        self._budget.cancel()
        stop(self.working_threads, self.woken, interrupt)

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            while (got := self._next_slice()) is not None:
                number, (window, events) = got
                hits = self._scanner.read_slice(replace(self._query, window=window), self._words)
                with self.woken:
                    self.read[number] = Slice(hits, events)
        except BaseException as caught:  # handed to the waiting thread
            error = caught
        with self.woken:
            self.error = self.error or error
            self._working.discard(threading.get_ident())
            self.woken.notify_all()

    def _next_slice(self) -> tuple[int, tuple[TimeWindow, int]] | None:
        """Return the next slice, its time and how many events it has, counted as one call; None at the end.

        Where an index names the segments, or a copy the texts, it reads those, for one call, as slice 0, and no other is left.
        """
        with self._handing_out:
            if self._left is None:
                named_slice = self._scanner.read_at_once(self._query, self._words) if self._budget.count_call() else None
                slices = self._scanner.list_slices(self._query) if named_slice is None else []
                self.slices = len(slices) if named_slice is None else 1
                if named_slice is not None:
                    self.read[0] = named_slice
                self._left = iter(enumerate(slices))
            hit_count = sum(len(s.hits) for s in list(self.read.values()))
            if self.error is not None or hit_count >= self._query.limit or self._budget.is_cancelled():
                return None
            got = next(self._left, None)
            return got if got is not None and self._budget.count_call() else None


def scan_events(
    scanner: Scanner, query: Query, words: Sequence[str], budget: Budget, why: str, interrupt: Interrupt
) -> tuple[tuple[Hit, ...], Scanned]:
    """Search the events of the query's time, newest first.

    Every event found holds all of `words`. When the budget ends the scan, the slices read by then count. `why` is the trigger,
    for the explanation. Raises StorageError; other errors end the scan and are logged.
    """
    began = budget.clock.monotonic()
    scan = _Scan(scanner, query, words, budget.branch_path())
    ends = time.monotonic() + (budget.left_ms() - reserve_ms(budget)) / 1000
    scan.start()
    with scan.woken:
        while scan.working_threads() and time.monotonic() < ends and not budget.is_cancelled():
            scan.woken.wait(max(0.0, min(_LOOK, ends - time.monotonic())))
        late = bool(scan.working_threads())
        read, error = dict(scan.read), scan.error
    if late:
        scan.stop(interrupt)
        if "timeout_ms" not in budget.spent.hit:
            budget.spent.hit.append("timeout_ms")
    if isinstance(error, StorageError):
        raise error
    if error is not None and not isinstance(error, DeadlineExceeded):
        log.warning("the scan ended early", exc_info=error)
    listed = sorted((h for number in sorted(read) for h in read[number].hits), key=lambda hit: hit.asks)[: query.limit]
    # The newest first: of events that hold every word nothing else tells them apart.
    hits = tuple(replace(h, score=round(h.score - _LATER * number, 4)) for number, h in enumerate(listed))
    ms = round((budget.clock.monotonic() - began) * 1000, 1)
    return hits, Scanned(why, scan.slices, len(read), sum(s.events for s in read.values()), len(hits), ms)


#: Most segments that hold a word which is looked up, most messages of these, and most events to read without an index.
_FEW_SEGMENTS, _MOST_MENTIONS, _FEW_EVENTS = 12, 40, 20_000


@dataclass(frozen=True, slots=True)
class SubjectCheck:
    """Checks the words of one question's subject against its results."""

    words: Words
    scanner: Scanner
    #: The question's words in the scope.
    weighed: WordWeights
    query: Query
    #: Returns the terms of what hits say.
    terms_of: Callable[[Sequence[Hit]], Set[str]]

    def find_uncertain_words(self, subjects: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
        """Return words held in another form that no first hit holds.

        They may be other words: a rabbit is no rabbitmq, and what comes next in app.js is no next.js.
        """
        counts = self.weighed.counts
        inexact_words = [word for word in subjects if not cjk_runs(word) and not any(map(counts.get, terms(word)[:1]))]
        return self.words.absent_from(self.terms_of(hits[:COMPARED]), inexact_words) if inexact_words else ()

    def find_words_of_questions(self, subjects: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
        """Return the words that only questions hold.

        A recorded prompt tells nothing of what it asks for. Rare words that none of the hits holds are looked up in the
        segments that an index names, else in all events if few.
        """
        # A stretch of ideographs may be rare where all of them are not.
        rare_words = [word for word in subjects if cjk_runs(word) or self._count_segments(word) <= _FEW_SEGMENTS]
        if not rare_words:
            return ()
        segments = {hit.node_id for hit in hits[:COMPARED]}
        # The terms of the first are known; most hold these words.
        if not self.words.absent_from(self.terms_of(hits[:NEIGHBOURS]), rare_words):
            return ()
        absent_words = self.words.absent_from(self.terms_of(hits), rare_words)
        return tuple(word for word in absent_words if self._is_only_asked(word, segments))

    def _count_segments(self, word: str) -> int:
        return min((self.weighed.counts.get(term, 0) for term in terms(word)), default=_FEW_SEGMENTS + 1)

    def _is_only_asked(self, word: str, segments: Set[NodeId]) -> bool:
        count = self._count_segments(word)
        if count > _FEW_SEGMENTS:
            return False
        query = replace(self.query, window=None, literal=False, limit=_MOST_MENTIONS)
        named_slice = self.scanner.read_named(query, [word], lambda hit: self._is_told(hit, word))
        if named_slice is None and self.weighed.events > _FEW_EVENTS:
            return False
        mentions = self.scanner.read_slice(query, [word]) if named_slice is None else named_slice.hits
        if len(mentions) == _MOST_MENTIONS or not (mentions or count):
            return False
        return not any(self._is_told(hit, word) for hit in mentions if not hit.asks or hit.node_id in segments)

    def _is_told(self, hit: Hit, word: str) -> bool:
        return hit.session_id not in self.query.excluded_sessions and not self.words.absent_from(term_set(hit.quote), [word])
