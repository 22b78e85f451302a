"""Derive big batches in low-priority child processes, and in this process too if it serves no callers.

A child gets segments with their events over a pipe and sends back what they become.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from memory_mcp.base.children import Child
from memory_mcp.model.calendar import Calendar
from memory_mcp.tree.derive.build import Derived, Work, derive
from memory_mcp.tree.summarize.base import Summarizer

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Segments below which sending them away costs more than it saves; aside, while no child lives yet: one takes a fifth of a second
#: of a processor to begin, and eleven are derived in 30 ms.
_LEAST, _LEAST_ASIDE = 48, 12
#: Segments of one frame: some 10 kB of events each, a few milliseconds of unpickling.
_FRAME = 12
#: Frames that a child has at most, so that it need not wait for the next.
_AHEAD = 2
#: More children than this wait for the one process that commits what they make (measured: it is busy at two).
_MOST = 2


def begin(hello: tuple[Calendar, Summarizer]) -> Callable[[Sequence[Work]], list[Derived]]:
    """Return the function that derives a batch in the child process; `hello` is the calendar and the summarizer it uses."""
    return partial(derive, calendar=hello[0], summarizer=hello[1])


class DeriveWorkers:
    """Children, started with the first big batch. Use as a context manager, so that they never outlive their work.

    `give_way`: this process leaves the work to them while they live, because it has others to answer; it is called
    before each frame, and waits while somebody is being answered.
    """

    def __init__(self, calendar: Calendar, summarizer: Summarizer, give_way: Callable[[], None] | None = None) -> None:
        """Prepare without a child; later one works beside this process, with `give_way` up to two in its place."""
        self._hello = calendar, summarizer
        self._here = begin(self._hello)
        self._aside = aside = give_way is not None
        self._give_way = give_way or (lambda: None)
        cores = os.cpu_count() or 1
        self._wanted = max(1, min(_MOST, cores)) if aside else min(1, cores - 1)
        self._children: list[Child] = []

    def __enter__(self) -> "DeriveWorkers":
        """Return itself; no child is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the children at once."""
        for child in self._children:
            child.end()
        self._children.clear()

    def derive(self, batch: Sequence[Work]) -> list[Derived]:
        """Return every segment of a batch, derived, in order, as `build.derive` would.

        Big batches are shared with the children, which are started if need be; small ones, and all if no child can be started,
        are done in this process. The work of a child that dies is given to others; errors of deriving are passed on.
        """
        least = _LEAST if not self._aside else 1 if self._children else _LEAST_ASIDE
        if self._wanted == 0 or len(batch) < least:
            return self._here(batch)
        frames = [batch[start : start + _FRAME] for start in range(0, len(batch), _FRAME)]
        self._start(len(frames))
        left, made = deque(range(len(frames))), dict[int, list[Derived]]()
        #: What children tell: without a frame that they have begun, or else what became of the frame.
        told: SimpleQueue[tuple[Child, int | None, Future[Any]]] = SimpleQueue()
        for child in self._children:
            child.begun.add_done_callback(partial(_tell, told, child, None))
        while len(made) < len(frames):
            if left and told.empty() and not (self._aside and self._children):
                number = left.popleft()
                made[number] = self._here(frames[number])
                continue
            child, given, answer = told.get()
            try:
                derived = answer.result()
            except (OSError, EOFError):
                if given is not None:
                    left.append(given)
                if child in self._children:  # no other is started in its place
                    self._children.remove(child)
                    self._wanted -= 1
                    child.end()
            else:
                if given is not None:
                    made[given] = derived
            while left and (idle := self._idle()):
                self._give_way()
                number = left.popleft()
                idle.submit(frames[number]).add_done_callback(partial(_tell, told, idle, number))
        return [derived for number in sorted(made) for derived in made[number]]

    def _start(self, most: int) -> None:
        """Start the wanted children, at most `most`: a further one would start for nothing. If one cannot be, no more are."""
        while len(self._children) < min(self._wanted, most):
            try:
                self._children.append(Child("memory_mcp.tree.derive.workers", self._hello))
            except OSError:
                self._wanted = len(self._children)

    def _idle(self) -> Child | None:
        """Return the running child with least to do, fewer than two frames; None if there is none."""
        begun = [c for c in self._children if c.begun.done() and c.waiting < _AHEAD]
        return min(begun, key=lambda c: c.waiting, default=None)


def _tell(told: "SimpleQueue[Any]", child: Child, frame: int | None, answer: "Future[Any]") -> None:
    """Put a child, its frame and the answer into the queue."""
    told.put((child, frame, answer))
