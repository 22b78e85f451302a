"""Layer 2: searching nodes, searching children, and the walk from the root to the evidence, all within bounds."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import ConfigError, InvalidQuery, NotFound
from memory_mcp.base.text import query_terms, terms
from memory_mcp.model.calendar import DEPTH, TimeWindow, TocLevel, level_of
from memory_mcp.model.event import Role
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.search.layers.agentic import search
from memory_mcp.search.layers.agentic.match import FIELDS, SearchField, match_node
from memory_mcp.search.layers.agentic.read import SegmentReader
from memory_mcp.search.layers.agentic.search import NodeResult, fit_results
from memory_mcp.search.layers.base import CONTRACTS, LayerAnswer, Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.storage.values import Build
from tests.factories import BILLING, SHOP, SITE, a_day_of_drafts, draft, ms
from tests.fakes import NOON, FakeClock
from tests.requirements import requirement
from tests.toc.helpers import findings, memory

YEAR, MONTH = NodeId("toc:year:2026"), NodeId("toc:month:2026-01")
#: Said once, far back, in one session of one project.
RARE = "zirconium"
WORKED = ("01-20", "01-21", "01-22", "01-29", "01-30", "02-02", "02-03", "02-10", "02-11", "02-12", "02-13")


@pytest.fixture(scope="module")
def history() -> Iterator[App]:
    """Days of four weeks before the clock's now, with one rare remark, and a stretch over a midnight."""
    drafts = [
        *(d for day in WORKED for d in a_day_of_drafts(f"2026-{day}")),
        draft(f"The {RARE} adapter must be replaced before the audit.", at="2026-01-21 16:00", session="rare", source_id="rare"),
        draft("Deploying the nightly palladium build now.", at="2026-02-14 23:50", session="night", source_id="n1"),
        draft("The palladium build went through.", at="2026-02-15 00:10", session="night", source_id="n2", role=Role.ASSISTANT),
    ]
    app = memory(drafts)
    yield app
    app.close()


@pytest.fixture(scope="module")
def large() -> Iterator[App]:
    """Hundreds of sessions over eleven months, and one rare remark in the middle."""
    rng = random.Random(7)
    words = [f"word{i}" for i in range(400)]
    drafts = []
    begin = ms("2025-04-01 09:00")
    for number in range(600):
        at = begin + number * 12 * 3_600_000
        for i in range(2):
            text = " ".join(rng.choices(words, k=25))
            drafts.append(draft(text, at=at + i * 60_000, session=f"s{number}", source_id=f"{number}/{i}"))
    middle = begin + 300 * 12 * 3_600_000 + 300_000
    drafts.append(draft(f"We agreed on the {RARE} adapter for exports.", at=middle, session="s300", source_id="rare"))
    app = memory(drafts)
    yield app
    app.close()


def budget(app: App, **changes: int) -> Budget:
    return Budget(StopConditions(**{"max_nodes_visited": 10_000, "max_rpc_calls": 1000, **changes}), app.clock)


def ask(app: App, text: str, limit: int = 10, spend: Budget | None = None, **scope: object) -> LayerAnswer:
    return app.agentic.navigate(Query(text, limit, **scope), spend or budget(app))  # type: ignore[arg-type]


def children(
    app: App,
    parent: str,
    query: str,
    level: TocLevel | None = None,
    fields: list[str] | None = None,
    limit: int = 10,
    project: str | None = None,
) -> list[NodeResult]:
    return list(app.agentic.nodes.search_children(NodeId(parent), query, level, fields, limit, project).results)


# search_node


@requirement("plan:goal-search-nodes", "plan:success-search-node", "plan:search-or-matching", "plan:search-match")
@requirement("plan:integration-provenance")
def test_a_node_is_searched_by_matching_any_of_the_terms(history: App) -> None:
    segment = ask(history, RARE).hits[0].node_id
    node, matches = history.agentic.nodes.search_node(segment, f"{RARE} nonsenseword", None, 10, None)
    assert node.node_id == segment
    assert matches
    assert all(m.score == 0.5 for m in matches)
    assert all(RARE in m.text.lower() for m in matches)
    bullets = [m for m in matches if m.field is SearchField.BULLETS]
    assert bullets
    assert all(m.grip_ids for m in bullets)
    assert all(not m.grip_ids for m in matches if m.field is not SearchField.BULLETS)


