"""The floor and the stop rule: evidence by hand, and what must hold whatever the evidence."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.layers.base import Hit, LayerName
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.policy.relevance import COMPARED, CURVES, Evidence, confidence, evidence, relevant, sufficient
from memory_mcp.text import query_terms

FITTED = tuple(CURVES)
FOUND = st.builds(
    Evidence,
    hits=st.integers(1, 10),
    best=st.floats(0, 1),
    coverage=st.floats(0, 1),
    segments=st.integers(0, 100_000),
    exact=st.booleans(),
    overlooked=st.booleans(),
)
WEAK = Evidence(hits=10, best=0.02, coverage=0.2, segments=100)
STRONG = Evidence(hits=10, best=0.85, coverage=0.9, segments=100)


def hit(number: int = 1, score: float = 0.1, quote: str = "", title: str = "", filed: bool = True) -> Hit:
    """A hit in a segment of that number, or in an event that is not filed yet."""
    return Hit(
        node_id=NodeId(f"toc:segment:{number}" if filed else ""),
        title=title,
        quote=quote,
        grip_ids=(GripId(f"grip:{number}"),),
        timestamp=number,
        session_id=f"s{number}",
        project="",
        agent="",
        role="user",
        speaker="",
        score=score,
    )


def of(text: str, held: Mapping[int, str], counts: Mapping[str, int] | None = None, segments: int = 100) -> Evidence:
    """Evidence of a query, all of whose words weigh alike, from segments that hold these words; words not counted are common."""
    terms = query_terms(text)
    in_scope = dict.fromkeys(terms, 40) | {t: n for word, n in (counts or {}).items() for t in query_terms(word)}
    hits = [hit(number) for number in held]
    covered = {NodeId(f"toc:segment:{number}"): query_terms(words) for number, words in held.items() if words}
    return evidence(text, dict.fromkeys(terms, 1.0), in_scope, hits, covered, segments)


@pytest.mark.parametrize("layer", FITTED)
def test_nothing_found_is_neither_relevant_nor_sufficient_nor_sure(layer: LayerName) -> None:
    nothing = Evidence(hits=0, best=0.0, coverage=0.0, segments=100)
    assert not relevant(nothing, layer)
    assert not sufficient(nothing, layer, 0.0)
    assert confidence(nothing, layer) == 0


@pytest.mark.parametrize("layer", FITTED)
def test_weak_hits_that_share_one_common_word_with_the_query_are_noise(layer: LayerName) -> None:
    assert not relevant(WEAK, layer)
    assert not sufficient(WEAK, layer, 0.0)


@pytest.mark.parametrize("layer", FITTED)
def test_a_strong_hit_with_nearly_all_words_is_relevant_and_ends_the_search(layer: LayerName) -> None:
    assert relevant(STRONG, layer)
    assert sufficient(STRONG, layer, 0.6)


@pytest.mark.parametrize("layer", FITTED)
def test_a_hit_that_holds_every_word_is_never_withheld_however_low_its_score(layer: LayerName) -> None:
    assert relevant(Evidence(hits=1, best=0.0, coverage=1.0, segments=100_000), layer)


@pytest.mark.parametrize("layer", FITTED)
def test_a_hit_with_something_exact_is_never_withheld_but_need_not_end_the_search(layer: LayerName) -> None:
    exact = replace(WEAK, exact=True)
    assert relevant(exact, layer)
    assert not sufficient(exact, layer, 0.6)


def test_a_layer_that_nothing_was_fitted_for_is_believed() -> None:
    assert relevant(WEAK, LayerName.TOPICS)
    assert confidence(STRONG, LayerName.TOPICS) == STRONG.best
    assert not sufficient(WEAK, LayerName.TOPICS, 0.6)


def test_constants_only_ever_reward_what_speaks_for_an_answer() -> None:
    for curve in CURVES.values():
        assert min(curve.score, curve.coverage, curve.size) > 0
        assert 0 < curve.floor < 1


@given(found=FOUND, better=st.floats(0, 1), layer=st.sampled_from(FITTED))
def test_a_better_best_score_or_more_coverage_never_makes_an_answer_less(
    found: Evidence, better: float, layer: LayerName
) -> None:
    for more in (
        replace(found, best=max(found.best, better)),
        replace(found, coverage=max(found.coverage, better)),
        replace(found, exact=True),
    ):
        assert confidence(more, layer) >= confidence(found, layer)
        assert relevant(more, layer) >= relevant(found, layer)
        assert sufficient(more, layer, 0.6) >= sufficient(found, layer, 0.6)


@given(found=FOUND, others=st.integers(0, 100_000), layer=st.sampled_from(FITTED))
def test_the_same_evidence_says_no_more_among_more_segments(found: Evidence, others: int, layer: LayerName) -> None:
    more = replace(found, segments=found.segments + others)
    assert confidence(more, layer) <= confidence(found, layer)
    assert relevant(more, layer) <= relevant(found, layer)


@given(found=FOUND, asked=st.floats(0, 1), less=st.floats(0, 1), layer=st.sampled_from(FITTED))
def test_what_is_sufficient_is_relevant_and_sufficient_for_who_asks_less(
    found: Evidence, asked: float, less: float, layer: LayerName
) -> None:
    assert 0 <= confidence(found, layer) <= 1
    if sufficient(found, layer, asked):
        assert relevant(found, layer)
        assert sufficient(found, layer, min(asked, less))


def test_coverage_is_the_largest_share_of_the_words_that_one_segment_holds() -> None:
    found = of("deploy the billing worker to frankfurt", {1: "deploy billing", 2: "deploy billing worker", 3: "frankfurt"})
    assert found.coverage == pytest.approx(3 / 4)
    assert found.hits == 3


def test_only_the_first_hits_are_looked_at() -> None:
    held = dict.fromkeys(range(COMPARED), "deploy") | {COMPARED: "deploy billing worker"}
    assert of("deploy billing worker", held).coverage == pytest.approx(1 / 3)


def test_the_best_score_is_taken_wherever_it_stands() -> None:
    found = evidence("deploy", {"deploy": 1.0}, {"deploy": 3}, [hit(1, 0.2), hit(2, 0.7)], {}, 50)
    assert (found.best, found.segments) == (0.7, 50)


def test_of_an_event_that_is_not_filed_yet_the_words_shown_count() -> None:
    fresh = hit(1, quote="We deploy to Frankfurt now", filed=False)
    found = evidence("deploy frankfurt", {"deploy": 1.0, "frankfurt": 1.0}, {"deploy": 9, "frankfurt": 0}, [fresh], {}, 100)
    assert found.coverage == 1


def test_of_a_segment_whose_words_are_not_given_title_and_quotation_count() -> None:
    found = evidence(
        "deploy frankfurt", {"deploy": 1.0, "frankfurt": 1.0}, {}, [hit(1, quote="we deploy", title="Frankfurt")], {}, 100
    )
    assert found.coverage == 1


@pytest.mark.parametrize(
    ("text", "held", "why"),
    [
        ('who said "blue green rollout" on the call', "blue green rollout", "a quoted phrase"),
        ("why does `retry budget` go down so often", "retry budget", "a phrase between back ticks"),
        ("what became of parseRetryBudget in the old worker", "parseRetryBudget", "a name with inner capitals"),
        ("what became of parse_retry in the old worker", "parse_retry", "a name with underscores"),
        ("who last touched src/worker/retry.py before the release", "src/worker/retry.py", "a path"),
        ("which host gave ERR-4017 during the last migration", "ERR-4017", "an error code"),
        ("what changed with release 2.14.3 of the worker", "2.14.3", "a version"),
    ],
)
def test_a_hit_that_holds_what_the_query_names_exactly_is_marked(text: str, held: str, why: str) -> None:
    assert of(text, {1: held}).exact, why
    assert relevant(of(text, {1: held}), LayerName.BM25), why
    assert not of(text, {1: "worker call"}).exact, why


@pytest.mark.parametrize(
    "text",
    [
        "what was said about the follow-up in Caroline's office?",
        "how did the state-of-the-art review end (the second one)?",
        "who paid 250 in 2023 for the office",
        'half of a "blue green rollout"',
    ],
)
def test_hyphens_genitives_numbers_and_half_a_phrase_are_not_exact(text: str) -> None:
    assert not of(text, {1: "follow-up Caroline office state-of-the-art review 250 2023 blue"}).exact


def test_one_rare_word_that_makes_up_much_of_the_query_is_enough() -> None:
    assert of("kundalini class", {1: "kundalini"}, {"kundalini": 1}).exact
    assert not of("kundalini class", {1: "class"}, {"kundalini": 1}).exact


def test_one_rare_word_among_many_is_not_enough() -> None:
    assert not of("which kundalini class did the new neighbour from Oslo recommend", {1: "kundalini"}, {"kundalini": 1}).exact


def test_a_word_that_many_segments_hold_is_not_rare() -> None:
    assert not of("kundalini class", {1: "kundalini"}, {"kundalini": 3}).exact


def test_an_exact_word_that_the_scope_holds_and_no_hit_does_was_overlooked() -> None:
    text = "what became of parse_retry in the dark worker"
    assert of(text, {1: "worker"}, {"dark": 0}).overlooked
    assert not of(text, {1: "worker"}, {"dark": 0, "parse_retry": 0}).overlooked
    assert not of(text, {1: "parse_retry worker"}, {"dark": 0}).overlooked


def test_words_that_all_occur_somewhere_may_occur_together_where_the_layer_did_not_look() -> None:
    assert of("deploy billing worker", {1: "deploy"}).overlooked
    assert not of("deploy billing worker", {1: "deploy"}, {"billing": 0}).overlooked
    assert not of("deploy billing worker", {1: "deploy billing worker"}).overlooked


@pytest.mark.parametrize("layer", FITTED)
def test_what_is_of_the_time_that_a_query_without_words_asks_for_is_relevant(layer: LayerName) -> None:
    assert relevant(evidence("", {}, {}, [hit(1, 0.02)], {}, 100), layer)
    assert not relevant(evidence("", {}, {}, [], {}, 100), layer)
