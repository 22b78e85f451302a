"""Reports to a client how long its call has taken."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

#: A call that takes long reports its progress this often (seconds).
PROGRESS_SECONDS = 1.0
#: Those that report: the event loop alone keeps no task alive.
_TASKS = set[asyncio.Task[None]]()


@asynccontextmanager
async def report_progress(tell: Callable[[float, str], Awaitable[None]], tool: str) -> AsyncIterator[None]:
    """Tell the seconds that a call has taken, and them in words, every `PROGRESS_SECONDS`."""
    ended = anyio.Event()

    async def tell_all() -> None:
        for count in itertools.count(1):
            seconds = count * PROGRESS_SECONDS
            await tell(seconds, f"{tool}: {seconds:.0f} s")
            with anyio.move_on_after(PROGRESS_SECONDS):
                await ended.wait()
                return

    def start() -> None:
        _TASKS.add(task := asyncio.create_task(tell_all()))
        task.add_done_callback(_TASKS.discard)

    # Most calls end before: a timer takes a tenth of a task.
    timer = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, start)
    try:
        yield
    finally:
        timer.cancel()
        # A task that is cancelled might leave half a line.
        ended.set()