@requirement("plan:search-fields", "plan:algo-field-selection", "plan:algo-title", "plan:algo-summary", "plan:algo-bullets")
@requirement("plan:algo-keywords")
@pytest.mark.parametrize("field", FIELDS)
def test_only_the_fields_asked_for_are_searched(history: App, field: SearchField) -> None:
    node = history.storage.toc.get_nodes([MONTH])[MONTH]
    words = {"title": node.title, "summary": node.summary, "bullets": node.bullets[0].text, "keywords": " ".join(node.keywords)}[
        field
    ]
    _, matches = history.agentic.nodes.search_node(MONTH, words, [field], 10, None)
    assert matches
    assert {m.field for m in matches} == {field}
    _, all_fields = history.agentic.nodes.search_node(MONTH, words, None, 100, None)
    assert {m.field for m in all_fields} >= {field}


@requirement("plan:algo-score", "plan:algo-sorted-matches", "plan:algo-no-overlap")
def test_a_score_is_the_matched_share_of_the_terms_and_the_best_comes_first(history: App) -> None:
    node = history.storage.toc.get_nodes([MONTH])[MONTH]
    text = f"{node.title} nothinglikeit"
    weighted = history.agentic.nodes.weigh_query(text, None)
    matches = match_node(node, weighted, FIELDS)
    own = {SearchField.TITLE: [node.title], SearchField.SUMMARY: [node.summary], SearchField.KEYWORDS: list(node.keywords)}
    own[SearchField.BULLETS] = [b.text for b in node.bullets]
    wanted = set(query_terms(text))
    shares = [len(wanted & set(terms(t))) / len(wanted) for texts in own.values() for t in texts]
    assert sorted((m.score for m in matches), reverse=True) == [m.score for m in matches]
    assert sorted(m.score for m in matches) == pytest.approx(sorted(s for s in shares if s), abs=0.001)
    assert all(0 < m.score <= 1 for m in matches)


@requirement("plan:algo-limit", "plan:algo-not-found")
def test_matches_of_a_node_are_at_most_as_many_as_asked_for_and_an_unknown_node_is_not_found(history: App) -> None:
    _, all_matches = history.agentic.nodes.search_node(MONTH, "ticket fixed decided", None, 100, None)
    _, two = history.agentic.nodes.search_node(MONTH, "ticket fixed decided", None, 2, None)
    assert len(all_matches) > 2
    assert two == all_matches[:2]
    for call in (
        lambda: history.agentic.nodes.search_node(NodeId("toc:day:1999-01-01"), "x", None, 10, None),
        lambda: children(history, "toc:day:1999-01-01", "x"),
    ):
        with pytest.raises(NotFound):
            call()


@requirement("bm25:FR-03.5")
@pytest.mark.parametrize("text", ["", "  ", "?!", "___"])
def test_an_empty_query_is_refused(history: App, text: str) -> None:
    with pytest.raises(InvalidQuery, match="empty"):
        history.agentic.nodes.search_node(MONTH, text, None, 10, None)
    with pytest.raises(InvalidQuery, match="empty"):
        ask(history, text)


@requirement("plan:algo-no-terms")
def test_a_query_of_words_that_say_nothing_matches_nothing(history: App) -> None:
    assert history.agentic.nodes.search_node(MONTH, "the of and", None, 10, None)[1] == []
    assert children(history, ROOT, "the of and") == []
    assert ask(history, "the of and").hits == ()


@pytest.mark.parametrize(("fields", "limit"), [(["titel"], 10), (["below"], 10), (None, 0), (None, 101), (None, -1)])
def test_unknown_fields_and_odd_limits_are_refused(history: App, fields: list[str] | None, limit: int) -> None:
    with pytest.raises(InvalidQuery):
        history.agentic.nodes.search_node(MONTH, "x", fields, limit, None)
    with pytest.raises(InvalidQuery):
        children(history, ROOT, "x", fields=fields, limit=limit)


# search_children


