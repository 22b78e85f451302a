"""The App of a serving process with what runs beside it (deriver, scheduler), opened and closed together.

Change here: when a serving process derives, or what it logs of that.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.app import App, Callbacks
from memory_mcp.base import paths
from memory_mcp.base.children import few_collections
from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture import handover
from memory_mcp.config import Settings
from memory_mcp.forgetting.act import resume
from memory_mcp.server.host import Host
from memory_mcp.tree.derive.derivation import Depth, ExecutionMode
from memory_mcp.tree.derive.deriver import NotifiedWorker, Patience, PendingNotices
from memory_mcp.upkeep.jobs.calls import compact_if_worth_it

if TYPE_CHECKING:
    from memory_mcp.storage.lock import DirectoryLock
    from memory_mcp.tree.derive.derivation import Derivation

log = logging.getLogger(__name__)

#: How long ending waits for work under way (seconds).
_PATIENCE = 1.0
#: An import that has sent nothing for so long is stuck, and what waits for its end goes on (seconds).
_QUIET = 30.0
#: What is written is derived after so long a silence, and its periods are rolled up with it: what comes together is done once.
#: Where writers do not rest, segments are derived more often than periods are rolled up. Nothing is missing meanwhile, since
#: every layer searches events that are in no segment yet, and whoever reads has them derived at once.
_EVENTS, _PERIODS = Patience(8.0, 10.0), Patience(8.0, 50.0)
#: What is derived so long after the last question (seconds) is written with what comes later: who asks has it written first,
#: which takes 10 ms.
_UNREAD = 60.0
#: Work that no client waits for begins so long after opening (seconds).
_SETTLED = 2.0
#: So many events do not wait: they are searched one by one.
_MANY = 200
#: More events than this are derived by child processes, so that this one goes on answering.
_BULK = 400
#: How often the indexes are looked at while there is something to do, the shortest time between two rounds, and how often
#: while they rest: whoever reads has their files looked at, too (seconds).
WATCH, _TURNS, _REST = 1.0, 0.1, 60.0
#: The file of what an import brought is rewritten so long after all of it is indexed (seconds).
_UNASKED = 3.0
#: So long after a question others are expected, during an import (seconds).
_READING = 30.0


@dataclass(slots=True)
class Awaited:
    """How far a caller's wait for tree and indexes has come."""

    #: The number of the last event stored when the waiting began.
    event: int
    #: Runs of the deriver that had ended when it was derived, and the last change of the outbox behind that run.
    runs: int | None = None
    change: int | None = None
    #: Runs of the deriver that had ended when one of them was seen to have failed.
    failed: int | None = None


