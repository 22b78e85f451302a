"""Exact vector search: against numpy in float32, with filters, thresholds and ties, and however documents lie in parts."""

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType, Filters, Match, Matches, Position
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import grip_of, node_of
from memory_mcp.indexes.shard import LiveShard, merge_shards
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from memory_mcp.indexes.vector.search import search_documents
from memory_mcp.model.calendar import TimeWindow, TocLevel
from tests.examples import examples
from tests.indexes.models import START, grip, live, made_up, node, snapshot, static_model, unit

ALL = Filters()
HOUR = 3_600_000


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> VectorKind:
    return VectorKind(Model2Vec(static_model(tmp_path_factory.mktemp("model"))))


def ask(
    kind: VectorKind, held: Snapshot[VectorBody], text: str, filters: Filters = ALL, limit: int = 10, least: float = 0.0
) -> Matches:
    return search_documents(held, kind.embedder.embed([text])[0], filters, limit, least)


def ids(matches: Matches | Iterable[Match]) -> list[str]:
    found = matches.best if isinstance(matches, Matches) else matches
    return [m.grip_id or m.node_id for m in found]


def name_of(match: Match) -> str:
    return match.grip_id or match.node_id


def name(document: IndexDocument) -> str:
    return node_of(*document.key) if document.key[0] >> 63 else grip_of(*document.key)


def documents(units: Iterable[Unit]) -> list[IndexDocument]:
    return [d for u in units for d in (*u.nodes, *u.grips)]


def cosines(kind: VectorKind, units: Iterable[Unit], text: str) -> dict[str, float]:
    """Of every document, in float32."""
    held = documents(units)
    rows: Array = kind.embedder.embed([d.gist for d in held])
    return dict(zip(map(name, held), (rows @ kind.embedder.embed([text])[0]).tolist(), strict=True))


QUERIES = ("fix the login timeout", "kitten", "refund of the invoice payment", "zyzzyva train travel ticket", "a of to and the")


def test_the_best_are_those_of_exact_search_in_float32(kind: VectorKind) -> None:
    units = made_up(1000)
    held = snapshot(kind, units)
    hits = 0
    for query, table in itertools.product(QUERIES, DocType):
        exact = {i: v for i, v in cosines(kind, units, query).items() if i.startswith("grip") == (table is DocType.GRIP)}
        found = ask(kind, held, query, Filters(doc_type=table))
        tenth = sorted(exact.values(), reverse=True)[9]
        hits += sum(exact[i] >= tenth - 1e-6 for i in ids(found))
        assert all(abs(m.raw - exact[i]) < 0.01 for m, i in zip(found.best, ids(found), strict=True))
        assert [m.raw for m in found.best] == sorted((m.raw for m in found.best), reverse=True)
        assert abs(found.total - sum(v > 0 for v in exact.values())) <= 0.01 * len(exact)
    assert hits >= 0.98 * 10 * len(QUERIES) * len(DocType)


@given(st.integers(0, 10_000), st.sampled_from(QUERIES), st.integers(1, 80))
def test_both_tables_are_ranked_by_themselves_and_merged_by_score(kind: VectorKind, seed: int, query: str, limit: int) -> None:
    held = snapshot(kind, made_up(40, seed))
    single = [m for table in DocType for m in ask(kind, held, query, Filters(doc_type=table), limit=100).best]
    expected = sorted((m.score for m in single), reverse=True)[:limit]
    found = ask(kind, held, query, limit=limit)
    assert [m.score for m in found.best] == expected
    assert {(name_of(m), m.score, m.parts) for m in found.best} <= {(name_of(m), m.score, m.parts) for m in single}
    for table in DocType:
        raws = [m.raw for m in found.best if m.doc_type is table]
        assert raws == sorted(raws, reverse=True)


def test_a_score_says_how_far_a_document_stands_out(kind: VectorKind) -> None:
    """However the best compares with the query: a good one among nine as good is worth less than one alone."""
    alone = ask(
        kind, snapshot(kind, [unit(1, "login token"), *(unit(i, "tax login kitten") for i in range(2, 30))]), "login token"
    )
    among = ask(kind, snapshot(kind, [unit(i, "login token") for i in range(1, 30)]), "login token")
    assert alone.best[0].node_key == 1
    assert alone.best[0].raw == pytest.approx(among.best[0].raw)
    assert alone.best[0].score > among.best[0].score


