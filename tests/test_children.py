"""What child processes and bulk work share."""

import array
import fcntl
import gc
import os
import signal
import subprocess
import sys
import termios
import threading
import weakref
from collections.abc import Iterator
from typing import IO

import pytest

from memory_mcp import children
from memory_mcp.children import few_collections, receive, send
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


def test_only_a_child_ends_with_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    children.end_without_parent()
    monkeypatch.setattr(children, "_parent", 2)
    with pytest.raises(EOFError):
        children.end_without_parent()


def test_an_answer_is_whole_where_output_is_unbuffered_and_a_signal_comes_in_the_middle() -> None:
    """Containers set PYTHONUNBUFFERED; a write that a signal ends has written a part."""
    code = "from memory_mcp.children import answering; answering(lambda hello: lambda size: bytes(size))"
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
def child() -> Iterator[children.Child]:
    """A child that has begun its work and stands still."""
    made = children.Child("memory_mcp.derive.child", (Calendar("UTC"), None))
    made.begin()
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
            with child.turn:
                child.ask(more_than_a_pipe_holds)
        except (OSError, EOFError, ValueError) as error:
            asked.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    until(lambda: pipes and waiting_in(pipes[0]) >= 1 << 15)
    ending = threading.Thread(target=child.end, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    assert child.returncode == -signal.SIGKILL
    asking.join(PATIENCE)
    assert asked


def test_all_that_run_are_killed_when_there_is_no_time_to_end_them(child: children.Child) -> None:
    children.kill_all()
    until(lambda: child.returncode is not None)
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_has_ended_is_kept_by_nobody() -> None:
    made = children.Child("memory_mcp.derive.child", (Calendar("UTC"), None))
    known = weakref.ref(made)
    made.end(at_once=True)
    del made
    gc.collect()
    assert known() is None


def waiting_in(pipe: IO[bytes]) -> int:
    """Bytes that a pipe holds."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]
