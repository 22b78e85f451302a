"""Big batches of pure derivation, half here and half in a child process of low priority, at the same time.

The child never opens the store: it gets segments with their events and gives back what they become.
"""

import multiprocessing
import multiprocessing.process
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from memory_mcp.model.calendar import Calendar
from memory_mcp.summarize.base import Summarizer
from memory_mcp.toc.build import Derived, Work, derive

#: Segments below which sending them away costs more than it saves.
_LEAST = 48
#: The child's share: this process also publishes what both made.
_SHARE = 0.45


class DeriveWorkers:
    """One child, started with the first big batch. Use as a context manager, so that it never outlives its work."""

    def __init__(self, calendar: Calendar, summarizer: Summarizer) -> None:
        self._calendar = calendar
        self._summarizer = summarizer
        self._pool: ProcessPoolExecutor | None = None
        self._alone = (os.cpu_count() or 1) < 2

    def __enter__(self) -> "DeriveWorkers":
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def derive(self, batch: Sequence[Work]) -> list[Derived]:
        """As `toc.build.derive`, same order, same values; all of it here when the child cannot be had."""
        if self._alone or len(batch) < _LEAST:
            return derive(batch, self._calendar, self._summarizer)
        cut = int(len(batch) * _SHARE)
        away = self._send(batch[:cut])
        here = derive(batch[cut:], self._calendar, self._summarizer)
        try:
            return [*(away.result() if away else derive(batch[:cut], self._calendar, self._summarizer)), *here]
        except BrokenProcessPool:
            self._alone = True
            return [*derive(batch[:cut], self._calendar, self._summarizer), *here]

    def _send(self, part: Sequence[Work]) -> "Future[list[Derived]] | None":
        try:
            if self._pool is None:
                # A forked child would inherit the store's threads and locks.
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin)
            return self._pool.submit(derive, part, self._calendar, self._summarizer)
        except (OSError, BrokenProcessPool):
            self._alone = True
            return None


def _begin() -> None:
    """In the child: low priority, and the end as soon as the parent is gone, however that went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        # The child holds both ends of its own queue, so it would wait for work for ever.
        threading.Thread(target=_end_with, args=(parent,), name="end-with-parent", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
