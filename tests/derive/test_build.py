"""From stored events to nodes, grips and terms, and up the tree."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pprint import pformat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.base.text import term_hash, terms
from memory_mcp.model.calendar import DEPTH, LEVELS, PERIODS, Calendar, TocLevel, level_of, parents_of, rollup_targets
from memory_mcp.model.event import EventType, Role
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.values import Build, Freshness, Scope
from memory_mcp.tree.derive.derivation import Depth
from memory_mcp.tree.derive.rollup import plan_rollups
from memory_mcp.tree.derive.terms import (
    FiledSegment,
    TermRowBuilder,
    children_of,
    from_bytes,
    merge_disjoint,
    read_sets,
    refit_all,
    subtract_set,
    union_sets,
)
from tests.examples import examples
from tests.factories import BILLING, SHOP, SITE, a_day_of_drafts, draft, event, ms
from tests.factories import cut as cut_events
from tests.factories import node as made_node
from tests.requirements import requirement
from tests.toc.helpers import findings, memory, one, term_sets, texts
from tests.waiting import PATIENCE

#: Days of four weeks of three projects, over a month's end.
HISTORY = [d for day in ("01-20", "01-21", "01-22", "01-29", "01-30", "02-02", "02-10") for d in a_day_of_drafts(f"2026-{day}")]


@pytest.fixture(scope="module")
def history() -> Iterator[App]:
    """Read only."""
    app = memory(HISTORY)
    yield app
    app.close()


def test_a_healthy_history_has_no_findings_and_deriving_it_again_changes_nothing(history: App) -> None:
    assert findings(history) == []
    assert history.derivation.count_pending() == 0
    before = [(n.node_id, n.version) for n in history.storage.toc.iter_nodes()]
    changes = len(history.storage.outbox.read_after(0, 100_000))
    assert history.derivation.run().periods == 0
    assert [(n.node_id, n.version) for n in history.storage.toc.iter_nodes()] == before
    assert len(history.storage.outbox.read_after(0, 100_000)) == changes


@requirement("contract:layer-1", "contract:principle-toc-is-truth", "plan:link-children", "contract:disclosure-drill-down")
def test_every_event_is_reached_by_going_down_from_the_root_and_those_of_different_streams_share_no_node(history: App) -> None:
    reached: set[str] = set()
    queue: list[NodeId] = [ROOT]
    while queue:
        for child in history.tree.children(queue.pop()):
            if level_of(child) is TocLevel.SEGMENT:
                (segment,) = history.tree.segments_below(child, Scope())
                reached |= {e.event_id for e in history.storage.events.segment_events(segment)}
            else:
                queue.append(child)
    assert len(reached) == history.storage.events.last_seq() > 300
    for cut in history.storage.toc.iter_cuts():
        events = history.storage.events.segment_events(cut)
        assert {(e.session_id, e.project, e.thread) for e in events} == {(cut.session_id, cut.project, cut.thread)}


@requirement("plan:segment-toc", "plan:segment-summary", "plan:segment-time-range", "plan:hierarchy-segment")
@requirement("contract:philosophy-grips-prove")
def test_a_segment_says_when_and_what_and_every_bullet_names_its_proof(history: App) -> None:
    for node in history.storage.toc.iter_nodes():
        assert node.title
        assert node.bullets, node.node_id
        assert all(b.grip_ids for b in node.bullets)
        assert node.start_ms <= node.end_ms
        if node.level is TocLevel.SEGMENT:
            assert node.title.startswith(f"{history.calendar.to_local(node.start_ms):%Y-%m-%d %H:%M} · ")
            assert node.keywords
            grips = history.storage.grips.get_grips(g for b in node.bullets for g in b.grip_ids)
            quotes = history.evidence.read_quotes(list(grips.values()))
            assert all(g in quotes for b in node.bullets for g in b.grip_ids)


@requirement("bm25:growth-day", "bm25:growth-week", "bm25:growth-month", "bm25:growth-year", "plan:hierarchy-month")
@requirement("plan:hierarchy-week", "plan:hierarchy-day")
def test_each_period_is_the_roll_up_of_its_own_days_and_no_others_and_newer_than_its_children(history: App) -> None:
    """Weeks do not nest in months: the week of the month's end hangs under both and is summed into neither."""
    nodes = {n.node_id: n for n in history.storage.toc.iter_nodes()}
    days = {i: n for i, n in nodes.items() if n.level is TocLevel.DAY}
    assert {i for i, n in nodes.items() if n.level is not TocLevel.SEGMENT} == {p for d in days for p in rollup_targets(d[8:])}
    for node_id, node in nodes.items():
        if node.level in (TocLevel.WEEK, TocLevel.MONTH, TocLevel.YEAR):
            own = [d for d in days.values() if node.start_ms <= d.start_ms < node.end_ms]
            assert node.event_count == sum(d.event_count for d in own)
            allowed = {
                (b.text, b.grip_ids)
                for d in history.storage.toc.get_nodes(children_of(history.storage.toc, node_id)).values()
                for b in d.bullets
            }
            assert {(b.text, b.grip_ids) for b in node.bullets} <= allowed
    assert nodes[NodeId("toc:week:2026-W05")].event_count > 0
    assert parents_of(NodeId("toc:week:2026-W05")) == ("toc:month:2026-01", "toc:month:2026-02")
    for node in nodes.values():
        if node.level is not TocLevel.SEGMENT:
            assert all(nodes[c].built < node.built for c in children_of(history.storage.toc, node.node_id))


