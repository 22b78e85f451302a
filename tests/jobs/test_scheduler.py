"""The loop: what is due runs, one at a time and never twice; failures, pauses and restarts."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Daily, Every, Schedule
from memory_mcp.upkeep.jobs.scheduler import PREFIX, JobStatus, Scheduler
from tests.examples import examples
from tests.fakes import NOON, FakeClock
from tests.waiting import PATIENCE, together, until

BERLIN = Calendar("Europe/Berlin")
#: NOON is 13:00 in Berlin.
HOUR = 3600


class Noted:
    """A real job that writes down when it ran; told to, it fails or waits."""

    help = "write down the time"

    def __init__(self, name: str, schedule: Schedule, clock: Clock) -> None:
        self.name = name
        self.schedule = schedule
        self._clock = clock
        self.ran: list[int] = []
        self.fails: Exception | None = None
        self.idle = False
        self.during: Callable[[Callable[[], bool]], None] = lambda should_stop: None

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:
        self.ran.append(now_ms)
        self.during(should_stop)
        if self.fails:
            raise self.fails
        return JobReport(f"run {len(self.ran)}", {"runs": 0 if self.idle else len(self.ran)})


@pytest.fixture
def often(clock: FakeClock) -> Noted:
    return Noted("often", Every(1), clock)


@pytest.fixture
def hourly(clock: FakeClock) -> Noted:
    return Noted("hourly", Every(HOUR), clock)


@pytest.fixture
def nightly(clock: FakeClock) -> Noted:
    return Noted("nightly", Daily(3, 0), clock)


@pytest.fixture
def scheduler(often: Noted, hourly: Noted, nightly: Noted, storage: Storage, clock: FakeClock) -> Iterator[Scheduler]:
    made = Scheduler([often, hourly, nightly], storage.outbox, BERLIN, clock)
    yield made
    made.stop()


def steps(scheduler: Scheduler) -> int:
    """Run everything that is due."""
    done = 0
    while scheduler.step():
        done += 1
        assert done < 20
    return done


def held_until_stopped(job: Noted) -> threading.Event:
    """Let a job run until it should stop; the event is set once it runs."""
    inside = threading.Event()

    def during(should_stop: Callable[[], bool]) -> None:
        inside.set()
        until(should_stop)

    job.during = during
    return inside


def status(scheduler: Scheduler, name: str) -> JobStatus:
    return next(s for s in scheduler.statuses() if s.name == name)


# what is due


def test_jobs_of_an_interval_begin_at_once_and_a_daily_one_at_its_time(
    scheduler: Scheduler, often: Noted, hourly: Noted, nightly: Noted, clock: FakeClock
) -> None:
    assert steps(scheduler) == 2
    assert (often.ran, hourly.ran, nightly.ran) == ([NOON], [NOON], [])
    assert status(scheduler, "nightly").next_run == NOON + 14 * HOUR * 1000
    clock.advance(1)
    assert steps(scheduler) == 1
    clock.advance(HOUR)
    assert steps(scheduler) == 2
    clock.advance(13 * HOUR - 1)
    assert steps(scheduler) == 3
    assert (len(often.ran), len(hourly.ran), nightly.ran) == (4, 3, [NOON + 14 * HOUR * 1000])


def test_after_a_long_sleep_each_job_runs_once_and_what_has_waited_longest_first(
    scheduler: Scheduler, often: Noted, hourly: Noted, nightly: Noted, clock: FakeClock
) -> None:
    steps(scheduler)
    # A machine that sleeps stops its monotonic clock.
    clock.shift(5 * 24 * HOUR)
    assert steps(scheduler) == 3
    assert (len(often.ran), len(hourly.ran), len(nightly.ran)) == (2, 2, 1)
    order: list[str] = []
    often.during = lambda _: order.append("often")
    hourly.during = lambda _: order.append("hourly")
    clock.advance(2 * HOUR)
    steps(scheduler)
    assert order == ["often", "hourly"]


@pytest.mark.parametrize("back", [5, HOUR, 40 * 24 * HOUR])
def test_a_wall_clock_put_back_neither_repeats_nor_stalls_a_job(
    scheduler: Scheduler, often: Noted, hourly: Noted, clock: FakeClock, back: int
) -> None:
    steps(scheduler)
    clock.shift(-back)
    assert steps(scheduler) == 0
    clock.advance(1)
    assert steps(scheduler) == 1
    clock.advance(HOUR - 2)
    assert steps(scheduler) == 1
    clock.advance(1)
    steps(scheduler)
    assert (len(often.ran), len(hourly.ran)) == (4, 2)


def test_a_wall_clock_put_back_again_and_again_does_not_put_a_job_off(
    scheduler: Scheduler, hourly: Noted, clock: FakeClock
) -> None:
    steps(scheduler)
    for _ in range(HOUR // 60):
        clock.advance(60)
        clock.shift(-90)
        steps(scheduler)
    assert len(hourly.ran) == 2


def test_a_daily_job_that_ran_under_a_clock_a_year_ahead_runs_again_soon(
    scheduler: Scheduler, nightly: Noted, clock: FakeClock
) -> None:
    steps(scheduler)
    clock.shift(365 * 24 * HOUR)
    steps(scheduler)
    assert len(nightly.ran) == 1
    clock.shift(-365 * 24 * HOUR)
    steps(scheduler)
    assert len(nightly.ran) == 1
    clock.advance(14 * HOUR)
    steps(scheduler)
    assert len(nightly.ran) == 2


def test_overdue_and_running_jobs_are_reasons_to_stay(scheduler: Scheduler, often: Noted, clock: FakeClock) -> None:
    assert (scheduler.due_soon(), scheduler.busy) == (True, False)
    steps(scheduler)
    assert not scheduler.due_soon()
    seen: list[tuple[bool, bool, bool]] = []
    often.during = lambda _: seen.append((scheduler.due_soon(), scheduler.busy, status(scheduler, "often").running))
    clock.advance(1)
    steps(scheduler)
    assert seen == [(True, True, True)]
    assert (scheduler.due_soon(), scheduler.busy) == (False, False)


# asking for runs


def test_run_now_gives_the_report_also_of_a_paused_job(scheduler: Scheduler, hourly: Noted, clock: FakeClock) -> None:
    scheduler.pause("hourly")
    clock.advance(10)
    assert scheduler.run_now("hourly") == JobReport("run 1", {"runs": 1})
    found = status(scheduler, "hourly")
    assert (found.paused, found.next_run, found.runs, found.last_result) == (True, None, 1, "ok: run 1")
    assert found.last_started == NOON + 10_000


def test_a_run_that_was_asked_for_takes_the_place_of_the_next(scheduler: Scheduler, hourly: Noted, clock: FakeClock) -> None:
    steps(scheduler)
    clock.advance(HOUR - 60)
    scheduler.run_now("hourly")
    clock.advance(60)
    steps(scheduler)
    assert len(hourly.ran) == 2


# pausing


def test_a_paused_job_rests_and_runs_once_when_it_is_resumed(scheduler: Scheduler, hourly: Noted, clock: FakeClock) -> None:
    steps(scheduler)
    scheduler.pause("hourly")
    clock.advance(7 * HOUR)
    steps(scheduler)
    assert (len(hourly.ran), scheduler.due_soon(), status(scheduler, "hourly").next_run) == (1, False, None)
    scheduler.resume("hourly")
    assert steps(scheduler) == 1
    assert steps(scheduler) == 0
    assert len(hourly.ran) == 2


# failing


def test_a_failing_job_is_tried_again_each_time_later_and_the_others_go_on(
    scheduler: Scheduler, hourly: Noted, often: Noted, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    hourly.fails = ValueError("no such table")
    with caplog.at_level(logging.WARNING):
        for _ in range(300):
            steps(scheduler)
            clock.advance(1)
    tries = [(ran - NOON) // 1000 for ran in hourly.ran]
    assert tries == [0, 30, 90, 210]
    assert len(often.ran) == 300
    found = status(scheduler, "hourly")
    assert (found.last_result, found.failures, found.runs) == ("no such table", 4, 4)
    told = [r for r in caplog.records if "hourly" in r.getMessage()]
    assert [bool(r.exc_info) for r in told] == [True, False, False, False]
    hourly.fails = None
    clock.advance(240)
    steps(scheduler)
    assert status(scheduler, "hourly").last_result == "ok: run 5"
    assert status(scheduler, "hourly").next_run == hourly.ran[-1] + HOUR * 1000


def test_run_now_raises_what_the_job_raises_and_keeps_it_or_its_name_where_it_says_nothing(
    scheduler: Scheduler, hourly: Noted
) -> None:
    hourly.fails = KeyError()
    steps(scheduler)
    assert status(scheduler, "hourly").last_result == "KeyError"
    hourly.fails = OSError("the disk is full")
    with pytest.raises(OSError, match="the disk is full"):
        scheduler.run_now("hourly")
    found = status(scheduler, "hourly")
    assert (found.last_result, found.runs, found.failures, found.running) == ("the disk is full", 2, 2, False)


# across restarts


def again(storage: Storage, clock: FakeClock, *jobs: Noted) -> Scheduler:
    return Scheduler(jobs, storage.outbox, BERLIN, clock)


def test_state_survives_a_restart(
    scheduler: Scheduler, storage: Storage, clock: FakeClock, often: Noted, hourly: Noted, nightly: Noted
) -> None:
    hourly.fails = ValueError("no such table")
    steps(scheduler)
    scheduler.pause("nightly")
    scheduler.stop()
    before = scheduler.statuses()
    after = again(storage, clock, often, hourly, nightly)
    assert after.statuses() == before
    assert [(s.paused, s.runs, s.failures, s.last_result) for s in before] == [
        (False, 1, 0, "ok: run 1"),
        (False, 1, 1, "no such table"),
        (True, 0, 0, ""),
    ]


def test_nothing_is_repeated_by_a_restart_and_what_fell_due_while_nothing_ran_is_caught_up_with_once(
    scheduler: Scheduler, storage: Storage, clock: FakeClock, hourly: Noted, nightly: Noted
) -> None:
    steps(scheduler)
    scheduler.stop()
    clock.advance(HOUR - 1)
    assert steps(again(storage, clock, hourly)) == 0
    clock.advance(3 * 24 * HOUR)
    after = again(storage, clock, hourly, nightly)
    assert steps(after) == 2
    assert (len(hourly.ran), len(nightly.ran)) == (2, 1)


def test_a_daily_job_falls_due_also_where_no_process_lives_till_its_hour(
    storage: Storage, clock: FakeClock, nightly: Noted
) -> None:
    first = again(storage, clock, nightly)
    first.start()
    # Killed: nothing more is written down than the start did.
    until(lambda: PREFIX + "nightly" in storage.outbox.get_positions(PREFIX))
    clock.advance(9 * HOUR)
    assert steps(again(storage, clock, nightly)) == 0
    clock.advance(9 * HOUR)
    assert steps(again(storage, clock, nightly)) == 1
    first.stop()


def test_a_restart_under_a_clock_put_back_stalls_nothing(
    scheduler: Scheduler, storage: Storage, clock: FakeClock, hourly: Noted
) -> None:
    clock.shift(365 * 24 * HOUR)
    steps(scheduler)
    scheduler.stop()
    clock.shift(-365 * 24 * HOUR)
    after = again(storage, clock, hourly)
    assert steps(after) == 0
    clock.advance(HOUR)
    assert steps(after) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"paused": 1, "of a later version": true}', "7"])
def test_a_state_that_cannot_be_read_begins_anew(storage: Storage, clock: FakeClock, hourly: Noted, text: str) -> None:
    storage.outbox.set_position(PREFIX + "hourly", text)
    made = again(storage, clock, hourly)
    assert steps(made) == 1
    made.stop()
    assert json.loads(storage.outbox.get_positions(PREFIX)[PREFIX + "hourly"])["runs"] == 1


def test_a_job_of_every_second_is_seldom_written_down_but_its_fate_at_once(
    scheduler: Scheduler, storage: Storage, clock: FakeClock, often: Noted
) -> None:
    def kept() -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(storage.outbox.get_positions(PREFIX)[PREFIX + "often"])
        return loaded

    steps(scheduler)
    for _ in range(100):
        clock.advance(1)
        steps(scheduler)
    assert kept()["runs"] == 1
    often.fails = ValueError("x")
    clock.advance(1)
    steps(scheduler)
    assert (kept()["runs"], kept()["last_result"]) == (102, "x")
    often.fails = None
    clock.advance(1)
    steps(scheduler)
    assert kept()["last_result"] == "ok: run 103"
    clock.advance(3601)
    steps(scheduler)
    assert kept()["runs"] == 104
    often.idle = True
    for _ in range(3):
        clock.advance(3601)
        steps(scheduler)
    assert kept()["runs"] == 104
    clock.advance(1)
    steps(scheduler)
    scheduler.stop()
    assert kept()["runs"] == 108


def test_a_hastened_job_runs_at_once_and_again_when_it_is_hastened_while_it_runs(
    scheduler: Scheduler, clock: FakeClock, hourly: Noted
) -> None:
    steps(scheduler)
    assert len(hourly.ran) == 1
    scheduler.hasten("hourly")
    hourly.during = lambda _: scheduler.hasten("hourly") if len(hourly.ran) == 2 else None
    steps(scheduler)
    assert len(hourly.ran) == 3
    scheduler.pause("hourly")
    scheduler.hasten("hourly")
    steps(scheduler)
    assert len(hourly.ran) == 3
    clock.advance(1)


def test_a_job_may_be_hastened_by_itself_to_run_again_after_some_seconds(
    scheduler: Scheduler, clock: FakeClock, hourly: Noted
) -> None:
    hourly.during = lambda _: scheduler.hasten("hourly", 5) if len(hourly.ran) < 3 else None
    for ran in (1, 2):
        steps(scheduler)
        assert len(hourly.ran) == ran
        clock.advance(4)
        steps(scheduler)
        assert len(hourly.ran) == ran
        clock.advance(1)
    steps(scheduler)
    assert len(hourly.ran) == 3
    # From then on it has its own time; to be hastened to a later one than that changes nothing.
    scheduler.hasten("hourly", 7200)
    clock.advance(3599)
    steps(scheduler)
    assert len(hourly.ran) == 3
    clock.advance(1)
    steps(scheduler)
    assert len(hourly.ran) == 4


# the thread


@pytest.fixture
def live(storage: Storage) -> Iterator[tuple[Scheduler, Noted]]:
    clock = SystemClock()
    job = Noted("often", Every(0.01), clock)
    made = Scheduler([job], storage.outbox, BERLIN, clock)
    yield made, job
    made.stop()


def test_the_loop_runs_what_is_due_until_it_is_stopped(live: tuple[Scheduler, Noted]) -> None:
    scheduler, job = live
    scheduler.start()
    scheduler.start()
    until(lambda: len(job.ran) >= 5)
    assert scheduler.stop()
    count = len(job.ran)
    scheduler.start()
    assert not any(t.name == "scheduler" for t in threading.enumerate())
    assert len(job.ran) == count


def test_the_loop_outlives_every_failure(live: tuple[Scheduler, Noted]) -> None:
    scheduler, job = live
    job.fails = RuntimeError("on purpose")
    scheduler.start()
    until(lambda: len(job.ran) >= 3)
    job.fails = None
    until(lambda: status(scheduler, "often").last_result.startswith("ok"))


def test_stopping_waits_for_the_running_job_and_tells_it_to_end(live: tuple[Scheduler, Noted]) -> None:
    scheduler, job = live
    inside = held_until_stopped(job)
    scheduler.start()
    assert inside.wait(PATIENCE)
    assert scheduler.stop(PATIENCE)
    assert len(job.ran) == 1
    assert not scheduler.busy


def test_stopping_waits_no_longer_than_it_may(live: tuple[Scheduler, Noted]) -> None:
    scheduler, job = live
    inside, go = threading.Event(), threading.Event()

    def during(_: Callable[[], bool]) -> None:
        inside.set()
        go.wait(PATIENCE)

    job.during = during
    scheduler.start()
    assert inside.wait(PATIENCE)
    assert not scheduler.stop(0.05)
    assert scheduler.busy, "it returned while the job was still at work"
    go.set()
    until(lambda: not scheduler.busy)


def test_what_the_end_of_the_process_cut_short_is_due_at_the_next_start(
    storage: Storage, clock: FakeClock, hourly: Noted
) -> None:
    first = again(storage, clock, hourly)
    inside = held_until_stopped(hourly)
    first.start()
    assert inside.wait(PATIENCE)
    assert first.stop(PATIENCE)
    hourly.during = lambda _: None
    assert steps(again(storage, clock, hourly)) == 1


def test_run_now_waits_for_the_job_that_runs(live: tuple[Scheduler, Noted], storage: Storage) -> None:
    scheduler, job = live
    inside, go = threading.Event(), threading.Event()
    depth: list[int] = []
    running = 0

    def during(_: Callable[[], bool]) -> None:
        nonlocal running
        running += 1
        depth.append(running)
        inside.set()
        go.wait(PATIENCE)
        running -= 1

    job.during = during
    scheduler.start()
    assert inside.wait(PATIENCE)
    answers: list[JobReport] = []
    asking = threading.Thread(target=lambda: answers.append(scheduler.run_now("often")))
    asking.start()
    assert answers == []
    go.set()
    asking.join(PATIENCE)
    assert [len(answers), max(depth)] == [1, 1]


class Waits(Noted):
    """A job that waits for something outside."""

    waits = True


def test_a_job_that_waits_runs_beside_the_others_and_not_twice_at_once(storage: Storage, clock: FakeClock) -> None:
    waiting, hourly, go = Waits("waiting", Every(HOUR), clock), Noted("hourly", Every(HOUR), clock), threading.Event()
    waiting.during = lambda should_stop: until(lambda: go.is_set() or should_stop())
    scheduler = Scheduler([waiting, hourly], storage.outbox, BERLIN, clock)
    assert steps(scheduler) == 2
    until(lambda: waiting.ran)
    assert (len(hourly.ran), status(scheduler, "waiting").running, scheduler.busy) == (1, True, True)
    assert scheduler.run_now("hourly").words == "run 2"
    clock.advance(HOUR)
    assert steps(scheduler) == 1
    assert len(waiting.ran) == 1
    go.set()
    until(lambda: not scheduler.busy)
    assert status(scheduler, "waiting").last_result == "ok: run 1"
    clock.advance(HOUR)
    assert steps(scheduler) == 2
    until(lambda: len(waiting.ran) == 2 and not scheduler.busy)
    scheduler.stop()


def test_stopping_waits_for_the_job_that_waits_too(storage: Storage, clock: FakeClock) -> None:
    waiting = Waits("waiting", Every(HOUR), clock)
    waiting.during = until
    scheduler = Scheduler([waiting], storage.outbox, BERLIN, clock)
    scheduler.step()
    until(lambda: waiting.ran)
    assert scheduler.stop(PATIENCE)
    assert not scheduler.busy


def test_never_two_jobs_at_once_whoever_asks(storage: Storage) -> None:
    clock = SystemClock()
    jobs = [Noted(f"job{i}", Every(0.001), clock) for i in range(3)]
    inside, most, lock = 0, 0, threading.Lock()

    def during(_: Callable[[], bool]) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.001)
        with lock:
            inside -= 1

    for job in jobs:
        job.during = during
    scheduler = Scheduler(jobs, storage.outbox, BERLIN, clock)
    scheduler.start()

    def ask(name: str) -> None:
        for _ in range(20):
            scheduler.run_now(name)

    together(*[partial(ask, job.name) for job in jobs for _ in range(2)])
    until(lambda: all(len(job.ran) > 41 for job in jobs))
    assert scheduler.stop()
    assert most == 1
    assert all(s.runs == len(j.ran) for s, j in zip(scheduler.statuses(), jobs, strict=True))


# any life


class Lives(RuleBasedStateMachine):
    """Time, sleep, clocks put right, pauses, failures and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.storage = open_storage(None, "Europe/Berlin", self.clock)
        self.jobs = {n: Noted(n, s, self.clock) for n, s in (("a", Every(10)), ("b", Every(HOUR)), ("c", Daily(3, 0)))}
        self.inside = 0
        self.paused: set[str] = set()
        for job in self.jobs.values():
            job.during = lambda _: self.enter()
        self.made()

    def made(self) -> None:
        self.scheduler = Scheduler(self.jobs.values(), self.storage.outbox, BERLIN, self.clock)

    def enter(self) -> None:
        assert self.inside == 0
        self.inside += 1
        assert self.scheduler.busy
        self.inside -= 1

    @rule(seconds=st.sampled_from([1, 9, 11, 59, HOUR, 26 * HOUR]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-40 * 24 * HOUR, -HOUR, -3, 5, 9 * HOUR]))
    def the_wall_clock_is_put_right(self, seconds: int) -> None:
        self.clock.shift(seconds)

    @rule(name=st.sampled_from("abc"))
    def paused_or_resumed(self, name: str) -> None:
        (self.scheduler.resume if name in self.paused else self.scheduler.pause)(name)
        self.paused ^= {name}

    @rule(name=st.sampled_from("abc"))
    def fails_or_recovers(self, name: str) -> None:
        self.jobs[name].fails = None if self.jobs[name].fails else ValueError("on purpose")

    @rule()
    def restarted(self) -> None:
        self.scheduler.stop()
        self.made()

    @rule(name=st.sampled_from("abc"))
    def asked_for(self, name: str) -> None:
        with contextlib.suppress(ValueError):
            self.scheduler.run_now(name)

    @rule()
    def looked_after(self) -> None:
        before = {n: len(j.ran) for n, j in self.jobs.items()}
        steps(self.scheduler)
        ran = {n: len(j.ran) - before[n] for n, j in self.jobs.items()}
        assert all(count <= 1 for count in ran.values())
        assert not any(ran[n] for n in self.paused)
        assert not self.scheduler.due_soon()

    @rule()
    def an_hour_later_everything_of_an_hour_has_run(self) -> None:
        self.clock.advance(HOUR + 1)
        before = {n: len(j.ran) for n, j in self.jobs.items()}
        steps(self.scheduler)
        for name in {"a", "b"} - self.paused:
            assert len(self.jobs[name].ran) == before[name] + 1

    @invariant()
    def the_state_is_what_was_done(self) -> None:
        found = {s.name: s for s in self.scheduler.statuses()}
        assert {n for n, s in found.items() if s.paused} == self.paused
        assert {n: s.runs for n, s in found.items()} == {n: len(j.ran) for n, j in self.jobs.items()}

    def teardown(self) -> None:
        self.scheduler.stop()
        self.storage.close()


def test_in_every_life_each_due_job_runs_once_and_alone() -> None:
    run_state_machine_as_test(Lives, settings=settings(examples(15), stateful_step_count=25))


def test_a_daily_job_that_is_hastened_and_finds_nothing_to_do_writes_nothing(
    scheduler: Scheduler, nightly: Noted, storage: Storage
) -> None:
    nightly.idle = True
    scheduler.pause("nightly")
    scheduler.resume("nightly")
    state = storage.outbox.get_positions(PREFIX + "nightly")
    for _ in range(3):
        scheduler.hasten("nightly")
        steps(scheduler)
    assert len(nightly.ran) == 3
    assert storage.outbox.get_positions(PREFIX + "nightly") == state
    scheduler.stop()
    assert storage.outbox.get_positions(PREFIX + "nightly") != state
