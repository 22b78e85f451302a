"""Derive big batches in low-priority child processes, and in this process too if it serves no callers.

A child gets segments with their events over a pipe and sends back what they become.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from memory_mcp.children import Child
from memory_mcp.derive.build import Derived, Work, derive
from memory_mcp.model.calendar import Calendar
from memory_mcp.summarize.base import Summarizer

#: Segments below which sending them away costs more than it saves; aside, while no child lives yet: one takes a fifth of a second
#: of a processor to begin, and eleven are derived in 30 ms.
_LEAST, _LEAST_ASIDE = 48, 12
#: Segments of one frame: some 10 kB of events each, a few milliseconds of unpickling.
_FRAME = 12
#: More children than this wait for the one process that commits what they make (measured: it is busy at two).
_MOST = 2


class DeriveWorkers:
    """Children, started with the first big batch. Use as a context manager, so that they never outlive their work.

    `give_way`: this process leaves the work to them while they live, because it has others to answer; it is called
    before each frame, and waits while somebody is being answered.
    """

    def __init__(self, calendar: Calendar, summarizer: Summarizer, give_way: Callable[[], None] | None = None) -> None:
        self._calendar = calendar
        self._summarizer = summarizer
        self._aside = aside = give_way is not None
        self._give_way = give_way or (lambda: None)
        cores = os.cpu_count() or 1
        self._wanted = max(1, min(_MOST, cores)) if aside else min(1, cores - 1)
        self._children: list[Child] = []

    def __enter__(self) -> "DeriveWorkers":
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the children."""
        for child in self._children:
            child.end()
        self._children.clear()

    def derive(self, batch: Sequence[Work]) -> list[Derived]:
        """As `toc.build.derive`, same order, same values; all in this process if no child can be started."""
        least = _LEAST if not self._aside else 1 if self._children else _LEAST_ASIDE
        if self._wanted == 0 or len(batch) < least:
            return derive(batch, self._calendar, self._summarizer)
        batch_work = _Batch(batch)
        # No more children than frames: a further one would start for nothing.
        while len(self._children) < min(self._wanted, batch_work.left):
            try:
                self._children.append(Child("memory_mcp.derive.child", (self._calendar, self._summarizer)))
            except OSError:
                self._wanted = len(self._children)
        for child in [*self._children]:
            threading.Thread(target=self._feed, args=(child, batch_work), name="feeding", daemon=True).start()
        if self._aside:
            batch_work.wait_for(lambda: not self._children)
        # Derive here the frames that no child took, and those of a child that died.
        while not batch_work.done:
            frame = batch_work.take()
            if frame is None:
                batch_work.wait_for(lambda: batch_work.left > 0)
                continue
            batch_work.give(frame[0], derive(frame[1], self._calendar, self._summarizer))
        return batch_work.result()

    def _feed(self, child: Child, batch: "_Batch") -> None:
        try:
            with child.turn:
                child.begin()
                while (frame := batch.take()) is not None:
                    start, part = frame
                    self._give_way()
                    try:
                        answer = child.ask(part)
                        assert isinstance(answer, list)
                        batch.give(start, answer)
                    except (OSError, EOFError):
                        batch.take_back(frame)
                        raise
                    except Exception as error:
                        # What the derivation itself raised belongs to the caller.
                        batch.fail(error)
        except (OSError, EOFError, ValueError):
            with suppress(ValueError):
                self._children.remove(child)
                self._wanted -= 1
            child.end()
            batch.notice()


class _Batch:
    """One batch, split into frames that free workers take."""

    def __init__(self, batch: Sequence[Work]) -> None:
        self._frames = deque((start, batch[start : start + _FRAME]) for start in range(0, len(batch), _FRAME))
        self._missing = len(self._frames)
        self._made: dict[int, list[Derived]] = {}
        self._failed: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def done(self) -> bool:
        """Whether every frame has come back."""
        return self._missing == 0 or self._failed is not None

    @property
    def left(self) -> int:
        """The number of frames not taken yet."""
        return len(self._frames)

    def take(self) -> tuple[int, Sequence[Work]] | None:
        """Return a frame to work on; None if there is none or the batch has failed."""
        with self._changed:
            return self._frames.popleft() if self._frames and self._failed is None else None

    def take_back(self, frame: tuple[int, Sequence[Work]]) -> None:
        """Return a frame whose worker died."""
        with self._changed:
            self._frames.append(frame)
            self._changed.notify_all()

    def give(self, start: int, made: list[Derived]) -> None:
        """A frame has come back."""
        with self._changed:
            self._made[start] = made
            self._missing -= 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """A frame cannot be derived."""
        with self._changed:
            self._failed = self._failed or error
            self._changed.notify_all()

    def notice(self) -> None:
        """Something outside has changed."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, other: Callable[[], bool]) -> None:
        """Until the batch is done, or `other` holds."""
        with self._changed:
            self._changed.wait_for(lambda: self.done or other())

    def result(self) -> list[Derived]:
        """Return everything in order; raises what a frame raised."""
        if self._failed is not None:
            raise self._failed
        return [derived for start in sorted(self._made) for derived in self._made[start]]
