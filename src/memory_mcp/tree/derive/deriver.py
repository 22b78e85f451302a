"""Derivation while a server runs, in a thread of its own that sleeps until it is notified."""

import logging
import threading
import time
from collections.abc import Callable

from memory_mcp.base.dataclass import dataclass
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


#: Nothing is waited for.
AT_ONCE = Patience()


@dataclass(slots=True)
class PendingNotices:
    """Pending notices and when they are due; times by the monotonic clock."""

    patience: Patience
    first: float | None = None
    last: float = 0.0

    def add_notice(self, now: float) -> None:
        """Note that there is something to do, at `now` (monotonic seconds)."""
        self.first = now if self.first is None else self.first
        self.last = now

    @property
    def due(self) -> float | None:
        """The time (monotonic) to act on them; None without notices."""
        if self.first is None:
            return None
        return min(self.last + self.patience.silence, self.first + self.patience.longest)


class NotifiedWorker:
    """Runs `work` some time after `notify`, and again by itself after as many seconds as it answers, if it answers any.

    Failures are logged and tried again at the next notice.
    """

    def __init__(
        self,
        work: Callable[[], float | None],
        interval: float = MIN_INTERVAL,
        name: str = "deriver",
        patience: Patience = AT_ONCE,
    ) -> None:
        self._work = work
        self._interval = interval
        self._changed = threading.Condition()
        self._notices = PendingNotices(patience)
        self._is_hurried = self._is_first_due = False
        #: When it runs again without a notice, and when it may run again at all.
        self._repeat_at: float | None = None
        self._rested_at = 0.0
        #: Until when the thread sleeps; None: until it is woken.
        self._sleeps_until: float | None = 0.0
        self._stopped = False
        #: Whether a run is under way.
        self.running = False
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        #: What the last failed run said; "" when the last run went well.
        self.last_error = ""

    def start(self, seconds: float = 0.0) -> None:
        """Start the thread; the first run is due after `seconds`, or with a notice."""
        self._is_first_due, self._repeat_at = True, time.monotonic() + seconds
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a run is under way or due."""
        return self.running or self._is_hurried or self._is_first_due or self._notices.first is not None

    def notify(self) -> None:
        """Make a run due after `patience`; does not wait."""
        with self._changed:
            self._notices.add_notice(time.monotonic())
            self._wake_if_earlier()

    def hurry(self) -> None:
        """Make the next run due without patience."""
        with self._changed:
            self._is_hurried = True
            self._wake_if_earlier()

    def _wake_if_earlier(self) -> None:
        due = self._next_run()
        if self._sleeps_until is None or (due is not None and due < self._sleeps_until):
            self._changed.notify_all()

    def _next_run(self) -> float | None:
        moments = [m for m in (self._notices.due, self._repeat_at, 0.0 if self._is_hurried else None) if m is not None]
        return max(min(moments), self._rested_at) if moments else None

    def stop(self) -> None:
        """Stop after the current run, waiting 10 seconds at most."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run_loop(self) -> None:
        while self._sleep_until_due():
            next_seconds: float | None = None
            try:
                next_seconds = self._work()
                self.last_error = ""
            except DiskFull as error:
                # Each try would fill the log with where it came from, on the disk that is full.
                self.last_error = str(error)
                log.warning("the %s waits for room: %s", self._thread.name, error.message)
            except Exception as error:
                self.last_error = str(error)
                log.exception("the %s failed; it is tried again with the next write", self._thread.name)
            with self._changed:
                self.running = self._is_first_due = False
                now = time.monotonic()
                self._rested_at = now + self._interval
                self._repeat_at = None if next_seconds is None else now + next_seconds

    def _sleep_until_due(self) -> bool:
        with self._changed:
            while not self._stopped:
                now, self._sleeps_until = time.monotonic(), self._next_run()
                if self._sleeps_until is not None and self._sleeps_until <= now:
                    self._notices.first, self._is_hurried, self._repeat_at, self.running = None, False, None, True
                    self._sleeps_until = 0.0
                    return True
                self._changed.wait(None if self._sleeps_until is None else self._sleeps_until - now)
            return False
