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
from dataclasses import dataclass
from enum import Enum, Flag, auto

from memory_mcp.base.children import few_collections
from memory_mcp.base.clock import Clock
from memory_mcp.tree.derive.build import Derived, Work
from memory_mcp.tree.derive.close_segments import CloseSegments
from memory_mcp.tree.derive.rollup import RollUps
from memory_mcp.tree.derive.workers import DeriveWorkers

#: Events of one step beside a serving process: its commit delays callers only briefly.
_STEP = 1000
#: Steps after which term rows are joined: a search reads all of those of the root.
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


class Place(Enum):
    """Where the work is done."""

    #: In the calling thread.
    HERE = auto()
    #: Here, and big batches also in a child process: for a command that does nothing else.
    SHARED = auto()
    #: In child processes, committed in small steps between callers' requests: for a serving process.
    ASIDE = auto()


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run published, and its duration."""

    #: Days, weeks, months and years published.
    periods: int
    segment_seconds: float
    period_seconds: float


class Publishing:
    """A reentrant lock for publishing nodes, across threads and across processes that have the memory open."""

    def __init__(self, exclusive: Callable[[str], AbstractContextManager[bool]], reread: Callable[[], None]) -> None:
        """Create the lock: `exclusive` opens that among processes, `reread` is called, held, after another process published."""
        self._exclusive, self._reread = exclusive, reread
        self._lock = threading.RLock()
        self._held: list[AbstractContextManager[bool] | None] = []

    def __enter__(self) -> None:
        """Wait for the lock, in this process and, unless held already, among processes.

        Calls `reread` with it held if another process has published. Errors of the other lock are passed on, with nothing held.
        """
        self._lock.acquire()
        try:
            outer = None if self._held else self._exclusive(_PUBLISHING)
            changed = outer is not None and outer.__enter__()
        except BaseException:
            self._lock.release()
            raise
        self._held.append(outer)
        if changed:
            self._reread()

    @property
    def is_free(self) -> bool:
        """Whether no thread of this process holds it."""
        return not self._held

    def __exit__(self, *told: object) -> None:
        """Release the lock, that among processes with the outermost block."""
        outer = self._held.pop()
        try:
            if outer is not None:
                outer.__exit__(None, None, None)
        finally:
            self._lock.release()


class Derivation:
    """Derives segments from events and periods from segments."""

    def __init__(
        self,
        segments: CloseSegments,
        rollups: RollUps,
        workers: Callable[[Callable[[], None] | None], DeriveWorkers],
        clock: Clock,
        give_way: Callable[[], None],
        settle: Callable[[], set[str]],
        exclusive: Callable[[str], AbstractContextManager[bool]],
    ) -> None:
        """Create it; nothing runs yet.

        `settle` refiles segments under new names and returns the days it changed; `workers` makes the child
        processes, given what gives way or None; for `exclusive` see `Storage.exclusive`.
        """
        self._settle = settle
        self._segments = segments
        self._rollups = rollups
        self._workers = workers
        self._clock = clock
        self._give_way = give_way
        #: The lock for publishing nodes.
        self.publishing = Publishing(exclusive, self.reread)

    def reread(self) -> None:
        """Drop cached state after another process changed the store; the caller holds `publishing`."""
        self._segments.reread()

    def pending(self) -> int:
        """Return the number of events stored and not yet derived, as far as this process knows."""
        return self._segments.pending()

    def reached(self) -> int:
        """Return the number of the last derived event, as far as this process knows."""
        return self._segments.reached()

    def run(
        self,
        depth: Depth = Depth.ALL,
        place: Place = Place.HERE,
        progress: Callable[[int], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        more: Callable[[], bool] = lambda: False,
    ) -> Spent:
        """Derive everything pending and publish every stale period, limited to the levels in `depth`; return what it took.

        What is stored meanwhile is the next run's: beside writers that never rest a run would have no end. Aside (`place`), the
        lock is held for one step of segments at a time, and while `more()` is true, coming events are waited for and derived in
        whole steps. `progress` gets the number of events of each batch of segments, never aside; `should_stop`, asked between two
        transactions of periods, ends the run early. Errors are passed on.
        """
        with ExitStack() as held:
            if place is not Place.ASIDE:
                held.enter_context(self.publishing)
            if place is not Place.HERE:
                held.enter_context(few_collections())
            started = self._clock.monotonic()
            if Depth.SEGMENTS in depth:
                if place is Place.HERE:
                    self._segments.run(progress)
                elif place is Place.SHARED:
                    with self._workers(None) as workers:
                        self._segments.run(progress, workers.derive)
                else:
                    self._derive_aside(more)
                with self.publishing:
                    self._segments.touched |= self._settle()
            halfway = self._clock.monotonic()
            periods = self._roll_up(place, should_stop) if Depth.PERIODS in depth else 0
            return Spent(periods, halfway - started, self._clock.monotonic() - halfway)

    def _derive_aside(self, more: Callable[[], bool]) -> None:
        """Derive pending segments in child processes, a step of 1000 events at a time, giving way before each.

        Goes on while `more()`; afterwards up to what is stored then.
        """
        with self._workers(self._give_way) as workers:

            def derive(batch: Sequence[Work]) -> list[Derived]:
                """Derive in the child processes, giving way before and after."""
                self._give_way()
                derived = workers.derive(batch)
                self._give_way()
                return derived

            goal: int | None = None
            for step in itertools.count(1):
                while self._segments.pending() < _STEP and more():
                    time.sleep(_LOOK)  # less than a step waits while more are coming
                if self._segments.pending() <= 0:
                    break
                if goal is None and not more():
                    goal = self._segments.reached() + self._segments.pending()
                elif goal is not None and self._segments.reached() >= goal:
                    break
                if step % _FOLD_EVERY == 0:
                    with self.publishing:
                        self._segments.fold()
                self._give_way()
                with self.publishing:
                    self._segments.run(None, derive, _STEP, steps=1)
            with self.publishing:
                self._segments.fold()

    def _roll_up(self, place: Place, should_stop: Callable[[], bool]) -> int:
        """Publish stale periods under the lock and clear the touched days, unless stopped early; return how many periods."""
        stopped = False

        def stop() -> bool:
            """Return whether to stop, giving way first if aside."""
            nonlocal stopped
            if place is Place.ASIDE:
                self._give_way()
            stopped = should_stop()
            return stopped

        with self.publishing:
            periods = self._rollups.run(stop)
            if not stopped:
                self._segments.take_touched()
            return periods

    @property
    def touched(self) -> bool:
        """Whether segments were published whose periods are not rolled up yet."""
        return bool(self._segments.touched)

    def lacks_a_period(self) -> bool:
        """Return whether a day has no node yet on which this process published a segment since the last roll-up."""
        return self._rollups.lacking(self._segments.touched)

    def roll_up_touched(self) -> int:
        """Roll up the periods of segments that this process published since the last roll-up; return how many were written.

        An error is passed on, and the days are kept for the next try.
        """
        with self.publishing:
            days = self._segments.take_touched()
            try:
                return self._rollups.run_days(days)
            except BaseException:
                self._segments.touched |= days
                raise