@requirement("plan:algo-root", "plan:algo-only-matching")
def test_without_a_parent_the_years_are_searched_and_a_scope_searches_its_own_nodes_only(history: App) -> None:
    assert [r.node.node_id for r in children(history, ROOT, RARE)] == [YEAR]
    assert children(history, ROOT, "nothinglikeit") == []
    assert children(history, ROOT, RARE, project=BILLING) == []
    assert [r.node.node_id for r in children(history, ROOT, RARE, project=SHOP)] == [YEAR]
    segments = children(history, ROOT, "fixed ticket", TocLevel.SEGMENT, limit=100, project=SITE)
    assert {r.node.projects for r in segments} == {(SITE,)}


@requirement("plan:success-search-children", "plan:cli-search-level", "plan:cli-search-parent")
@pytest.mark.parametrize("level", [TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY, TocLevel.SEGMENT])
def test_a_level_below_is_searched_as_a_whole(history: App, level: TocLevel) -> None:
    found = children(history, ROOT, f"{RARE} palladium", level, limit=100)
    assert found
    assert {r.node.level for r in found} == {level}
    expected = {"month": {"2026-01", "2026-02"}, "week": {"2026-W04", "2026-W07"}, "day": {"2026-01-21", "2026-02-14"}}
    if level is not TocLevel.SEGMENT:
        assert {r.node.node_id.split(":")[2] for r in found} == expected[level]


@pytest.mark.parametrize(("parent", "level"), [("toc:day:2026-01-21", TocLevel.WEEK), ("toc:month:2026-01", TocLevel.MONTH)])
def test_a_level_that_is_not_below_is_refused(history: App, parent: str, level: TocLevel) -> None:
    with pytest.raises(InvalidQuery, match="is not below"):
        children(history, parent, "x", level)


@requirement("plan:algo-relevance", "plan:search-node-result", "plan:success-token-efficient")
def test_results_are_ordered_by_the_weight_of_what_they_hold(history: App) -> None:
    """A rare term outweighs common ones: the segment with the rare word comes before those with two common words."""
    found = children(history, ROOT, f"{RARE} ticket fixed", TocLevel.SEGMENT, limit=100)
    assert [r.relevance for r in found] == sorted((r.relevance for r in found), reverse=True)
    assert RARE in " ".join(m.text for m in found[0].matches).lower()
    assert found[0].relevance < 1
    assert all(0 < r.relevance <= 1 for r in found)
    assert all(1 <= len(r.matches) <= 3 for r in found)


def test_what_lies_below_is_found_where_no_summary_tells_it(large: App) -> None:
    """A summary never gates: a word that only the events hold leads to them, and no quotation is made up."""
    year = NodeId("toc:year:2025")
    node = large.storage.toc.get_nodes([year])[year]
    own = set(terms(" ".join([node.title, node.summary, *node.keywords, *(b.text for b in node.bullets)])))
    hidden = next(f"word{i}" for i in range(400) if f"word{i}" not in own)
    (found,) = [r for r in children(large, ROOT, hidden) if r.node.node_id == year]
    (match,) = found.matches
    assert (match.field, match.grip_ids, match.score, found.relevance) == (SearchField.BELOW, (), 1.0, 1.0)
    assert hidden in match.text
    assert match.text.startswith("not in this summary")
    named = children(large, ROOT, hidden, fields=["title", "summary", "bullets", "keywords"])
    assert year not in {r.node.node_id for r in named}


@pytest.mark.parametrize(
    ("words", "project"),
    [(f"{RARE} adapter", SHOP), ("word7", None), ("word1 word2 word3", SHOP), (f"word9 {RARE}", None), ("adapter word350", SHOP)],
)
def test_of_many_nodes_only_those_that_may_match_are_read_and_the_answer_is_the_same(
    large: App, monkeypatch: pytest.MonkeyPatch, words: str, project: str | None
) -> None:
    """600 segments: once all of them read whole, once only those that their term sets name."""
    monkeypatch.setattr(search, "_READ", 10_000)
    whole = children(large, ROOT, words, TocLevel.SEGMENT, limit=20, project=project)
    monkeypatch.setattr(search, "_READ", 100)
    found = children(large, ROOT, words, TocLevel.SEGMENT, limit=20, project=project)
    assert [r.relevance for r in found] == [r.relevance for r in whole]
    strict = [r.node.node_id for r in whole if r.relevance > whole[-1].relevance]
    assert [r.node.node_id for r in found][: len(strict)] == strict