def test_the_open_segment_is_published_again_as_it_grows(app: App) -> None:
    app.write([draft("first we look at the retry queue", at="2026-01-12 09:00")], "test")
    app.derivation.run()
    (segment,) = app.storage.toc.iter_cuts()
    app.write([draft("then we decide to keep the retry queue", at="2026-01-12 09:05", role=Role.ASSISTANT)], "test")
    app.derivation.run()
    (grown,) = app.storage.toc.iter_cuts()
    node = app.storage.toc.find_node(segment.node_id)
    assert (grown.key, grown.events, grown.open) == (segment.key, 2, True)
    assert node is not None
    assert (node.version, node.event_count) == (2, 2)
    day = app.storage.toc.find_node(NodeId("toc:day:2026-01-12"))
    assert day is not None
    assert (day.version, day.event_count) == (2, 2)
    assert findings(app) == []


def test_open_periods_always_have_a_roll_up(app: App) -> None:
    app.write([draft("today's work", at=app.clock.now_ms() - 1000)], "test")
    app.derivation.run()
    today = app.calendar.day_of(app.clock.now_ms() - 1000)
    assert [p for p in rollup_targets(today) if app.storage.toc.find_node(p) is None] == []


def test_a_late_event_makes_only_its_own_periods_stale_and_one_that_says_what_it_said_is_counted_anew_alone(app: App) -> None:
    app.write([*a_day_of_drafts("2026-01-12"), *a_day_of_drafts("2026-02-16")], "test")
    app.derivation.run()
    before = {n.node_id: n for n in app.storage.toc.iter_nodes()}
    app.write([draft("a late thought", at="2026-01-13 10:00", session="late")], "test")
    app.derivation.run()
    after = {n.node_id: n for n in app.storage.toc.iter_nodes()}
    periods = {i: n for i, n in after.items() if n != before.get(i) and level_of(i) is not TocLevel.SEGMENT}
    assert set(periods) == {"toc:day:2026-01-13", "toc:week:2026-W03", "toc:month:2026-01", "toc:year:2026"}
    assert findings(app) == []
    # Nobody is told of it: no entry of the outbox, so no index takes in the same words again.
    before = {n.node_id: n for n in app.storage.toc.iter_nodes()}
    changes = app.storage.toc.current_version()
    app.write([draft("ok", at="2026-01-12 09:00:30", session="later")], "test")
    app.derivation.run(Depth.SEGMENTS)
    told = app.storage.toc.current_version()
    assert app.derivation.roll_up_touched() == 4
    after = {n.node_id: n for n in app.storage.toc.iter_nodes()}
    year = NodeId("toc:year:2026")
    assert after[year].event_count == before[year].event_count + 1
    assert after[year].session_count == before[year].session_count + 1
    assert (after[year].version, after[year].title) == (before[year].version, before[year].title)
    fresh = {i for i, n in after.items() if n.version != getattr(before.get(i), "version", 0)}
    published = {c.subject for c in app.storage.outbox.read_after(changes, 100)} - {str(app.storage.events.last_seq())}
    assert published == fresh
    assert year not in published
    assert app.storage.toc.current_version() - told == len(
        fresh - {c.subject for c in app.storage.outbox.read_after(changes, told - changes)}
    )
    assert findings(app) == []


