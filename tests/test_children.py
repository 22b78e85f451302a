"""What child processes and bulk work share."""

import array
import fcntl
import gc
import os
import pickle
import signal
import subprocess
import sys
import termios
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, cast

import duckdb
import pytest

from memory_mcp.base import children, machine
from memory_mcp.base.children import Packed, feed, few_collections, receive, send
from memory_mcp.model.calendar import Calendar
from tests.waiting import PATIENCE, until


def test_garbage_is_collected_as_before_when_the_last_of_several_threads_has_ended_its_bulk_work() -> None:
    before = gc.get_threshold()
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with few_collections():
            inside.set()
            leave.wait(PATIENCE)

    with few_collections():
        assert gc.get_threshold() > before
        thread = threading.Thread(target=work)
        thread.start()
        inside.wait(PATIENCE)
    # This one has left, the other has not.
    assert gc.get_threshold() > before
    leave.set()
    thread.join(PATIENCE)
    assert gc.get_threshold() == before


BUSY = """
import sys
from memory_mcp.base.children import Child
child = Child("memory_mcp.storage.duckdb.damaged_reader", sys.argv[1])
child.begun.result()
child.submit("SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b")
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("processes")
def test_a_child_ends_with_who_started_it_in_the_midst_of_work_without_an_end(tmp_path: Path) -> None:
    file = tmp_path / "some.duckdb"
    duckdb.connect(file).close()
    command = [sys.executable, "-c", BUSY, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert machine.lives(pid)
        starter.kill()
    until(lambda: not machine.lives(pid))


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not os.access("/proc/self/autogroup", os.W_OK), reason="processors are not shared among sessions")
def test_a_child_stands_back_for_every_session_and_lowers_no_other(tmp_path: Path) -> None:
    file = tmp_path / "some.duckdb"
    duckdb.connect(file).close()
    own_session = Path("/proc/self/autogroup").read_text(encoding="ascii")
    with children.Child("memory_mcp.storage.duckdb.damaged_reader", str(file)) as child:
        session = Path(f"/proc/{child.pid}/autogroup")
        until(lambda: session.read_text(encoding="ascii").endswith(" nice 10\n"), session)
    assert Path("/proc/self/autogroup").read_text(encoding="ascii") == own_session


@pytest.mark.usefixtures("processes")
def test_an_answer_is_whole_where_output_is_unbuffered_and_a_signal_comes_in_the_middle() -> None:
    """Containers set PYTHONUNBUFFERED; a write that a signal ends has written a part."""
    code = "from memory_mcp.base.children import answering; answering(lambda hello: lambda size: bytes(size))"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        requests, answers = child.stdin, child.stdout
        assert requests is not None
        assert answers is not None
        send(requests, "hello")
        assert receive(answers) == "ready"
        send(requests, 300_000)
        until(lambda: waiting_in(answers) >= 1 << 15)
        for one in (signal.SIGSTOP, signal.SIGCONT):
            child.send_signal(one)
        got: list[object] = []
        reader = threading.Thread(target=lambda: got.append(receive(answers)), daemon=True)
        reader.start()
        reader.join(PATIENCE)
        if not got:
            child.kill()
        assert [len(one) for one in got if isinstance(one, bytes)] == [300_000]


@pytest.fixture
def child(processes: None) -> Iterator[children.Child]:
    """A child that has begun its work and stands still."""
    made = children.Child("memory_mcp.tree.derive.workers", (Calendar("UTC"), None))
    made.begun.result(PATIENCE)
    os.kill(made.pid, signal.SIGSTOP)
    yield made
    made.kill()


def test_a_child_that_stands_still_while_it_is_written_to_is_ended(
    child: children.Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_than_a_pipe_holds = bytes(1 << 20)
    asked: list[BaseException] = []
    pipes: list[IO[bytes]] = []

    def sent(pipe: IO[bytes], value: object) -> None:
        pipes.append(pipe)
        send(pipe, value)

    monkeypatch.setattr(children, "send", sent)

    def ask() -> None:
        try:
            child.ask(more_than_a_pipe_holds)
        except (OSError, EOFError, ValueError) as error:
            asked.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    until(lambda: pipes and waiting_in(pipes[0]) >= 1 << 15)
    ending = threading.Thread(target=child.end, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    assert child._process.poll() == -signal.SIGKILL
    asking.join(PATIENCE)
    assert asked


def test_all_that_run_are_killed_when_there_is_no_time_to_end_them(child: children.Child) -> None:
    children.kill_all()
    until(lambda: child._process.poll() is not None)
    assert child._process.poll() == -signal.SIGKILL


@pytest.mark.usefixtures("processes")
def test_a_child_that_has_ended_is_kept_by_nobody() -> None:
    made = children.Child("memory_mcp.tree.derive.workers", (Calendar("UTC"), None))
    known = weakref.ref(made)
    made.end(at_once=True)
    del made
    gc.collect()
    assert known() is None


class Noting:
    """A child that notes what it is given, and answers when it is let."""

    def __init__(self, pool: ThreadPoolExecutor, may_answer: threading.Event) -> None:
        self._pool, self._may_answer = pool, may_answer
        self.given: list[int] = []

    def submit(self, request: Packed) -> "Future[int]":
        number: int = pickle.loads(request)
        self.given.append(number)
        return self._pool.submit(lambda: self._may_answer.wait(PATIENCE) and number)


def noting(*may_answer: threading.Event) -> list[children.Child]:
    return [cast("children.Child", Noting(ThreadPoolExecutor(1), one)) for one in may_answer]


def given(child: children.Child) -> list[int]:
    return cast("Noting", child).given


@pytest.mark.usefixtures("processes")
def test_requests_go_to_whichever_child_has_room_and_a_few_at_most_to_one_that_does_not_answer() -> None:
    at_once, later = threading.Event(), threading.Event()
    at_once.set()
    quick, slow = noting(at_once, later)
    answers = (answer for _, answer in feed([[quick, slow]], range(1, 101)))
    got = [next(answers) for _ in range(80)]
    assert len(given(slow)) <= children._AHEAD
    later.set()
    assert sorted([*got, *answers]) == list(range(1, 101))
    assert sorted(given(quick) + given(slow)) == list(range(1, 101))


@pytest.mark.usefixtures("processes")
def test_one_child_of_each_group_gets_every_request_in_order() -> None:
    at_once = threading.Event()
    at_once.set()
    one, other = noting(at_once, at_once)
    assert sorted(feed([[one], [other]], range(1, 41))) == [(index, number) for index in (0, 1) for number in range(1, 41)]
    assert given(one) == given(other) == list(range(1, 41))


def test_what_a_child_raises_ends_the_feeding_and_one_that_has_gone_takes_nothing_more(child: children.Child) -> None:
    child.kill()
    with pytest.raises(EOFError):
        list(feed([[child]], range(1000)))
    with pytest.raises(EOFError):
        child.ask(1)


def waiting_in(pipe: IO[bytes]) -> int:
    """Bytes that a pipe holds."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]
