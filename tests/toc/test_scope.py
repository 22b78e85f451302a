"""Scope and the shared tree: under one project nothing that was derived from another is ever read."""

from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import NotFound
from memory_mcp.base.text import term_hash, terms
from memory_mcp.model.calendar import TocLevel, level_of, rollup_targets
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.toc import TocNode
from tests.factories import BILLING, SHOP, SITE, a_day_of_drafts, a_small_history, draft, ms
from tests.toc.helpers import memory

#: Words that only one project ever said.
SECRET = "zirconium"
DAY = "2026-01-12"
PERIODS = rollup_targets(DAY)


def two_projects() -> App:
    """Two projects on one day, with a rare word in each."""
    codex: dict[str, Any] = {"session": "b", "project": BILLING, "agent": "codex"}
    return memory(
        [
            draft(f"We decided that the {SECRET} adapter must never retry.", at=f"{DAY} 09:00", session="a", project=SHOP),
            draft(f"The {SECRET} adapter is the constraint of the release.", at=f"{DAY} 09:03", session="a", project=SHOP),
            draft("We decided that the palladium importer reads gzip.", at=f"{DAY} 09:01", **codex),
            draft("The palladium importer is slow.", at=f"{DAY} 14:00", **codex),
        ]
    )


@pytest.fixture(scope="module")
def shared() -> App:
    """For tests that only read."""
    return two_projects()


@pytest.fixture
def own() -> App:
    """For tests that tell it more."""
    return two_projects()


@pytest.fixture(scope="module")
def weeks() -> App:
    """Two weeks of three projects, for tests that only read."""
    return memory(a_small_history(2))


def said(node: TocNode) -> str:
    return " ".join([node.title, node.summary, *node.keywords, *(b.text for b in node.bullets), *node.agents, *node.projects])


@pytest.mark.parametrize("period", PERIODS)
def test_no_text_keyword_count_or_term_of_another_project_is_read_but_all_of_its_own_and_without_a_scope_both(
    shared: App, period: NodeId
) -> None:
    node = shared.tree.node(period, BILLING)
    assert SECRET not in said(node).lower()
    assert "claude-code" not in said(node)
    assert (node.projects, node.agents, node.event_count, node.session_count) == ((BILLING,), ("codex",), 2, 1)
    assert all(b.project in ("", BILLING) for b in node.bullets)
    own = shared.tree.term_sets([period], BILLING)[period]
    assert term_hash(terms(SECRET)[0]) not in own
    # It still has its own derived text.
    assert "palladium" in said(node).lower()
    assert node.bullets
    assert term_hash(terms("palladium")[0]) in own
    assert SECRET in said(shared.tree.node(period, SHOP)).lower()
    # Without a scope the mixed text is read.
    mixed = shared.tree.node(period)
    assert mixed.event_count == 4
    assert set(mixed.projects) == {SHOP, BILLING}
    sets = shared.tree.term_sets([period])[period]
    assert {term_hash(terms(SECRET)[0]), term_hash(terms("palladium")[0])} <= set(sets.tolist())


def test_a_segment_of_another_project_does_not_exist_for_the_scope(shared: App) -> None:
    theirs = next(c for c in shared.storage.toc.iter_cuts() if c.project == SHOP)
    assert shared.tree.nodes([theirs.node_id], BILLING) == {}
    with pytest.raises(NotFound) as caught:
        shared.tree.node(theirs.node_id, BILLING)
    assert SECRET not in str(caught.value)
    assert shared.tree.node(theirs.node_id, SHOP).node_id == theirs.node_id


def test_periods_without_a_segment_of_the_scope_do_not_exist_for_it(own: App) -> None:
    own.write([draft("only billing here", at="2026-02-10 09:00", session="c", project=BILLING)], "test")
    own.derivation.run()
    february = NodeId("toc:month:2026-02")
    assert own.tree.children(NodeId("toc:year:2026"), SHOP) == ["toc:month:2026-01"]
    assert february in own.tree.children(NodeId("toc:year:2026"), BILLING)
    assert own.tree.nodes([february], SHOP) == {}
    assert own.tree.descendants(ROOT, TocLevel.DAY, SHOP) == [f"toc:day:{DAY}"]
    with pytest.raises(NotFound):
        own.tree.node(february, SHOP)