def test_a_tool_call_and_its_result_are_paired_across_batches_of_arrival(app: App) -> None:
    call = draft("make all", kind=EventType.TOOL_CALL, role=Role.ASSISTANT, metadata={"command": "make", "tool_use_id": "u1"})
    result = draft("built fine", at="2026-01-12 09:01", role=Role.TOOL, metadata={"tool_use_id": "u1"})
    app.write([call], "test")
    app.derivation.run()
    app.write([result], "test")
    app.derivation.run()
    pairs = [g for batch in app.storage.grips.iter_all() for g in batch if g.event_id_start != g.event_id_end]
    assert list(app.evidence.read_quotes(pairs).values()) == ["make all\n⤷ built fine"]


# plan


def test_the_plan_goes_from_fine_to_coarse_and_names_what_is_stale_and_nothing_else() -> None:
    fresh = Freshness({"2026-01-12": 5, "2026-01-13": 9}, {NodeId("toc:day:2026-01-12"): 6})
    assert plan_rollups(fresh) == [["toc:day:2026-01-13"], ["toc:week:2026-W03"], ["toc:month:2026-01"], ["toc:year:2026"]]
    periods = {p: i + 10 for i, p in enumerate(rollup_targets("2026-01-12"))}
    assert plan_rollups(Freshness({"2026-01-12": 5}, periods)) == [[], [], [], []]
    assert plan_rollups(Freshness({}, {})) == [[], [], [], []]


@given(
    st.dictionaries(st.sampled_from(["2025-12-30", "2026-01-01", "2026-01-31", "2026-02-01"]), st.integers(1, 50), min_size=1),
    st.dictionaries(st.integers(0, 20), st.integers(1, 50)),
)
def test_once_a_plan_is_carried_out_nothing_is_due(days: dict[str, int], old: dict[int, int]) -> None:
    known = list(dict.fromkeys(p for d in days for p in rollup_targets(d)))
    periods = {known[i]: n for i, n in old.items() if i < len(known)}
    levels = plan_rollups(Freshness(days, periods))
    assert [level_of(i) for due in levels for i in due] == [lv for lv, due in zip(PERIODS, levels, strict=True) for _ in due]
    built = 100
    for due in levels:
        built += 1
        periods |= dict.fromkeys(due, built)
    assert plan_rollups(Freshness(days, periods)) == [[], [], [], []]
    for day, newest in days.items():
        chain = [periods[p] for p in rollup_targets(day)]
        assert chain[0] >= newest
        assert min(chain[1:3]) >= chain[0]
        assert chain[3] >= chain[2]


# terms

SETS = st.lists(st.integers(0, 40), max_size=20).map(lambda v: np.array(sorted(set(v)), "<u4"))


@given(SETS, SETS)
def test_set_arithmetic_is_that_of_sets(a: "np.ndarray", b: "np.ndarray") -> None:
    assert set(union_sets([a, b]).tolist()) == set(a.tolist()) | set(b.tolist())
    assert subtract_set(a, b).tolist() == sorted(set(a.tolist()) - set(b.tolist()))
    assert merge_disjoint(a, subtract_set(b, a)).tolist() == sorted(set(a.tolist()) | set(b.tolist()))


def test_a_word_below_is_in_the_set_of_every_node_above(history: App) -> None:
    wanted = term_hash(terms("idempotency")[0])
    store = history.storage.toc
    holders = [c for c in store.iter_cuts() if any("idempotency" in e.text for e in history.storage.events.segment_events(c))]
    assert holders
    for cut in holders:
        for period in (cut.node_id, *rollup_targets(cut.day)):
            assert wanted in read_sets(store, [period])[period]


def test_a_period_with_one_child_keeps_no_rows_of_its_own(app: App) -> None:
    app.write([draft("only one stretch on one day")], "test")
    app.derivation.run()
    (segment,) = app.storage.toc.iter_cuts()
    assert set(term_sets(app)) == {segment.node_id}
    sets = read_sets(app.storage.toc, list(rollup_targets("2026-01-12")))
    assert {tuple(s) for s in sets.values()} == {tuple(sorted(term_sets(app)[segment.node_id]))}


TERM_DAYS = st.sampled_from(["2026-01-30", "2026-01-31", "2026-02-01", "2027-01-01"])
BATCHES = st.lists(st.lists(st.tuples(TERM_DAYS, st.integers(0, 9), SETS, st.integers(0, 4)), max_size=5), max_size=6)


