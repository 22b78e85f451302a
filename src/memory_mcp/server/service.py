"""The App of a serving process with what runs beside it (deriver, scheduler), opened and closed together."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.jobs.deriver import Deriver
from memory_mcp.server.host import Host

if TYPE_CHECKING:
    from memory_mcp.storage.lock import DirectoryLock

log = logging.getLogger(__name__)

#: How long ending waits for work under way (seconds).
_PATIENCE = 1.0
#: More events than this are derived by child processes, so that this one goes on answering.
_BULK = 400


class Service:
    """One open memory, derived in the background."""

    def __init__(self, settings: Settings, lock: "DirectoryLock | None" = None, scheduled: bool = False) -> None:
        self._settings = settings
        self._lock = lock
        self._scheduled = scheduled
        self._deriver: Deriver | None = None
        self._caught_up = False
        self.host = Host(settings, self._open)
        #: Called with the App once it is open, in the thread that opened it.
        self.on_open: Callable[[App], None] = lambda _: None

    def _open(self) -> App:
        app = App(self._settings, lock=self._lock)
        deriver = Deriver(lambda: self._derive(app))
        app.on_write = deriver.notify
        self.host.deriver_error = lambda: deriver.last_error
        deriver.start()
        self._deriver = deriver
        self.on_open(app)
        if self._scheduled:
            app.scheduler.start()
        return app

    def _derive(self, app: App) -> None:
        if app.segments.pending() > _BULK:
            app.derive_aside(self.host.let_through)
            self._caught_up = True
        elif self._caught_up:
            app.derive()
        else:
            app.catch_up()
            self._caught_up = True

    @property
    def pending(self) -> int:
        """Events that wait to be derived; 0 while nothing is open."""
        app = self.host.opened
        return app.segments.pending() if app is not None else 0

    @property
    def deriving(self) -> bool:
        """Whether derivation is under way or due."""
        return self._deriver is not None and self._deriver.busy

    def close(self, patience: float = 2 * _PATIENCE) -> None:
        """Stop deriving and close the store, waiting for work under way no longer than a client would."""
        app = self.host.opened
        if app is None:
            return
        ending = threading.Thread(target=self._end, args=(app,), name="closing", daemon=True)
        ending.start()
        ending.join(patience)
        if ending.is_alive():
            log.warning("ended before the last roll-up; the next start goes on from there")

    def _end(self, app: App) -> None:
        stops: list[Callable[[], object]] = [lambda: app.scheduler.stop(_PATIENCE)] if self._scheduled else []
        if self._deriver is not None:
            stops.append(self._deriver.stop)
        threads = [threading.Thread(target=stop, name="stopping", daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)
        app.close()
