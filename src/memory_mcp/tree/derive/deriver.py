"""Derivation while a server runs, in a thread of its own that sleeps until it is notified."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from memory_mcp.base.errors import DiskFull

log = logging.getLogger(__name__)

#: The open segment is republished at most this often (seconds).
MIN_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a notice may wait, so that several are handled in one run (seconds)."""

    #: After the last notice.
    silence: float = 0.0
    #: After the first, however many follow it.
    longest: float = 0.0


@dataclass(slots=True)
class Waiting:
    """Pending notices and when they are due; times by the monotonic clock."""

    patience: Patience
    first: float | None = None
    last: float = 0.0

    def note(self, now: float) -> None:
        """Note that there is something to do, at `now` (monotonic seconds)."""
        self.first = now if self.first is None else self.first
        self.last = now

    @property
    def due(self) -> float | None:
        """The time to act on them: after `silence` without another, `longest` after the first at most; None without notices."""
        if self.first is None:
            return None
        return min(self.last + self.patience.silence, self.first + self.patience.longest)


class Deriver:
    """Runs `work` some time after `notify`, and again by itself after as many seconds as it answers, if it answers any.

    Failures are logged and tried again at the next notice.
    """

    def __init__(
        self,
        work: Callable[[], float | None],
        interval: float = MIN_INTERVAL,
        name: str = "deriver",
        patience: Patience = Patience(),
    ) -> None:
        """Prepare the thread `name`; runs are at least `interval` seconds apart, and notices wait for `patience`."""
        self._work = work
        self._interval = interval
        self._changed = threading.Condition()
        self._waiting = Waiting(patience)
        self._hurried = False
        #: When it runs again without a notice, and when it may run again at all.
        self._again: float | None = None
        self._rested = 0.0
        #: Until when the thread sleeps; None: until it is woken.
        self._until: float | None = 0.0
        self._stopped = False
        #: Whether a run is under way.
        self.running = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        #: What the last failed run said; "" when the last run went well.
        self.last_error = ""

    def start(self) -> None:
        """Start the thread; the first run is due at once, for events that an earlier process left."""
        self.hurry()
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a run is under way or due."""
        return self.running or self._hurried or self._waiting.first is not None

    def notify(self) -> None:
        """Note that something was written, so that a run is due as soon as `patience` and the interval allow. Does not wait."""
        with self._changed:
            self._waiting.note(time.monotonic())
            self._wake()

    def hurry(self) -> None:
        """Make the next run due without patience, once `interval` seconds since the last one have passed."""
        with self._changed:
            self._hurried = True
            self._wake()

    def _wake(self) -> None:
        """Wake the thread if it would sleep beyond the next run; a notice that only extends the silence wakes nothing."""
        due = self._due()
        if self._until is None or (due is not None and due < self._until):
            self._changed.notify_all()

    def _due(self) -> float | None:
        """Return when the next run is due (monotonic seconds), not before the interval has passed; None for never."""
        moments = [m for m in (self._waiting.due, self._again, 0.0 if self._hurried else None) if m is not None]
        return max(min(moments), self._rested) if moments else None

    def stop(self) -> None:
        """Stop after the current run, and wait for that, at most 10 seconds. Waiting notices are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _loop(self) -> None:
        """Run `work` whenever it is due until stopped; its errors are logged and kept in `last_error`. The body of the thread.

        After an error it runs again at the next notice only.
        """
        while self._slept():
            again: float | None = None
            try:
                again = self._work()
                self.last_error = ""
            except DiskFull as error:
                # Each try would fill the log with where it came from, on the disk that is full.
                self.last_error = str(error)
                log.warning("the %s waits for room: %s", self._thread.name, error.message)
            except Exception as error:
                self.last_error = str(error)
                log.exception("the %s failed; it is tried again with the next write", self._thread.name)
            with self._changed:
                self.running = False
                now = time.monotonic()
                self._rested = now + self._interval
                self._again = None if again is None else now + again

    def _slept(self) -> bool:
        """Sleep until a run is due, count it as running and drop the notices for it; return False once stopped."""
        with self._changed:
            while not self._stopped:
                now, self._until = time.monotonic(), self._due()
                if self._until is not None and self._until <= now:
                    self._waiting.first, self._hurried, self._again, self.running = None, False, None, True
                    self._until = 0.0
                    return True
                self._changed.wait(None if self._until is None else self._until - now)
            return False
