"""How likely an answer is right and how well a result fits: evidence by hand, and what must hold whatever the evidence."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.text import query_terms
from memory_mcp.search.layers.base import Hit, WordWeights
from memory_mcp.search.policy.relevance import (
    COMPARED,
    NOTHING,
    STRONG,
    Confidence,
    Evidence,
    EvidenceReader,
    Fit,
    HitEvidence,
    Signals,
    holds_known,
    holds_words,
    judge_confidence,
    judge_fits,
    probability,
)
from memory_mcp.search.policy.relevance_weights import ANSWER, HIT
from tests.policy.hits import hit

SHARES = st.floats(0, 1)
HITS = st.builds(
    HitEvidence,
    lead=st.floats(-9, 3),
    own=SHARES,
    near=SHARES,
    segment=SHARES,
    similarity=SHARES,
    segment_similarity=SHARES,
    held=SHARES,
    together=SHARES,
    literal=st.sampled_from([0.0, 1.0]),
)
FOUND = st.builds(
    Evidence,
    hits=st.lists(HITS, min_size=1, max_size=COMPARED).map(tuple),
    signals=st.sampled_from(Signals),
    unknown=SHARES,
    united=SHARES,
    agreed=st.sampled_from([0.0, 1.0]),
)
ORDER = (Confidence.NONE, Confidence.WEAK, Confidence.STRONG)


def weighed(text: str, counts: Mapping[str, int] | None = None) -> WordWeights:
    """A question as a scope sees it: words weigh alike and are common where nothing else is said."""
    terms = query_terms(text)
    held = dict.fromkeys(terms, 40) | {t: n for word, n in (counts or {}).items() for t in query_terms(word)}
    return WordWeights(dict.fromkeys(terms, 1.0), held, segments=100)


def shown(name: str, quote: str, score: float, own: float = 0.3, node: str = "", at: int = 0) -> Hit:
    """A result of both indexes."""
    parts = (("own", own), ("segment", own), ("similarity", 0.7), ("segment_similarity", 0.7))
    return replace(hit(name, score, quote=quote, node=node, at=at), parts=parts)


def of(text: str, *hits: Hit, counts: Mapping[str, int] | None = None) -> Evidence:
    """Evidence of a question whose words are all its subject, and missing where they are counted 0."""
    asked = weighed(text, counts)
    missing = {term for term, count in asked.counts.items() if not count}
    return EvidenceReader(asked, set(asked.weights), missing).read_evidence(hits, ())


def test_nothing_found_is_none_and_its_probability_0() -> None:
    assert probability(of("palladium ledger")) == 0.0
    assert judge_confidence(0.99, (), has_hits=False) is Confidence.NONE
    assert judge_confidence(0.0, (), has_hits=True) is Confidence.NONE
    assert judge_confidence(0.0, (), has_hits=True, is_whole=True) is Confidence.WEAK
    assert judge_confidence(NOTHING, ("kafka",), has_hits=True) is Confidence.WEAK
    assert judge_confidence(NOTHING, ("kafka",), has_hits=True, all_missing=True) is Confidence.NONE


def test_a_result_without_a_word_of_the_question_makes_nothing_strong_and_gains_nothing_from_what_stands_beside_it() -> None:
    asking = shown("a", "which lock guards the ledger", 0.3, node="n")
    telling = shown("b", "I do not know", 0.9, own=0.9, node="n")
    found = of("ledger lock", telling, asking)
    assert (found.hits[0].segment, found.hits[0].held) == (0.0, 0.0)
    assert found.hits[1].held == 1.0
    assert not holds_words(of("ledger lock", telling))
    assert judge_confidence(0.99, (), has_hits=True, holds_words=False) is Confidence.WEAK


def test_what_holds_all_that_is_known_is_not_none() -> None:
    assert holds_known(of("ledger kafka", shown("a", "the ledger", 0.3), counts={"kafka": 0}))
    assert not holds_known(of("ledger lock kafka", shown("a", "the ledger", 0.3), counts={"kafka": 0}))


def test_every_kind_of_evidence_has_weights_of_its_own() -> None:
    assert set(ANSWER) == set(HIT) == {signals.value for signals in Signals}


@given(sure=SHARES, missing=st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_a_missing_word_never_makes_an_answer_strong_nor_any_answer_stronger(sure: float, missing: list[str]) -> None:
    assert judge_confidence(sure, missing, has_hits=True) is not Confidence.STRONG
    without = judge_confidence(sure, (), has_hits=True)
    assert ORDER.index(judge_confidence(sure, missing, has_hits=True)) <= ORDER.index(without)
    assert without is (Confidence.STRONG if sure >= STRONG else Confidence.NONE if sure < NOTHING else Confidence.WEAK)


@given(found=FOUND, more=HITS)
def test_more_evidence_never_lowers_the_probability_and_unknown_words_never_raise_it(found: Evidence, more: HitEvidence) -> None:
    sure = probability(found)
    assert 0 <= sure <= 1
    best = max(found.hits, key=lambda one: one.lead)
    for name in ("lead", "own", "near", "segment", "similarity", "segment_similarity", "held", "together", "literal"):
        better = replace(best, **{name: max(getattr(best, name), getattr(more, name))})
        changed = replace(found, hits=tuple(better if one is best else one for one in found.hits))
        assert probability(changed) >= sure - 1e-9, name
    assert probability(replace(found, unknown=1.0)) <= sure + 1e-9
    assert probability(replace(found, united=1.0, agreed=1.0)) >= sure - 1e-9


def test_an_answer_that_leads_and_holds_the_question_is_surer_than_one_of_many_alike_that_hold_little() -> None:
    leading = [shown("a", "the palladium ledger keeps its rows", 0.9, 0.6), *(shown(f"{n}", "rows", 0.01, 0.1) for n in range(4))]
    flat = [shown(f"{n}", "rows and columns", 0.03, 0.05) for n in range(5)]
    assert probability(of("palladium ledger rows", *leading)) > STRONG > probability(of("palladium ledger rows", *flat))


def test_results_that_hold_the_whole_question_and_say_the_same_do_not_speak_against_each_other() -> None:
    one = shown("a", "the palladium ledger of March", 0.2)
    repeated = [shown(f"{n}", "the palladium ledger of April", 0.2) for n in range(4)]
    others = [shown(f"{n}", "the palladium ledger, which we closed for another reason altogether", 0.2) for n in range(4)]
    lesser = [shown(f"{n}", "the palladium", 0.2) for n in range(4)]
    lead = of("palladium ledger", one).hits[0].lead
    assert of("palladium ledger", one, *repeated).hits[0].lead > lead
    assert of("palladium ledger", one, *others).hits[0].lead == of("palladium ledger", one, *lesser).hits[0].lead == lead


def test_the_words_of_an_exchange_count_together_and_those_of_a_later_one_do_not() -> None:
    node = "toc:segment:2026-01-01:1"
    request, reply = shown("a", "which broker", 0.5, node=node), shown("b", "kafka", 0.4, node=node, at=60_000)
    assert of("broker kafka", request, reply).hits[0].held == pytest.approx(1.0)
    assert of("broker kafka", request, replace(reply, timestamp=3_600_000)).hits[0].held == pytest.approx(1 / 2)
    elsewhere = replace(reply, node_id=hit("x", node="other").node_id)
    assert of("broker kafka", request, elsewhere).hits[0].held == pytest.approx(1 / 2)


def test_words_count_as_together_within_a_few_words_only() -> None:
    near = shown("a", "the broker is kafka", 0.5)
    apart = shown("a", f"the broker {'and one more word ' * 20} kafka", 0.5)
    assert of("broker kafka", near).hits[0].together == pytest.approx(1.0)
    assert of("broker kafka", apart).hits[0].together == pytest.approx(1 / 2)


def test_the_share_of_the_question_that_the_scope_holds_nowhere_is_unknown() -> None:
    assert of("deploy osmium", shown("a", "we deploy", 0.5), counts={"osmium": 0}).unknown == pytest.approx(1 / 2)
    assert of("deploy osmium", shown("a", "we deploy", 0.5)).unknown == 0.0


def test_a_word_that_occurs_in_another_form_is_not_asked_for_in_this_one() -> None:
    asked = weighed("layout chosen", {"chosen": 0})
    found = EvidenceReader(asked, set(asked.weights)).read_evidence([shown("a", "we choose the layout", 0.5)], ())
    assert (found.hits[0].held, found.unknown) == (1.0, 0.0)


def test_a_search_that_asked_a_keyword_index_is_judged_by_both_sides() -> None:
    near = replace(hit("a"), parts=(("similarity", 0.5),))
    asked = weighed("deploy")
    assert EvidenceReader(asked, set(asked.weights), looks_up=True).read_evidence([near], ()).signals is Signals.BOTH


@pytest.mark.parametrize(
    ("parts", "signals"),
    [
        ({"segment": 0.1, "similarity": 0.5}, Signals.BOTH),
        ({"segment": 0.1}, Signals.KEYWORDS),
        ({"similarity": 0.5}, Signals.MEANING),
        ({"coverage": 0.5, "terms": 0.2}, Signals.TREE),
    ],
)
def test_results_are_judged_by_what_they_were_found_by(parts: dict[str, float], signals: Signals) -> None:
    assert of("deploy", replace(hit("a"), parts=tuple(parts.items()))).signals is signals


def test_a_result_with_the_literal_thing_is_exact_one_that_holds_all_words_together_too_and_one_without_any_is_loose() -> None:
    asked = weighed("palladium ledger rows")
    hits = [shown("a", "the palladium ledger keeps its rows", 0.9, 0.9), shown("b", "nothing of it", 0.001, 0.0)]
    assert judge_fits(EvidenceReader(asked, set(asked.weights)).read_evidence(hits, (False, False))) == [Fit.EXACT, Fit.LOOSE]
    assert judge_fits(EvidenceReader(asked, set(asked.weights)).read_evidence(hits, (False, True)))[1] is Fit.EXACT


def test_a_question_without_a_word_is_held_by_nothing_and_unknown_to_nothing() -> None:
    found = EvidenceReader(WordWeights({}, {}, segments=100), set()).read_evidence([hit("one")], ())
    assert (found.hits[0].held, found.unknown) == (0.0, 0.0)
