"""Who looks after an index: rounds, failures that are told and tried again, builds in the background, the end."""

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, Callbacks
from memory_mcp.base import metrics
from memory_mcp.base.children import Child
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.indexes import build, units
from memory_mcp.indexes import keeper as keeping
from memory_mcp.indexes.base import Health
from memory_mcp.indexes.build import ShardBuilder
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.base import Storage
from tests.factories import a_day_of_drafts, draft
from tests.fakes import FakeClock
from tests.indexes.helpers import files_of, fill_indexed, flip, followed, found, from_scratch, keeper_of, opened, same
from tests.indexes.test_live import PLACES
from tests.requirements import requirement
from tests.toc.helpers import run_sql
from tests.waiting import PATIENCE

#: Seconds after which whatever failed, however often, is tried again.
LONGEST_WAIT = 60
QUERIES = ("ticket cause", "test failed", "Decimal", "rhodium")


def healed(keeper: Keeper) -> bool:
    """A round and the build it begins, if any; whether the index is healthy then."""
    keeper.maintain()
    if keeper.builder is not None:
        keeper.builder.join(PATIENCE)
    return keeper.status().ready


def more_said(app: App, word: str = "rhodium", day: str = "2026-01-20") -> None:
    app.write([draft(f"nobody has said {word} before", at=f"{day} 09:00", session=word)], "test")
    app.derivation.run()


@requirement("bm25:FR-01.5", "bm25:NFR-02.3", "bm25:FR-02.5")
def test_a_missing_index_is_built_from_the_store_by_a_child_process(kept: App) -> None:
    keeper = kept.accelerators.get_keeper("bm25")
    assert (keeper.status().health, keeper.status().documents) == (Health.BUILDING, 0)
    assert healed(keeper)
    assert not keeper.maintain()
    same(keeper.index, from_scratch(kept.storage, keeper.index.folder.directory.parent / "scratch"), QUERIES)
    assert keeper.last_rebuild_secs is not None


