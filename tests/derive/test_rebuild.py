"""Rebuilding the tree: nothing changes on a healthy store, and what was broken is put right."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import TocBullet, display_author, make_llm_author
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive import segments
from memory_mcp.tree.derive.build import source_of_events
from tests.factories import BILLING, SHOP, a_day_of_drafts, draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.toc.helpers import findings, memory, one, rebuild, run_sql, texts

#: Two days on both sides of a month's end, in one week and the next.
WORKED = {"2026-01-30": (SHOP, BILLING), "2026-01-31": (SHOP,), "2026-02-02": (BILLING,)}
DRAFTS = [d for day, projects in WORKED.items() for d in a_day_of_drafts(day, projects)]


@pytest.fixture
def app(data_dir: Path) -> Iterator[App]:
    opened = App(filled(data_dir, DRAFTS), FakeClock())
    yield opened
    opened.close()


def refine(app: App, node_id: NodeId, title: str = "What the agent says", author: str = "agent") -> None:
    """As refine_summary does: the next version, with the author's text."""
    node = app.storage.toc.get_nodes([node_id])[node_id]
    projects = dict.fromkeys(b.project for b in node.bullets)
    bullets = tuple(TocBullet("The agent's bullet.", node.bullets[0].grip_ids[:1], project=project) for project in projects)
    refined = replace(node, title=title, summary="Refined.", bullets=bullets, author=author, version=node.version + 1)
    app.storage.toc.publish_build(Build(nodes=(refined,)))


def test_a_healthy_store_is_left_as_it_is_and_a_node_with_nothing_below_it_is_dropped(app: App) -> None:
    before, versions = texts(app), one(app, "SELECT sum(version) FROM node")
    report = rebuild(app)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    assert report.nodes_checked == len(list(app.storage.toc.iter_nodes()))
    assert texts(app) == before
    assert one(app, "SELECT sum(version) FROM node") == versions
    assert findings(app) == []
    [day] = app.storage.toc.get_nodes([NodeId("toc:day:2026-01-30")]).values()
    app.storage.toc.publish_build(Build(nodes=(replace(day, node_id=NodeId("toc:day:1999-01-01"), version=1),)))
    assert "has a node and nothing below it" in {f.detail for f in findings(app)}
    assert rebuild(app).nodes_dropped == 1
    assert findings(app) == []


def test_an_empty_store_can_be_rebuilt() -> None:
    empty = memory()
    assert rebuild(empty).nodes_checked == 0
    empty.close()


MONTHS = "SELECT key FROM node WHERE level = 'month'"
ALONE = {
    "bullets gone": ["DELETE FROM bullet", "DELETE FROM bullet_grip"],
    "one title overwritten": ["UPDATE node SET title = 'x' WHERE level = 'week'"],
    "a segment's summary overwritten": ["UPDATE node SET summary = 'x' WHERE level = 'segment'"],
    "keywords gone": ["UPDATE node SET keywords = ''"],
    "counts wrong": ["UPDATE node SET events = events + 1, sessions = 0"],
    "terms gone": ["DELETE FROM term_delta"],
    "wrong terms": ["UPDATE term_delta SET hashes = '\\x01\\x00\\x00\\x00'::BLOB"],
    "frequencies gone": ["DELETE FROM frequency"],
    "all nodes gone": [f"DELETE FROM {table}" for table in "node bullet bullet_grip node_parent term_delta".split()],
    "months gone": [f"DELETE FROM {table} WHERE key IN ({MONTHS})" for table in ("bullet_grip", "bullet", "node")],
    "cut counts wrong": ["UPDATE segment_cut SET events = events + 3"],
    "children unlisted": ["DELETE FROM node_parent"],
    "windows wrong": ["UPDATE node SET start_ms = start_ms - 1 WHERE level = 'day'"],
}
#: First those of which none is put right by what another asks for, at once; the short form has these and the first alone.
_AT_ONCE = (
    ("one title overwritten", "a segment's summary overwritten", "months gone", "windows wrong", "cut counts wrong"),
    ("terms gone", "frequencies gone", "children unlisted"),
    ("counts wrong",),
)
SABOTAGE = {", ".join(names): [s for name in names for s in ALONE[name]] for names in _AT_ONCE} | ALONE


