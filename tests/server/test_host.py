"""Opening in the background, and calls that are given up."""

import threading

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import DeadlineExceeded, StorageLocked
from memory_mcp.config import Settings
from memory_mcp.server import host as host_module
from memory_mcp.server.host import Host
from tests.toc.helpers import one
from tests.waiting import PATIENCE, until

#: Joins this many rows with themselves: minutes of work, unless it is interrupted.
ENDLESS = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture
def host(app: App) -> Host:
    return Host.of(app)


def test_opening_is_tried_again_by_the_next_call(app: App) -> None:
    outcomes: list[Exception] = [StorageLocked("held"), StorageLocked("held")]

    def opener() -> App:
        if outcomes:
            raise outcomes.pop()
        return app

    host = Host(Settings(), opener)
    for _ in range(2):
        with pytest.raises(StorageLocked):
            host.app()
    assert host.app() is app


def test_opening_in_the_background_fails_in_silence_and_keeps_the_server_up() -> None:
    tried = threading.Event()

    def opener() -> App:
        tried.set()
        raise StorageLocked("held")

    host = Host(Settings(), opener)
    host.start()
    assert tried.wait(PATIENCE)
    assert host.opened is None


def run_endless(app: App, ended: threading.Event, seen: list[Exception], begun: threading.Event) -> None:
    begun.set()
    try:
        one(app, ENDLESS)
    except Exception as error:
        seen.append(error)
        raise
    finally:
        ended.set()


async def given_up(host: Host, ended: threading.Event, seen: list[Exception]) -> None:
    """An endless read that is cancelled once it has begun."""
    begun = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.read, lambda app: run_endless(app, ended, seen, begun))
        while not begun.is_set():
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


def test_a_cancelled_read_returns_at_once_and_its_query_stops(host: Host) -> None:
    """The query would not end by itself."""
    ended, seen = threading.Event(), list[Exception]()
    anyio.run(given_up, host, ended, seen)
    assert ended.wait(PATIENCE)
    assert isinstance(seen[0], DeadlineExceeded)


def test_a_cancelled_read_does_not_disturb_another(host: Host) -> None:
    """The abandoned one is stopped while the other goes on, and only its own queries are."""
    ended, seen = threading.Event(), list[Exception]()
    answers: list[int] = []

    def steady(app: App) -> None:
        """Read as long as the other does, and a little longer."""

        def read() -> bool:
            answers.append(app.storage.events.last_seq())
            app.storage.get_stats()
            return ended.is_set()

        until(read)
        for _ in range(10):
            read()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.read, steady)
            await given_up(host, ended, seen)

    anyio.run(main)
    assert len(answers) >= 11
    assert isinstance(seen[0], DeadlineExceeded)


def test_a_write_that_has_begun_is_finished(host: Host) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work(app: App) -> None:
        del app
        begun.set()
        assert may_end.wait(PATIENCE)
        done.set()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.write, work)
            while not begun.is_set():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
            may_end.set()

    anyio.run(main)
    assert done.is_set()


def read_until(host: Host, ended: threading.Event) -> threading.Thread:
    """A reading call that runs, in a thread of its own, until `ended` is set."""
    begun = threading.Event()

    def work(_: App) -> None:
        begun.set()
        ended.wait(PATIENCE)

    thread = threading.Thread(target=lambda: anyio.run(host.read, work))
    thread.start()
    assert begun.wait(PATIENCE)
    return thread


def test_background_work_waits_for_the_calls_that_run_and_for_none_that_begins_later(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "_PROTECTED", 2 * PATIENCE)
    first_ended, second_ended, seen = threading.Event(), threading.Event(), list[bool]()
    first = read_until(host, first_ended)
    background = threading.Thread(target=lambda: seen.append(host.give_way()))
    background.start()
    until(lambda: host._ended._waiters)  # type: ignore[attr-defined]
    second = read_until(host, second_ended)
    assert background.is_alive()
    first_ended.set()
    background.join(PATIENCE)
    assert seen == [True]
    assert second.is_alive()
    second_ended.set()
    for thread in (first, second):
        thread.join(PATIENCE)


def test_a_call_does_not_wait_for_itself_and_is_remembered_for_a_while(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_LIKELY", 2 * PATIENCE)
    assert not host.give_way()
    monkeypatch.setattr(host_module, "_PROTECTED", 2 * PATIENCE)
    assert not anyio.run(host.read, lambda _: host.give_way())
    assert host.give_way()
    monkeypatch.setattr(host_module, "_LIKELY", 0.0)
    assert not host.give_way()
