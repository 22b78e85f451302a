"""Runs calls on an App that is given, or opened in the background, so that a handshake never waits for it.

A host of several Apps lends each call the one it is about (`lent`).

Invariants
1. Opening that fails ends nothing: every call answers with that error, and tries again.
2. Calls run in threads; a cancelled reader's queries are stopped, and nobody else's.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded, MemoryMcpError
from memory_mcp.config import Settings
from memory_mcp.requests.response import with_loss
from memory_mcp.search.layers.budget import GONE, SINCE, leave_out

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A cancelled call is interrupted this often until it has ended, and for how long (seconds).
_TICK, _GIVE_UP = 0.01, 5.0
#: Background work stands back for a call until that has run so long, and so long for one that has, so that it gets on under a
#: load without pauses (seconds). With a tenth of a second for all, slow answers met it halfway and became the slowest.
_PROTECTED, _TURN = 0.5, 0.1
#: So long after a call another one is likely (seconds): background work does less at a time.
_LIKELY = 2.0


@dataclass(slots=True)
class _Call:
    """A reading call that runs: its thread, since when by the monotonic clock, and its App."""

    thread: int
    began: float
    app: App | None = None


class Host:
    """One App, and the calls that run on it."""

    def __init__(
        self,
        settings: Settings,
        opener: Callable[[], App],
        deriver_error: Callable[[], str] = lambda: "",
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        """Run calls on the App that `opener` opens when needed."""
        self.settings = settings
        self._opener = opener
        self._on_read = on_read
        self._opening = threading.Lock()
        self._app: App | None = None
        #: Reading calls now running.
        self._running: dict[object, _Call] = {}
        self._running_lock = threading.Lock()
        #: Notified when a reading call ends, and when one last did.
        self._ended, self._last_ended = threading.Condition(self._running_lock), -math.inf
        #: Returns why the deriver's last run failed; "" where it did not.
        self.deriver_error = deriver_error

    @classmethod
    def of(cls, app: App) -> "Host":
        """Return a host for an open App, which it does not close."""
        return cls(app.settings, lambda: app)

    def start(self) -> None:
        """Begin to open the App in a thread.

        An error is logged, and the first call tries again.
        """
        threading.Thread(target=self._warm, name="opening", daemon=True).start()

    def _warm(self) -> None:
        """Open the App in this thread."""
        try:
            self.app()
        except MemoryMcpError as error:
            log.warning("%s", error)
        except Exception:
            log.exception("opening failed; the next call tries again")

    def app(self) -> App:
        """Return the App, opened in this thread if necessary.

        Raises what opening raises, and the next call tries again.
        """
        with self._opening:
            if self._app is None:
                self._app = self._opener()
            return self._app

    @property
    def opened(self) -> App | None:
        """The App if it is open, else None."""
        return self._app

    @property
    def calls(self) -> int:
        """How many reading calls run now."""
        return len(self._running)

    def give_way(self) -> bool:
        """Wait for the reading calls that run now; return whether there are any, or were in the last two seconds.

        For those of less than half a second until they have run that long, else at most 0.1 s; not for what begins meanwhile, nor
        for the call that this thread runs.
        """
        with self._ended:
            now, me = time.monotonic(), threading.get_ident()
            began = {call: running.began for call, running in self._running.items() if running.thread != me}
            if not began:
                return now - self._last_ended < _LIKELY
            calls = {call for call, at in began.items() if now - at < _PROTECTED}
            seconds = max(began[call] for call in calls) + _PROTECTED - now if calls else _TURN
            calls = calls or {*began}
            self._ended.wait_for(lambda: calls.isdisjoint(self._running), seconds)
            return True

    async def read(self, work: Callable[[App], T]) -> T:
        """Run a reading call in a thread and return its result.

        Raises what the call or the opening raises. When it is cancelled, its own queries are stopped, and no other's; the call
        itself is no longer waited for.
        """
        call, gone = object(), threading.Event()
        token, since = GONE.set(gone), SINCE.set(time.monotonic())
        try:
            return await anyio.to_thread.run_sync(self._run_counted, call, work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            gone.set()
            threading.Thread(target=self._stop, args=(call,), name="stopping", daemon=True).start()
            raise
        finally:
            GONE.reset(token)
            SINCE.reset(since)

    async def write(self, work: Callable[[App], T]) -> T:
        """Run a writing call in a thread and return its result.

        Raises what the call or the opening raises. A write that has begun is finished even if the client cancels.
        """

        def written() -> T:
            with self.lent(writing=True) as app:
                return work(app)

        return await anyio.to_thread.run_sync(written)

    async def look(self, work: Callable[[App], T]) -> T:
        """Run a call that is no question in a thread and return its result.

        Nothing gives way to it or is brought up to date for it. Raises what the call or the opening raises.
        """
        return await anyio.to_thread.run_sync(lambda: work(self.app()))

    @contextmanager
    def lent(self, writing: bool = False) -> Iterator[App]:
        """Lend the App to the running call, opened if necessary.

        `writing` is for a call that writes. For a reading call the time of opening does not count against its own. Raises what
        opening raises.
        """
        began = time.monotonic()
        waits, app = self._app is None, self.app()
        if waits and not writing:
            leave_out(time.monotonic() - began)
        yield app

    def with_notices(self, app: App, response: dict[str, Any]) -> dict[str, Any]:
        """Return the response, with a notice where acknowledged events are lost."""
        return with_loss(app, response)

    def _run_counted(self, call: object, work: Callable[[App], T]) -> T:
        """Raises DeadlineExceeded if the call is cancelled, and what it raises itself."""
        gone = GONE.get()
        with self._running_lock:
            if gone is not None and gone.is_set():
                raise DeadlineExceeded("nobody waits for the answer")
            running = self._running[call] = _Call(threading.get_ident(), time.monotonic())
        try:
            with self.lent() as app:
                running.app = app
                self._on_read()
                return work(app)
        finally:
            with self._running_lock:
                del self._running[call]
                self._last_ended = time.monotonic()
                self._ended.notify_all()

    def _stop(self, call: object) -> None:
        """Interrupt an abandoned call's reads until it has ended.

        For `_GIVE_UP` seconds at most. It may be between two queries, or about to begin. Runs in a thread of its own.
        """
        end = time.monotonic() + _GIVE_UP
        while time.monotonic() < end:
            with self._running_lock:
                running = self._running.get(call)
                if running is not None and running.app is not None:
                    running.app.storage.interrupt_reads(running.thread)
            time.sleep(_TICK)
            if running is None:
                return
