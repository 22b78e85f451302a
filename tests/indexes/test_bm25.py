"""BM25 against the formula, computed naively from the documents; the same answers however documents lie in parts; traps."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.base.errors import IndexUnreadable, InvalidQuery
from memory_mcp.base.text import iter_terms, query_terms
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, Match, Position
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.bm25.kind import Bm25Kind
from memory_mcp.indexes.bm25.postings import FORMS
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keys import grip_doc, node_doc
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.shard import LiveShard, build_shard, merge_shards
from memory_mcp.indexes.snapshot import Snapshot, sorted_keys
from memory_mcp.model.calendar import TocLevel
from tests.examples import examples
from tests.factories import BILLING, SHOP
from tests.indexes.helpers import (
    FILTERS,
    START,
    WORDS,
    filled,
    found,
    in_messages,
    index_at,
    made_up,
    reloaded,
    same,
    unit,
    units_in,
)
from tests.requirements import requirement

STEP = 1 / 255
NEIGHBOURS = {1: 0.17, 2: 0.12}
OF_SEGMENT, OF_BEST, OF_GRIP, OF_ASKING = 0.95, 0.54, 1.0, 0.15
QUERIES = ("retry queue", "invoice", "tokenStore login", "the slow bank", "src/cart/total.py", "café", "x86_64 lock", "absent")


@dataclass(frozen=True)
class Oracle:
    """The scores of all documents of some units, by the formula; term-frequency parts in steps of 1/255 or exact."""

    units: Sequence[Unit]
    coded: bool = True

    def counts(self, document: IndexDocument) -> Counter[str]:
        return Counter(t for text in document.words for t in iter_terms(text))

    def idf(self, terms: Sequence[str]) -> dict[str, float]:
        documents = [self.counts(d) for u in self.units if u.level is TocLevel.SEGMENT for d in (*u.nodes, *u.grips)]
        df = {t: sum(t in d for d in documents) for t in terms}
        return {t: math.log(1 + (len(documents) - df[t] + 0.5) / (df[t] + 0.5)) for t in terms}

    def own(self, document: IndexDocument, idf: Mapping[str, float]) -> float:
        form, counts = FORMS[document.doc_type], self.counts(document)
        norm = form.k1 * (1 - form.b + form.b * counts.total() / form.average)
        total = 0.0
        for term, weight in idf.items():
            if counts[term]:
                part = counts[term] / (counts[term] + norm)
                total += weight * (max(1, round(part / STEP)) * STEP if self.coded else part)
        return total

    def scores(self, query: str) -> dict[tuple[int, int], float]:
        """By document key, of those that hold a term; of a message with several grips the best of them."""
        idf = self.idf(query_terms(query))
        told: dict[tuple[int, int], float] = {}
        for u in self.units:
            nodes = [self.own(n, idf) for n in u.nodes]
            messages = [
                [(self.own(g, idf) * (1 - OF_ASKING * g.question_share / 255), g) for g in grips]
                for grips in ([*group] for _, group in groupby(u.grips, key=lambda g: g.message or g.key))
            ]
            best_of = [max(grips, key=lambda pair: pair[0]) for grips in messages]
            smooth = [
                sum(NEIGHBOURS.get(abs(i - j), 1.0 if i == j else 0.0) * score for j, (score, _) in enumerate(best_of))
                for i in range(len(best_of))
            ]
            best = max((s for s, (own, _) in zip(smooth, best_of, strict=True) if own), default=0.0)
            told |= {g.key: smooth[i] + OF_SEGMENT * nodes[0] + OF_BEST * best for i, (own, g) in enumerate(best_of) if own}
            told |= {n.key: nodes[i] + OF_GRIP * best for i, n in enumerate(u.nodes) if nodes[i]}
        return told


def by_key(matches: Sequence[Match]) -> dict[tuple[int, int], float]:
    """Raw scores by document key."""
    return {grip_doc(m.grip_id) if m.grip_id else node_doc(m.node_id): m.raw for m in matches}


def in_parts(units: Sequence[Unit], sizes: Sequence[int]) -> Snapshot[Any]:
    """A snapshot of parts of these sizes, in memory."""
    kind, parts, rest = Bm25Kind(), [], list(units)
    for size in sizes:
        group, rest = rest[:size], rest[size:]
        parts.append(LiveShard(build_shard(kind, group, [kind.prepare_unit(u) for u in group])))
    if rest:
        parts.append(LiveShard(build_shard(kind, rest, [kind.prepare_unit(u) for u in rest])))
    return Snapshot.from_shards(tuple(p for p in parts if p.size), Position())


def told(snapshot: Snapshot[Any], query: str, filters: Filters | None = None, limit: int = 1000) -> tuple[int, list[Match]]:
    from memory_mcp.indexes.bm25.search import search_documents

    matches = search_documents(snapshot, query_terms(query), filters or Filters(), limit)
    return matches.total, list(matches.best)


@requirement("bm25:FR-03.3")
@examples(10)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_scores_are_those_of_the_formula_also_of_messages_of_several_grips(seed: int, words: list[str]) -> None:
    units = made_up(random.Random(seed).randrange(1, 30), seed)
    query = " ".join(words)
    total, best = told(in_parts(units, ()), query)
    wanted = Oracle(units).scores(query)
    assert by_key(best) == {key: pytest.approx(score, rel=1e-9) for key, score in wanted.items()}
    assert total == len(wanted)
    assert [m.raw for m in best if m.grip_id] == sorted((m.raw for m in best if m.grip_id), reverse=True)
    units = in_messages(made_up(random.Random(seed).randrange(1, 30), seed), seed)
    total, best = told(in_parts(units, (7,)), query)
    wanted = Oracle(units).scores(query)
    assert sorted(m.raw for m in best) == pytest.approx(sorted(wanted.values()), rel=1e-9)
    assert by_key(best) == {key: pytest.approx(score, rel=1e-9) for key, score in wanted.items()}
    assert total == len(wanted)


def test_scores_of_rare_and_of_frequent_terms_are_those_of_the_formula() -> None:
    """A query that touches few rows and one that touches most are computed in different ways."""
    rare = [unit(n, "queue", "bank", "osmium once", "cart", "osmium cart", "retry", "lines") for n in (200, 201)]
    units = [*made_up(150, 7), *rare, unit(202, "osmium", "osmium")]
    snapshot = in_parts(units, (40, 40))
    for query in ("osmium", "osmium retry", "retry queue bank slow cart", "applyDiscount", "osmium lock image theme"):
        total, best = told(snapshot, query)
        wanted = Oracle(units).scores(query)
        assert by_key(best) == {key: pytest.approx(score, rel=1e-9) for key, score in wanted.items()}
        assert total == len(wanted)


def test_coding_in_steps_moves_a_score_by_no_more_than_half_a_step_per_term() -> None:
    units = made_up(40, 3)
    for query in QUERIES:
        exact, coded = Oracle(units, coded=False), Oracle(units)
        idf = sum(exact.idf(query_terms(query)).values())
        # What lifts a score is coded too: two neighbours on each side and the segment; the grip under a segment.
        lifts = (1 + 2 * sum(NEIGHBOURS.values())) * (1 + OF_BEST) + OF_SEGMENT + OF_GRIP
        wanted = exact.scores(query)
        assert coded.scores(query).keys() == wanted.keys()
        for key, score in coded.scores(query).items():
            assert abs(score - wanted[key]) <= idf * lifts / 255 / 2 + 1e-9


def test_scores_over_a_real_store_are_those_of_the_formula(kept: App, keeper: Keeper) -> None:
    units = units_in(kept.storage)
    for query in ("ticket cause", "test_137 failed", "discount rounds", "Decimal", "invoices idempotency key"):
        total, best = found(keeper.index, query)
        wanted = Oracle(units).scores(query)
        assert total == sum(1 for u in units for d in (*u.nodes, *u.grips) if d.key in wanted and d.visible != 2)
        hidden = {d.key for u in units for d in (*u.nodes, *u.grips) if d.visible == 2}
        assert sorted(m.raw for m in best) == pytest.approx(sorted(s for k, s in wanted.items() if k not in hidden))


@examples(10)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 12), max_size=6), st.sampled_from(QUERIES), st.sampled_from(FILTERS))
def test_answers_do_not_depend_on_which_part_holds_a_document(seed: int, sizes: list[int], query: str, one: Filters) -> None:
    units = made_up(30, seed)
    assert told(in_parts(units, sizes), query, one) == told(in_parts(units, ()), query, one)
    backwards = list(reversed(units))
    assert told(in_parts(backwards, sizes), query, one) == told(in_parts(units, ()), query, one)


@examples(10)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 8), min_size=1, max_size=5), st.sets(st.integers(0, 29)))
def test_dead_units_count_for_nothing_merged_or_not(seed: int, sizes: list[int], dead: set[int]) -> None:
    units = made_up(30, seed)
    keys = {units[i].key for i in dead}
    alive = in_parts([u for u in units if u.key not in keys], ())
    parts = [p.without_units(p.find_units(sorted_keys(list(keys)))) for p in in_parts(units, sizes)]
    marked = Snapshot.from_shards(tuple(parts), Position())
    joined = (
        Snapshot.from_shards((LiveShard(merge_shards(Bm25Kind(), parts)),), Position()) if any(p.size for p in parts) else marked
    )
    assert marked.counts == alive.counts == joined.counts
    for query in QUERIES:
        wanted = told(alive, query)
        assert told(marked, query) == wanted
        assert told(joined, query) == wanted


def test_the_same_through_files_commits_and_merges(tmp_path: Path) -> None:
    units = made_up(84, 5)
    whole = filled(tmp_path / "whole", [units])
    small = filled(tmp_path / "small", [units[i : i + 7] for i in range(0, 84, 7)])
    replaced = made_up(40, 6)
    for index in (whole, small):
        index.apply_units(replaced, [u.key for u in units[70:]], Position(99, 99))
    assert small.status().parts > 1
    same(small, whole, QUERIES)
    small.commit()
    same(reloaded(tmp_path / "small"), filled(tmp_path / "again", [[*replaced, *units[40:70]]]), QUERIES)


# traps


def test_an_empty_index_answers_with_nothing(tmp_path: Path) -> None:
    index = filled(tmp_path, [])
    assert [found(index, q, f) for q in QUERIES for f in FILTERS] == [(0, [])] * (len(QUERIES) * len(FILTERS))
    assert found(reloaded(tmp_path), "retry") == (0, [])


def test_documents_without_a_word_are_kept_and_never_found(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, ""), unit(1, "...", "", "   "), unit(2, "the of and", "a")]])
    assert sum(index.snapshot.counts.values()) == 6
    assert found(index, "retry") == (0, [])
    index.apply_units([unit(3, "retry", "")], [], Position(9, 9))
    assert [m.doc_type for m in found(index, "retry")[1]] == [DocType.NODE]
    index.commit()
    assert found(reloaded(tmp_path), "retry")[0] == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100, 100_000])
def test_asking_for_more_than_there_is_gives_what_there_is(tmp_path: Path, limit: int) -> None:
    index = filled(tmp_path, [[unit(0, "retry queue", "retry"), unit(1, "bank", "retry bank")]])
    total, best = found(index, "retry", limit=limit)
    assert (total, len(best)) == (4, min(limit, 4))
    assert best == found(index, "retry")[1][:limit]


def test_queries_of_any_sort_are_answered_and_a_term_that_nothing_holds_gives_nothing_instead_of_everything(
    tmp_path: Path,
) -> None:
    index = filled(tmp_path, [made_up(20)])
    assert found(index, "absent") == (0, [])
    alone, beside = found(index, "invoice"), found(index, "invoice absent")
    assert alone[0] == beside[0]
    for one in DocType:
        ids = [[(m.node_id, m.grip_id, m.raw) for m in matches if m.doc_type is one] for _, matches in (alone, beside)]
        assert ids[0] == ids[1]
    odd = ["AND OR NOT", '"quoted', "a:b*~^2", "(", "retry\0queue", "\ud800retry", "retry " * 500, "x" * 4000, "OR 1=1 --", "%_"]
    for query in odd:
        total, best = found(index, query)
        assert total == len(best)


def test_a_term_that_only_replaced_documents_held_is_gone(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "osmium", "osmium here"), unit(1, "queue")]])
    assert found(index, "osmium")[0] == 2
    index.apply_units([unit(0, "iridium", "iridium here")], [], Position(5, 5))
    assert found(index, "osmium") == (0, [])
    assert found(index, "iridium")[0] == 2
    index.apply_units([], [unit(1, "").key], Position(6, 6))
    index.commit()
    assert found(reloaded(tmp_path), "osmium queue") == (0, [])


def test_an_index_of_one_document(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    total, (match,) = found(index, "retry")
    assert total == 1
    assert match.raw == pytest.approx(Oracle([unit(0, "retry")]).scores("retry")[unit(0, "retry").nodes[0].key])
    assert 0 < match.score <= 1
    assert (match.best_grip, match.start_ms) == (None, START)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("re\0try queue", "queue"),
        ("\ud800 half a pair queue", "queue"),
        ("\0", "\0"),
        ("日本語のテキスト", "日本語"),
        ("検索エンジン", "検索"),
        ("한국어 검색", "한국어"),
        ("queue " * 20_000, "queue"),
        ("x" * 100_000 + " queue", "queue"),
        ("Ⅻ ﬁle ＱＵＥＵＥ", "queue"),
        ("queue\u202e\u200b\ufeff queue", "queue"),
    ],
    ids=["nul", "surrogate", "nul alone", "japanese", "kanji", "korean", "very often", "very long", "compatibility", "marks"],
)
def test_texts_of_any_sort_are_kept_and_found_again(tmp_path: Path, text: str, query: str) -> None:
    index = filled(tmp_path, [[unit(0, text, text), unit(1, "something else")]])
    wanted = 2 if query_terms(query) else 0
    assert found(index, query)[0] == wanted
    assert found(reloaded(tmp_path), query)[0] == wanted


@requirement("bm25:FR-03.5")
def test_a_query_without_words_is_refused(keeper: Keeper) -> None:
    for query in ("", "   ", "...", "\0", "!?"):
        with pytest.raises(InvalidQuery, match="the query is empty"):
            Bm25Index(keeper).search(IndexQuery(query, Filters(), 5))


def test_a_raw_score_that_is_asked_for_at_least_is_kept_to(keeper: Keeper) -> None:
    searcher = Bm25Index(keeper)
    everything = searcher.search(IndexQuery("ticket cause", Filters(), 100))
    middle = sorted(m.raw for m in everything.best)[len(everything.best) // 2]
    kept_ones = searcher.search(IndexQuery("ticket cause", Filters(), 100, middle))
    assert kept_ones.best == tuple(m for m in everything.best if m.raw >= middle)
    assert kept_ones.total == everything.total


@requirement("bm25:FR-02.3", "bm25:decision-single-index", "bm25:decided-all-doc-types")
def test_doc_types_share_one_index_and_are_told_apart(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "retry queue", "retry now"), unit(1, "retry", project=BILLING)]])

    def kinds(filters: Filters) -> list[tuple[DocType, bool]]:
        return sorted((m.doc_type, m.grip_id is None) for m in found(index, "retry", filters)[1])

    assert kinds(Filters(doc_type=DocType.NODE)) == [(DocType.NODE, True)] * 2
    assert kinds(Filters(doc_type=DocType.GRIP)) == [(DocType.GRIP, False)]
    assert kinds(Filters()) == [(DocType.GRIP, False), (DocType.NODE, True), (DocType.NODE, True)]
    assert kinds(Filters(project=SHOP)) == [(DocType.GRIP, False), (DocType.NODE, True)]


def test_an_index_that_is_not_loaded_says_so_instead_of_finding_nothing(tmp_path: Path) -> None:
    index: LiveIndex[Any] = index_at(tmp_path)
    with pytest.raises(IndexUnreadable, match="its files are being read"):
        found(index, "retry")
    index.load(0)
    with pytest.raises(IndexUnreadable, match="not built yet"):
        found(index, "retry")