def test_a_node_that_an_agent_refined_is_found_by_words_no_event_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_READ", 1)
    app = memory(a_day_of_drafts())
    segment = next(i for i in app.storage.toc.list_ids(TocLevel.SEGMENT))
    node = app.storage.toc.get_nodes([segment])[segment]
    assert children(app, ROOT, "quicksilver", TocLevel.SEGMENT) == []
    app.storage.toc.publish_build(
        Build(nodes=(replace(node, title="The quicksilver affair", author="agent", version=node.version + 1),))
    )
    assert [r.node.node_id for r in children(app, ROOT, "quicksilver", TocLevel.SEGMENT)] == [segment]
    app.close()


@requirement("plan:algo-has-more", "plan:search-children-response", "plan:risk-large-toc")
def test_pages_of_results_give_every_result_once(history: App) -> None:
    whole = children(history, ROOT, "fixed ticket decided", TocLevel.SEGMENT, limit=100)
    paged: list[NodeResult] = []
    offset: int | None = 0
    while offset is not None:
        page = history.agentic.nodes.search_children(ROOT, "fixed ticket decided", TocLevel.SEGMENT, None, 7, None, offset)
        assert len(page.results) <= 7
        paged += page.results
        offset = page.next_offset
        if len(paged) >= 100:
            break
    assert [r.node.node_id for r in paged][: len(whole)] == [r.node.node_id for r in whole]
    assert history.agentic.nodes.search_children(ROOT, RARE, TocLevel.DAY, None, 1, None).next_offset is None


@requirement("plan:drill-down-more-specific")
def test_below_a_node_that_matches_something_matches_down_to_the_segment(history: App) -> None:
    at: NodeId = ROOT
    for _ in range(5):
        found = children(history, at, RARE)
        assert found, at
        assert found[0].relevance == 1.0
        at = found[0].node.node_id
    assert level_of(at) is TocLevel.SEGMENT
    assert children(history, at, RARE) == []


@requirement("plan:goal-token-budget", "contract:philosophy-summaries-first")
def test_results_are_dropped_whole_to_fit_a_token_budget(history: App) -> None:
    found = children(history, ROOT, "fixed ticket decided", TocLevel.SEGMENT, limit=100)
    small = Budget(StopConditions(max_token_budget=300), history.clock)
    kept = fit_results(found, small)
    assert kept == found[: len(kept)]
    assert 0 < len(kept) < len(found)
    assert (small.spent.tokens <= 300, small.spent.hit) == (True, ["max_token_budget"])
    assert fit_results(found, Budget(StopConditions(max_token_budget=1), history.clock)) == []


# the walk


@requirement("goal:G4", "plan:goal-no-index", "plan:goal-explainable-paths", "plan:success-find-x", "plan:loop-path-and-evidence")
@requirement("plan:success-explainable-path", "contract:layer-2", "contract:evidence-handling")
@requirement("contract:anti-pattern-no-provenance", "contract:principle-agentic-always-works", "plan:loop-segment")
def test_a_question_is_answered_with_cited_words_and_the_way_to_them(history: App) -> None:
    answer = ask(history, f"which {RARE} adapter did we talk about?")
    best = answer.hits[0]
    assert RARE in best.quote.lower()
    assert best.grip_ids
    for hit in answer.hits:
        for grip_id in hit.grip_ids:
            expanded = history.evidence.expand_grip(grip_id)
            assert expanded.verified
        assert history.evidence.expand_grip(hit.grip_ids[0]).quote == hit.quote
    assert answer.path
    assert all(step.decision and step.label for step in answer.path)


@requirement("plan:loop-start", "plan:loop-search-children", "plan:loop-strong-match", "contract:philosophy-navigate")
@requirement("plan:loop-topics")
def test_a_rare_term_is_found_from_the_root_among_hundreds_of_sessions(large: App) -> None:
    assert large.storage.events.last_seq() > 1200
    spent = budget(large, max_nodes_visited=200, max_rpc_calls=20)
    answer = ask(large, f"{RARE} adapter", spend=spent)
    assert RARE in answer.hits[0].quote.lower()
    assert answer.path[0].node_id == ROOT
    assert "Drilling into" in answer.path[0].decision
    assert spent.spent.nodes_visited < 200
    assert not spent.spent.hit
    assert sum(step.searched for step in answer.path) == spent.spent.nodes_visited


