"""Derivation while a server runs: woken by every write, at most once a second, in one thread of its own."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

#: The open segment is republished at most this often (seconds).
MIN_INTERVAL = 1.0


class Deriver:
    """Runs `work` soon after `notify`, and again by itself after as many seconds as it answers, if it answers any.

    Failures are logged and tried again at the next notice.
    """

    def __init__(self, work: Callable[[], float | None], interval: float = MIN_INTERVAL, name: str = "deriver") -> None:
        self._work = work
        self._interval = interval
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._running = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        #: What the last failed run said; "" when the last run went well.
        self.last_error = ""

    def start(self) -> None:
        """Begin; the first run is due at once, for what an earlier process left."""
        self._due.set()
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a run is under way or due."""
        return self._running or self._due.is_set()

    def notify(self) -> None:
        """Something was written."""
        self._due.set()

    def stop(self) -> None:
        """End after the run that is under way."""
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _loop(self) -> None:
        again: float | None = None
        while True:
            self._due.wait(again)
            if self._stopped.is_set():
                return
            self._running = True
            self._due.clear()
            again = None
            try:
                again = self._work()
                self.last_error = ""
            except Exception as error:
                self.last_error = str(error)
                log.exception("the %s failed; it is tried again with the next write", self._thread.name)
            finally:
                self._running = False
            self._stopped.wait(self._interval)
