"""The end of a search's time: what is kept of it for the answer, and threads that nobody waits for any more."""

import threading
import time
from collections.abc import Callable, Sequence

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


def stop(working: Callable[[], Sequence[int]], woken: threading.Condition, interrupt: Interrupt) -> None:
    """End the threads that `working` names, without waiting for them.

    A thread says under `woken` that it has ended, so that while this holds it no other thread can have its identity.
    """

    def until_ended() -> None:
        end = time.monotonic() + _GIVE_UP
        with woken:
            while (threads := working()) and time.monotonic() < end:
                for thread in threads:
                    interrupt(thread)
                woken.wait(_TICK)

    with woken:
        threads = working()
        for thread in threads:
            interrupt(thread)
    if threads:
        threading.Thread(target=until_ended, name="stopping", daemon=True).start()