@requirement("plan:risk-infinite-loop")
def test_no_node_is_expanded_twice_and_every_visit_is_counted(large: App) -> None:
    spent = budget(large)
    answer = ask(large, "word1 word2 word3", spend=spent)
    expanded = [step.node_id for step in answer.path]
    assert len(expanded) == len(set(expanded))
    assert spent.spent.rpc_calls >= len(expanded)
    assert sum(step.searched for step in answer.path) == spent.spent.nodes_visited


@requirement("plan:loop-time-hints")
@pytest.mark.parametrize(
    ("words", "first", "after"),
    [
        ("in January", "2026-01-01", "2026-02-01"),
        ("on 2026-02-03", "2026-02-03", "2026-02-04"),
        ("between 2026-01-20 and 2026-01-22", "2026-01-20", "2026-01-23"),
    ],
)
def test_a_time_in_the_question_limits_the_answer_to_it(history: App, words: str, first: str, after: str) -> None:
    answer = ask(history, f"what did we fix {words}", limit=50)
    window = TimeWindow(ms(f"{first} 00:00"), ms(f"{after} 00:00"))
    assert answer.window == window
    assert answer.hits
    assert all(window.contains(hit.timestamp) for hit in answer.hits)
    assert answer.notices == ()


@requirement("plan:loop-broaden", "plan:loop-siblings")
def test_nothing_in_the_time_named_widens_it_and_says_so(history: App) -> None:
    answer = ask(history, f"{RARE} adapter yesterday")
    assert RARE in answer.hits[0].quote.lower()
    assert any("widened" in notice for notice in answer.notices)
    near = ask(history, f"{RARE} on 2026-01-22")
    assert any("the periods beside it" in notice for notice in near.notices)
    assert not any("all time" in notice for notice in near.notices)


def test_a_time_and_nothing_else_lists_what_happened_then_the_day_itself_first_however_few_are_wanted(history: App) -> None:
    answer = ask(history, "on 2026-01-21", limit=50)
    window = TimeWindow(ms("2026-01-21 00:00"), ms("2026-01-22 00:00"))
    day, *segments = answer.hits
    assert day.node_id == "toc:day:2026-01-21"
    assert len(segments) == len(history.tree.descendants(day.node_id, TocLevel.SEGMENT))
    assert all(window.contains(h.timestamp) for h in segments)
    assert [h.timestamp for h in segments] == sorted((h.timestamp for h in segments), reverse=True)
    assert [h.node_id for h in ask(history, "on 2026-01-21", limit=1).hits] == ["toc:day:2026-01-21"]


def test_a_stretch_over_midnight_is_found_on_the_day_its_words_were_said(history: App) -> None:
    """Filters go by the time of events; the segment is filed under the day before."""
    answer = ask(history, "palladium on 2026-02-15")
    assert [h.quote for h in answer.hits] == ["The palladium build went through."]
    assert answer.notices == ()
    before = ask(history, "palladium on 2026-02-14")
    assert [h.quote for h in before.hits] == ["Deploying the nightly palladium build now."]


@pytest.mark.parametrize("project", [SHOP, BILLING, SITE])
def test_a_search_keeps_to_its_project(history: App, project: str) -> None:
    answer = ask(history, "what did we decide about the ticket", limit=100, project=project)
    assert answer.hits
    assert {h.project for h in answer.hits} == {project}
    assert bool(ask(history, RARE, project=project).hits) == (project == SHOP)


def test_a_search_keeps_to_its_agent_window_and_limit(history: App) -> None:
    codex = ask(history, "ticket fixed", limit=100, agent="codex")
    assert {h.agent for h in codex.hits} == {"codex"}
    window = TimeWindow(ms("2026-02-02 00:00"), ms("2026-02-03 00:00"))
    dated = ask(history, "ticket fixed", limit=100, window=window)
    assert dated.hits
    assert all(window.contains(h.timestamp) for h in dated.hits)
    for limit in (1, 3, 10):
        assert len(ask(history, "ticket fixed", limit=limit).hits) == limit


