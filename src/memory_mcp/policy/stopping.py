"""Threads whose work nobody waits for any more: their reads are interrupted until they have ended."""

import threading
import time
from collections.abc import Callable, Sequence

#: Stops the reads of a thread.
Interrupt = Callable[[int], None]

#: How often, and for how long (seconds). One interrupt is not enough: it is lost on a thread that is between two reads.
_TICK, _GIVE_UP = 0.005, 5.0


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
