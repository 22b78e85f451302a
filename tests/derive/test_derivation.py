"""One derivation, wherever it is done: the same tree, and callers go first where it is done aside."""

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import pytest

from memory_mcp.app import App, Callbacks
from memory_mcp.config import Settings
from memory_mcp.model.calendar import TocLevel, rollup_targets
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.ids import NodeId, day_id
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.derive import close_segments, repeated
from memory_mcp.tree.derive import derivation as module
from memory_mcp.tree.derive.derivation import Depth, ExecutionMode
from memory_mcp.tree.derive.rebuild_toc import TocRebuild
from memory_mcp.tree.derive.terms import refit_all, refit_terms
from tests.factories import a_small_history, draft
from tests.fakes import FakeClock
from tests.toc.helpers import findings


class Caller:
    """Whoever background work gives way to; tries to publish when it is its turn."""

    def __init__(self) -> None:
        self.turns = 0
        #: Whether anybody waits for an answer meanwhile.
        self.waits = False
        self.app: App | None = None
        #: Events still pending at each turn at which publishing was free.
        self.free: list[int] = []
        self.then: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        self.turns += 1
        self.then()
        if self.app is not None:
            publisher = threading.Thread(target=self._publish, args=(self.app,))
            publisher.start()
            publisher.join()
        return self.waits

    def _publish(self, app: App) -> None:
        if app.derivation.publishing.is_free:
            self.free.append(app.derivation.count_pending())


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
    return {n.node_id: (n.title, n.summary, n.event_count) for n in app.storage.toc.iter_nodes()}


@pytest.fixture(scope="module")
def expected() -> dict[str, tuple[str, str, int]]:
    here = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
    here.write(a_small_history(1), "test")
    here.derivation.run()
    found = nodes(here)
    here.close()
    return found


