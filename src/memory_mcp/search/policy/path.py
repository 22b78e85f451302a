"""One layer at work in a thread of its own, what it has reported so far, how it ended, and how it is stopped."""

import atexit
import contextlib
import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded, LayerUnavailable
from memory_mcp.search.layers.base import Hit, Layer, LayerAnswer, LayerName, Query
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.policy.explain import Outcome, Tried

#: Stops the reads of a thread.
Interrupt = Callable[[int], None]

#: How often, and for how long (seconds). One interrupt is not enough: it is lost on a thread that is between two reads.
_TICK, _GIVE_UP = 0.005, 5.0
#: Kept of a hard time limit for putting the answer together (milliseconds), at most this share of it.
_TO_ANSWER, _OF_LIMIT = 4.0, 0.25


def reserve_ms(budget: Budget) -> float:
    """Return the milliseconds reserved for putting the answer together.

    4, at most a quarter of the limit; 0 for a soft one.
    """
    return min(_TO_ANSWER, budget.bounds.timeout_ms * _OF_LIMIT) if budget.strict else 0.0


class _Stopping:
    """One thread that ends others.

    Starting a thread takes more than a millisecond, which a late search does not have.
    """

    def __init__(self) -> None:
        self._new: queue.SimpleQueue[Callable[[], bool] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, interrupt_threads: Callable[[], bool]) -> None:
        """Have a function called every 5 ms until it returns False."""
        self._new.put(interrupt_threads)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="stopping", daemon=True)
                self._thread.start()
                atexit.register(self._end, self._thread)

    def _run(self) -> None:
        going: list[Callable[[], bool]] = []
        while True:
            with contextlib.suppress(queue.Empty):
                fresh = self._new.get(timeout=_TICK if going else None)
                if fresh is None:
                    return
                going.append(fresh)
            going = [interrupt_threads for interrupt_threads in going if interrupt_threads()]

    def _end(self, thread: threading.Thread) -> None:
        """End the thread: libraries unloaded beside a running one report leaks."""
        self._new.put(None)
        thread.join(_GIVE_UP)


_stopping = _Stopping()

#: Prefixes of the names of searching threads: of a layer, and of a slice of the scan.
LAYER, SCAN = "layer ", "scan "


def at_work() -> int:
    """Return the number of searching threads, abandoned ones included."""
    return sum(thread.name.startswith((LAYER, SCAN)) for thread in threading.enumerate())


def stop(working: Callable[[], Sequence[int]], woken: threading.Condition, interrupt: Interrupt) -> None:
    """Interrupt the reads of threads in the background, for 5 seconds.

    A thread says under `woken` that it has ended, so that while this holds it no other thread can have its identity.
    """
    until = time.monotonic() + _GIVE_UP

    def interrupt_threads() -> bool:
        with woken:
            threads = working()
            for thread in threads:
                interrupt(thread)
        return bool(threads) and time.monotonic() < until

    _stopping.add(interrupt_threads)


log = logging.getLogger(__name__)

#: Share of the reserve by which a layer ends before the wait for it does, so that its partial answer still counts.
TO_HEAR = 0.5
_NODES, _CALLS = "max_nodes_visited", "max_rpc_calls"
_UNITS = {_NODES: "nodes", _CALLS: "calls"}


