"""The end of a search's time: what is kept of it for the answer, and threads that nobody waits for any more."""

import atexit
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_mcp.layers.budget import Budget

#: Stops the reads of a thread.
Interrupt = Callable[[int], None]

#: How often, and for how long (seconds). One interrupt is not enough: it is lost on a thread that is between two reads.
_TICK, _GIVE_UP = 0.005, 5.0
#: Kept of a hard time limit for putting the answer together (milliseconds), at most this share of it.
_TO_ANSWER, _OF_LIMIT = 4.0, 0.25


def reserve_ms(budget: Budget) -> float:
    """What of a search's time is kept for putting its answer together; nothing where the limit is soft."""
    return min(_TO_ANSWER, budget.bounds.timeout_ms * _OF_LIMIT) if budget.strict else 0.0


@dataclass(frozen=True, slots=True)
class _Abandoned:
    """Threads to end."""

    working: Callable[[], Sequence[int]]
    woken: threading.Condition
    interrupt: Interrupt
    until: float

    def interrupted(self) -> bool:
        """Interrupt them once; False when none works any more, or it took too long."""
        with self.woken:
            threads = self.working()
            for thread in threads:
                self.interrupt(thread)
        return bool(threads) and time.monotonic() < self.until


class _Stopping:
    """One thread that ends others: to begin a thread would cost whoever is late more than a millisecond."""

    def __init__(self) -> None:
        self._new: queue.SimpleQueue[_Abandoned | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, abandoned: _Abandoned) -> None:
        """Begin to end some threads."""
        self._new.put(abandoned)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="stopping", daemon=True)
                self._thread.start()
                atexit.register(self._end, self._thread)

    def _run(self) -> None:
        going: list[_Abandoned] = []
        while True:
            with contextlib.suppress(queue.Empty):
                fresh = self._new.get(timeout=_TICK if going else None)
                if fresh is None:
                    return
                going.append(fresh)
            going = [one for one in going if one.interrupted()]

    def _end(self, thread: threading.Thread) -> None:
        """End it with the process: libraries that are unloaded beside a running thread report what they think is lost."""
        self._new.put(None)
        thread.join(_GIVE_UP)


_stopping = _Stopping()

#: How the names of threads begin that search for somebody: a layer, or a slice of the scan.
LAYER, SCAN = "layer ", "scan "


def at_work() -> int:
    """Count the threads of this process that search, those included that nobody waits for any more."""
    return sum(thread.name.startswith((LAYER, SCAN)) for thread in threading.enumerate())


def stop(working: Callable[[], Sequence[int]], woken: threading.Condition, interrupt: Interrupt) -> None:
    """End the threads that `working` names, without waiting for them.

    A thread says under `woken` that it has ended, so that while this holds it no other thread can have its identity.
    """
    _stopping.add(_Abandoned(working, woken, interrupt, time.monotonic() + _GIVE_UP))
