"""What ages out of an index, and that nothing else does: the pure rule, a prune, and what lasts of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import IndexUnreadable, InvalidQuery
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.settings import (
    IndexSettings,
    RetentionDays,
    TeleportSettings,
    VectorSettings,
    age_cutoffs,
    requested_cutoffs,
)
from memory_mcp.model.calendar import TocLevel
from tests.factories import a_day_of_drafts, draft
from tests.fakes import NOON, FakeClock
from tests.indexes.helpers import (
    HOUR,
    START,
    filled,
    followed,
    found,
    from_scratch,
    index_at,
    merged,
    opened,
    reloaded,
    same,
    unit,
)
from tests.requirements import requirement
from tests.toc.helpers import texts

DAY_MS = 86_400_000
#: Settings under which two days of January have aged out by March.
SHORT = TeleportSettings(
    bm25=IndexSettings(retention_days=RetentionDays(10, 40, 0, 0), retention_min_docs=0), vector=VectorSettings(enabled=False)
)


@requirement("bm25:FR-09.1")
def test_each_level_has_days_of_its_own_and_0_is_for_ever() -> None:
    days = RetentionDays(segment=30, day=0, week=7, month=365)
    assert age_cutoffs(days, 1000 * DAY_MS, 11, 10) == {"segment": 970 * DAY_MS, "week": 993 * DAY_MS, "month": 635 * DAY_MS}
    assert age_cutoffs(RetentionDays(0, 0, 0, 0), NOON, 11, 10) == {}


@requirement("bm25:retention-segment", "bm25:retention-day", "bm25:retention-week", "bm25:retention-month-year")
def test_by_default_segments_stay_a_month_days_half_a_year_weeks_five_years_and_the_rest_for_ever() -> None:
    kept = {"segment": 30, "day": 180, "week": 5 * 365}
    assert age_cutoffs(RetentionDays(), NOON, 1, 0) == {level: NOON - days * DAY_MS for level, days in kept.items()}


def test_a_small_index_forgets_nothing() -> None:
    assert age_cutoffs(RetentionDays(), NOON, 1_000_000, IndexSettings().retention_min_docs) == {}
    assert age_cutoffs(RetentionDays(), NOON, 1_000_001, IndexSettings().retention_min_docs) != {}


def test_by_hand_one_level_or_all_that_can_be_pruned() -> None:
    assert requested_cutoffs(3, "day", NOON) == {"day": NOON - 3 * DAY_MS}
    assert requested_cutoffs(3, "all", NOON) == dict.fromkeys(("segment", "day", "week"), NOON - 3 * DAY_MS)
    for age, level in ((0, "day"), (-1, "all"), (3, "month"), (3, "year"), (3, ""), (3, "Segment")):
        with pytest.raises(InvalidQuery):
            requested_cutoffs(age, level, NOON)


def test_a_prune_leaves_out_units_that_ended_before_and_keeps_the_one_at_the_edge(tmp_path: Path) -> None:
    units = [unit(n, f"retry number{n}", "retry") for n in range(4)]
    index = filled(tmp_path, [units])
    assert index.prune({"segment": units[2].end_ms}) == {"segment": 4}
    assert sorted({m.start_ms for m in found(index, "retry")[1] if m.grip_id is None}) == [START + 2 * HOUR, START + 3 * HOUR]
    assert index.prune({"segment": units[2].end_ms}) == {}
    assert index.prune({"segment": units[1].end_ms}) == {}, "a shorter time brings nothing back"
    assert index.prune({"day": NOON, "week": NOON}) == {}
    assert (index.status().pruned, index.status().last_prune_ms) == ({"segment": 4}, NOON)


def test_a_prune_reaches_what_is_in_memory_alone(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    index.apply_units([unit(1, "retry", "retry"), unit(2, "retry")], [], Position(5, 5))
    assert index.prune({"segment": unit(2, "").end_ms}) == {"segment": 3}
    assert found(index, "retry")[0] == 1
    assert found(reloaded(tmp_path), "retry")[0] == 1


@requirement("bm25:FR-09.5")
def test_what_was_pruned_and_when_survives_the_process(tmp_path: Path) -> None:
    clock = FakeClock(NOON + 5)
    index = filled(tmp_path, [[unit(0, "retry", "retry"), unit(1, "retry")]], clock)
    index.prune({"segment": unit(1, "").end_ms})
    again = reloaded(tmp_path)
    assert (again.status().pruned, again.status().last_prune_ms) == ({"segment": 2}, NOON + 5)
    assert again.cutoffs == index.cutoffs == {"segment": unit(1, "").end_ms}
    again.apply_units([unit(0, "retry again"), unit(2, "retry")], [], Position(9, 9))
    assert {m.start_ms for m in found(again, "retry")[1]} == {START + HOUR, START + 2 * HOUR}


@requirement("bm25:FR-09.4")
def test_a_prune_compacts_the_index(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(n, f"retry number{n}", "retry") for n in range(300)]])
    before = index.status().size_bytes
    index.prune({"segment": unit(299, "").end_ms})
    merged(index)
    assert index.status().size_bytes < before / 6
    assert sum(f.stat().st_size for f in (tmp_path / "parts").rglob("*") if f.is_file()) == index.status().size_bytes


def test_an_index_that_cannot_be_read_cannot_be_pruned(tmp_path: Path) -> None:
    with pytest.raises(IndexUnreadable):
        index_at(tmp_path).prune({"segment": NOON})


def aged(app: App) -> LiveIndex[Any]:
    app.accelerators.catch_up()
    return app.accelerators.get_keeper("bm25").index


@pytest.fixture
def app(data_dir: Path, clock: FakeClock) -> Iterator[App]:
    """One day that has aged and one that has not."""
    found = opened(data_dir, clock, SHORT)
    found.write([*a_day_of_drafts("2026-01-12"), *a_day_of_drafts("2026-02-25")], "test")
    found.derivation.run()
    yield found
    found.close()


@requirement("bm25:FR-09.3", "bm25:decision-index-lifecycle", "bm25:retention-skip-expired")
def test_the_job_leaves_out_what_has_aged_and_touches_nothing_of_the_store(app: App, data_dir: Path) -> None:
    index, before = aged(app), texts(app)
    counts = dict(index.status().counts)
    (pruned,) = app.accelerators.prune_due().values()
    assert pruned.keys() == {"segment", "day"}
    assert sum(counts.values()) - index.status().documents == sum(pruned.values()) > 0
    assert texts(app) == before
    old = [m for m in found(index, "ticket cause")[1] if m.start_ms < START + 30 * DAY_MS]
    assert {m.node_id.split(":")[1] for m in old} <= {"week", "month", "year"}
    assert any(m.node_id.startswith("toc:segment:2026-02-25") for m in found(index, "ticket cause")[1])
    assert app.accelerators.prune_due() == {"bm25": {}}
    app.write([draft("a late word about rhodium", at="2026-01-12 23:00", session="late")], "test")
    app.derivation.run()
    aged(app)
    assert {m.node_id.split(":")[1] for m in found(index, "rhodium")[1]} <= {"week", "month", "year"}
    same(index, from_scratch(app.storage, data_dir / "scratch", index.cutoffs), ("ticket cause", "rhodium", "test"))


def test_what_was_pruned_stays_out_when_the_index_heals(app: App) -> None:
    index = aged(app)
    app.accelerators.prune_due()
    counts = index.snapshot.counts
    app.accelerators.get_keeper("bm25").rebuild()
    assert index.snapshot.counts == counts


def test_rebuilt_by_hand_what_retention_left_out_comes_back_and_is_followed(app: App, data_dir: Path) -> None:
    index = aged(app)
    whole = index.snapshot.counts
    app.accelerators.prune("bm25", 1, "all")
    assert index.snapshot.counts != whole
    app.accelerators.rebuild("bm25")
    assert (index.snapshot.counts, index.status().pruned) == (whole, {})
    known = a_day_of_drafts("2026-01-12")[0]
    late = replace(known, text="one more word about rhodium", source_id="late", timestamp=(known.timestamp or 0) + 1000)
    app.write([late], "test")
    app.derivation.run()
    followed(app.accelerators.get_keeper("bm25"), app.storage)
    same(index, from_scratch(app.storage, data_dir / "scratch"), ("ticket cause", "rhodium"))


def test_what_is_pruned_while_a_generation_is_built_stays_out(app: App) -> None:
    index = aged(app)

    def pruned(_: int) -> None:
        index.prune(requested_cutoffs(1, "segment", NOON))

    app.accelerators.get_keeper("bm25").rebuild(pruned)
    assert not [m for m in found(index, "ticket cause")[1] if m.node_id.startswith("toc:segment")]


def test_below_the_least_number_of_documents_the_job_leaves_out_nothing(data_dir: Path, clock: FakeClock) -> None:
    many = TeleportSettings(bm25=replace(SHORT.bm25, retention_min_docs=5000), vector=VectorSettings(enabled=False))
    app = opened(data_dir, clock, many)
    app.write(a_day_of_drafts("2026-01-12"), "test")
    app.derivation.run()
    aged(app)
    assert app.accelerators.prune_due() == {"bm25": {}}
    assert app.storage.toc.list_ids(TocLevel.SEGMENT)
    app.close()
