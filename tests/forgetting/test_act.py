"""Forgetting in one open memory: what is left equals a memory that never had it, and only what it touches is made anew."""

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.capture.tombstones import ForgetRequest, TimeRange, Tombstones
from memory_mcp.config import Settings
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.forgetting.act import NOTE, Forgetting
from memory_mcp.indexes import follow
from memory_mcp.indexes.document import unit_of
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive import close_segments, rebuild_toc
from memory_mcp.tree.derive.build import derive_segments
from memory_mcp.upkeep.jobs.render_briefings import RenderBriefings
from tests.acceptance.leftovers import holding
from tests.factories import BILLING, SHOP, SITE, draft
from tests.fakes import FakeClock
from tests.files import read_at_rest
from tests.toc.helpers import findings, frequencies, memory, term_sets, texts
from tests.waiting import PATIENCE, until

VALUE = "Bluefin Harbour-77"
WORDS = "pump meadow ledger invoice gasket rope lantern harbour signal quarry budget retry cursor fence copper violin".split()


def life(seed: int, sessions: int = 9) -> list[EventDraft]:
    """Sessions of three projects on days of two months, some of which say a value; each event has a source's id."""
    chosen = random.Random(seed)
    drafts = []
    for number in range(sessions):
        day = f"2026-0{chosen.choice((1, 2))}-{chosen.choice((3, 4, 27, 28)):02d}"
        project = chosen.choice((SHOP, BILLING, SITE))
        for turn in range(chosen.randint(2, 7)):
            words = " ".join(chosen.choices(WORDS, k=12))
            said = f"We decided that the {words} is number {turn}." + (f" It lies at {VALUE}." if chosen.random() < 0.15 else "")
            role, at = (Role.USER, Role.ASSISTANT)[turn % 2], f"{day} {8 + number % 9:02d}:{turn * 8:02d}"
            drafts.append(draft(said, at, f"s{number}", role, project=project, source_id=f"{number}-{turn}"))
    return drafts


def over(place: Path) -> App:
    """The memory in a folder."""
    storage = StorageSettings(data_dir=str(place), timezone="Europe/Berlin")
    return App(Settings(storage=storage, embedder=EmbedderSettings(model="")), FakeClock())


@pytest.fixture
def app(data_dir: Path) -> Iterator[App]:
    opened = over(data_dir)
    yield opened
    opened.close()


#: Other lives of the same kind are the long form's.
@pytest.fixture(scope="module", params=[1, 2, pytest.param(3, marks=pytest.mark.slow)])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[EventDraft]]:
    """A data directory at rest after a life, and what was said in it."""
    place, drafts = tmp_path_factory.mktemp("lived") / "data", life(request.param)
    app = over(place)
    told(app, drafts)
    app.close()
    return place, drafts


def told(app: App, drafts: list[EventDraft]) -> None:
    app.write(drafts, "test")
    app.derivation.run()
    app.accelerators.catch_up()


def derived(app: App) -> dict[str, Any]:
    """Everything that follows from events, whatever order it is stored in."""
    found = texts(app) | {"terms": term_sets(app), "frequencies": frequencies(app)}
    cuts = {c.key: replace(c, cutter=0) for c in app.storage.toc.iter_cuts()}
    grips = app.storage.grips.grips_by_event([e.event.event_id for e in app.storage.events.read_after(0, 10_000)])
    return found | {"cuts": cuts, "grips": {g.grip_id: g for several in grips.values() for g in several}}


def units(app: App) -> set[int]:
    """Keys of what the index of words holds."""
    keeper = app.accelerators.get_keeper("bm25")
    return {int(live.shard.units.key[place]) for live in keeper.index.snapshot for place in live.living_units()}


WANTED = {
    "a value": ForgetRequest(values=[VALUE]),
    "a project": ForgetRequest(ranges=[TimeRange(0, 2**50, project=BILLING)]),
    "a day": ForgetRequest(ranges=[TimeRange(1_769_000_000_000, 1_769_580_000_000)]),
    "everything": ForgetRequest(ranges=[TimeRange(0, 2**50)]),
    "sessions": ForgetRequest(ranges=[TimeRange(0, 2**50, session="s1"), TimeRange(0, 2**50, session="s4")]),
    "nothing": ForgetRequest(values=["Zanzibar-1234"]),
}


@pytest.mark.parametrize("which", WANTED)
@pytest.mark.few(4)
def test_what_is_left_equals_a_memory_that_never_had_it(lived: tuple[Path, list[EventDraft]], data_dir: Path, which: str) -> None:
    place, drafts = lived
    app = over(shutil.copytree(place, data_dir))
    Forgetting(app).carry_out(WANTED[which], "person", "test")
    tombstones = Tombstones.preview(WANTED[which])
    left = [replace(d, text=tombstones.clean_text(d.text)) for d in drafts if not tombstones.covers_event(d)]
    never = memory(left)
    assert derived(app) == derived(never)
    assert units(app) == {node.key for node in never.storage.toc.iter_cuts()} | _periods(never)
    assert findings(app) == []
    assert app.storage.events.last_seq() == len(left)
    app.close()
    never.close()


def _periods(app: App) -> set[int]:
    from memory_mcp.model.ids import node_key

    return {node_key(n.node_id) for n in app.storage.toc.iter_nodes() if n.level.value != "segment"}


