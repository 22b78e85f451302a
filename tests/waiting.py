"""Waiting for what other threads and processes do; the only module of the short form that compares a clock with a number.

A wait ends as soon as what is waited for is there, so patience costs nothing where all is well and may be generous: a machine
that is slow, or busy with something else, is no defect.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

#: How long anything is waited for at most (seconds): more than ten times what the slowest of it takes on a quiet machine.
PATIENCE = 90.0
#: Between two looks passes twice the time that a look took, within these bounds (seconds): what is waited for needs the
#: processor more than whoever waits.
_TICK, _LONGEST_TICK = 0.02, 1.0


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