@pytest.mark.parametrize("statements", SABOTAGE.values(), ids=SABOTAGE.keys())
@pytest.mark.few(4)
def test_what_was_broken_is_put_right(app: App, statements: list[str]) -> None:
    whole = texts(app)
    run_sql(app, *statements)
    rebuild(app)
    assert findings(app) == []
    assert texts(app) == whole
    again = rebuild(app)
    assert (again.nodes_changed, again.nodes_dropped, again.terms_rewritten) == (0, 0, 0)


def test_grips_that_are_gone_come_back_with_the_same_ids(app: App) -> None:
    before = texts(app)["grips"]
    run_sql(app, "DELETE FROM grip")
    rebuild(app)
    assert texts(app)["grips"] == before
    assert findings(app) == []


# the agent's text


def test_what_an_agent_wrote_stays_when_the_segment_grows(app: App) -> None:
    app.write([draft("We keep the retry queue because the bank is slow.", at="2026-02-02 09:00", session="g")], "test")
    app.derivation.run()
    segment = next(c for c in app.storage.toc.iter_cuts() if c.session_id == "g")
    refine(app, segment.node_id)
    app.write([draft("The queue is drained twice a day.", at="2026-02-02 09:05", session="g", role=Role.ASSISTANT)], "test")
    app.derivation.run()
    node = app.storage.toc.get_nodes([segment.node_id])[segment.node_id]
    assert (node.title, node.summary, node.author, node.event_count) == ("What the agent says", "Refined.", "agent", 2)
    assert [b.text for b in node.bullets] == ["The agent's bullet."]
    assert findings(app) == []


def test_what_an_agent_wrote_stays_when_the_tree_is_rebuilt(app: App) -> None:
    refined = [app.storage.toc.list_ids(level)[0] for level in (TocLevel.SEGMENT, TocLevel.DAY, TocLevel.MONTH)]
    for node_id in refined:
        refine(app, node_id)
        app.derivation.run()
    rebuild(app)
    found = app.storage.toc.get_nodes(refined)
    assert [(found[n].title, found[n].author) for n in refined] == [("What the agent says", "agent")] * 3
    assert findings(app) == []
    assert rebuild(app).nodes_changed == 0


def test_a_refined_segment_is_rolled_up_anew(app: App) -> None:
    node_id = app.storage.toc.list_ids(TocLevel.SEGMENT)[0]
    before = app.storage.toc.get_freshness()
    refine(app, node_id)
    assert "freshness" in {f.rule for f in findings(app)}
    assert app.derivation.run().periods > 0
    assert findings(app) == []
    assert app.storage.toc.get_freshness() != before


# another zone


@pytest.mark.parametrize("zone", ["Pacific/Honolulu", "Pacific/Auckland", "Asia/Kolkata"])
@pytest.mark.few(1)
def test_in_another_zone_days_move_and_every_old_id_still_leads_to_its_segment(app: App, zone: str) -> None:
    old = {c.key: c.node_id for c in app.storage.toc.iter_cuts()}
    events = one(app, "SELECT count(*) FROM event")
    rebuild(app, zone)
    calendar = Calendar(zone)
    assert app.storage.timezone == zone
    assert findings(app) == []
    moved = 0
    for cut in app.storage.toc.iter_cuts():
        assert cut.day == calendar.day_of(cut.start[0])
        found = app.storage.toc.find_node(old[cut.key])
        assert found is not None
        assert found.node_id == cut.node_id
        assert found.title.startswith(f"{calendar.to_local(cut.start[0]):%Y-%m-%d %H:%M}")
        moved += old[cut.key] != cut.node_id
    assert one(app, "SELECT count(*) FROM event") == events
    assert bool(moved) == (zone != "Asia/Kolkata")
    again = rebuild(app)
    assert (again.nodes_changed, again.nodes_dropped, again.terms_rewritten) == (0, 0, 0)


def test_there_and_back_is_where_it_was_and_a_refined_segment_moves_with_its_day(app: App) -> None:
    node_id = min(app.storage.toc.iter_cuts(), key=lambda c: c.start[0]).node_id
    refine(app, node_id)
    app.derivation.run()
    whole = texts(app)
    rebuild(app, "Pacific/Auckland")
    assert findings(app) == []
    found = app.storage.toc.find_node(node_id)
    assert found is not None
    assert found.title == "What the agent says"
    assert texts(app) != whole
    rebuild(app, "Europe/Berlin")
    assert texts(app) == whole
    assert findings(app) == []


