"""Opening in the background, and calls that are given up."""

import threading
import time

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.errors import DeadlineExceeded, StorageLocked
from memory_mcp.server.host import Host

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
    assert tried.wait(5)
    assert host.opened is None


def run_endless(app: App, ended: threading.Event, seen: list[Exception]) -> None:
    try:
        app.storage._con.rows(ENDLESS)  # type: ignore[attr-defined]
    except Exception as error:
        seen.append(error)
        raise
    finally:
        ended.set()


def test_a_cancelled_read_returns_at_once_and_its_query_stops(host: Host) -> None:
    """The processor is free again within a tenth of a second, or a little more on a busy machine."""
    ended, seen = threading.Event(), list[Exception]()

    async def main() -> float:
        with anyio.move_on_after(0.2):
            await host.read(lambda app: run_endless(app, ended, seen))
        return time.monotonic()

    given_up = anyio.run(main)
    assert ended.wait(2)
    assert time.monotonic() - given_up < 1
    assert isinstance(seen[0], DeadlineExceeded)


def test_a_cancelled_read_does_not_disturb_another(host: Host) -> None:
    """The abandoned one is stopped while the other goes on, and only its own queries are."""
    ended, seen = threading.Event(), list[Exception]()
    answers: list[int] = []
    stopped_first: list[bool] = []

    def steady(app: App) -> None:
        for _ in range(40):
            answers.append(app.storage.events.last_seq())
            app.storage.stats()
            time.sleep(0.02)
        stopped_first.append(ended.is_set())

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.read, steady)
            with anyio.move_on_after(0.1):
                await host.read(lambda app: run_endless(app, ended, seen))

    anyio.run(main)
    assert len(answers) == 40
    assert stopped_first == [True]
    assert isinstance(seen[0], DeadlineExceeded)


def test_a_write_that_has_begun_is_finished(host: Host) -> None:
    done = threading.Event()

    def work(app: App) -> None:
        del app
        time.sleep(0.3)
        done.set()

    async def main() -> None:
        with anyio.move_on_after(0.05):
            await host.write(work)

    anyio.run(main)
    assert done.is_set()
