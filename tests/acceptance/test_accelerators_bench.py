"""The programs that measure the indexes run, small and on made-up sentences; their bars hold with room."""

import importlib.util
import math
from pathlib import Path

import pytest

from bench import lag, place
from bench.accelerators import KINDS, Figures, lines, measure, rebuild
from bench.lag import bars, bucket, histogram
from bench.sentences import HEAPS, Documents, Language, questions, usable
from memory_mcp.base.text import query_terms

#: A shared machine may be this much slower than the one the promises are measured on.
ROOM = 3.0


@pytest.fixture(scope="module")
def language() -> Language:
    return Language.of(None)


@pytest.fixture(scope="module")
def figures(language: Language) -> Figures:
    if not place.VISIBLE:
        pytest.skip("memory is looked at through /proc")
    if importlib.util.find_spec("tantivy") is None:
        pytest.skip("tantivy is in the optional group bench")
    return measure(language, 500, 60, apart=False)


def test_documents_are_as_long_as_grips_and_their_vocabulary_grows_by_heaps_law(language: Language) -> None:
    documents = Documents(language)
    early = [text for text, _ in documents.take(1000)]
    words, distinct = documents.words, documents.distinct
    later = [text for text, _ in documents.take(4000)]
    assert 200 <= sum(map(len, early + later)) / 5000 <= 300
    growth = math.log(documents.distinct / distinct) / math.log(documents.words / words)
    assert HEAPS - 0.05 <= growth <= HEAPS + 0.05


def test_documents_and_questions_are_the_same_for_the_same_seed(language: Language) -> None:
    first, second = (list(Documents(language).take(500)) for _ in range(2))
    assert first == second
    assert questions(first, 50) == questions(second, 50)
    assert sum(bool(q.project) for q in questions(first, 50)) == 25
    assert all(query_terms(q.text) for q in questions(first, 50))


def test_a_folder_without_data_is_none(tmp_path: Path) -> None:
    assert not usable(None)
    assert not usable(tmp_path)


@pytest.mark.slow
def test_every_engine_answers_every_kind_of_question(figures: Figures) -> None:
    assert figures.words[0].engine == "ours"
    assert len(figures.words) == 5
    assert len(figures.vectors) == 2
    assert all(len(r.times[k]) == len(figures.words[0].times[k]) > 0 for r in figures.words for k in KINDS)
    assert len(lines(figures)) > 15


@pytest.mark.slow
def test_scores_without_lifts_are_those_of_the_formula(figures: Figures) -> None:
    assert figures.agreement.questions == 40
    assert figures.agreement.difference < 1e-9
    assert figures.agreement.same_stored == 1.0
    assert figures.agreement.same_exact >= 0.95


@pytest.mark.slow
def test_vectors_in_eight_bits_find_what_exact_ones_find(figures: Figures) -> None:
    assert all(share >= 0.98 for share in figures.recall.values())


@pytest.mark.slow
def test_a_store_is_indexed_anew(language: Language, tmp_path: Path) -> None:
    assert "rebuild of a store of 200 events: " in rebuild(language, 200, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")
def test_what_is_stored_is_found_in_time_and_costs_little() -> None:
    found = lag.measure(lag.Options(events=600, seconds=3, queries=50))
    measured = bars(found)
    assert len(measured) == 6
    assert [b for b in measured if not b.value <= b.most * (1 if b.unit in ("MB", "") else ROOM)] == []


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    text = 'a_bucket{le="0.1"} 2.0\na_bucket{le="0.5"} 4.0\na_bucket{le="+Inf"} 4.0\nb_bucket{le="0.1"} 9.0'
    assert histogram(text, "a") == {"0.1": 2, "0.5": 4, "inf": 4}
    assert (bucket(histogram(text, "a"), 0.5), bucket(histogram(text, "a"), 0.99)) == (0.1, 0.5)
    assert bucket({}, 0.99) == 0.0