def test_the_root_counts_the_scope_alone(shared: App) -> None:
    assert shared.tree.root(SHOP).event_count == 2
    assert shared.tree.root(SHOP).projects == (SHOP,)
    assert shared.tree.root("nobody").title == "Nothing recorded yet"


def test_children_siblings_frequencies_and_parents_are_those_of_the_scope(shared: App) -> None:
    day = NodeId(f"toc:day:{DAY}")
    mine = {c.node_id for c in shared.storage.toc.iter_cuts() if c.project == BILLING}
    assert set(shared.tree.children(day, BILLING)) == mine
    assert set(shared.tree.descendants(ROOT, TocLevel.SEGMENT, BILLING)) == mine
    first, second = shared.tree.children(day, BILLING)
    assert shared.tree.siblings(first, BILLING) == [second]
    frequencies = shared.tree.frequencies()
    rare = term_hash(terms(SECRET)[0])
    assert [frequencies.segment_count(rare, p) for p in (SHOP, BILLING, None)] == [1, 0, 1]
    cut = next(c for c in shared.storage.toc.iter_cuts() if c.project == BILLING)
    for node in shared.tree.context(cut, BILLING).parents:
        assert SECRET not in said(node).lower()


def test_what_a_scope_reads_follows_the_store_and_a_node_made_again_is_not_read_from_memory(own: App) -> None:
    """Versions begin again at 1 after a drop; what was assembled before must not answer."""
    day = NodeId(f"toc:day:{DAY}")
    assert "palladium" in said(own.tree.node(day, BILLING)).lower()
    own.write([draft("We chose the iridium lens.", at=f"{DAY} 17:00", session="c", project=BILLING)], "test")
    own.derivation.run()
    assert own.tree.node(day, BILLING).event_count == 3
    own.storage.toc.drop_nodes([day])
    own.write([draft("We chose the osmium codec.", at=f"{DAY} 18:00", session="d", project=BILLING)], "test")
    own.derivation.run()
    assert own.storage.toc.get_nodes([day])[day].version == 1
    after = own.tree.node(day, BILLING)
    assert after.event_count == 4
    assert "osmium" in said(after).lower()


@pytest.mark.parametrize("project", [SHOP, BILLING, SITE])
def test_over_weeks_no_period_of_a_scope_names_another_projects_files(weeks: App, project: str) -> None:
    told = [d for d in a_small_history(2) if d.project == project]
    others = {SHOP: "src/", BILLING: "billing/", SITE: "web/"}
    own = others.pop(project)
    for node in weeks.storage.toc.iter_nodes():
        if level_of(node.node_id) is TocLevel.SEGMENT:
            continue
        scoped = weeks.tree.node(node.node_id, project)
        assert not any(prefix in said(scoped) for prefix in others.values()), scoped.node_id
        assert own in said(scoped)
        assert scoped.event_count == sum(scoped.start_ms <= (d.timestamp or 0) < scoped.end_ms for d in told)


def test_a_day_of_nobody_is_found_under_no_project_as_its_own_scope() -> None:
    app = memory([draft("no project known", project="", at=ms(f"{DAY} 09:00")), *a_day_of_drafts(DAY)])
    node = app.tree.node(NodeId(f"toc:day:{DAY}"), "")
    assert node.event_count == 1
    app.close()


@pytest.mark.parametrize("project", [None, SHOP])
def test_nodes_come_in_the_order_they_are_asked_for(shared: App, project: str | None) -> None:
    ids = [*PERIODS, *shared.tree.descendants(ROOT, TocLevel.SEGMENT, project)]
    for asked in (ids, ids[::-1]):
        assert list(shared.tree.nodes(asked, project)) == asked