@dataclass(slots=True)
class Path:
    """One layer at work."""

    name: LayerName
    layer: Layer
    query: Query
    budget: Budget
    woken: threading.Condition
    answer: LayerAnswer | None = None
    #: What it has reported before it ended.
    partial: LayerAnswer | None = None
    error: BaseException | None = None
    done: bool = False
    #: Whether it is not waited for any longer: what it returns later does not count.
    is_abandoned: bool = False
    ms: float = 0.0
    thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the search in a daemon thread, without waiting."""
        context = contextvars.copy_context()
        self.thread = threading.Thread(target=context.run, args=(self._work,), name=f"{LAYER}{self.name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        began = self.budget.clock.monotonic()
        try:
            answer, error = self.layer.search(self.query, self.budget), None
        except BaseException as caught:  # handed to the waiting thread
            answer, error = None, caught
        with self.woken:
            self.done = True
            if not self.is_abandoned:
                self.answer, self.error = answer, error
                self.ms = (self.budget.clock.monotonic() - began) * 1000
            self.woken.notify_all()

    def report(self, partial: LayerAnswer) -> None:
        """Keep a partial answer, and wake the waiting thread."""
        with self.woken:
            self.partial = partial
            self.woken.notify_all()

    def abandon_search(self, is_late: bool) -> bool:
        """Cancel the search and return whether it was still at work.

        If `is_late`, what it has reported is its answer.
        """
        with self.woken:
            if self.done:
                return False
            self.is_abandoned = True
            self.answer = self.partial if is_late else None
            self.ms = (self.budget.clock.monotonic() - self.budget.begun) * 1000
        self.budget.cancel()
        return True

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What it has found so far."""
        answer = self.answer or self.partial
        return () if answer is None else answer.hits

    @property
    def working(self) -> int:
        """The identity of the thread at work; 0 for none."""
        return 0 if self.done or self.thread is None else self.thread.ident or 0

    def ran_out(self) -> bool:
        """Return whether it ended without hits for lack of time.

        It then counts as no answer. If it used up the time of the whole search, the time limit is recorded as reached.
        """
        budget = self.budget
        if self.answer is None or self.answer.hits or (budget.left_ms() > 0 and not budget.is_cancelled()):
            return False
        if budget.strict or budget.elapsed_ms() >= budget.bounds.timeout_ms:
            budget.record_hit("timeout_ms")
        return True

    def find_cut(self, paths: Sequence["Path"]) -> Tried | None:
        """Return the record of a path that a bound ended without finds."""
        bound = next((bound for bound in (_NODES, _CALLS) if bound in self.budget.cut_by), None)
        if bound is None:
            reason = "found nothing in its share of the time, not searched to the end"
            return Tried(self.name, Outcome.CUT, reason, 0, 0.0, round(self.ms, 1)) if self.budget.cut_by else None
        own_count, usage = (
            _count_used(self, bound),
            _describe_usage(bound, [path for path in paths if path is not self], self.budget),
        )
        if not own_count:
            return record_untried(self.name, paths, self.budget)
        reason = f"found nothing in {own_count} {_UNITS[bound]}, not searched to the end{': ' + usage if usage else ''}"
        return Tried(self.name, Outcome.CUT, reason, 0, 0.0, round(self.ms, 1))

    def record_end(self, winner: LayerName | None) -> Tried:
        """Return the record of a path without an answer.

        Without an error it was cancelled if there is a `winner`, else timed out.
        """
        match self.error:
            case None:
                outcome = Outcome.CANCELLED if winner else Outcome.TIMED_OUT
                reason = f"{winner} had evidence enough" if winner else "its time was up"
            case LayerUnavailable():
                outcome, reason = Outcome.UNAVAILABLE, self.error.reason
            case DeadlineExceeded():
                outcome, reason = Outcome.TIMED_OUT, "its time was up"
            case _:
                outcome, reason = Outcome.FAILED, str(self.error)
                log.warning("the layer %s failed", self.name, exc_info=self.error)
        return Tried(self.name, outcome, reason, 0, 0.0, round(self.ms, 1))


@dataclass(frozen=True, slots=True)
class Wait:
    """How long paths are waited for, in milliseconds from `begun` (seconds)."""

    begun: float
    limit_ms: float
    first_find_ms: float

    @staticmethod
    def of(paths: Sequence[Path], budget: Budget) -> "Wait":
        """Return the wait for paths that begin now."""
        reserved = reserve_ms(budget)
        limit = min(budget.ms_to_limit() - reserved, max(path.budget.ms_to_limit() for path in paths) + reserved * TO_HEAR)
        return Wait(time.monotonic(), limit, max(path.budget.ms_to_first_find() for path in paths))

    def left_ms(self, paths: Sequence[Path]) -> float:
        """Return the milliseconds until the paths still at work are abandoned."""
        allowed = self.limit_ms if any(path.hits for path in paths) else max(self.limit_ms, self.first_find_ms)
        return allowed - (time.monotonic() - self.begun) * 1000

    def has_passed(self, share: float) -> bool:
        """Return whether a share of the time has passed."""
        return (time.monotonic() - self.begun) * 1000 >= self.limit_ms * share


def record_untried(name: LayerName, paths: Sequence[Path], budget: Budget) -> Tried:
    """Return the record of a layer that had too few nodes left."""
    reason = _describe_usage(_NODES, paths, budget) or _describe_usage(_CALLS, paths, budget) or "no node was left"
    return Tried(name, Outcome.NOT_TRIED, f"not tried: {reason}", 0, 0.0, 0.0)


def _count_used(path: Path, bound: str) -> int:
    return path.budget.used_nodes if bound == _NODES else path.budget.used_calls


def _describe_usage(bound: str, paths: Sequence[Path], budget: Budget) -> str:
    """Return how much of a bound paths have used, in words."""
    users = [path for path in paths if _count_used(path, bound)]
    names, count = " and ".join(path.name for path in users), sum(_count_used(path, bound) for path in users)
    return f"{count} of {getattr(budget.bounds, bound)} {_UNITS[bound]} used by {names}" if users else ""