@examples(4)
@given(BATCHES, st.booleans())
def test_sets_of_periods_are_the_union_of_their_segments_after_any_batches(
    batches: list[list[tuple[str, int, "np.ndarray", int]]], restart: bool
) -> None:
    """Segments grow, now and then one shrinks, days come in any order, and the writer may begin anew between batches."""
    store = open_storage(None, "Europe/Berlin")
    book = TermRowBuilder(store.toc)
    whole: dict[NodeId, set[int]] = {}
    cuts = {}
    for batch in batches:
        filed: dict[NodeId, FiledSegment] = {}
        for day, number, hashes, shrinks in batch:
            segment = cut_events([event("x", at=f"{day} 09:00", session=f"{day}/{number}")])[0]
            cuts[segment.node_id] = segment
            mine = whole.setdefault(segment.node_id, set())
            new = not (store.toc.get_nodes([segment.node_id]) or segment.node_id in filed) or (
                segment.node_id in filed and filed[segment.node_id].new
            )
            if shrinks == 0:
                mine.clear()
            mine |= {int(h) for h in hashes}
            filed[segment.node_id] = FiledSegment(segment.node_id, day, SHOP, np.array(sorted(mine), "<u4").tobytes(), new)
        added = book.add_segments(list(filed.values()))
        nodes = tuple(made_node(i, at=cuts[i].start[0], version=1 if f.new else 2) for i, f in filed.items())
        store.toc.publish_build(
            Build(
                segments=tuple(cuts[i] for i in filed),
                nodes=nodes,
                terms=tuple(added.rows),
                frequencies=tuple(added.frequencies),
                reset_terms=tuple(added.reset),
            )
        )
        if added.reset:
            refit_all(store.toc, {f.day for f in filed.values() if f.node_id in added.reset})
            book.forget()
        if restart:
            book = TermRowBuilder(store.toc)
    periods = list(dict.fromkeys(p for c in cuts.values() for p in rollup_targets(c.day)))
    found = read_sets(store.toc, periods)
    for period in periods:
        window = Calendar("Europe/Berlin").node_window(period)
        below = {h for i, hs in whole.items() if window.contains(cuts[i].start[0]) for h in hs}
        assert set(found[period].tolist()) == below
        if len(children_of(store.toc, period)) < 2:
            assert store.toc.get_term_sets([period]) == {}
    counted: dict[int, int] = {}
    for _, raw, counts in store.toc.list_frequencies():
        for h, n in zip(from_bytes(raw), np.frombuffer(counts, "<i4"), strict=True):
            counted[int(h)] = counted.get(int(h), 0) + int(n)
    expected = {h: sum(h in hs for hs in whole.values()) for hs in whole.values() for h in hs}
    assert {h: n for h, n in counted.items() if n} == expected
    store.close()


