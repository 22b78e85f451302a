"""What is indexed of a node and of a grip, who may find it, and that an index is never believed."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, Visibility
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.document import IndexDocument, Source, unit_of
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keys import grip_doc, grip_of, node_doc, node_of
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.ids import day_id, event_id, grip_id_from, month_id, segment_id, span_grip_id, week_id, year_id
from memory_mcp.model.toc import TocBullet
from memory_mcp.search.layers.base import LayerName
from memory_mcp.search.layers.teleport import TeleportLayer
from tests.factories import BILLING, SHOP, SITE, a_small_history, draft, event, grip, ms, node
from tests.indexes.helpers import followed, found, opened, reader_of, serving, units_in
from tests.requirements import requirement

DAYS = st.dates(min_value=dt.date(1970, 1, 1))


def layer_of(app: App, keeper: Keeper) -> TeleportLayer:
    return TeleportLayer(LayerName.BM25, serving(Bm25Index(keeper)), app.storage, app.tree, reader_of(keeper, app.storage))


@requirement("bm25:indexed-toc_node-doc_id")
@given(DAYS, st.integers(1, (1 << 60) - 1))
def test_a_key_leads_back_to_its_node(day: dt.date, key: int) -> None:
    year, week, _ = day.isocalendar()
    ids = [day_id(day.isoformat()), month_id(day.year, day.month), year_id(day.year), segment_id(day.isoformat(), key)]
    for node_id in [*ids, *([week_id(year, week)] if year <= 9998 else [])]:
        high, low = node_doc(node_id)
        assert high >> 63
        assert node_of(high, low) == node_id


def test_shares_of_projects_have_keys_of_their_own_and_lead_to_the_same_node() -> None:
    keys = {node_doc(day_id("2026-01-12"), project) for project in (None, "", SHOP, BILLING, SITE)}
    assert len(keys) == 5
    assert {node_of(*key) for key in keys} == {"toc:day:2026-01-12"}


@given(st.integers(0, 2**45), st.integers(0, (1 << 80) - 1))
def test_a_key_leads_back_to_its_grip(at: int, tail: int) -> None:
    whole = grip_id_from(at << 80 | tail)
    high, low = grip_doc(whole)
    assert not high >> 63
    assert grip_of(high, low) == whole


def test_ids_of_spans_are_no_documents() -> None:
    from memory_mcp.base.errors import InvalidQuery

    with pytest.raises(InvalidQuery):
        grip_doc(span_grip_id(event_id(5, "test", "x"), 0, 3))


@requirement("bm25:FR-02.1", "bm25:indexed-toc_node-text", "bm25:indexed-toc_node-level", "bm25:indexed-toc_node-doc_type")
@requirement("bm25:FR-02.2")
def test_a_segment_is_found_by_what_is_said_of_it_and_in_it_and_a_grip_by_its_excerpt(kept: App, keeper: Keeper) -> None:
    for one in kept.storage.toc.iter_nodes():
        said = [one.title.split(" · ", 1)[-1], *(b.text for b in one.bullets), *one.keywords]
        for text in said[:4]:
            ids = {m.node_id for m in found(keeper.index, text, Filters(doc_type=DocType.NODE, level=one.level))[1]}
            assert one.node_id in ids, text
    (cut, *_) = kept.storage.toc.iter_cuts()
    for own in kept.storage.events.segment_events(cut):
        assert cut.node_id in {m.node_id for m in found(keeper.index, own.text, Filters(level=TocLevel.SEGMENT))[1]}
    count = 0
    for batch in kept.storage.grips.iter_all():
        for cited in batch:
            quote = kept.evidence.expand_grip(cited.grip_id).quote
            match = next(m for m in found(keeper.index, quote, Filters(doc_type=DocType.GRIP))[1] if m.grip_id == cited.grip_id)
            assert match.start_ms == cited.timestamp
            assert kept.storage.toc.find_node(match.node_id) is not None
            count += 1
    assert count == keeper.status().counts["grip"]


def test_every_node_and_grip_is_one_document_periods_one_more_per_project_and_nothing_of_another_is_found(
    kept: App, keeper: Keeper
) -> None:
    documents = [d for u in units_in(kept.storage) for d in (*u.nodes, *u.grips)]
    assert len({d.key for d in documents}) == len(documents) == keeper.status().documents
    whole = {node_of(*d.key) for d in documents if d.doc_type is DocType.NODE and d.visible is not Visibility.SCOPED}
    assert whole == {n.node_id for n in kept.storage.toc.iter_nodes()}
    grips = {g.grip_id for batch in kept.storage.grips.iter_all() for g in batch}
    assert {grip_of(*d.key) for d in documents if d.doc_type is DocType.GRIP} == grips
    for project in (SHOP, BILLING, SITE):
        own = {c.node_id for c in kept.storage.toc.iter_cuts() if c.project == project}
        _, best = found(keeper.index, "ticket cause test Decimal invoices theme", Filters(project=project))
        assert best
        assert {m.node_id for m in best if m.node_id.startswith("toc:segment")} <= own
        hits = layer_of(kept, keeper).teleport(IndexQuery("ticket cause invoices", Filters(project=project), 50)).hits
        assert {h.project for h in hits if h.event_id} == {project}
    assert found(keeper.index, "ticket", Filters(project="github.com/acme/none")) == (0, [])


def test_a_period_of_two_projects_is_a_whole_and_a_share_of_each() -> None:
    bullets = [
        TocBullet("the cart rounds", (), project=SHOP, agent="codex"),
        TocBullet("invoices twice", (), project=BILLING),
        TocBullet("the cart again", (), project=SHOP, agent="claude-code"),
    ]
    unit = unit_of(Source(node(bullets=bullets)))
    told = [(d.visible, d.project, d.words[:2], d.agents) for d in unit.nodes if d.visible is Visibility.SCOPED]
    assert told == [
        (Visibility.SCOPED, BILLING, ("invoices twice",), ()),
        (Visibility.SCOPED, SHOP, ("the cart rounds", "the cart again"), ("claude-code", "codex")),
    ]
    (whole,) = [d for d in unit.nodes if d.visible is Visibility.UNSCOPED]
    assert (whole.words[0], whole.words[-1]) == ("the retry queue", "retry queue")
    assert whole.words.count("retry queue") == 2, "keywords count twice"


def test_each_filter_leaves_exactly_what_passes_it(kept: App, keeper: Keeper) -> None:
    documents: dict[tuple[object, ...], IndexDocument] = {
        (d.doc_type, *d.key): d for u in units_in(kept.storage) for d in (*u.nodes, *u.grips)
    }
    query = "ticket cause test"

    def kept_by(filters: Filters) -> set[tuple[object, ...]]:
        _, best = found(keeper.index, query, filters)
        return {(m.doc_type, *(grip_doc(m.grip_id) if m.grip_id else node_doc(m.node_id))) for m in best}

    everything = kept_by(Filters())
    window = TimeWindow(ms("2026-01-12 00:00"), ms("2026-01-13 00:00"))
    cases: list[tuple[Filters, Callable[[IndexDocument], bool]]] = [
        (Filters(doc_type=DocType.NODE), lambda d: d.doc_type is DocType.NODE),
        (Filters(doc_type=DocType.GRIP), lambda d: d.doc_type is DocType.GRIP),
        (Filters(level=TocLevel.DAY), lambda d: d.level is TocLevel.DAY),
        (Filters(agent="codex"), lambda d: "codex" in d.agents),
        (Filters(window=window), lambda d: window.start_ms <= d.start_ms and d.end_ms <= window.end_ms),
        (Filters(speaker="nobody"), lambda d: False),
    ]
    for filters, passes in cases:
        wanted = {key for key in everything if passes(documents[key])}
        assert kept_by(filters) == wanted, filters


def test_a_grip_between_two_events_says_the_words_of_both(kept: App) -> None:
    first, last = event("call: pytest", source_id="a"), event("3 passed and osmium", at="2026-01-12 09:01", source_id="b")
    own = replace(grip(first), event_id_end=last.event_id, span_end=len(last.text), span_start=0)
    (cut, *_) = kept.storage.toc.iter_cuts()
    unit = unit_of(Source(node(cut.node_id, at="2026-01-12 09:00"), cut, (first, last), (own,)))
    (document,) = unit.grips
    assert "call: pytest" in document.words[-1]
    assert "osmium" in document.words[-1]


def test_what_the_store_does_not_hold_any_more_is_not_shown(kept: App, keeper: Keeper) -> None:
    layer = layer_of(kept, keeper)
    before = layer.teleport(IndexQuery("ticket cause", Filters(level=TocLevel.SEGMENT), 50)).hits
    gone = before[0].node_id
    kept.storage.toc.drop_nodes([gone])
    after = layer.teleport(IndexQuery("ticket cause", Filters(level=TocLevel.SEGMENT), 50)).hits
    assert [h.node_id for h in after] == [h.node_id for h in before if h.node_id != gone]


@requirement("bm25:optional")
def test_navigation_answers_the_same_whatever_the_index_holds(tmp_path: Path) -> None:
    from memory_mcp.search.layers.base import Query
    from memory_mcp.search.layers.budget import Budget, StopConditions

    app = opened(tmp_path / "data")
    app.write(a_small_history(1), "test")
    app.derivation.run()

    def navigated() -> list[object]:
        asked = [Query(q, 5, project) for q in ("the retry queue", "Decimal rounds", "test") for project in (None, BILLING)]
        return [app.agentic.search(q, Budget(StopConditions(timeout_ms=60_000), app.clock)).hits for q in asked]

    before = navigated()
    app.accelerators.catch_up()
    assert navigated() == before
    app.accelerators.prune("bm25", 1, "all")
    assert navigated() == before
    app.close()


def test_late_words_in_an_old_segment_replace_its_documents(kept: App, keeper: Keeper) -> None:
    (cut, *_) = kept.storage.toc.iter_cuts()
    known = kept.storage.events.segment_events(cut)[0]
    late = draft(
        "a late word: osmium", at=known.timestamp + 1000, session=known.session_id, project=known.project, source_id="late"
    )
    kept.write([replace(late, agent=known.agent, thread=known.thread)], "test")
    kept.derivation.run()
    followed(keeper, kept.storage)
    assert len(found(keeper.index, "osmium", Filters(level=TocLevel.SEGMENT, doc_type=DocType.NODE))[1]) == 1
    documents = [d for u in units_in(kept.storage) for d in (*u.nodes, *u.grips)]
    assert keeper.status().documents == len(documents)
