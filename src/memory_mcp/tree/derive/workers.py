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
from memory_mcp.tree.derive.build import DerivedSegment, SegmentWork, derive_segments
from memory_mcp.tree.summarize.base import Summarizer

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Segments below which sending them away costs more than it saves; aside, while no child lives yet: one takes a fifth of a second
#: of a processor to begin, and eleven are derived in 30 ms.
_MIN_BATCH, _MIN_BATCH_ASIDE = 48, 12
#: Segments of one frame: some 10 kB of events each, a few milliseconds of unpickling.
_FRAME = 12
#: Frames that a child has at most, so that it need not wait for the next.
_AHEAD = 2
#: More children than this wait for the one process that commits what they make (measured: it is busy at two).
_MAX_CHILDREN = 2


def begin(hello: tuple[Calendar, Summarizer]) -> Callable[[Sequence[SegmentWork]], list[DerivedSegment]]:
    """Return the function that derives a batch in a child."""
    return partial(derive_segments, calendar=hello[0], summarizer=hello[1])


class DeriveWorkers:
    """Children, started with the first big batch. Use as a context manager, so that they never outlive their work.

    `give_way`: this process leaves the work to them while they live, because it has others to answer; it is called
    before each frame, and waits while a caller is being answered.
    """

    def __init__(self, calendar: Calendar, summarizer: Summarizer, give_way: Callable[[], object] | None = None) -> None:
        self._hello = calendar, summarizer
        self._derive_here = begin(self._hello)
        self._aside = aside = give_way is not None
        self._give_way = give_way or (lambda: None)
        cores = os.cpu_count() or 1
        self._max_children = max(1, min(_MAX_CHILDREN, cores)) if aside else min(1, cores - 1)
        self._children: list[Child] = []

    def __enter__(self) -> "DeriveWorkers":
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.end()
        self._children.clear()

    def derive(self, batch: Sequence[SegmentWork]) -> list[DerivedSegment]:
        """Return every segment of a batch derived, in order.

        Big batches are shared with the children, which are started if need be; small ones, and all if no child can be started,
        are done in this process. The work of a child that dies is given to others; errors of deriving are passed on.
        """
        least = _MIN_BATCH if not self._aside else 1 if self._children else _MIN_BATCH_ASIDE
        if self._max_children == 0 or len(batch) < least:
            return self._derive_here(batch)
        frames = [batch[start : start + _FRAME] for start in range(0, len(batch), _FRAME)]
        self._start_children(len(frames))
        frames_left, derived_frames = deque(range(len(frames))), dict[int, list[DerivedSegment]]()
        #: What children tell: without a frame that they have begun, or else what became of the frame.
        answers: SimpleQueue[tuple[Child, int | None, Future[Any]]] = SimpleQueue()
        for child in self._children:
            child.begun.add_done_callback(partial(_put_answer, answers, child, None))
        while len(derived_frames) < len(frames):
            if frames_left and answers.empty() and not (self._aside and self._children):
                number = frames_left.popleft()
                derived_frames[number] = self._derive_here(frames[number])
                continue
            child, frame, answer = answers.get()
            try:
                derived = answer.result()
            except (OSError, EOFError):
                if frame is not None:
                    frames_left.append(frame)
                if child in self._children:  # no other is started in its place
                    self._children.remove(child)
                    self._max_children -= 1
                    child.end()
            else:
                if frame is not None:
                    derived_frames[frame] = derived
            while frames_left and (idle := self._find_idle()):
                self._give_way()
                number = frames_left.popleft()
                idle.submit(frames[number]).add_done_callback(partial(_put_answer, answers, idle, number))
        return [derived for number in sorted(derived_frames) for derived in derived_frames[number]]

    def _start_children(self, most: int) -> None:
        while len(self._children) < min(self._max_children, most):
            try:
                self._children.append(Child("memory_mcp.tree.derive.workers", self._hello))
            except OSError:
                self._max_children = len(self._children)

    def _find_idle(self) -> Child | None:
        begun = [c for c in self._children if c.begun.done() and c.waiting < _AHEAD]
        return min(begun, key=lambda c: c.waiting, default=None)


def _put_answer(answers: "SimpleQueue[Any]", child: Child, frame: int | None, answer: "Future[Any]") -> None:
    answers.put((child, frame, answer))