def test_a_match_says_what_it_is_and_where_it_lies(kind: VectorKind) -> None:
    held = snapshot(kind, [unit(7, "kitten in the garden", ["sunrise", "kitten garden"], "shop"), unit(8, "tax")])
    segment, quote = unit(7, "").nodes[0], unit(7, "", ["", ""]).grips[1]
    first, second = ask(kind, held, "kitten garden", limit=2).best
    assert (second.doc_type, second.node_id, second.grip_id) == (DocType.NODE, node_of(*segment.key), None)
    assert second.best_grip == first.grip_id == grip_of(*quote.key)
    assert (first.doc_type, first.node_id, first.node_key) == (DocType.GRIP, second.node_id, 7)
    assert first.start_ms == quote.start_ms
    assert first.raw == pytest.approx(1.0, abs=1e-3)
    assert first.raw <= 1.0
    assert [n for n, _ in first.parts] == ["similarity", "standing"]
    assert dict(first.parts)["similarity"] == round(first.raw, 6)
    assert 0 < dict(first.parts)["standing"] <= 1
    assert 0 <= first.score <= 1


def test_filters_apply_before_the_best_are_chosen(kind: VectorKind) -> None:
    units = made_up(400)
    held = snapshot(kind, units)
    narrow = unit(9001, "tax", ["kitten"], project="rare")
    everything = {name(d): d for d in documents([*units, narrow])}
    held = snapshot(kind, [*units, narrow])
    for filters, fits in (
        (Filters(project="site"), lambda d: d.project == "site"),
        (Filters(doc_type=DocType.NODE), lambda d: d.doc_type is DocType.NODE),
        (Filters(doc_type=DocType.GRIP), lambda d: d.doc_type is DocType.GRIP),
        (Filters(level=TocLevel.SEGMENT), lambda d: d.doc_type is DocType.NODE),
        (Filters(agent="codex"), lambda d: False),
        (Filters(window=TimeWindow(START, START + 90 * HOUR)), lambda d: d.end_ms < START + 90 * HOUR),
    ):
        exact = cosines(kind, [*units, narrow], "fix the login timeout")
        found = ask(kind, held, "fix the login timeout", filters, limit=2000)
        assert all(fits(everything[i]) for i in ids(found)), filters
        for table in DocType:
            passing = (i for i, d in everything.items() if d.doc_type is table and fits(d))
            wanted = sorted((exact[i] for i in passing if exact[i] > 0), reverse=True)[:10]
            raws = [m.raw for m in found.best if m.doc_type is table][:10]
            assert np.allclose(raws, wanted, atol=0.01), filters
    similar = {i for i, v in cosines(kind, [narrow], "kitten").items() if v > 0}
    assert name(narrow.grips[0]) in similar
    assert set(ids(ask(kind, held, "kitten", Filters(project="rare")))) == similar


def test_less_similar_documents_are_neither_shown_nor_counted(kind: VectorKind) -> None:
    units = made_up(300)
    held = snapshot(kind, units)
    everything = ask(kind, held, QUERIES[0], limit=5000)
    assert everything.total == len(everything.best)
    assert all(m.raw > 0 for m in everything.best)
    near = [m for m in everything.best if m.raw >= 0.4]
    assert ask(kind, held, QUERIES[0], limit=5000, least=0.4) == Matches(tuple(near), len(near))
    assert ask(kind, held, QUERIES[0], limit=3, least=0.4) == Matches(tuple(near[:3]), len(near))
    assert ask(kind, held, QUERIES[0], least=-1.0) == ask(kind, held, QUERIES[0])
    assert ask(kind, held, QUERIES[0], least=1.01) == Matches((), 0)


def test_texts_of_unknown_words_match_nothing_and_are_matched_by_nothing(kind: VectorKind) -> None:
    held = snapshot(kind, [unit(1, "zyzzyva", ["qoph", "login"]), unit(2, "")])
    assert len(ask(kind, held, "login").best) == 1
    assert ask(kind, held, "zyzzyva qoph") == Matches((), 0)
    assert ask(kind, snapshot(kind), "login") == Matches((), 0)


