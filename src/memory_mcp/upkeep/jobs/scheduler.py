"""Run jobs when they are due, one at a time, and keep their results.

Invariants
1. Never two jobs at once, and none twice at once, whichever caller asks for the run; a job that only waits for something outside
   (`WaitingJob`) runs next to the others.
2. A job that fails is logged, kept and tried again, each time later; nothing a job does ends the loop.
3. What is paused, when a job ran and how it went survive the process; of a job that comes round again and again it is
   written down when it begins to fail or to succeed, seldom when it did something, and at the end: at rest nothing is written.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field, fields
from typing import Any

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DiskFull, InvalidQuery
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.records import Outbox
from memory_mcp.upkeep.jobs.base import Job, JobReport, RequestedJob, WaitingJob
from memory_mcp.upkeep.jobs.schedule import Every, next_due, retry_after

log = logging.getLogger(__name__)

#: State is kept among the followers' positions, under this and the job's name.
PREFIX = "job:"
#: The loop looks at the clocks at least so often: a machine that slept, or a clock that was put right, is noticed (s).
_LONGEST_WAIT = 10.0
#: A job that comes round again and again is written down after so long at the earliest (seconds).
_SELDOM = 3600.0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job as people see it; moments are UTC milliseconds."""

    name: str
    help: str
    schedule: str
    paused: bool
    running: bool
    last_started: int | None
    last_seconds: float | None
    #: "ok: ..." or what went wrong; "" before the first run.
    last_result: str
    next_run: int | None  # None while paused
    runs: int
    failures: int


@dataclass(slots=True)
class _State:
    """Stored state of a job. On disk: fields may be added, never change their meaning."""

    #: When the job was first known: a daily one is due from then on.
    since: int
    paused: bool = False
    last_started: int | None = None
    last_seconds: float | None = None
    last_result: str = ""
    runs: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    #: The last run was cut short by the end of the process.
    unfinished: bool = False


@dataclass(slots=True)
class _Entry:
    """A job with its state, and when it is due."""

    job: Job
    state: _State
    running: bool = False
    due_ms: int = 0
    #: It has done something since it was written down last.
    worked: bool = False
    #: When it is to run, by the monotonic clock, as it was hastened since its last run began.
    hastened: float | None = None
    #: The same by the monotonic clock, which cannot be set back; None where only the time of day counts.
    due_at: float | None = None
    saved: str = ""
    saved_at: float = field(default=float("-inf"))
    #: Whether the run written down last had failed.
    saved_failed: bool = False