@pytest.mark.parametrize("sessions", [24, pytest.param(48, marks=pytest.mark.slow)])
def test_only_what_it_touches_is_derived_and_indexed_anew(app: App, monkeypatch: pytest.MonkeyPatch, sessions: int) -> None:
    told(app, life(5, sessions))
    counts = {"derived": 0, "indexed": 0}

    def counting(name: str, work: Any) -> Any:
        def count(given: Any, *more: Any) -> Any:
            counts[name] += len(given) if isinstance(given, list | tuple) else 1
            return work(given, *more)

        return count

    monkeypatch.setattr(close_segments, "derive_segments", counting("derived", derive_segments))
    monkeypatch.setattr(rebuild_toc, "derive_segments", counting("derived", derive_segments))
    monkeypatch.setattr(follow, "unit_of", counting("indexed", unit_of))
    rebuilt = app.accelerators.get_keeper("bm25").last_rebuild_secs
    done = Forgetting(app).carry_out(
        ForgetRequest(ranges=[TimeRange(0, 2**50, session="s3"), TimeRange(0, 900, session="s5")]), "person", "test"
    )
    assert done.counts["segments"] == 1
    assert counts["derived"] == 0
    # The day, week, month and year above it, where anything is left of them.
    assert counts["indexed"] <= 4
    assert app.accelerators.get_keeper("bm25").last_rebuild_secs == rebuilt
    counts["derived"] = 0
    event = next(e.event for e in app.storage.events.read_after(0, 10_000) if e.event.session_id == "s7")
    Forgetting(app).carry_out(ForgetRequest(events=[event]), "person", "test")
    assert counts["derived"] == 1


def test_no_byte_of_names_and_words_stays_in_the_parts_of_an_index(app: App, data_dir: Path) -> None:
    told(app, life(7))
    place, who = "/home/quillfeather/pier", "Quillfeather"
    days = [f"2026-01-0{n} 09:00" for n in (1, 2, 3)]
    said = [draft(f"The pier of {who} is {n}.", day, f"q{n}", project=place, speaker=who) for n, day in enumerate(days)]
    told(app, said)
    app.accelerators.commit()
    folder = data_dir / "indexes"
    assert any(b"uillfeather" in content for content in read_at_rest(folder).values())
    Forgetting(app).carry_out(ForgetRequest(ranges=[TimeRange(0, 2**50, project="/home/quillfeather/pier")]), "person", "test")
    assert not [file for file, content in read_at_rest(folder).items() if b"uillfeather" in content]


def test_a_briefing_that_is_being_rendered_while_something_is_forgotten_is_on_disk_before_its_files_are_cleaned(
    app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(app, [draft(f"We decided that it lies at {VALUE}.", "2026-01-28 09:00", "s1", project=SHOP, source_id="1")])
    forgetting = threading.Thread(target=Forgetting(app).carry_out, args=(ForgetRequest(values=[VALUE]), "person", "test"))
    text = RenderBriefings.briefing_text

    def read_and_forget(self: RenderBriefings, *material: Any) -> str:
        content = text(self, *material)
        is_held = not app.derivation.publishing.is_free
        assert VALUE in content
        monkeypatch.setattr(RenderBriefings, "briefing_text", text)
        forgetting.start()
        # It waits for the lock; without one, it would be done before the file is written.
        until((data_dir / NOTE).exists if is_held else lambda: not forgetting.is_alive())
        return content

    monkeypatch.setattr(RenderBriefings, "briefing_text", read_and_forget)
    assert app.scheduler.run_now("render_briefings").counts["written"] == 1
    forgetting.join()
    assert not [file for file, content in read_at_rest(data_dir / "briefings").items() if VALUE.encode() in content]


def test_an_agents_words_that_hold_a_value_go_and_the_session_is_told_as_before(app: App) -> None:
    drafts = [d for d in life(3) if VALUE not in d.text]
    told(app, drafts)
    before = derived(app)
    cut = next(iter(app.storage.toc.iter_cuts()))
    node = app.storage.toc.get_nodes([cut.node_id])[cut.node_id]
    app.storage.toc.publish_build(Build(nodes=(replace(node, title=f"About {VALUE}", author="agent", version=node.version + 1),)))
    app.derivation.run()
    done = Forgetting(app).carry_out(ForgetRequest(values=[VALUE]), "person", "test")
    assert done.counts["texts by agents or models"] >= 1
    assert derived(app) == before


def test_a_backup_that_is_being_written_while_something_is_forgotten_is_cleaned_when_it_is_there(
    app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(app, [draft(f"We decided that it lies at {VALUE}.", "2026-01-28 09:00", "s1", project=SHOP, source_id="1")])
    forgetting = threading.Thread(target=Forgetting(app).carry_out, args=(ForgetRequest(values=[VALUE]), "person", "test"))
    suspend, waiting = app.backups.suspend, threading.Event()

    def suspend_and_tell() -> AbstractContextManager[None]:
        waiting.set()
        return suspend()

    def should_stop() -> bool:
        if not forgetting.ident:
            forgetting.start()
            assert waiting.wait(PATIENCE)
        return False

    monkeypatch.setattr(app.backups, "suspend", suspend_and_tell)
    made = app.backups.make_backup("on request", should_stop=should_stop)
    assert made.events == 1
    forgetting.join()
    assert holding([made.path.parent], VALUE) == {}