def test_a_question_waits_for_an_index_that_is_being_read(
    kept: App, data_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server reads its indexes in the background; here the reading happens while the question waits for it."""
    kept.accelerators.catch_up()
    kept.close()
    again, waits = opened(data_dir, clock, callbacks=Callbacks(tends_indexes=True)), list[float]()
    keeper = again.accelerators.get_keeper("bm25")
    assert keeper.status().health is Health.LOADING

    def waited(seconds: float) -> None:
        waits.append(seconds)
        keeper.load()

    monkeypatch.setattr(keeper.index, "wait_loaded", waited)
    assert again.ask(Query("ticket cause")).why.method == "bm25"
    assert 0 < waits[0] <= 3
    again.ask(Query("test failed"))
    # The layer itself looks once a search; the question does not wait again.
    assert len([w for w in waits if w > 2]) == 1
    again.close()


def test_a_question_waits_for_no_index_that_is_built(
    kept: App, data_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.close()
    again = opened(data_dir, clock, callbacks=Callbacks(tends_indexes=True))
    keeper = again.accelerators.get_keeper("bm25")
    keeper.load()
    assert keeper.status().health is Health.BUILDING
    monkeypatch.setattr(keeper.index, "wait_loaded", lambda _: pytest.fail("waited"))
    assert again.ask(Query("ticket cause")).why.method == "agentic"
    again.close()


@requirement("bm25:decision-persistent")
def test_an_index_on_disk_is_read_and_followed_instead_of_built(kept: App, keeper: Keeper, tmp_path: Path) -> None:
    more_said(kept)
    again = keeper_of(kept.storage, tmp_path / "index")
    assert healed(again)
    assert again.shard_builder.built == 0  # type: ignore[attr-defined]
    assert found(again.index, "rhodium")[0] > 0
    assert again.status().behind == 0


@requirement("tele:TELE-03")
def test_a_round_takes_in_what_is_new_and_says_how_far_it_is_behind(kept: App, keeper: Keeper) -> None:
    more_said(kept)
    assert keeper.status().behind > 0
    keeper.maintain()
    assert keeper.status().behind == 0
    assert found(keeper.index, "rhodium")[0] > 0


def test_a_large_tail_is_committed_by_the_round_that_made_it(kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    generation = keeper.status().generation
    monkeypatch.setattr(keeping, "BUFFER_LIMIT", 5)
    more_said(kept)
    keeper.maintain()
    assert keeper.status().generation == generation + 1
    assert keeper.index.buffered_documents == 0


@requirement("bm25:NFR-02.2", "bm25:risk-index-corruption")
@pytest.mark.parametrize("gone", [True, False])
def test_damage_is_noticed_by_the_next_round_and_healed_from_the_store(kept: App, keeper: Keeper, gone: bool) -> None:
    wanted = from_scratch(kept.storage, keeper.index.folder.directory.parent / "scratch")
    if gone:
        shutil.rmtree(keeper.index.folder.directory)
    else:
        flip(max(files_of(keeper.index.folder.directory), key=lambda p: p.stat().st_size))
    assert healed(keeper)
    assert not keeper.maintain()
    same(keeper.index, wanted, QUERIES)
    same(reloaded_of(kept, keeper), wanted, QUERIES)


def reloaded_of(app: App, keeper: Keeper) -> Any:
    from tests.indexes.helpers import index_at

    index = index_at(keeper.index.folder.directory, app.storage.get_stats(text=False).store_id)
    index.load(10**9)
    return index


def counted(name: str) -> float:
    """A counter as a scrape shows it; 0 before it first counts."""
    lines = metrics.exposition({}).splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)


@requirement("bm25:NFR-02.4", "bm25:risk-commit-failure", "bm25:metric-bm25_commit_errors_total", "bm25:metric-bm25_commit_total")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.few(2)
def test_a_failed_commit_is_logged_counted_told_and_tried_again_later_each_time(
    kept: App,
    keeper: Keeper,
    place: str,
    keeper_clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics.start()
    errors, commits = counted("bm25_commit_errors_total"), counted("bm25_commit_total")
    monkeypatch.setattr(keeping, "BUFFER_LIMIT", 1)
    more_said(kept)
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        PLACES[place](broken)
        for tries, wait in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
            assert not keeper.maintain()
            assert "No space left" in keeper.status().last_error
            assert keeper.status().ready
            assert found(keeper.index, "rhodium")[0] > 0
            assert counted("bm25_commit_errors_total") - errors == tries
            keeper_clock.advance(wait - 0.01)
            assert not keeper.maintain()
            assert counted("bm25_commit_errors_total") - errors == tries, "it waits"
            keeper_clock.advance(0.02)
    assert sum("could not be kept" in r.message for r in caplog.records) == 8
    keeper.maintain()
    assert keeper.status().last_error == ""
    assert counted("bm25_commit_errors_total") - errors == 8
    assert counted("bm25_commit_total") - commits == 9
    same(reloaded_of(kept, keeper), from_scratch(kept.storage, keeper.index.folder.directory.parent / "scratch"), QUERIES)


def test_a_failed_commit_of_the_job_is_told_by_the_status(kept: App, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = kept.accelerators.get_keeper("bm25")
    healed(keeper)
    more_said(kept)
    keeper.maintain()
    with monkeypatch.context() as broken:
        PLACES["part"](broken)
        with contextlib.suppress(OSError):
            kept.scheduler.run_now("commit_indexes")
    assert "No space left" in keeper.status().last_error


def test_a_build_that_fails_is_told_and_tried_again_later_each_time(
    kept: App, keeper: Keeper, keeper_clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []

    def failing(*_: Any) -> Any:
        tries.append(keeper_clock.monotonic())
        raise MemoryError("the child ran out of memory")

    shutil.rmtree(keeper.index.folder.directory)
    with monkeypatch.context() as broken:
        broken.setattr(keeper.shard_builder, "build_shards", failing)
        assert not healed(keeper)
        assert keeper.status().last_error == "the child ran out of memory"
        assert "could not be built" in caplog.text
        assert keeper.status().health is Health.UNHEALTHY
        assert not healed(keeper), "it waits a second"
        assert len(tries) == 1
        for _ in range(60):
            healed(keeper)
            keeper_clock.advance(0.5)
        assert 1 < len(tries) <= 6
    keeper_clock.advance(60)
    assert healed(keeper)


class Mortal(Child):
    """A child that is killed when it has answered for the first time."""

    def submit(self, request: object) -> Any:
        answer = super().submit(request)
        answer.add_done_callback(lambda _: self.kill())
        return answer


@pytest.mark.usefixtures("processes")
def test_a_child_that_dies_costs_a_try_and_nothing_else(
    kept: App, monkeypatch: pytest.MonkeyPatch, keeper_clock: FakeClock
) -> None:
    keeper = kept.accelerators.get_keeper("bm25")
    with monkeypatch.context() as broken:
        broken.setattr(build, "Child", Mortal)
        broken.setattr(build, "_FEW", 0)
        assert not healed(keeper)
        assert keeper.status().last_error
    keeper_clock.advance(LONGEST_WAIT)
    assert healed(keeper)
    same(keeper.index, from_scratch(kept.storage, keeper.index.folder.directory.parent / "scratch"), QUERIES)


@requirement("bm25:FR-06.3", "bm25:FR-06.2")
def test_while_a_build_says_how_many_documents_it_has_taken_in_the_old_generation_serves_and_a_second_is_refused(
    kept: App, keeper: Keeper
) -> None:
    seen: list[tuple[bool, int, int | None]] = []

    def told(done: int) -> None:
        status = keeper.status()
        seen.append((status.ready, found(keeper.index, "ticket cause")[0], status.building))

    before = found(keeper.index, "ticket cause")[0]
    rebuilt = keeper.rebuild(told)
    assert seen
    assert {(ready, count) for ready, count, _ in seen} == {(True, before)}
    assert seen[-1][2] == rebuilt.documents == keeper.status().documents
    assert keeper.status().building is None
    numbers: list[int] = []
    rebuilt = keeper.rebuild(numbers.append)
    assert numbers == sorted(numbers)
    assert numbers[-1] == rebuilt.documents > 50
    assert len(numbers) > 1
    refused: list[str] = []

    def again(done: int) -> None:
        try:
            keeper.rebuild()
        except LayerUnavailable as error:
            refused.append(error.message)

    keeper.rebuild(again)
    assert set(refused) == {"the bm25 index is being built already"}
    assert keeper.rebuild().documents == keeper.status().documents


def test_a_commit_while_a_generation_is_built_leaves_its_parts_alone(kept: App, tmp_path: Path) -> None:
    keeper = keeper_of(kept.storage, tmp_path / "index", budget_mb=0)
    keeper.load()
    keeper.rebuild()
    more_said(kept)
    followed(keeper, kept.storage)

    def committed(done: int) -> None:
        keeper.index.commit()

    keeper.rebuild(committed)
    followed(keeper, kept.storage)
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), QUERIES)


def test_a_build_under_way_when_the_keeper_is_closed_writes_nothing_more(kept: App, keeper: Keeper) -> None:
    at_close: list[int] = []

    def closed(done: int) -> None:
        if not at_close:
            keeper.close()
            at_close.append(keeper.status().generation)

    more_said(kept)
    with contextlib.suppress(Exception):
        keeper.rebuild(closed)
    assert reloaded_of(kept, keeper).status().generation == at_close[0]


@requirement("bm25:FR-04.4")
def test_closing_commits_what_waits_and_twice_is_nothing(kept: App, keeper: Keeper) -> None:
    more_said(kept)
    keeper.maintain()
    generation = keeper.status().generation
    keeper.close()
    keeper.close()
    assert reloaded_of(kept, keeper).status().generation == generation + 1
    assert found(reloaded_of(kept, keeper), "rhodium")[0] > 0
    assert not keeper.maintain()


def test_closing_never_raises(
    kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    more_said(kept)
    keeper.maintain()
    PLACES["part"](monkeypatch)
    keeper.close()
    assert "was not committed" in caplog.text
    monkeypatch.undo()
    again = keeper_of(kept.storage, keeper.index.folder.directory)
    assert healed(again)
    assert found(again.index, "rhodium")[0] > 0


def test_a_store_that_went_back_and_grew_another_way_has_its_index_built_again(kept: App, tmp_path: Path) -> None:
    keeper = keeper_of(kept.storage, tmp_path / "index")
    keeper.rebuild()
    keeper.close()
    keeper = keeper_of(kept.storage, tmp_path / "index")
    keeper.load()
    assert keeper.status().ready
    run_sql(kept, "UPDATE outbox SET subject = 'toc:day:1999-01-01' WHERE seq = (SELECT max(seq) FROM outbox)")
    keeper = keeper_of(kept.storage, tmp_path / "index")
    keeper.load()
    assert (keeper.status().health, "another history" in keeper.status().reason) == (Health.UNHEALTHY, True)
    assert healed(keeper)


def test_a_folder_that_cannot_be_read_costs_the_index_and_not_the_start(
    kept: App, tmp_path: Path, keeper_clock: FakeClock
) -> None:
    (tmp_path / "index").write_text("a file")
    keeper = keeper_of(kept.storage, tmp_path / "index")
    keeper.load()
    assert keeper.status().health is Health.UNHEALTHY
    assert not healed(keeper)
    assert keeper.status().last_error
    (tmp_path / "index").unlink()
    keeper_clock.advance(LONGEST_WAIT)
    assert healed(keeper)


@requirement("bm25:FR-06.1", "tele:TELE-05", "us:US-11")
def test_a_rebuild_by_hand_makes_what_following_made(kept: App) -> None:
    kept.accelerators.catch_up()
    before = kept.accelerators.get_keeper("bm25").index.snapshot.counts
    rebuilt = kept.accelerators.rebuild("bm25")
    assert rebuilt.documents == sum(before.values())
    assert kept.accelerators.get_keeper("bm25").index.snapshot.counts == before


def test_an_index_that_is_off_says_how_to_switch_it_on(data_dir: Path) -> None:
    app = opened(data_dir)
    with pytest.raises(LayerUnavailable) as refused:
        app.accelerators.get_keeper("vector")
    assert refused.value.message == "Vector index not enabled"
    assert refused.value.hint == "Enable with teleport.vector.enabled = true."
    app.close()


@pytest.mark.usefixtures("processes")
def test_bulk_changes_are_made_into_parts_by_a_child_process(kept: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.indexes import follow

    keeper = kept.accelerators.get_keeper("bm25")
    assert isinstance(keeper.shard_builder, ShardBuilder)
    keeper.catch_up()
    monkeypatch.setattr(follow, "BULK", 3)
    kept.write(a_day_of_drafts("2026-01-20"), "test")
    kept.derivation.run()
    keeper.maintain()
    assert keeper.status().behind == 0
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), QUERIES)


def test_rounds_and_a_build_at_the_same_time_end_with_everything_in(kept: App, tmp_path: Path) -> None:
    keeper = kept.accelerators.get_keeper("bm25")
    keeper.catch_up()
    building = threading.Thread(target=keeper.rebuild)
    building.start()
    for n in range(4):
        more_said(kept, f"rhodium{n}", f"2026-01-{20 + n}")
        keeper.maintain()
    building.join(PATIENCE)
    while keeper.maintain():
        continue
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), (*QUERIES, "rhodium3"))


def test_indexes_that_are_both_missing_are_built_from_units_that_are_read_once(
    kept: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BULK", 0)
    both = [keeper_of(kept.storage, tmp_path / name) for name in ("one", "other")]
    reads = list[Storage]()

    def read_counted(storage: Storage, give_way: object, read: Callable[..., object] = units.iter_all_units) -> object:
        reads.append(storage)
        return read(storage, give_way)

    monkeypatch.setattr(units, "iter_all_units", read_counted)
    for keeper in both:
        keeper.load()
        assert keeper.needs_rebuild
    both[0].begin_rebuild_with(both[1:])
    built_by = both[0].builder
    assert built_by is not None
    assert built_by is both[1].builder
    built_by.join(PATIENCE)
    assert len(reads) == 1
    scratch = from_scratch(kept.storage, tmp_path / "scratch")
    for keeper in both:
        assert not keeper.needs_rebuild
        assert not keeper.maintain()
        same(keeper.index, scratch, QUERIES)


def build_with_failing(monkeypatch: pytest.MonkeyPatch, good: Keeper, bad: Keeper, *methods: tuple[object, str]) -> None:
    """Build two indexes together while methods of the second, each given with its object, raise OSError."""

    def fail(*_: object, **__: object) -> object:
        raise OSError("No space left on device")

    monkeypatch.setattr(keeping, "BULK", 0)
    for target, name in methods:
        monkeypatch.setattr(target, name, fail)
    for keeper in (good, bad):
        keeper.load()
    good.begin_rebuild_with([bad])
    assert good.builder is not None
    good.builder.join(PATIENCE)


def test_an_index_that_cannot_be_built_keeps_no_other_from_it(
    kept: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper_clock: FakeClock
) -> None:
    good, bad = (keeper_of(kept.storage, tmp_path / name) for name in ("good", "bad"))
    build_with_failing(monkeypatch, good, bad, (bad.shard_builder, "start_builders"), (bad.shard_builder, "build_shards"))
    assert not good.needs_rebuild
    assert not good.status().ready
    keeper_clock.advance(LONGEST_WAIT)
    assert healed(good)
    assert not healed(bad)


def test_an_index_built_with_one_that_cannot_be_adopted_has_not_failed(
    kept: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (keeper_of(kept.storage, tmp_path / name) for name in ("good", "bad"))
    build_with_failing(monkeypatch, good, bad, (bad.index, "adopt_shards"))
    assert (good.status().ready, bad.status().ready) == (True, False)
    more_said(kept, "rhodium", "2026-01-20")
    change = kept.storage.toc.current_version()
    assert good.remaining_work(change) is not None, "who waits for it is told that something is left"
    assert (good.index.last_error, bad.index.last_error) == ("", "No space left on device")
    assert bad.remaining_work(change) is None


def test_without_its_model_an_index_keeps_no_other_and_no_import_from_being_written(
    data_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_indexed(data_dir, a_day_of_drafts("2026-01-12"), TeleportSettings(), topics=False)
    app = opened(data_dir, clock, teleport=TeleportSettings())

    def fail(*_: object) -> object:
        raise LayerUnavailable("the embedding model cannot be loaded")

    try:
        app.accelerators.load()
        monkeypatch.setattr(app.accelerators.get_keeper("vector").index.kind, "prepare_unit", fail)
        more_said(app, "rhodium", "2026-01-20")
        app.accelerators.maintain()
        assert app.accelerators.commit() == 1
        assert "cannot be loaded" in app.accelerators.index_statuses()["vector"].last_error
    finally:
        app.close()


@pytest.mark.usefixtures("processes")
def test_a_memory_whose_indexes_are_all_missing_builds_them_at_once(
    kept: App, data_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BULK", 0)
    kept.close()
    app = opened(data_dir, clock, teleport=TeleportSettings())
    try:
        app.accelerators.maintain()
        builders = {keeper.builder for keeper in app.accelerators.keepers.values()}
        assert len(app.accelerators.keepers) == 2
        (builder,) = builders
        assert builder is not None
        builder.join(PATIENCE)
        assert {name: status.ready for name, status in app.accelerators.index_statuses().items()} == {
            "bm25": True,
            "vector": True,
        }
    finally:
        app.close()


def test_many_writes_of_one_session_need_no_child_process(kept: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.indexes import keeper as keepers

    keeper = kept.accelerators.get_keeper("bm25")
    keeper.catch_up()
    monkeypatch.setattr(keepers, "BULK", 3)
    for n in range(5):
        kept.write([draft(f"nobody has said rhodium{n} before", at=f"2026-01-20 09:0{n}", session="rhodium")], "test")
        kept.derivation.run()
    assert keeper.status().behind > 3
    assert not keeper.needs_bulk_follow
    kept.write(a_day_of_drafts("2026-01-21"), "test")
    kept.derivation.run()
    assert keeper.needs_bulk_follow
