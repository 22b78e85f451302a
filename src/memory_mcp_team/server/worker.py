"""What a server does for every memory of the database while no one waits: each piece of work once, on whichever server is free.

Invariants
1. Work is claimed in table `work` before it is begun (`postgres/work.py`), and what a holder that lost its claim still
   writes is refused.
2. A server that is killed leaves its work to the others once its leases have run out; one that ends releases it at once.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import cast

from memory_mcp.base import metrics
from memory_mcp.base.errors import MemoryMcpError, NotFound
from memory_mcp.forgetting.act import Forgetting, lift_lines
from memory_mcp.tree.derive.derivation import Depth
from memory_mcp.tree.derive.derivation import ExecutionMode as Where
from memory_mcp.upkeep.jobs.schedule import Daily, next_due
from memory_mcp_team.postgres.connection import EVENTS
from memory_mcp_team.postgres.records import FORGET
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.postgres.work import ClaimedWork, WorkTable
from memory_mcp_team.server.open_memories import MemoryKey, OpenMemories, OpenMemory

log = logging.getLogger(__name__)

#: Kinds of work next to events that wait to be derived.
PERIODS, HOUSEKEEPING, SUMMARIES = "periods", "housekeeping", "summaries"
#: Periods are rolled up so long after the first segment that they lack (seconds): what comes together is done once.
_ROLL_UP_AFTER = 8.0
#: More events than this are derived by child processes.
_BULK = 400
#: How often work is looked for without a notice, and the shortest time between two looks (seconds).
_LOOK, _PAUSE = 2.0, 0.1
#: The first retry after a failure, and the longest wait (seconds).
_FIRST_RETRY, _LAST_RETRY = 2.0, 300.0
_HOUR, _DAY_MS = 3600.0, 86_400_000

#: Does a kind of work; returns in how many seconds it is due again, None where something else will say so.
Job = Callable[[OpenMemory], float | None]


class Workers:
    """Threads that claim work and do it."""

    def __init__(self, work: WorkTable, opened: OpenMemories, count: int) -> None:
        self._work, self._opened = work, opened
        self._jobs: Mapping[str, Job] = {
            EVENTS: self._derive_events,
            PERIODS: _roll_up,
            HOUSEKEEPING: _keep_house,
            SUMMARIES: _improve_summaries,
            FORGET: _finish_forgetting,
        }
        self._failures: dict[tuple[int, int, str], int] = {}
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._busy: set[ClaimedWork] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run_loop, name=f"worker {n}", daemon=True) for n in range(count)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake_threads(self) -> None:
        """Wake waiting threads to look for work."""
        self._wake.set()

    def stop(self, patience: float) -> bool:
        """Stop claiming, and release all claims to other servers.

        Waits up to `patience` seconds for what is under way; return whether all has ended.
        """
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(patience / len(self._threads))
        ended = not any(thread.is_alive() for thread in self._threads)
        try:
            self._work.release_all()
        except MemoryMcpError as error:
            log.warning("work is left to other servers when its lease runs out: %s", error)
        return ended

    def plan_upkeep(self, memory: OpenMemory) -> None:
        """Put a memory's upkeep into the table of work.

        A replica has none. Values that earlier versions noted for mere lines of events are lifted first.
        """
        app, memory_key = memory.app, memory.key
        if memory_key.is_replica:
            return
        lift_lines(app)
        self._work.put_due_once(memory_key.tenant, memory_key.space, HOUSEKEEPING, _seconds_until_night(memory))
        if app.settings.summarizer.is_on:
            self._work.put_due_once(memory_key.tenant, memory_key.space, SUMMARIES, _HOUR)

    def _run_loop(self) -> None:
        while not self._stopping.is_set():
            claimed, wait = None, _LOOK
            try:
                claimed = self._work.claim_next(list(self._jobs))
                wait = 0.0 if claimed else self._work.seconds_until_due(list(self._jobs), _LOOK)
            except MemoryMcpError as error:
                log.debug("no work can be looked for: %s", error)
            except Exception:
                log.exception("no work can be looked for")
            if claimed is not None:
                self._do_claimed(claimed)
                continue
            self._wake.clear()
            # Woken at once by every commit, it would ask the database as often.
            if not self._stopping.wait(_PAUSE):
                self._wake.wait(max(wait - _PAUSE, 0.0))

    def _do_claimed(self, claimed: ClaimedWork) -> None:
        with self._lock:
            self._busy.add(claimed)
        try:
            with self._opened.lend_memory(MemoryKey(claimed.tenant, claimed.space)) as memory:
                claims = cast("PostgresStorage", memory.app.storage).claims
                with claims.adopt_claim(claimed.name, claimed.epoch):
                    due_secs = self._run_job(claimed, memory)
                    if due_secs is not None:
                        self._work.put_due(claimed.tenant, claimed.space, claimed.name, due_secs)
        except NotFound:
            log.info("work of a space that is gone is dropped")
        except Exception as error:
            # The claim runs out, and the work is due again.
            report = log.warning if isinstance(error, MemoryMcpError) else log.exception
            report("work waits for another try: %s", error)
            metrics.count("team_work_total", work=claimed.name, outcome="failed")
        finally:
            with self._lock:
                self._busy.discard(claimed)

    def _run_job(self, claimed: ClaimedWork, memory: OpenMemory) -> float | None:
        """Run the job of a piece of work; return its next delay.

        After an error, which is logged: 2 s, doubled with each failure in a row, at most 300 s.
        """
        key = (claimed.tenant, claimed.space, claimed.name)
        try:
            with metrics.timed("team_work_seconds", work=claimed.name):
                due_secs = self._jobs[claimed.name](memory)
            self._failures.pop(key, None)
            metrics.count("team_work_total", work=claimed.name, outcome="ok")
            return due_secs
        except Exception as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            metrics.count("team_work_total", work=claimed.name, outcome="failed")
            if isinstance(error, MemoryMcpError) or failures > 1:
                log.warning("work of kind %s failed (%d in a row): %s", claimed.name, failures, error)
            else:
                log.exception("work of kind %s failed; it is tried again", claimed.name)
            return min(_FIRST_RETRY * 2.0 ** min(failures - 1, 20), _LAST_RETRY)

    def _derive_events(self, memory: OpenMemory) -> float | None:
        app = memory.app
        connection = cast("PostgresStorage", app.storage).connection
        connection.expire_head()
        head = connection.get_head()
        waiting = head.last_event - head.derived
        if waiting <= 0:
            return None
        if waiting > _BULK:
            with app.derivation.publishing:
                app.derivation.reread()
            app.derivation.run(Depth.SEGMENTS, Where.ASIDE)
        else:
            app.derivation.run(Depth.SEGMENTS)
        memory_key = memory.key
        if app.derivation.lacks_a_period():
            self._work.put_due(memory_key.tenant, memory_key.space, PERIODS, 0.0)
        else:
            self._work.put_due_once(memory_key.tenant, memory_key.space, PERIODS, _ROLL_UP_AFTER)
        return None


def _roll_up(memory: OpenMemory) -> float | None:
    memory.app.derivation.run(Depth.PERIODS)
    return None


def _keep_house(memory: OpenMemory) -> float | None:
    memory.app.scheduler.run_now("derive_missing_runs")
    memory.app.scheduler.run_now("housekeeping")
    return _seconds_until_night(memory)


def _finish_forgetting(memory: OpenMemory) -> float | None:
    Forgetting(memory.app).look_again("memory-mcp", "looked for again")
    return None


def _improve_summaries(memory: OpenMemory) -> float | None:
    memory.app.scheduler.run_now("improve_summaries")
    return _HOUR


def _seconds_until_night(memory: OpenMemory) -> float:
    """Return the seconds until the daily upkeep, at least 60."""
    app = memory.app
    now = app.clock.now_ms()
    return max((next_due(Daily.at(app.settings.scheduler.housekeeping_at), now, now, app.calendar) - now) / 1000, 60.0)