def test_a_build_that_failed_is_forgotten_by_the_writers_book(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.write(a_day_of_drafts("2026-01-12"), "test")
    app.derivation.run()
    app.write(a_day_of_drafts("2026-01-13"), "test")
    publish = app.storage.toc.publish_build

    def fails(build: Build) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(app.storage.toc, "publish_build", fails)
    with pytest.raises(OSError, match="no space"):
        app.derivation.run()
    monkeypatch.setattr(app.storage.toc, "publish_build", publish)
    app.derivation.run()
    assert findings(app) == []
    assert texts(app) == texts(memory([*a_day_of_drafts("2026-01-12"), *a_day_of_drafts("2026-01-13")]))


# reading


@requirement("plan:segment-position")
def test_a_segments_context_names_its_day_week_month_and_year(app: App) -> None:
    days = ("2026-01-12", "2026-01-01", "2026-02-01", "2024-12-31")
    app.write([draft(f"work at {hour}", at=f"{day} {hour}:00", session=day) for day in days for hour in (10, 12)], "test")
    app.derivation.run()
    last = {cut.session_id: cut for cut in app.storage.toc.iter_cuts()}
    assert len(list(app.storage.toc.iter_cuts())) == 2 * len(last) == 2 * len(days)
    for day, cut in last.items():
        assert [n.node_id for n in app.tree.context(cut).parents] == list(rollup_targets(day))[::-1]


@requirement("plan:segment-overlap")
def test_a_segments_context_holds_the_end_of_its_own_session_before_it(app: App) -> None:
    long = "word " * 700
    drafts = [draft(f"{i} {long}", at=ms("2026-01-12 09:00") + i * 60_000) for i in range(6)]
    app.write([*drafts, draft("elsewhere", at=ms("2026-01-12 09:03"), session="s2")], "test")
    app.derivation.run()
    first, second = [c for c in app.storage.toc.iter_cuts() if c.session_id == "s1"][:2]
    assert app.tree.context(first).before == ()
    before = app.tree.context(second).before
    assert all(e.session_id == "s1" for e in before)


@requirement("contract:disclosure-lateral")
def test_siblings_are_the_neighbours_nearest_in_time(history: App) -> None:
    assert history.tree.siblings(NodeId("toc:day:2026-01-21"))[:2] == ["toc:day:2026-01-20", "toc:day:2026-01-22"]
    weeks = {f"toc:week:2026-W{number:02}" for number in (4, 6, 7)}
    assert set(history.tree.siblings(NodeId("toc:week:2026-W05"))) == weeks


@requirement("bm25:level-1-orientation")
def test_the_root_says_how_much_there_is_and_lists_the_years(history: App) -> None:
    root = history.tree.root()
    assert root.event_count == history.storage.events.last_seq()
    assert "2026" in root.title
    assert history.tree.children(ROOT) == ["toc:year:2026"]
    assert set(root.projects) == {SHOP, BILLING, SITE}
    assert memory().tree.root().title == "Nothing recorded yet"


ABOVE = ("toc:root", "toc:year:2026", "toc:month:2026-01", "toc:week:2026-W05", "toc:day:2026-01-30")


@pytest.mark.parametrize(
    ("node_id", "level"), [(p, level) for p in ABOVE for level in LEVELS if DEPTH[level] > DEPTH[level_of(NodeId(p))]]
)
def test_descendants_are_those_that_hang_below(history: App, node_id: str, level: TocLevel) -> None:
    reached: set[NodeId] = set()
    queue = [NodeId(node_id)]
    while queue:
        for child in history.tree.children(queue.pop()):
            if level_of(child) is level:
                reached.add(child)
            elif level_of(child) is not TocLevel.SEGMENT:
                queue.append(child)
    found = history.tree.descendants(NodeId(node_id), level)
    assert len(found) == len(set(found))
    own = Calendar("Europe/Berlin")
    if level in (TocLevel.DAY, TocLevel.SEGMENT) and level_of(NodeId(node_id)) in (TocLevel.MONTH, TocLevel.YEAR):
        # Days of a shared week that belong to the other month hang below both; they are listed under their own.
        nodes = history.storage.toc.get_nodes(list(reached))
        reached = {i for i in reached if own.node_window(NodeId(node_id)).contains(nodes[i].start_ms)}
    assert set(found) == reached


def test_a_segment_over_midnight_is_listed_under_the_day_it_began_and_no_other(app: App) -> None:
    app.write([draft("before midnight", at="2026-01-12 23:50"), draft("after midnight", at="2026-01-13 00:05")], "test")
    app.write([draft("next morning", at="2026-01-13 09:00", session="s2")], "test")
    app.derivation.run()
    for node_id, count in (("toc:day:2026-01-12", 1), ("toc:day:2026-01-13", 1), ("toc:week:2026-W03", 2)):
        assert len(app.tree.descendants(NodeId(node_id), TocLevel.SEGMENT)) == count


def test_late_events_in_any_batches_leave_a_clean_store() -> None:
    drafts = HISTORY[:96]
    app = memory()
    for part in (drafts[60:], drafts[:30], drafts[30:60]):
        app.write(part, "test")
        app.derivation.run()
        assert findings(app) == []
    assert one(app, "SELECT count(*) FROM event") == len(drafts)
    app.close()


SEED = """
from pprint import pformat
from tests.factories import a_day_of_drafts
from tests.toc.helpers import memory, texts
print(ascii(pformat(texts(memory(a_day_of_drafts()))["nodes"])))
"""


@pytest.mark.usefixtures("processes")
def test_the_tree_says_the_same_in_every_process() -> None:
    """The order of a set differs from process to process; nothing that is derived may depend on it."""
    # With seed 0 the remainder is 0, with seed 1 it is 1: the other process never has the seed of this one.
    env = {**os.environ, "PYTHONHASHSEED": "0" if hash("this") % 2 else "1"}
    done = subprocess.run([sys.executable, "-c", SEED], env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == f"{pformat(texts(memory(a_day_of_drafts()))['nodes'])!a}\n"
