"""What makes an answer strong: evidence by hand, and what must hold whatever the evidence."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.layers.base import Weighed
from memory_mcp.model.ids import NodeId
from memory_mcp.policy.relevance import COMPARED, STRONG, Confidence, Evidence, confidence, evidence, sureness
from memory_mcp.text import query_terms, term_set
from tests.policy.hits import hit

SHARES = st.floats(0, 1)
FOUND = st.builds(Evidence, held=SHARES, unknown=SHARES, literal=st.booleans(), hits=st.integers(0, 10))
EVERYTHING = Evidence(held=1.0, unknown=0.0, literal=False, hits=3)
ORDER = (Confidence.NONE, Confidence.WEAK, Confidence.STRONG)


def weighed(text: str, counts: Mapping[str, int] | None = None, weights: Mapping[str, float] | None = None) -> Weighed:
    """A question as a scope sees it: words weigh alike and are common where nothing else is said."""
    terms = query_terms(text)
    held = dict.fromkeys(terms, 40) | {t: n for word, n in (counts or {}).items() for t in query_terms(word)}
    heavy = dict.fromkeys(terms, 1.0) | {t: w for word, w in (weights or {}).items() for t in query_terms(word)}
    return Weighed(heavy, held, segments=100)


def of(text: str, *quotes: str, asked: Weighed | None = None) -> Evidence:
    """Evidence of a question from hits that hold these words, and of whose segments nothing is known."""
    return evidence(asked or weighed(text), [hit(q, quote=q) for q in quotes], {}, literal=False)


def test_nothing_found_is_none_no_word_held_is_weak_and_every_word_or_what_is_named_literally_is_strong() -> None:
    assert confidence(replace(EVERYTHING, hits=0)) is Confidence.NONE
    assert sureness(replace(EVERYTHING, hits=0, literal=True)) == 0.0
    assert confidence(Evidence(held=0.0, unknown=1.0, literal=False, hits=1)) is Confidence.WEAK
    text = "palladium ledger rows"
    assert confidence(of(text, "the palladium ledger keeps its rows")) is Confidence.STRONG
    assert confidence(of(text, "something else altogether")) is Confidence.WEAK
    assert confidence(Evidence(held=0.0, unknown=1.0, literal=True, hits=1)) is Confidence.STRONG
    assert sureness(Evidence(held=0.0, unknown=1.0, literal=True, hits=1)) == 1.0


@given(found=FOUND)
def test_none_is_said_exactly_where_nothing_was_found(found: Evidence) -> None:
    assert (confidence(found) is Confidence.NONE) is (found.hits == 0)
    assert 0 <= sureness(found) <= 1
    assert (confidence(found) is Confidence.STRONG) is (sureness(found) >= STRONG)


@given(found=FOUND, other=SHARES)
def test_more_of_the_question_held_and_less_of_it_unknown_never_makes_an_answer_weaker(found: Evidence, other: float) -> None:
    for more in (
        replace(found, held=max(found.held, other)),
        replace(found, unknown=min(found.unknown, other)),
        replace(found, literal=True),
    ):
        assert sureness(more) >= sureness(found)
        assert ORDER.index(confidence(more)) >= ORDER.index(confidence(found))


def test_the_share_held_is_the_largest_of_one_of_the_first_results_by_the_rarity_of_words_and_who_says_it() -> None:
    found = of("deploy billing worker frankfurt", "deploy billing", "deploy billing worker", "frankfurt")
    assert found.held == pytest.approx(3 / 4)
    assert found.hits == 3
    quotes = [f"deploy {n}" for n in range(COMPARED)]
    assert of("deploy billing worker", *quotes, "deploy billing worker").held == pytest.approx(1 / 3)
    asked = weighed("deploy osmium", weights={"osmium": 9.0})
    assert of("", "we deploy", asked=asked).held == pytest.approx(0.1)
    assert of("", "osmium", asked=asked).held == pytest.approx(0.9)
    said = hit("one", quote="a dog of my own", speaker="Caroline")
    assert evidence(weighed("caroline dog"), [said], {}, literal=False).held == 1.0


def test_what_the_whole_segment_of_a_result_holds_counts_with_the_words_shown() -> None:
    node = NodeId("toc:segment:2026-01-01:1")
    one = hit("one", quote="we deploy", node=node)
    asked = weighed("deploy frankfurt")
    assert evidence(asked, [one], {}, literal=False).held == pytest.approx(1 / 2)
    assert evidence(asked, [one], {node: term_set("frankfurt")}, literal=False).held == 1.0
    elsewhere = {NodeId("toc:segment:2026-01-01:2"): term_set("frankfurt")}
    assert evidence(asked, [one], elsewhere, literal=False).held == pytest.approx(1 / 2)


def test_words_that_the_store_holds_nowhere_speak_against_an_answer() -> None:
    asked = weighed("deploy osmium", counts={"osmium": 0})
    found = of("", "we deploy", asked=asked)
    assert found.unknown == pytest.approx(1 / 2)
    assert sureness(found) < sureness(of("deploy osmium", "we deploy"))
    assert of("deploy osmium", "we deploy").unknown == 0.0


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("wann ist die Abgabe der Steuererklärung", "Die Abgabe der Steuererklärung ist im Mai."),
        ("où est le certificat de naissance", "Le certificat de naissance est dans le tiroir."),
        ("dónde está el contrato de alquiler", "El contrato de alquiler está en el cajón."),
        ("打印机的密码是什么", "打印机的密码是四个零"),
        ("プリンターの暗証番号", "プリンターの暗証番号はゼロが四つです"),
    ],
    ids=["German", "French", "Spanish", "Chinese", "Japanese"],
)
def test_a_question_in_any_language_is_judged_alike(text: str, quote: str) -> None:
    """All words are of one weight: no list of any language's small words says what matters."""
    assert confidence(of(text, quote)) is Confidence.STRONG
    assert confidence(of(text, "zzz")) is Confidence.WEAK


def test_a_question_without_a_word_is_held_by_nothing_and_unknown_to_nothing() -> None:
    found = evidence(Weighed({}, {}, segments=100), [hit("one")], {}, literal=False)
    assert (found.held, found.unknown) == (0.0, 0.0)
    assert confidence(found) is Confidence.WEAK
