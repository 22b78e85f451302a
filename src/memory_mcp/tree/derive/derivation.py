"""Bring the tree up to date: which levels of it, and in which processes.

Invariants
1. Whoever publishes nodes holds `publishing`, so that two never make the same version.
2. Killed at any point it leaves a valid store, and the next run goes on from there.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from enum import Enum, Flag, auto
from functools import partial

from memory_mcp.base.children import few_collections
from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.tree.derive.build import DerivedSegment, SegmentWork
from memory_mcp.tree.derive.close_segments import SegmentDeriver
from memory_mcp.tree.derive.rollup import RollUps
from memory_mcp.tree.derive.workers import DeriveWorkers

#: Events of one step next to a serving process, and while callers are being answered: its commit delays them only briefly.
_STEP, _STEP_BESIDE = 1000, 250
#: Steps after which periods lose what their segments lost, and term rows are joined: a search reads all of those of the root.
_FOLD_EVERY = 40
#: What several processes that have one memory open call this work.
_PUBLISHING = "derive"
#: How often it is looked whether a step's worth of events has come (seconds).
_LOOK = 0.02


class Depth(Flag):
    """Levels of the tree to bring up to date."""

    SEGMENTS = auto()
    #: Days, weeks, months and years that are older than their children.
    PERIODS = auto()
    ALL = SEGMENTS | PERIODS


class ExecutionMode(Enum):
    """Where the work is done."""

    #: In the calling thread.
    HERE = auto()
    #: Here, and big batches also in a child process: for a command that does nothing else.
    SHARED = auto()
    #: In child processes, committed in small steps between callers' requests: for a serving process.
    ASIDE = auto()


@dataclass(frozen=True, slots=True)
class DeriveTimes:
    """What one run published, and its duration."""

    #: Days, weeks, months and years published.
    periods: int
    segment_seconds: float
    period_seconds: float


class Publishing:
    """A reentrant lock for publishing nodes, across threads and across processes that have the memory open."""

    def __init__(self, exclusive: Callable[[str], AbstractContextManager[bool]], reread: Callable[[], None]) -> None:
        self._exclusive, self._reread = exclusive, reread
        self._lock = threading.RLock()
        self._outer_locks: list[AbstractContextManager[bool] | None] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            outer = None if self._outer_locks else self._exclusive(_PUBLISHING)
            changed = outer is not None and outer.__enter__()
        except BaseException:
            self._lock.release()
            raise
        self._outer_locks.append(outer)
        if changed:
            self._reread()

    @property
    def is_free(self) -> bool:
        """Whether no thread of this process holds it."""
        return not self._outer_locks

    def __exit__(self, *_: object) -> None:
        outer = self._outer_locks.pop()
        try:
            if outer is not None:
                outer.__exit__(None, None, None)
        finally:
            self._lock.release()


class Derivation:
    """Derives segments from events and periods from segments."""

    def __init__(
        self,
        segments: SegmentDeriver,
        rollups: RollUps,
        workers: Callable[[Callable[[], object] | None], DeriveWorkers],
        clock: Clock,
        give_way: Callable[[], object],
        settle: Callable[[], set[str]],
        exclusive: Callable[[str], AbstractContextManager[bool]],
    ) -> None:
        self._settle = settle
        self._segments = segments
        self._rollups = rollups
        self._workers = workers
        self._clock = clock
        self._give_way = give_way
        #: The lock for publishing nodes.
        self.publishing = Publishing(exclusive, self.reread)

    def reread(self) -> None:
        """Drop caches; the caller holds `publishing`."""
        self._segments.reread()

    def count_pending(self) -> int:
        """Return the number of events not derived yet."""
        return self._segments.count_pending()

    def last_derived(self) -> int:
        """Return the number of the last derived event."""
        return self._segments.last_derived()

    def run(
        self,
        depth: Depth = Depth.ALL,
        mode: ExecutionMode = ExecutionMode.HERE,
        progress: Callable[[int], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        more: Callable[[], bool] = lambda: False,
    ) -> DeriveTimes:
        """Derive what is pending and publish stale periods.

        What is stored meanwhile is the next run's: next to writers that never rest a run would have no end. Aside (`mode`), the
        lock is held for one step of segments at a time, and while `more()` is true, coming events are waited for and derived in
        whole steps. `progress` gets the number of events of each batch of segments, never aside; `should_stop`, asked between two
        transactions of periods, ends the run early. Errors are passed on.
        """
        with ExitStack() as stack:
            if mode is not ExecutionMode.ASIDE:
                stack.enter_context(self.publishing)
            if mode is not ExecutionMode.HERE:
                stack.enter_context(few_collections())
            started = self._clock.monotonic()
            if Depth.SEGMENTS in depth:
                if mode is ExecutionMode.HERE:
                    self._segments.run(progress)
                elif mode is ExecutionMode.SHARED:
                    with self._workers(None) as workers:
                        self._segments.run(progress, workers.derive)
                else:
                    self._derive_aside(more)
                with self.publishing:
                    self._segments.touched |= self._settle()
            halfway = self._clock.monotonic()
            periods = self._roll_up(mode, should_stop) if Depth.PERIODS in depth else 0
            return DeriveTimes(periods, halfway - started, self._clock.monotonic() - halfway)

    def _derive_aside(self, more: Callable[[], bool]) -> None:
        """Derive in child processes while `more()`, then what is stored by then."""
        with self._workers(self._give_way) as workers:

            def derive(batch: Sequence[SegmentWork]) -> list[DerivedSegment]:
                self._give_way()
                derived = workers.derive(batch)
                self._give_way()
                return derived

            goal: int | None = None
            for step in itertools.count(1):
                while self._segments.count_pending() < _STEP and more():
                    time.sleep(_LOOK)  # less than a step waits while more are coming
                if self._segments.count_pending() <= 0:
                    break
                if goal is None and not more():
                    goal = self._segments.last_derived() + self._segments.count_pending()
                elif goal is not None and self._segments.last_derived() >= goal:
                    break
                if step % _FOLD_EVERY == 0:
                    with self.publishing:
                        self._segments.refit_shrunk(self._give_way)
                        self._segments.fold_terms()
                size = _STEP_BESIDE if self._give_way() else _STEP
                with self.publishing:
                    self._segments.run(None, derive, size, steps=1, give_way=self._give_way)
            with self.publishing:
                self._segments.fold_terms()
                self._segments.end_run(self._give_way)

    def _roll_up(self, mode: ExecutionMode, should_stop: Callable[[], bool]) -> int:
        stopped = False

        def stop() -> bool:
            nonlocal stopped
            if mode is ExecutionMode.ASIDE:
                self._give_way()
            stopped = should_stop()
            return stopped

        with self.publishing:
            periods = self._rollups.run(stop)
            if not stopped:
                self._segments.take_touched()
            return periods

    @property
    def has_touched(self) -> bool:
        """Whether published segments' periods are not rolled up yet."""
        return bool(self._segments.touched)

    def lacks_a_period(self) -> bool:
        """Return whether a published segment's day has no node."""
        return self._rollups.lacks_day(self._segments.touched)

    def run_together(self, may_wait: bool = False) -> None:
        """Derive what is pending here, and publish segments and periods in one transaction.

        With `may_wait` it may be written when something else is read or written: where nobody reads, several are written at once.
        Errors are passed on.
        """
        with self.publishing:
            self._segments.run(add_periods=partial(self._rollups.add_periods, may_wait=may_wait))
            self._segments.touched |= self._settle()
            if self.has_touched:
                self.roll_up_touched()

    def roll_up_touched(self) -> int:
        """Roll up the periods of published segments; return the count.

        An error is passed on, and the days are kept for the next try.
        """
        with self.publishing:
            days = self._segments.take_touched()
            try:
                return self._rollups.run_days(days)
            except BaseException:
                self._segments.touched |= days
                raise
