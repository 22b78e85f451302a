"""Waiting for what other threads and processes do; the only module of the short form that compares a clock with a number.

A wait ends as soon as what is waited for is there, so patience costs nothing where all is well and may be generous: a machine
that is slow, or busy with something else, is no defect.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

#: How long anything is waited for at most (seconds): more than ten times what the slowest of it takes on a quiet machine.
PATIENCE = 240.0
#: Between two looks passes twice the time that a look took, within these bounds (seconds): what is waited for needs the
#: processor more than whoever waits.
_TICK, _LONGEST_TICK = 0.02, 1.0


#: Setting under which a search that the program times itself ends by what it found: a busy machine gives no partial answers.
UNHURRIED = {"MEMORY_MCP_RETRIEVAL__BOUNDS__TIMEOUT_MS": f"{1000 * PATIENCE:.0f}"}


def until(done: Callable[[], object], what: object = "") -> None:
    """Wait until `done` gives something true; AssertionError, with `what`, when patience ends first."""
    began = time.monotonic()
    end = began + PATIENCE
    while not done():
        now = time.monotonic()
        assert now < end, f"waited in vain {what}"
        time.sleep(_pause(now - began))
        began = time.monotonic()


async def until_async(done: Callable[[], Awaitable[object]], what: object = "") -> None:
    """Wait as `until` does for something that is itself awaited."""
    began = time.monotonic()
    end = began + PATIENCE
    while not await done():
        now = time.monotonic()
        assert now < end, f"waited in vain {what}"
        await asyncio.sleep(_pause(now - began))
        began = time.monotonic()


def _pause(look: float) -> float:
    return min(max(2 * look, _TICK), _LONGEST_TICK)


def together(*works: Callable[[], object]) -> None:
    """Run each in a thread of its own and wait for their end; raises what one of them raised."""
    with ThreadPoolExecutor(len(works)) as threads:
        for running in [threads.submit(work) for work in works]:
            running.result(PATIENCE)


@contextmanager
def beside(*works: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run each in a thread of its own beside the body, whose end sets the event they are given; raises as `together`."""
    ended = threading.Event()
    with ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(work, ended) for work in works]
        try:
            yield
        finally:
            ended.set()
        for one in running:
            one.result(PATIENCE)