def test_new_events_are_filed_right_after_a_rebuild(app: App) -> None:
    run_sql(app, "DELETE FROM term_delta", "DELETE FROM frequency")
    rebuild(app)
    again = memory(DRAFTS)
    for each in (app, again):
        each.derivation.reread()
        each.write([draft("one more thing about zirconium", at="2026-02-02 09:00", session="z")], "test")
        each.derivation.run()
    assert findings(app) == []
    assert texts(app) == texts(again)
    again.close()


def test_a_store_cut_by_older_rules_is_cut_anew_and_every_id_still_leads_to_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(segments, "CUTTER_VERSION", 1)
        older.setattr(segments, "_TOOL_TIMES", 1)
        older.setattr(segments, "_TOOL_GAP_MS", 0)
        app = memory([*DRAFTS, *of_tools()])
    before = list(app.storage.toc.iter_cuts())
    quoted = {g: n for n in app.storage.toc.iter_nodes() for b in n.bullets for g in b.grip_ids if n.level is TocLevel.SEGMENT}
    assert tools_alone(app)
    rebuild(app)
    after = {c.node_id: c for c in app.storage.toc.iter_cuts()}
    assert not tools_alone(app)
    assert len(after) < len(before)
    assert {c.cutter for c in after.values()} == {segments.CUTTER_VERSION}
    for cut in before:
        found = app.storage.toc.find_node(cut.node_id)
        assert found is not None
        assert after[found.node_id].start <= cut.start <= after[found.node_id].end
    grips = app.storage.grips.get_grips(quoted)
    assert set(grips) == set(quoted)
    keys = {c.key: c for c in after.values()}
    events = app.storage.events.get_events(g.event_id_start for g in grips.values())
    assert all(keys[g.segment].start <= events[g.event_id_start].order <= keys[g.segment].end for g in grips.values())
    assert findings(app) == []
    again = rebuild(app)
    assert (again.nodes_changed, again.nodes_dropped, again.terms_rewritten) == (0, 0, 0)
    app.close()


def test_a_models_words_stay_while_a_segment_holds_what_they_were_written_from_and_no_longer(app: App) -> None:
    first, second = list(app.storage.toc.iter_cuts())[:2]
    source = source_of_events(app.storage.events.segment_events(first))
    refine(app, first.node_id, "What a model says", make_llm_author("small", source))
    refine(app, second.node_id, "What a model said of something else", make_llm_author("small", source))
    rebuild(app)
    kept, gone = (app.storage.toc.get_nodes([c.node_id])[c.node_id] for c in (first, second))
    assert (kept.title, display_author(kept.author)) == ("What a model says", "llm:small")
    assert (gone.title.endswith("something else"), gone.author) == (False, "extractive")
    assert rebuild(app).nodes_changed == 0
    assert findings(app) == []


def test_a_models_words_keep_no_old_cut_alive_as_an_agents_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for author, stays in (("agent", True), (make_llm_author("small", "0"), False)):
        with monkeypatch.context() as older:
            older.setattr(segments, "CUTTER_VERSION", 1)
            app = memory(DRAFTS)
        [first, *_] = app.storage.toc.iter_cuts()
        refine(app, first.node_id, author=author)
        rebuild(app)
        old = {c.stream for c in app.storage.toc.iter_cuts() if c.cutter == 1}
        assert old == ({first.stream} if stays else set())
        app.close()


def of_tools() -> list[EventDraft]:
    """A question, and a build whose output comes an hour after its call."""
    said = [("2026-02-03 09:00", Role.USER, "Please build the release candidate of the shop."),
            ("2026-02-03 10:30", Role.TOOL, "Error: linker: undefined reference to checkout_total"),
            ("2026-02-03 12:00", Role.TOOL, "Error: linker: undefined reference to inventory_lock")]  # fmt: skip
    return [draft(text, at=at, session="build", role=role) for at, role, text in said]


def tools_alone(app: App) -> list[str]:
    """Segments that hold nothing but tool events."""
    held = app.storage.events.events_by_segment(list(app.storage.toc.iter_cuts()))
    return [str(key) for key, events in held.items() if all(e.role is Role.TOOL for e in events)]