def test_equal_documents_come_in_the_order_of_their_keys(kind: VectorKind) -> None:
    units = [unit(i, "login token", ["login token"] * 3) for i in range(300)]
    for table, count in ((DocType.NODE, 300), (DocType.GRIP, 900)):
        keys = sorted(d.key for d in documents(units) if d.doc_type is table)
        expected = [node_of(*k) if k[0] >> 63 else grip_of(*k) for k in keys]
        for groups in ([units], [units[200:], units[:50], units[50:200]]):
            found = ask(kind, snapshot(kind, *groups), "login token", Filters(doc_type=table), limit=25)
            assert ids(found) == expected[:25]
            assert found.total == count


def test_a_segment_over_the_windows_edge_counts_only_with_something_near_inside(kind: VectorKind) -> None:
    def at(minute: int, key: int, text: str) -> IndexDocument:
        return grip(key, text, START + minute * 60_000)

    segments = [
        ("inside", 0, 30, [at(10, 1, "kitten")]),
        ("proven", -60, 90, [at(-50, 2, "kitten"), at(20, 3, "kitten")]),
        ("unproven", -60, 90, [at(-50, 4, "kitten")]),
        ("unrelated", -60, 90, [at(-50, 5, "kitten"), at(20, 6, "zyzzyva")]),
    ]
    units = []
    for key, (_, start, minutes, grips) in enumerate(segments, start=1):
        segment = node(key, "kitten", START + start * 60_000, minutes)
        units.append(replace(unit(key, "kitten"), nodes=(segment,), grips=tuple(grips)))
    filters = Filters(window=TimeWindow(START, START + 40 * 60_000))
    found = ask(kind, snapshot(kind, units), "kitten", replace(filters, doc_type=DocType.NODE))
    assert found.total == 2
    assert {m.node_key: m.best_grip for m in found.best} == {1: name(units[0].grips[0]), 2: name(units[1].grips[1])}


@examples(5)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 60), max_size=6), st.sampled_from(QUERIES), st.integers(1, 80))
def test_results_do_not_depend_on_how_documents_are_spread_over_parts(
    kind: VectorKind, seed: int, cuts: list[int], query: str, limit: int
) -> None:
    units = made_up(60, seed)
    edges = [0, *sorted(cuts), 60]
    groups = [units[a:b] for a, b in itertools.pairwise(edges)]
    for filters in (Filters(), Filters(project="shop"), Filters(window=TimeWindow(START, START + 20 * HOUR))):
        expected = ask(kind, snapshot(kind, units), query, filters, limit)
        assert ask(kind, snapshot(kind, *groups), query, filters, limit) == expected
        assert ask(kind, snapshot(kind, *reversed(groups)), query, filters, limit) == expected


@examples(12)
@given(st.integers(0, 10_000), st.sets(st.integers(0, 59)), st.sampled_from(QUERIES))
def test_dropped_and_merged_units_leave_what_a_new_build_has(kind: VectorKind, seed: int, dropped: set[int], query: str) -> None:
    units = made_up(60, seed)
    kept = [u for i, u in enumerate(units) if i not in dropped]
    parts = [live(kind, units[:25]), live(kind, units[25:])]
    gone = np.sort(np.array([units[i].key for i in dropped], dtype=np.uint64))
    parts = [p.without_units(p.find_units(gone)) for p in parts]
    expected = ask(kind, snapshot(kind, kept), query, limit=30)
    assert ask(kind, Snapshot.from_shards(tuple(parts), Position()), query, limit=30) == expected
    whole = LiveShard(merge_shards(kind, parts))
    assert ask(kind, Snapshot.from_shards((whole,), Position()), query, limit=30) == expected
    assert len(whole.shard.body.nodes) == len(kept)


def test_models_with_any_number_of_dimensions_work_up_to_the_bound(tmp_path: Path) -> None:
    from memory_mcp.base.errors import LayerUnavailable

    for dimensions in (1, 7, 100, 1024):
        kind = VectorKind(Model2Vec(static_model(tmp_path / str(dimensions), dimensions=dimensions)))
        held = snapshot(kind, [unit(1, "login", ["login token"])])
        assert ask(kind, held, "login").best[0].raw == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(LayerUnavailable, match="1025 dimensions"):
        VectorKind(Model2Vec(static_model(tmp_path / "wide", dimensions=1025))).fingerprint()


def test_threads_that_search_at_once_find_the_same(kind: VectorKind) -> None:
    held = snapshot(kind, made_up(300), made_up(300, 1))
    expected = {q: ask(kind, held, q) for q in QUERIES}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda q: (q, ask(kind, held, q)), QUERIES * 20))
    assert all(matches == expected[q] for q, matches in found)
