"""Limit how many long builds a process runs at once: a server of many memories would otherwise start them all together."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_mcp.base.errors import LayerUnavailable

#: Seconds between two checks whether a waiting build is still wanted.
_LOOK = 0.2


class Turns:
    """A semaphore for `count` builds at once. A thread that has a turn must not ask for a second one."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def turn(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn and keep it until the block ends. `is_over` is called every .2 seconds while it waits.

        Raises:
            LayerUnavailable: `is_over()` became true before there was a turn.

        """
        while not self._free.acquire(timeout=_LOOK):
            if is_over():
                raise LayerUnavailable("the memory is being closed", "Ask again once it is open.")
        try:
            yield
        finally:
            self._free.release()


#: Builds of indexes from the whole store; two at once do no harm on a machine of few cores.
BUILDS = Turns(2)
#: Groupings of topics, which no caller waits for.
GROUPINGS = Turns(1)
