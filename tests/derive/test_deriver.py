"""When a server derives: after a silence, at the latest after a while, or at once when somebody waits for it."""

import threading

import pytest

from memory_mcp.tree.derive.deriver import NotifiedWorker, Patience, PendingNotices
from tests.waiting import PATIENCE, until

#: Nobody waits so long here.
NEVER = Patience(3600, 3600)


def test_what_comes_together_is_due_after_a_silence_and_what_goes_on_coming_after_a_while() -> None:
    waiting = PendingNotices(Patience(2, 10))
    assert waiting.due is None
    waiting.add_notice(100)
    assert waiting.due == 102
    waiting.add_notice(101.5)
    assert waiting.due == 103.5
    for now in range(103, 112):
        waiting.add_notice(now)
    assert waiting.due == 110


@pytest.fixture
def runs() -> list[int]:
    return []


def deriver(runs: list[int], patience: Patience, again: float | None = None) -> NotifiedWorker:
    return NotifiedWorker(lambda: runs.append(1) or again, 0.0, patience=patience)  # type: ignore[func-returns-value]


def test_many_notices_are_one_run_and_wake_nobody_before_it(runs: list[int]) -> None:
    made = deriver(runs, NEVER)
    made.start()
    until(lambda: runs and not made.busy)
    for _ in range(100):
        made.notify()
    assert made.busy
    made.hurry()
    until(lambda: not made.busy)
    assert len(runs) == 2
    made.stop()


def test_without_patience_a_notice_is_a_run(runs: list[int]) -> None:
    made = deriver(runs, Patience())
    made.start()
    until(lambda: runs and not made.busy)
    made.notify()
    until(lambda: len(runs) == 2)
    made.stop()


def test_it_runs_again_by_itself_after_as_long_as_it_answers(runs: list[int]) -> None:
    made = deriver(runs, NEVER, again=0.01)
    made.start()
    until(lambda: len(runs) > 3)
    made.stop()


def test_a_failure_is_kept_and_the_next_notice_tries_again() -> None:
    failing = threading.Event()
    failing.set()

    def work() -> None:
        if failing.is_set():
            raise ValueError("no")

    made = NotifiedWorker(work, 0.0)
    made.start()
    until(lambda: made.last_error == "no")
    failing.clear()
    made.notify()
    until(lambda: not made.last_error)
    made.stop()


def test_it_ends_while_it_sleeps(runs: list[int]) -> None:
    made = deriver(runs, NEVER)
    made.start()
    until(lambda: runs and not made.busy)
    made.notify()
    ended = threading.Thread(target=made.stop)
    ended.start()
    ended.join(PATIENCE)
    assert not ended.is_alive()
    assert len(runs) == 1