def test_a_walk_may_begin_anywhere_below_the_root(history: App) -> None:
    segment = ask(history, RARE).hits[0].node_id
    for start in (YEAR, MONTH, NodeId("toc:week:2026-W04"), NodeId("toc:day:2026-01-21"), segment):
        answer = history.agentic.navigate(Query(RARE), budget(history), NOON, start)
        assert [h.node_id for h in answer.hits] == [segment], start
    elsewhere = history.agentic.navigate(Query(RARE), budget(history), NOON, NodeId("toc:month:2026-02"))
    assert elsewhere.hits == ()


# bounds


@requirement("policy:bound-max_nodes_visited", "policy:FR-10", "contract:guarantee-respects-bounds")
@requirement("contract:anti-pattern-ignored-bounds")
@pytest.mark.parametrize("allowed", [1, 5, 20, 60])
def test_no_more_nodes_are_compared_than_allowed(large: App, allowed: int) -> None:
    spent = budget(large, max_nodes_visited=allowed)
    answer = ask(large, "word1 word2", spend=spent)
    assert spent.spent.nodes_visited <= allowed
    assert "max_nodes_visited" in spent.spent.hit
    assert sum(step.searched for step in answer.path) == spent.spent.nodes_visited


@requirement("policy:bound-max_rpc_calls", "contract:budget-enforcement")
@pytest.mark.parametrize("allowed", [1, 2, 5])
def test_no_more_calls_are_made_than_allowed(large: App, allowed: int) -> None:
    spent = budget(large, max_rpc_calls=allowed)
    answer = ask(large, "word1 word2", spend=spent, limit=100)
    assert spent.spent.rpc_calls <= allowed
    assert len(answer.path) == spent.spent.rpc_calls
    assert (spent.spent.hit == ["max_rpc_calls"]) == (allowed == 1), "from two on the last call reads what the walk did not reach"
    assert bool(answer.hits) == (allowed > 1)


@requirement("policy:bound-max_depth")
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_the_walk_goes_no_deeper_than_allowed(large: App, depth: int) -> None:
    spent = budget(large, max_depth=depth)
    answer = ask(large, f"{RARE} adapter", spend=spent)
    assert spent.spent.depth <= depth
    narrowed = [step for step in answer.path if step.searched_level != TocLevel.SEGMENT]
    assert all(DEPTH[TocLevel(step.searched_level)] <= depth for step in narrowed)
    assert RARE in answer.hits[0].quote.lower(), "below the last level it may narrow to, segments are compared one by one"
    assert ("max_depth" in spent.spent.hit) == (depth < 3), "a month of this history is compared segment by segment"


@requirement("policy:bound-timeout_ms", "policy:FR-09", "contract:agentic-timeout-partial", "plan:loop-budget-exhausted")
def test_a_walk_that_runs_out_of_time_gives_what_it_has_and_names_the_bound(large: App) -> None:
    for tick in (0.0, 0.3, 0.9, 5.0):
        clock = FakeClock(tick=tick)
        spent = Budget(StopConditions(timeout_ms=2000, max_nodes_visited=10_000, max_rpc_calls=1000), clock)
        answer = ask(large, "word1 word2 word3", spend=spent, limit=50)
        assert ("timeout_ms" in spent.spent.hit) == (tick > 0)
        if tick == 0.0:
            assert len(answer.hits) == 50


