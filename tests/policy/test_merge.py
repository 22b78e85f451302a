"""Several layers' lists as one, and a time that is preferred: nothing takes the place of the best layer's results."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import EventId, GripId
from memory_mcp.search.layers.base import Aside, Hit, LayerName
from memory_mcp.search.policy.merge import (
    describe_merging,
    hit_identity,
    merge_layers,
    prefer_inside,
    put_replies_first,
    split_by_time,
)
from tests.policy.hits import hit, listed

DAY = TimeWindow(1000, 2000)
LAYERS = (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.TOPICS, LayerName.AGENTIC)
SCORES = st.lists(st.integers(0, 100), max_size=8, unique=True).map(lambda n: [x / 100 for x in sorted(n, reverse=True)])


def names(hits: "tuple[Hit, ...] | list[Hit]") -> list[str]:
    return [h.quote for h in hits]


@st.composite
def lists(draw: st.DrawFn) -> dict[LayerName, list[Hit]]:
    """Lists of some layers that name some of the same messages."""
    found: dict[LayerName, list[Hit]] = {}
    for name in draw(st.lists(st.sampled_from(LAYERS), unique=True)):
        scores = draw(SCORES)
        numbers = draw(st.lists(st.integers(0, 12), min_size=len(scores), max_size=len(scores), unique=True))
        found[name] = [hit(f"m{n}", score) for n, score in zip(numbers, scores, strict=True)]
    return found


@given(lists())
def test_the_best_layers_list_comes_first_as_it_is_nothing_is_lost_or_named_twice_and_scores_never_rise(
    found: dict[LayerName, list[Hit]],
) -> None:
    merged = merge_layers(found)
    usable = {name: hits for name, hits in found.items() if hits}
    best = next((n for n in (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC) if n in usable), None)
    if best is not None:
        assert list(merged[: len(usable[best])]) == usable[best]
    # What a whole layer is made of has been heard with it.
    heard = [n for n in usable if LayerName.HYBRID not in usable or n not in (LayerName.BM25, LayerName.VECTOR)]
    assert sorted(map(hit_identity, merged)) == sorted({hit_identity(h) for n in heard for h in usable[n]})
    assert all(a.score >= b.score for a, b in pairwise(merged))


def test_what_only_a_lesser_layer_found_stands_behind_and_what_two_found_is_shown_once_as_the_best_shows_it() -> None:
    merged = merge_layers({LayerName.AGENTIC: listed("walk", 0.9, 0.8), LayerName.BM25: listed("word", 0.3, 0.1)})
    assert names(merged) == ["word0", "word1", "walk0", "walk1"]
    assert merged[1].score > merged[2].score > merged[3].score > 0
    walked = [hit("one", 0.9, quote="another part"), hit("two", 0.4)]
    merged = merge_layers({LayerName.BM25: [hit("one", 0.3, quote="the part that answers")], LayerName.AGENTIC: walked})
    assert names(merged) == ["the part that answers", "two"]


def test_one_layers_list_alone_is_as_it_was() -> None:
    own = listed("a", 0.4, 0.4, 0.1)
    assert list(merge_layers({LayerName.VECTOR: own, LayerName.BM25: []})) == own
    assert merge_layers({}) == ()


def test_what_was_made_of_several_lists_is_told_in_words() -> None:
    shared = hit("both", 0.2)
    found = {LayerName.AGENTIC: [shared, *listed("walk", 0.1)], LayerName.BM25: [shared]}
    assert describe_merging(found) == "merged agentic 2, bm25 1: 1 of 2 in several; bm25 comes first"
    assert describe_merging({LayerName.BM25: [shared], LayerName.VECTOR: []}) == ""


def made(prefix: str, count: int, at: int) -> list[Hit]:
    return [hit(f"{prefix}{n}", 0.9 - n / 100, at=at) for n in range(count)]


def test_of_the_first_five_two_come_from_outside_marked_and_more_where_too_little_lies_inside() -> None:
    inside, beside = made("in", 7, 1500), made("out", 6, 3000)
    shown = prefer_inside(inside, [*beside, *inside], DAY)
    assert names(shown)[:10] == ["in0", "in1", "in2", "out0", "out1", "in3", "in4", "in5", "in6", "out2"]
    assert [h.outside for h in shown[:5]] == [False, False, False, True, True]
    assert len(shown) == 13
    assert names(prefer_inside(made("in", 1, 1500), made("out", 6, 3000), DAY))[:5] == ["in0", "out0", "out1", "out2", "out3"]
    assert names(prefer_inside(made("in", 6, 1500), made("out", 1, 3000), DAY))[:5] == ["in0", "in1", "in2", "out0", "in3"]
    assert names(prefer_inside([], made("out", 2, 3000), DAY)) == ["out0", "out1"]
    assert names(prefer_inside(made("in", 7, 1500), [], DAY)) == [f"in{n}" for n in range(7)]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_preferred_time_loses_and_repeats_nothing_and_keeps_both_orders(within: int, beside: int, shared: int) -> None:
    inside = made("in", within, 1500)
    everywhere = sorted([*made("out", beside, 3000), *inside[:shared]], key=lambda h: -h.score)
    shown = prefer_inside(inside, everywhere, DAY)
    assert [h.quote for h in shown if not h.outside] == names(inside)
    assert [h.quote for h in shown if h.outside] == [f"out{n}" for n in range(beside)]
    assert all(a.score >= b.score for a, b in pairwise(shown))


def test_what_holds_now_goes_with_what_it_replaced_inside_a_time_whenever_it_was_said() -> None:
    old = replace(hit("old", at=5), superseded_by="grip:new")
    new, other = replace(hit("new", at=50), outside=True), replace(hit("other", at=60), outside=True)
    assert split_by_time([new, old, other, hit("held", at=6)]) == ([new, old, hit("held", at=6)], [other])


def replying(name: str, score: float, to: str) -> Hit:
    """A reply with what it replies to beside it."""
    aside = Aside("", GripId(f"grip:{to}"), "user", "", EventId(f"evt:{to}"))
    return replace(hit(name, score), role="assistant", asides=(aside,))


def test_a_prompt_that_only_asks_as_far_as_the_question_goes_is_directly_behind_its_reply() -> None:
    mixed = hit("mixed", 0.9, "How should the refresh token rotate? The JWT expires after 15 minutes.")
    other, reply = hit("other", 0.5), replying("reply", 0.3, "mixed")
    listed_again = put_replies_first([mixed, other, reply], {"refresh", "token", "rotat"})
    assert [h.quote for h in listed_again] == ["reply", mixed.quote, "other"]
    assert [h.score for h in listed_again] == [0.9, 0.9, 0.5]
    # What it tells holds a term of the question; it only tells; or its reply is no hit.
    assert put_replies_first([mixed, reply], {"jwt", "expir"}) == [mixed, reply]
    statement = replace(mixed, quote="The JWT expires after 15 minutes.")
    assert put_replies_first([statement, reply], {"refresh"}) == [statement, reply]
    assert put_replies_first([mixed, other], {"refresh"}) == [mixed, other]