class Scheduler:
    """Holds the jobs of one store; nothing runs by itself before `start`.

    Safe from any thread. Methods that take a job's name raise InvalidQuery for an unknown one.
    """

    def __init__(
        self, jobs: Iterable[Job], outbox: Outbox, calendar: Calendar, clock: Clock, others: Callable[[], Iterable[Job]] = tuple
    ) -> None:
        """Hold `jobs`, which are looked through and their state read from `outbox` on first use.

        `others` returns jobs that take time to find: it is called when all are asked for, or nothing else is due.
        """
        self._unknown_jobs, self._others = jobs, others
        self._outbox = outbox
        self._calendar = calendar
        self._clock = clock
        #: Guards entries, never held while a job runs or the store is written.
        self._lock = threading.RLock()
        #: Held while a job runs; the other one while a job that waits does.
        self._job_turn, self._waiting_turn = threading.Lock(), threading.Lock()
        self._saving = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._last_now_ms = 0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # what people ask for

    def statuses(self) -> list[JobStatus]:
        """Return the status of every job, in order."""
        self._find_others()
        with self._lock:
            return [
                JobStatus(
                    name=entry.job.name,
                    help=entry.job.help,
                    schedule=entry.job.schedule.words,
                    paused=entry.state.paused,
                    running=entry.running,
                    last_started=entry.state.last_started,
                    last_seconds=entry.state.last_seconds,
                    last_result=entry.state.last_result,
                    next_run=None if entry.state.paused else entry.due_ms,
                    runs=entry.state.runs,
                    failures=entry.state.failures,
                )
                for entry in self._load_entries().values()
            ]

    def pause(self, name: str) -> None:
        """Pause a job until `resume`; a current run goes on."""
        self._set_paused(name, True)

    def resume(self, name: str) -> None:
        """Let a paused job run again, at once if overdue."""
        self._set_paused(name, False)

    def run_now(self, name: str) -> JobReport:
        """Run a job in this thread, paused or not; raise its errors."""
        entry = self._find_entry(name)
        with self._waiting_turn if isinstance(entry.job, WaitingJob) else self._job_turn:
            return self._run_job(entry, is_requested=True)

    def hasten(self, name: str, seconds: float = 0.0) -> None:
        """Have a job due in `seconds` at the latest, unless paused."""
        entry = self._find_entry(name)
        with self._lock:
            entry.hastened = self._clock.monotonic() + seconds
            self._bring_forward(entry)
        self._wake.set()

    def _bring_forward(self, entry: _Entry) -> None:
        if entry.hastened is None:
            return
        due_ms = self._clock.now_ms() + round(max(entry.hastened - self._clock.monotonic(), 0.0) * 1000)
        if due_ms <= entry.due_ms:
            entry.due_ms, entry.due_at = due_ms, entry.hastened

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        with self._lock:
            return any(entry.running for entry in self._load_entries().values())

    def due_soon(self) -> bool:
        """Return whether a job is running or overdue."""
        with self._lock:
            return self.busy or self._most_overdue() is not None

    # the loop

    def start(self, seconds: float = 0.0) -> None:
        """Start the loop in a thread, once; it begins after `seconds`, or with a job that is hastened."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run_loop, args=(seconds,), name="scheduler", daemon=True)
                self._thread.start()

    def stop(self, timeout: float = 2.0) -> bool:
        """End the loop and write down all state.

        Returns False, writing nothing, if a job still runs after `timeout` seconds.
        """
        self._stopping.set()
        self._wake.set()
        until = time.monotonic() + timeout
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        for turn in (self._job_turn, self._waiting_turn):
            if not turn.acquire(timeout=max(0.0, until - time.monotonic())):
                # A job that still runs may hold the store for long, and saving here would wait for it.
                return False
            turn.release()
        for entry in list(self._entries.values()):
            self._save_state(entry, force=True)
        return True

    def step(self) -> bool:
        """Run the most overdue job; return False without one."""
        with self._job_turn:
            with self._lock:
                entry = None if self._stopping.is_set() else self._most_overdue()
                if entry is not None:
                    entry.running = True
            if entry is None:
                return False
            if isinstance(entry.job, WaitingJob):
                threading.Thread(target=self._run_aside, args=(entry,), name=entry.job.name, daemon=True).start()
            else:
                self._run_due(entry)
            return True

    def _run_aside(self, entry: _Entry) -> None:
        with self._waiting_turn:
            self._run_due(entry)

    def _run_due(self, entry: _Entry) -> None:
        with suppress(Exception):
            self._run_job(entry)

    def _run_loop(self, delay_s: float) -> None:
        self._wake.wait(delay_s)
        # Store when jobs became known: a daily one must come due even if no process runs for a whole day.
        try:
            with self._lock:
                fresh = [entry for entry in self._load_entries().values() if not entry.saved]
            for entry in fresh:
                self._save_state(entry, force=False)
        except Exception:
            log.exception("the scheduler could not read its state; it tries again")
        while not self._stopping.is_set():
            try:
                ran, wait = self.step() or self._find_others(), self._seconds_to_wait()
            except Exception:
                log.exception("the scheduler could not look for work; it looks again")
                ran, wait = False, _LONGEST_WAIT
            if not ran:
                self._wake.wait(wait)
                self._wake.clear()

    def _seconds_to_wait(self) -> float:
        now, at = self._clock.now_ms(), self._clock.monotonic()
        with self._lock:
            waits = [
                min((e.due_ms - now) / 1000, _LONGEST_WAIT if e.due_at is None else e.due_at - at)
                for e in self._load_entries().values()
                if not e.state.paused
            ]
        return max(0.0, min([*waits, _LONGEST_WAIT]))

    def _most_overdue(self) -> _Entry | None:
        now, at = self._clock.now_ms(), self._clock.monotonic()
        entries = self._load_entries().values()
        if now < self._last_now_ms:
            for entry in entries:
                self._plan_next(entry)
        self._last_now_ms = now
        due = [
            e
            for e in entries
            if not e.state.paused and not e.running and (e.due_ms <= now or (e.due_at is not None and e.due_at <= at))
        ]
        return min(due, key=lambda e: e.due_ms, default=None)

    def _run_job(self, entry: _Entry, is_requested: bool = False) -> JobReport:
        work = entry.job.run_requested if is_requested and isinstance(entry.job, RequestedJob) else entry.job.run
        started_ms, started = self._clock.now_ms(), self._clock.monotonic()
        with self._lock:
            was_hastened, entry.running, entry.hastened = entry.hastened is not None, True, None
        failed, result = True, "stopped"
        try:
            report = work(started_ms, self._stopping.is_set)
            failed, result = False, f"ok: {report.words}"
            entry.worked = entry.worked or any(report.counts.values())
            return report
        except Exception as error:
            result = str(error) or type(error).__name__
            # Log the traceback of the first failure in a row, one line for each further one.
            if entry.state.failures_in_a_row == 0:
                log.exception("job %s failed; it is tried again", entry.job.name)
            else:
                log.warning("job %s failed again (%d in a row): %s", entry.job.name, entry.state.failures_in_a_row + 1, result)
            raise
        finally:
            with self._lock:
                state = entry.state
                entry.running = False
                state.last_started, state.last_seconds = started_ms, round(self._clock.monotonic() - started, 3)
                state.last_result, state.unfinished = result, self._stopping.is_set()
                state.runs += 1
                state.failures += failed
                state.failures_in_a_row = state.failures_in_a_row + 1 if failed else 0
                entry.due_at = None
                self._plan_next(entry)
                self._bring_forward(entry)
            self._save_state(entry, force=False, comes_often=was_hastened)

    def _plan_next(self, entry: _Entry) -> None:
        now, at = self._clock.now_ms(), self._clock.monotonic()
        state, schedule = entry.state, entry.job.schedule
        by_time_of_day = False
        if state.unfinished or (state.last_started is None and isinstance(schedule, Every)):
            entry.due_ms = now
        elif state.failures_in_a_row:
            ended = (state.last_started or 0) + round((state.last_seconds or 0) * 1000)
            entry.due_ms = min(ended, now) + round(retry_after(schedule, state.failures_in_a_row) * 1000)
        else:
            entry.due_ms = next_due(
                schedule, state.since if state.last_started is None else state.last_started, now, self._calendar
            )
            by_time_of_day = not isinstance(schedule, Every)
        due_at = None if by_time_of_day else at + (entry.due_ms - now) / 1000
        # A clock put back again and again must not put off what is due by the other clock.
        entry.due_at = due_at if due_at is None or entry.due_at is None else min(due_at, entry.due_at)

    # what is kept

    def _load_entries(self) -> dict[str, _Entry]:
        if new_jobs := tuple(self._unknown_jobs):
            now, stored = self._clock.now_ms(), self._outbox.get_positions(PREFIX)
            self._unknown_jobs = ()
            for job in new_jobs:
                text = stored.get(PREFIX + job.name, "")
                entry = _Entry(job, _parse_state(text, job.name, now), saved=text)
                entry.saved_failed = entry.state.failures_in_a_row > 0
                self._entries[job.name] = entry
                self._plan_next(entry)
            self._last_now_ms = self._last_now_ms or now
        return self._entries

    def _find_others(self) -> bool:
        with self._lock:
            more, self._others = tuple(self._others()), tuple
            self._unknown_jobs = (*self._unknown_jobs, *more)
            return bool(more)

    def _find_entry(self, name: str) -> _Entry:
        with self._lock:
            if name not in (entries := self._load_entries()) and self._find_others():
                self._load_entries()
        if name not in entries:
            raise InvalidQuery(f"no job is called {name!r}", f"Jobs: {', '.join(entries)}.")
        return entries[name]

    def _set_paused(self, name: str, paused: bool) -> None:
        entry = self._find_entry(name)
        with self._lock:
            entry.state.paused = paused
        self._save_state(entry, force=True)
        self._wake.set()

    def _save_state(self, entry: _Entry, force: bool, comes_often: bool = False) -> None:
        """Jobs that come round often, or are hastened, are stored seldom; raises only if forced."""
        with self._saving:
            with self._lock:
                text = json.dumps({f.name: getattr(entry.state, f.name) for f in fields(_State)})
                failed = entry.state.failures_in_a_row > 0
            often = comes_often or isinstance(entry.job.schedule, Every)
            rested = self._clock.monotonic() - entry.saved_at >= _SELDOM
            turned = failed != entry.saved_failed
            if text == entry.saved or (often and not force and not turned and not (rested and entry.worked)):
                return
            try:
                self._outbox.set_position(PREFIX + entry.job.name, text)
            except DiskFull as error:
                log.warning("the state of job %s is not kept: %s", entry.job.name, error.message)
                return
            except Exception:
                if force and not self._stopping.is_set():
                    raise
                log.exception("the state of job %s could not be written", entry.job.name)
                return
            entry.saved, entry.saved_at, entry.saved_failed = text, self._clock.monotonic(), failed
            entry.worked = False


def _parse_state(text: str, name: str, now_ms: int) -> _State:
    if not text:
        return _State(now_ms)
    try:
        loaded: dict[str, Any] = json.loads(text)
        return _State(**{f.name: loaded[f.name] for f in fields(_State) if f.name in loaded})
    except (ValueError, TypeError):
        log.warning("the state of job %s cannot be read; it begins again", name)
        return _State(now_ms)