class Service:
    """One open memory, derived in the background."""

    def __init__(
        self, settings: Settings, lock: "DirectoryLock | None" = None, on_open: Callable[[App], None] = lambda _: None
    ) -> None:
        self._settings = settings
        self._lock = lock
        self._on_open = on_open
        self._app: App | None = None
        self._deriver = NotifiedWorker(self._derive, patience=_EVENTS)
        self._unrolled = PendingNotices(_PERIODS)
        #: Sessions that ended, and how many of them the last rendering of what a new one is told could know of.
        self._ended = self._told = 0
        self._tender = NotifiedWorker(self._tend, _TURNS, "tender of the indexes")
        self._counter = NotifiedWorker(self._count_arrivals, _TURNS / 2, "counting of terms")
        self._tended = self._read = self._opened = -math.inf
        self._caught_up = False
        #: Runs of the deriver that have ended.
        self._runs = 0
        #: Imports under way, and when one of them last sent something.
        self._imports: set[int] = set()
        self._filled = -math.inf
        self.host = Host(settings, self._open, lambda: self._deriver.last_error, self._on_read)

    @property
    def settings(self) -> Settings:
        """The settings of the open App, before that those given."""
        return self._settings if self._app is None else self._app.settings

    def _open(self) -> App:
        """Open the App and start its background work.

        That is the deriver, the upkeep of the indexes and the scheduler. Raises what opening raises. In threads of their own,
        what a forgetting left undone goes on and the spool is drained.
        """
        callbacks = Callbacks(
            self._on_write,
            self._on_session_end,
            lambda: self._importing,
            self.host.give_way,
            tends_indexes=True,
            watches_spool=True,
        )
        with few_collections():
            self._app = app = App(self._settings, lock=self._lock, callbacks=callbacks)
        self._opened = time.monotonic()
        handover.sweep_files(Path(paths.spool_dir(str(self._settings.storage.directory))))
        # Without anything left to file, the first question goes first.
        delay_s = 0.0 if self.pending else _SETTLED
        self._deriver.start(delay_s)
        self._tender.start()
        self._counter.start(_SETTLED)
        self._on_open(app)
        threading.Thread(target=resume, args=(app,), name="forgetting", daemon=True).start()
        if app.spool is not None and app.spool.count_waiting():
            # Files that came while no process was running.
            app.scheduler.hasten("drain_spool")
        app.scheduler.start(delay_s)
        return app

    def _on_write(self) -> None:
        if self._importing:
            # The deriver's run lasts as long as the import.
            return
        self._unrolled.add_notice(time.monotonic())
        if self.pending < _MANY:
            self._deriver.notify()
        else:
            self._deriver.hurry()

    def _on_session_end(self) -> None:
        self._ended += 1
        self._deriver.hurry()

    def _on_read(self) -> None:
        """Look at the indexes every `WATCH` seconds; derive nothing during an import."""
        self._read = time.monotonic()
        if self.pending and not self._importing:
            self._deriver.hurry()
        if time.monotonic() - self._tended > WATCH:
            self._tender.hurry()
        if self._importing:
            self._counter.hurry()

    def _tend(self) -> float:
        """Maintain the indexes once.

        Returns in how many seconds the next round is needed. During an import, and while what an earlier process left is
        derived, they are only read from disk.
        """
        assert self._app is not None
        self._tended = time.monotonic()
        if self._importing or (not self._caught_up and self._deriver.busy):
            # What an import brings is indexed at its end, all of it at once; so is what an earlier process left.
            self._app.accelerators.load()
            return self._copy_for_readers() if self._importing else WATCH
        if self._app.accelerators.maintain():
            return _TURNS
        if not self._app.accelerators.is_idle:
            return WATCH
        if time.monotonic() - self._opened < _SETTLED:
            # The scheduler, which begins when a job is hastened, waits for the first question.
            return _SETTLED
        self._app.scheduler.hasten("compact_grown", _UNASKED)
        return _REST

    def _count_arrivals(self) -> float | None:
        """Have terms counted of what an import has stored while somebody reads; return when to again."""
        assert self._app is not None
        index = self._app.accelerators.keyword_index
        if index is None:
            return None
        if self._importing and time.monotonic() - self._read <= _READING:
            index.count_arrivals(self._app.storage.events)
            return _TURNS / 2
        return WATCH if index.end_counting() else None

    def _copy_for_readers(self) -> float:
        """Copy what an import has stored while somebody reads, who would read the store without it; return when to again."""
        assert self._app is not None
        if self._tended - self._read > _READING:
            return WATCH
        self._app.storage.copy_rows(self._should_stop_copying)
        return _TURNS

    def _should_stop_copying(self) -> bool:
        self.host.give_way()
        return not self._importing

    def _derive(self) -> float | None:
        """Derive, then let the indexes take in the result.

        Returns the seconds until the next run, None for none. Raises what deriving raises. After a session's end the briefings
        are rendered soon.
        """
        assert self._app is not None
        ended = self._ended
        try:
            next_run_s = self._derive_now(self._app.derivation)
            # Before the run counts as ended: who waits would be told of the failure before it.
            self._deriver.last_error = ""
        finally:
            self._runs += 1
        # What contradicts what is worked out here, so that no search has to wait for it.
        self._app.storage.superseded.is_empty()
        self._tender.notify()
        if ended != self._told and not self._importing:
            self._told = ended
            self._app.scheduler.hasten("render_briefings")
        return next_run_s

    def _derive_now(self, derivation: "Derivation") -> float | None:
        """Run the deriver once.

        Returns in how many seconds another run is needed without any write, None for never. More than `_BULK` events, and what
        an import brings, are derived by child processes, and their periods rolled up at the end; else periods are rolled up when
        they are due.
        """
        many = self._importing or derivation.count_pending() > _BULK
        now, due = time.monotonic(), self._unrolled.due
        if many:
            # Periods follow once the import has ended: what is found does not depend on them.
            derivation.run(Depth.SEGMENTS, ExecutionMode.ASIDE, more=lambda: self._importing)
        if many or not self._caught_up:
            derivation.run(Depth.SEGMENTS)
            self._unrolled.first = None
            derivation.run(Depth.PERIODS, ExecutionMode.ASIDE)
            self._caught_up = True
        elif due is None or due <= now:
            self._unrolled.first = None
            derivation.run_together(may_wait=now - self._read > _UNREAD)
        else:
            derivation.run(Depth.SEGMENTS)
            if derivation.has_touched:
                # Periods wait for their time, but where one has no node yet.
                if not derivation.lacks_a_period():
                    return due - now
                self._unrolled.first = None
                derivation.roll_up_touched()
        return None

    @property
    def _importing(self) -> bool:
        """One that has sent nothing for `_QUIET` seconds does not count."""
        return bool(self._imports) and time.monotonic() - self._filled < _QUIET

    def import_goes_on(self, key: int) -> bool:
        """Note that an import has sent something and goes on.

        Returns whether the import is new. `key` tells imports apart. The deriver begins at once, unless it runs, and lasts as
        long as the import.
        """
        new = key not in self._imports
        self._imports.add(key)
        self._filled = time.monotonic()
        self._caught_up = False
        if not self._deriver.running:
            self._deriver.hurry()
        return new

    def note_import(self, key: int) -> None:
        """Note that an import's file is being stored: that of a slow machine takes longer than `_QUIET`."""
        if key in self._imports:
            self._filled = time.monotonic()

    def import_ended(self, key: int) -> None:
        """Note that an import has ended, and do what waited."""
        if key in self._imports:
            self._imports.discard(key)
            if not self._deriver.running:
                self._deriver.hurry()

    def upkeep(self, awaited: Awaited) -> tuple[int, int, int] | None:
        """Return how much is left of what a caller waits for.

        `awaited` notes how far it has come. It has due work begun at once. What others write meanwhile is not waited for: with
        clients that go on writing there would be no end to it.

        Returns:
            The events that are not in the tree yet, and the documents of the indexes that are done and that there are in all;
            None when nothing is left.

        """
        app = self.host.opened
        if app is None:
            return None
        events_left = max(awaited.event - app.derivation.last_derived(), 0)
        if not events_left and awaited.runs is None:
            awaited.runs = self._runs
        # The periods follow in the run that derived the last of the events.
        if events_left or (self._deriver.busy and awaited.runs == self._runs):
            if not self._deriver.running:
                self._deriver.hurry()
            return events_left, 0, 0
        if awaited.change is None:
            awaited.change = app.storage.toc.current_version()
        # Asked for here too: the tender looks at the indexes once a second.
        self._tender.hurry()
        due = app.accelerators.remaining_work(awaited.change)
        return (0, *due) if due else None

    def failure(self, awaited: Awaited) -> str:
        """Return why filing fails.

        "" while it goes well, or is tried once more because what stood in its way may be gone. A failure counts once a run that
        began after it was first seen has failed too.
        """
        error = self._deriver.last_error
        if not error or awaited.failed is None:
            if error:
                self._deriver.hurry()
            # A run that is under way began when that still stood in its way, perhaps.
            awaited.failed = self._runs + self._deriver.running if error else None
            return ""
        return error if self._runs > awaited.failed else ""

    @property
    def pending(self) -> int:
        """How many events wait to be derived."""
        app = self.host.opened
        return app.derivation.count_pending() if app is not None else 0

    @property
    def deriving(self) -> bool:
        """Whether a run of the deriver is under way or due."""
        return self._deriver.busy

    @property
    def indexing(self) -> bool:
        """Whether an index is being built or has changes waiting."""
        app = self.host.opened
        return app is not None and app.accelerators.is_busy

    def tidy(self) -> None:
        """Rewrite the database file, after a backup, if that frees enough."""
        app = self.host.opened
        if app is not None:
            compact_if_worth_it(app.storage, app.backups.back_up_before)

    def close(self, patience: float = 2 * _PATIENCE) -> None:
        """Stop deriving and close the store, within `patience` seconds.

        After that it goes on in a thread. Nothing happens where nothing is open. What is not derived by then is derived at the
        next start.
        """
        self._imports.clear()
        app = self.host.opened
        if app is None:
            return
        ending = threading.Thread(target=self._end, args=(app,), name="closing", daemon=True)
        ending.start()
        ending.join(patience)
        if ending.is_alive():
            log.warning("ended before the last roll-up; the next start goes on from there")

    def _end(self, app: App) -> None:
        """Stop background work side by side, within `_PATIENCE` seconds; close the App."""
        stops: list[Callable[[], object]] = [lambda: app.scheduler.stop(_PATIENCE)]
        stops += [self._deriver.stop, self._tender.stop, self._counter.stop]
        threads = [threading.Thread(target=stop, name="stopping", daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)
        app.close()
