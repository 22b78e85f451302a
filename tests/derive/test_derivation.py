"""One derivation, wherever it is done: the same tree, and callers go first where it is done aside."""

import threading
from collections.abc import Callable, Iterator

import pytest

from memory_mcp.app import App, Callbacks
from memory_mcp.config import Settings
from memory_mcp.derive import derivation as module
from memory_mcp.derive.derivation import Depth, Place
from memory_mcp.model.calendar import TocLevel
from memory_mcp.storage.settings import StorageSettings
from tests.factories import a_small_history, draft
from tests.fakes import FakeClock
from tests.toc.helpers import findings


class Caller:
    """Whoever background work gives way to; tries to publish when it is its turn."""

    def __init__(self) -> None:
        self.turns = 0
        self.app: App | None = None
        #: Events still pending at each turn at which publishing was free.
        self.free: list[int] = []
        self.then: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.turns += 1
        self.then()
        if self.app is not None:
            publisher = threading.Thread(target=self._publish, args=(self.app,))
            publisher.start()
            publisher.join()

    def _publish(self, app: App) -> None:
        if app.derivation.publishing.is_free:
            self.free.append(app.derivation.pending())


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def app(caller: Caller) -> Iterator[App]:
    opened = App(
        Settings(storage=StorageSettings(timezone="Europe/Berlin")),
        FakeClock(),
        in_memory=True,
        callbacks=Callbacks(give_way=caller),
    )
    opened.write(a_small_history(1), "test")
    yield opened
    opened.close()


def nodes(app: App) -> dict[str, tuple[str, str, int]]:
    return {n.node_id: (n.title, n.summary, n.event_count) for n in app.storage.toc.all_nodes()}


@pytest.fixture(scope="module")
def expected() -> dict[str, tuple[str, str, int]]:
    here = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
    here.write(a_small_history(1), "test")
    here.derivation.run()
    found = nodes(here)
    here.close()
    return found


@pytest.mark.parametrize("place", list(Place))
def test_the_tree_is_the_same_wherever_it_is_derived(
    app: App, caller: Caller, place: Place, expected: dict[str, tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 20)
    spent = app.derivation.run(place=place)
    assert nodes(app) == expected
    assert spent.periods == sum(n.level is not TocLevel.SEGMENT for n in app.storage.toc.all_nodes())
    assert (findings(app), app.derivation.pending()) == ([], 0)
    assert bool(caller.turns) == (place is Place.ASIDE)


@pytest.mark.parametrize("place", list(Place))
def test_only_the_levels_asked_for_are_brought_up_to_date(app: App, place: Place) -> None:
    assert app.derivation.run(Depth.PERIODS, place).periods == 0
    assert app.derivation.pending() > 0
    assert app.derivation.run(Depth.SEGMENTS, place).periods == 0
    assert {n.level for n in app.storage.toc.all_nodes()} == {TocLevel.SEGMENT}
    assert app.derivation.run(Depth.PERIODS, place).periods > 0
    assert findings(app) == []


def test_others_can_publish_between_two_steps_of_work_that_is_done_aside(
    app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 20)
    caller.app = app
    everything = app.derivation.pending()
    app.derivation.run(Depth.SEGMENTS, Place.ASIDE)
    assert set(range(everything, 0, -20)) <= set(caller.free)


@pytest.mark.parametrize("place", list(Place))
def test_a_run_ends_while_somebody_goes_on_writing(
    app: App, caller: Caller, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each batch, and each turn that callers get, another event is stored: of those nobody waits for all."""
    monkeypatch.setattr(module, "_STEP", 20)
    most, written = 400, 0
    before = app.storage.events.last_seq()

    def write(_: object = None) -> None:
        nonlocal written
        if written < most:
            written += 1
            app.write([draft(f"Berth {written} is taken.", session=f"later{written}")], "test")

    caller.then = write
    app.derivation.run(Depth.SEGMENTS, place, progress=write)
    assert 0 < written < most
    assert app.derivation.reached() >= before
    app.derivation.run(Depth.ALL, place)
    assert findings(app) == []
