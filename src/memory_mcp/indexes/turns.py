"""How many long builds a process does at a time: one who serves many memories would otherwise begin them all at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_mcp.errors import LayerUnavailable

#: How often somebody who waits looks whether there is still a point in it (seconds).
_LOOK = 0.2


class Turns:
    """So many at a time, the others wait. Safe in any thread; a thread that has a turn asks for no second one."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def turn(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn and keep it until the block ends.

        Raises:
            LayerUnavailable: `is_over` came before the turn.

        """
        while not self._free.acquire(timeout=_LOOK):
            if is_over():
                raise LayerUnavailable("the memory is being closed", "Ask again once it is open.")
        try:
            yield
        finally:
            self._free.release()


#: Builds of indexes from the whole store: a machine of few cores does two beside each other without harm.
BUILDS = Turns(2)
#: Groupings of topics, which nobody waits for.
GROUPINGS = Turns(1)