@pytest.mark.parametrize("place", list(ExecutionMode))
def test_the_tree_is_the_same_wherever_it_is_derived(
    app: App, caller: Caller, place: ExecutionMode, expected: dict[str, tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 20)
    spent = app.derivation.run(mode=place)
    assert nodes(app) == expected
    assert spent.periods == sum(n.level is not TocLevel.SEGMENT for n in app.storage.toc.iter_nodes())
    assert (findings(app), app.derivation.count_pending()) == ([], 0)
    assert bool(caller.turns) == (place is ExecutionMode.ASIDE)


def test_the_tree_is_the_same_if_each_write_is_published_with_its_periods(expected: dict[str, tuple[str, str, int]]) -> None:
    here = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
    drafts = a_small_history(1)
    for start in range(0, len(drafts), 25):
        here.write(drafts[start : start + 25], "test")
        here.derivation.run_together()
        assert not here.derivation.has_touched
    assert nodes(here) == expected
    assert findings(here) == []
    here.close()


@pytest.mark.parametrize("place", list(ExecutionMode))
@pytest.mark.few(2)
def test_only_the_levels_asked_for_are_brought_up_to_date(app: App, place: ExecutionMode) -> None:
    assert app.derivation.run(Depth.PERIODS, place).periods == 0
    assert app.derivation.count_pending() > 0
    assert app.derivation.run(Depth.SEGMENTS, place).periods == 0
    assert {n.level for n in app.storage.toc.iter_nodes()} == {TocLevel.SEGMENT}
    assert app.derivation.run(Depth.PERIODS, place).periods > 0
    assert findings(app) == []


def test_others_can_publish_between_two_steps_of_work_that_is_done_aside(
    app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 20)
    caller.app = app
    everything = app.derivation.count_pending()
    app.derivation.run(Depth.SEGMENTS, ExecutionMode.ASIDE)
    assert set(range(everything, 0, -20)) <= set(caller.free)


def test_steps_are_small_while_somebody_waits_for_an_answer(
    app: App, caller: Caller, expected: dict[str, tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 20)
    monkeypatch.setattr(module, "_STEP_BESIDE", 5)
    caller.app, caller.waits = app, True
    everything = app.derivation.count_pending()
    app.derivation.run(mode=ExecutionMode.ASIDE)
    assert set(range(everything, 0, -5)) <= set(caller.free)
    assert nodes(app) == expected


@pytest.mark.parametrize("place", list(ExecutionMode))
@pytest.mark.few(2)
def test_a_run_ends_while_somebody_goes_on_writing(
    app: App, caller: Caller, place: ExecutionMode, monkeypatch: pytest.MonkeyPatch
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
    assert app.derivation.last_derived() >= before
    app.derivation.run(Depth.ALL, place)
    assert findings(app) == []


#: A prompt of a machine and a greeting, which name none of the days on which they are said.
EVERY_DAY = ("Run the nightly check of the backups and report what failed", "Guten Morgen, hier ist der tägliche Bericht")
#: The rest of the machine's prompt, of more sentences than are counted.
_RULES = ". ".join(f"Look at the {name} of each server before the next" for name in "abcdefghijklmnopqrstuvwxyz")
THINGS = ("harbour crane", "tide table", "violin lesson", "garage roof", "solar panel", "dentist bill")


def said_on(day: int, thing: str) -> EventDraft:
    """The message of one session of a day: two sentences of every day, and one of its own."""
    return draft(
        f"{EVERY_DAY[0]}. {EVERY_DAY[1]} {day}. The {thing} is broken again.", at=f"2026-02-{day:02} 09:00", session=f"day {day}"
    )


def test_what_many_days_say_names_none_of_them() -> None:
    """Neither those before it was common, nor later ones; at once, one by one, in any order, and when it is derived again.

    Where nothing else was said on a day, that is what its title says.
    """
    days = [said_on(number, thing) for number, thing in enumerate(THINGS, 2)]
    days += [draft(f"{EVERY_DAY[0]}.", at="2026-02-20 09:00", session="alone"), draft("Ok!", at="2026-02-21 09:00", session="ok")]
    titles = []
    for order, size in ((days, len(days)), (days, 1), (days[::-1], 2), ([*days[3:], *days[:3]], 4)):
        own = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
        for start in range(0, len(order), size):
            own.write(order[start : start + size], "test")
            own.derivation.run()
        titles.append({n.node_id: (n.title, n.summary, n.keywords) for n in own.storage.toc.iter_nodes()})
        assert TocRebuild(own.storage, own.calendar, own.summarizer, own.settings.toc).run().nodes_changed == 0
        assert findings(own) == []
        own.close()
    assert titles[0] == titles[1] == titles[2] == titles[3]
    named = {node_id: title for node_id, (title, *_) in titles[0].items() if node_id.startswith("toc:day:")}
    assert "nightly check" in named.pop(day_id("2026-02-20"))
    assert "Ok" in named.pop(day_id("2026-02-21"))
    assert not [title for title in named.values() if "nightly" in title or "Guten" in title or "backups" in title]
    assert all(any(thing in title for title in named.values()) for thing in THINGS)


@pytest.mark.parametrize("derived_before", [0, 2, 4])
def test_what_many_days_say_names_none_of_them_if_one_run_takes_them_in_steps(
    derived_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who says it is remembered during a run; of what was derived before it the store is asked."""
    days = [said_on(number, thing) for number, thing in enumerate(THINGS, 2)]
    walks, titles = list[int](), []
    walk_store = repeated.holders_of

    def count_walks(store: TocStore, openings: Collection[int]) -> list[NodeId]:
        walks.append(len(openings))
        return walk_store(store, openings)

    monkeypatch.setattr(repeated, "holders_of", count_walks)
    monkeypatch.setattr(module, "_STEP", 1)
    for in_steps in (False, True):
        walks.clear()
        own = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
        for batch in (days[:derived_before], days[derived_before:]) if in_steps else (days,):
            own.write(batch, "test")
            own.derivation.run(mode=ExecutionMode.ASIDE if in_steps else ExecutionMode.HERE)
        titles.append({n.node_id: (n.title, n.summary, n.keywords) for n in own.storage.toc.iter_nodes()})
        assert findings(own) == []
        own.close()
    assert titles[0] == titles[1]
    # Of four that have it, or none, none is to be derived again for a later run.
    assert bool(walks) == (derived_before == 2)


def test_a_long_prompt_of_a_machine_names_no_day(app: App) -> None:
    """The replies do, which differ."""
    for day, thing in enumerate(THINGS, 2):
        prompt = draft(f"{EVERY_DAY[0]}. {_RULES}.", at=f"2026-02-{day:02} 09:00", session=f"night {day}")
        reply = draft(
            f"The {thing} has run out of room.", at=f"2026-02-{day:02} 09:01", session=f"night {day}", role=Role.ASSISTANT
        )
        app.write([prompt, reply], "test")
        app.derivation.run()
    days = {c.session_id: c.node_id for c in app.storage.toc.iter_cuts()}
    titles = app.storage.toc.get_nodes(days.values())
    assert all(thing in titles[days[f"night {day}"]].title for day, thing in enumerate(THINGS, 2))


def lose_terms(app: App) -> list[NodeId]:
    """Store messages that a hook recorded, and as derived ones are hidden by a transcript; return the periods above them."""
    days = ["2026-02-02", "2026-02-03", "2026-02-04"]
    said = [draft(f"quokka{n} stays", at=f"{day} 09:00", session=f"s{n}", source_id=f"p{n}") for n, day in enumerate(days)]
    hooked = [
        replace(d, text=f"wombat{n}", role=Role.TOOL, metadata={"tool_use_id": f"x{n}"}, source_id=f"h{n}")
        for n, d in enumerate(said)
    ]
    app.write(said, "hook:claude-code")
    app.write(hooked, "hook:claude-code")
    app.derivation.run()
    told = [replace(d, text="numbat and more of it", project="/work/other", source_id=f"t{n}") for n, d in enumerate(hooked)]
    app.write(told, "claude-code")
    return list(dict.fromkeys(period for day in days for period in rollup_targets(day)))


def test_periods_lose_what_their_segments_lost_once_in_many_steps(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    periods, days = lose_terms(app), list[list[str]]()

    def refit(store: TocStore, shrunk_days: Collection[str], give_way: Callable[[], object]) -> None:
        days.append(sorted(shrunk_days))
        refit_all(store, shrunk_days, give_way)

    monkeypatch.setattr(close_segments, "refit_all", refit)
    monkeypatch.setattr(module, "_STEP", 1)
    app.derivation.run(mode=ExecutionMode.ASIDE)
    assert days == [["2026-02-02", "2026-02-03", "2026-02-04"]]
    assert refit_terms(app.storage.toc, periods) == []
    assert findings(app) == []


def test_a_killed_run_leaves_it_to_the_next_what_periods_have_to_lose(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    periods = lose_terms(app)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(close_segments, "refit_all", die)
        with pytest.raises(KeyboardInterrupt):
            app.derivation.run(mode=ExecutionMode.ASIDE)
    assert app.derivation.count_pending() == 0
    # What the process remembered is gone.
    app.derivation.reread()
    app.derivation.run()
    assert refit_terms(app.storage.toc, periods) == []
    assert findings(app) == []