def test_the_time_is_looked_at_between_any_dozen_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty sessions of one day: reading a dozen of them takes a second here, and there is a second and a half."""
    app = memory(draft(f"The otter {n} sleeps.", at="2026-02-02 09:00", session=f"s{n}", source_id=str(n)) for n in range(60))
    clock, read = FakeClock(), list[int]()
    whole = SegmentReader.find_messages

    def slowly(self: SegmentReader, segments: Sequence[Segment], *rest: Any) -> Any:
        read.append(len(segments))
        clock.advance(1.0)
        return whole(self, segments, *rest)

    monkeypatch.setattr(SegmentReader, "find_messages", slowly)
    spent = Budget(StopConditions(timeout_ms=1500, max_nodes_visited=10_000, max_rpc_calls=1000), clock)
    assert app.agentic.navigate(Query("otter", 50), spent).hits
    assert read == [2], "in haste the first two are read for themselves"
    app.close()


@requirement("policy:bound-beam_width")
@requirement("policy:parallel-safe-beam")
def test_a_wider_beam_expands_more_nodes_at_once(large: App) -> None:
    steps = {}
    for width in (1, 3, 5):
        spent = budget(large, beam_width=width)
        answer = ask(large, f"{RARE} adapter", spend=spent, limit=1)
        steps[width] = len(answer.path)
        assert RARE in answer.hits[0].quote.lower()
    assert steps[1] <= steps[3] <= steps[5]


@pytest.mark.parametrize(("name", "value"), [("max_depth", 0), ("timeout_ms", 0), ("beam_width", 6), ("max_token_budget", -1)])
def test_bounds_have_ranges(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=name):
        StopConditions(**{name: value})


@requirement("policy:execute-with-bounds")
def test_the_default_bounds_are_those_of_the_policy() -> None:
    assert StopConditions() == StopConditions(5, 100, 20, 4000, 5000, 1)


@requirement("plan:success-graceful-degradation", "plan:loop-budget-exhausted")
def test_a_question_that_is_too_broad_gets_a_partial_answer(large: App) -> None:
    spent = budget(large, max_nodes_visited=60, max_rpc_calls=20)
    answer = ask(large, " ".join(f"word{i}" for i in range(40)), spend=spent)
    assert len(answer.hits) == 10
    assert spent.spent.hit


# not yet derived


@requirement("contract:guarantee-never-fails", "plan:future-always-fallback", "contract:agentic-no-dependencies")
def test_what_is_stored_and_not_yet_derived_is_found_all_the_same(app: App) -> None:
    app.write([draft(f"The {RARE} adapter is pending.", at="2026-03-01 09:00", source_id="p")], "test")
    assert app.derivation.count_pending() == 1
    (hit,) = ask(app, RARE).hits
    assert hit.quote == f"The {RARE} adapter is pending."
    assert app.evidence.expand_grip(hit.grip_ids[0]).quote == hit.quote
    app.derivation.run()
    (filed,) = ask(app, RARE).hits
    assert filed.node_id.startswith("toc:segment:2026-03-01:")
    assert findings(app) == []


def test_a_pending_event_behind_hundreds_of_others_is_found(app: App) -> None:
    """An import stores thousands of events before the tree follows: none of them may be invisible meanwhile."""
    noise = [draft(f"chatter number {i}", at=ms("2026-02-01 09:00") + i * 1000, source_id=str(i)) for i in range(1500)]
    app.write([*noise, draft(f"the {RARE} one", at="2026-03-01 09:00", source_id="r")], "test")
    assert [h.quote for h in ask(app, RARE).hits] == [f"the {RARE} one"]


def test_pending_events_keep_to_scope_and_time_too_and_a_time_alone_lists_them(app: App) -> None:
    app.write([draft("the thing that just happened", at="2026-03-01 09:00")], "test")
    assert [h.quote for h in ask(app, "on 2026-03-01").hits] == ["the thing that just happened"]
    app.write([draft(f"the {RARE} one", at="2026-03-01 09:00", project=SHOP)], "test")
    assert ask(app, RARE, project=BILLING).hits == ()
    assert ask(app, RARE, agent="codex").hits == ()
    assert ask(app, RARE, window=TimeWindow(0, ms("2026-02-01 00:00"))).hits == ()
    assert len(ask(app, RARE, project=SHOP, agent="claude-code").hits) == 1


@requirement("contract:anti-pattern-assume-index", "contract:agentic-declared")
def test_an_empty_memory_answers_with_nothing_by_a_layer_that_declares_its_contract(app: App) -> None:
    answer = ask(app, "anything at all")
    assert (answer.hits, answer.path) == ((), ())
    assert app.agentic.status().usable
    contract = CONTRACTS[app.agentic.name]
    assert (contract.failure_mode, contract.safe_fallback) == ("Timeout", "Return partial")


ODD = ('"', "a AND (b OR", "*", "日本語", "🚀 ticket", "x" * 5000, "ticket\x00", "\u202e ticket", "c++", "../../etc/passwd")


@pytest.mark.parametrize("text", ODD)
def test_odd_queries_are_answered_or_refused_as_empty(history: App, text: str) -> None:
    if query_terms(text):
        assert isinstance(ask(history, text), LayerAnswer)
    else:
        with pytest.raises(InvalidQuery, match="empty"):
            ask(history, text)
