"""Stop a search that is out of time: reserve time for its answer, and end its threads."""

import atexit
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence

from memory_mcp.search.layers.budget import Budget

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

    def add(self, interrupted: Callable[[], bool]) -> None:
        """Have a function called every 5 ms until it returns False."""
        self._new.put(interrupted)
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
            going = [interrupted for interrupted in going if interrupted()]

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

    def interrupted() -> bool:
        with woken:
            threads = working()
            for thread in threads:
                interrupt(thread)
        return bool(threads) and time.monotonic() < until

    _stopping.add(interrupted)
