"""The ranking layer, by itself: signals, weights, order, repetitions, statements that hold no more."""

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Mapping, Sequence

import pytest

from memory_mcp.base.errors import ConfigError
from memory_mcp.config import load
from memory_mcp.model.grip import RETRACTED, GripUsage
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind
from memory_mcp.search.layers.base import Hit
from memory_mcp.search.policy.rank import (
    PRESETS,
    RankingSettings,
    drop_repetitions,
    frequency,
    rank_hits,
    recency,
    salience,
    shown_id,
)
from tests.requirements import requirement

NOW = 1_772_452_800_000
DAY = 86_400_000
SPEC = RankingSettings(preset="spec")
WORDS = "the retry queue keeps one key per invoice so that nothing is ever sent twice to anybody".split()


def hit(name: str, score: float = 0.5, days: float = 0.0, quote: str = "", grips: Sequence[str] = (), **more: object) -> Hit:
    """A hit in a segment of its own, so many days old."""
    return Hit(
        node_id=NodeId(f"toc:segment:2026-01-12:{name}"),
        title=name,
        quote=quote or f"{name} says {name}",
        grip_ids=tuple(map(GripId, grips or (f"grip:{name}",))),
        timestamp=NOW - int(days * DAY),
        session_id="s",
        project="p",
        agent="a",
        role="user",
        speaker="",
        score=score,
        **more,  # type: ignore[arg-type]
    )


def ranked(
    hits: Sequence[Hit],
    settings: RankingSettings = SPEC,
    names_time: bool = False,
    exact: bool = False,
    usage: Mapping[GripId, GripUsage] | None = None,
) -> list[Hit]:
    return rank_hits(hits, settings, NOW, names_time=names_time, exact=exact, usage=usage or {})


def names(hits: Sequence[Hit]) -> list[str]:
    return [h.title for h in hits]


def parts(hits: Sequence[Hit], name: str) -> dict[str, float]:
    return dict(next(h for h in hits if h.title == name).parts)


@requirement("contract:ranking-salience", "contract:ranking-recency", "contract:ranking-relevance", "contract:ranking-usage")
def test_the_spec_preset_weighs_three_signals_alike_and_usage_a_third_of_them() -> None:
    settings = RankingSettings(preset="spec", half_life_days=10, usage=True)
    one = hit("a", score=0.1**0.6, days=10, kind="procedure", salience=0.8)
    [found] = ranked([one], settings, usage={GripId("grip:a"): GripUsage((NOW, NOW))})
    assert dict(found.parts) == {
        "salience": 0.9, "recency": 0.5, "relevance": 0.9, "usage": 0.75,
        "rank": round(0.3 * 0.9 + 0.3 * 0.5 + 0.3 * 0.9 + 0.1 * 0.75, 4),
    }  # fmt: skip
    assert PRESETS["spec"] == {"salience": 0.3, "recency": 0.3, "relevance": 0.3, "usage": 0.1}


@requirement("contract:ranking-relevance")
def test_the_score_stays_what_the_layer_said_and_its_parts_stay_beside_the_signals() -> None:
    [found] = ranked([hit("a", score=0.37, parts=(("coverage", 0.6),))])
    assert found.score == 0.37
    assert list(dict(found.parts)) == ["coverage", "salience", "recency", "relevance", "rank"]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_equal_hits_are_ordered_by_their_ids_whatever_order_they_came_in(preset: str) -> None:
    hits = [hit(name) for name in "cab"]
    for order in itertools.permutations(hits):
        assert names(ranked(order, RankingSettings(preset=preset))) == ["a", "b", "c"]


@requirement("contract:ranking-recency")
def test_recency_halves_with_every_half_life_which_decides_how_far_back_newer_outranks_better() -> None:
    assert [recency(NOW - int(d * 7 * DAY), NOW, 7) for d in (0, 1, 2, 3)] == [1.0, 0.5, 0.25, 0.125]
    assert recency(NOW + DAY, NOW, 7) == 1.0
    hits = [hit("old", score=0.6, days=20), hit("new", score=0.5)]
    assert names(ranked(hits, RankingSettings(preset="spec", half_life_days=5))) == ["new", "old"]
    assert names(ranked(hits, RankingSettings(preset="spec", half_life_days=5000))) == ["old", "new"]


@pytest.mark.parametrize(("names_time", "exact"), [(True, False), (False, True)])
def test_what_names_a_time_or_an_identifier_is_not_outranked_by_recency(names_time: bool, exact: bool) -> None:
    hits = [hit("old", score=0.51, days=700), hit("new", score=0.5)]
    assert names(ranked(hits)) == ["new", "old"]
    found = ranked(hits, names_time=names_time, exact=exact)
    assert names(found) == ["old", "new"]
    relevance = 1 + math.log10(0.51) / 6
    assert parts(found, "old") == {
        "salience": 0.5, "relevance": round(relevance, 4), "rank": pytest.approx((0.5 + relevance) / 2, abs=1e-4)
    }  # fmt: skip


@requirement("contract:ranking-relevance")
def test_relevance_is_even_where_each_score_is_the_same_share_of_the_one_before() -> None:
    found = ranked([hit(str(n), score=10.0**-n) for n in range(8)])
    assert [parts(found, str(n))["relevance"] for n in range(8)] == [1.0, 0.8333, 0.6667, 0.5, 0.3333, 0.1667, 0.0, 0.0]


@requirement("contract:ranking-salience")
def test_salience_goes_by_the_kind_then_by_the_statements_around_and_what_is_pinned_has_most() -> None:
    kinds = sorted(MemoryKind, key=KIND_SALIENCE.__getitem__, reverse=True)
    found = ranked([hit(k.value, kind=k.value) for k in reversed(kinds)])
    assert names(found) == [k.value for k in kinds]
    assert salience(hit("x")) == KIND_SALIENCE[MemoryKind.OBSERVATION]
    dense, sparse = hit("b", kind="definition", salience=0.95), hit("a", kind="definition", salience=0.55)
    assert names(ranked([sparse, dense])) == ["b", "a"]
    assert salience(hit("x", pinned=True, salience=0.3)) == 1.0
    assert names(ranked([hit("a", kind="procedure", salience=0.9), hit("b", pinned=True)])) == ["b", "a"]


@requirement("contract:ranking-usage")
def test_usage_counts_only_where_it_is_asked_for_and_anything_is_known() -> None:
    hits, opened = [hit("a"), hit("b")], {GripId("grip:b"): GripUsage((NOW,))}
    assert names(ranked(hits, SPEC, usage=opened)) == ["a", "b"]
    counting = RankingSettings(preset="spec", usage=True)
    found = ranked(hits, counting, usage=opened)
    assert names(found) == ["b", "a"]
    assert (parts(found, "a")["usage"], parts(found, "b")["usage"]) == (0.0, 0.5)
    for unknown in ({}, {GripId("grip:elsewhere"): GripUsage((NOW,))}):
        assert ranked(hits, counting, usage=unknown) == ranked(hits, SPEC)


def test_usage_rises_with_every_opening_of_any_grip_never_beyond_one_and_halves_its_openings_with_time() -> None:
    def used(*days: float) -> float:
        return frequency(hit("a"), NOW, 30, {GripId("grip:a"): GripUsage(tuple(NOW - int(d * DAY) for d in days))})

    assert [used(), used(0), used(0, 0), used(30, 30)] == [0.0, 0.5, 0.75, 0.5]
    assert used(*[0] * 500) <= 1.0
    assert used(90) < used(30) < used(0)
    several = hit("a", grips=("grip:1", "grip:2"), grip_id="grip:0")
    for opened in ("grip:0", "grip:1", "grip:2"):
        assert frequency(several, NOW, 30, {GripId(opened): GripUsage((NOW,))}) == 0.5


def test_of_hits_that_are_level_in_all_else_each_signal_puts_the_better_first() -> None:
    """With the weights of either preset."""
    pairs = {
        "salience": (hit("rule", kind="procedure"), hit("seen")),
        "recency": (hit("new"), hit("old", days=400)),
        "relevance": (hit("good", score=0.6), hit("poor", score=0.5)),
        "usage": (hit("opened"), hit("left")),
    }
    for preset in PRESETS:
        settings = RankingSettings(preset=preset, usage=True)
        for better, worse in pairs.values():
            found = ranked([worse, better], settings, usage={GripId("grip:opened"): GripUsage((NOW,))})
            assert names(found) == [better.title, worse.title]


# repetitions

#: Names, ends and ages in days of three announcements.
LINTER = (("a", ":", 3), ("b", ".", 0), ("c", "", 9))


def test_nearly_the_same_words_are_shown_once_with_the_count_and_at_most_three_grips() -> None:
    said = " ".join(WORDS * 3)
    hits = [hit("a", 0.9, quote=said), hit("b", 0.8, quote=said.upper()), hit("c", 0.7, quote=said + " indeed"), hit("d", 0.1)]
    found = ranked(hits)
    assert names(found) == ["a", "d"]
    assert found[0].grip_ids == ("grip:a", "grip:b", "grip:c")
    assert dict(found[0].parts)["folded"] == 2
    assert "folded" not in dict(found[1].parts)
    said = " ".join(WORDS)
    [first] = ranked([hit(name, quote=said) for name in "abcdef"])
    assert first.grip_ids == ("grip:a", "grip:b", "grip:c")
    assert dict(first.parts)["folded"] == 5


def test_the_like_is_counted_over_sessions_with_its_last_time_whatever_sign_ends_it_and_one_message_once() -> None:
    told = [hit(name, quote=f"Let me run the linter again{end}", days=days) for name, end, days in LINTER]
    [first] = ranked(told)
    assert (first.times, first.last) == (3, NOW)
    twice = [hit("a", 0.9, grips=("grip:x",), event_id="evt:1"), hit("a", 0.8, grips=("grip:y",), event_id="evt:1")]
    assert [found.times for found in ranked(twice)] == [1]
    assert [found.times for found in ranked([hit("a", quote="Something else was said.")])] == [1]


def test_short_words_fold_nothing_nor_do_words_that_differ_in_more_than_a_tenth_with_or_without_spaces() -> None:
    other = [w if i % 5 else "other" for i, w in enumerate(WORDS * 3)]
    assert len(ranked([hit("a", quote=" ".join(WORDS * 3)), hit("b", quote=" ".join(other))])) == 2
    assert names(ranked([hit("a", quote="yes, please do that"), hit("b", quote="yes, please do that")])) == ["a", "b"]
    said = "再試行キューは請求書ごとに一つの鍵を持つので二重に送られることはない" * 2
    assert names(ranked([hit("a", quote=said), hit("b", quote=said)])) == ["a"]
    assert names(ranked([hit("a", quote=said), hit("b", quote=said[::-1])])) == ["a", "b"]


def test_two_texts_are_one_where_they_share_nine_tenths_of_their_runs_however_words_recur_in_them() -> None:
    rng, folded = random.Random(5), 0

    def list_runs(text: str) -> set[tuple[str, ...]]:
        pieces, run = (text.split(), 3) if " " in text else (list(text), 8)
        return {tuple(pieces[at : at + run]) for at in range(len(pieces) - run + 1)} if len(pieces) >= 2 * run else set()

    for number in range(400):
        separator, pieces = (" ", WORDS[: rng.randint(3, 17)]) if number % 3 else ("", list("会话元数据是如何存储的"))
        text = rng.choices(pieces, k=rng.randint(4 if separator else 24, 70))
        other = list(text)
        for _ in range(rng.randint(0, 3)):
            other[rng.randrange(len(other))] = rng.choice(pieces)
        first, second = separator.join(text), separator.join(other)
        runs, other_runs = list_runs(first), list_runs(second)
        same = bool(runs and other_runs) and len(runs & other_runs) >= 0.9 * len(runs | other_runs)
        shown = ranked([hit("a", 0.9, quote=first), hit("b", 0.8, quote=second)])
        assert (len(shown) == 1) is same
        folded += same
    assert 50 < folded < 350


def test_one_quotation_and_one_message_are_one_result_and_two_messages_of_a_node_are_two() -> None:
    same = [hit("a", 0.9, grips=("grip:x",)), hit("b", 0.8, grips=("grip:x", "grip:y"))]
    assert ranked(same)[0].grip_ids == ("grip:x", "grip:y")
    twice = [hit("a", 0.9, grips=("grip:x",), event_id="evt:1"), hit("a", 0.8, grips=("grip:y",), event_id="evt:1")]
    assert [(h.score, h.grip_ids) for h in ranked(twice)] == [(0.9, ("grip:x", "grip:y"))]
    apart = [hit("a", 0.9, grips=("grip:x",), event_id="evt:1"), hit("a", 0.8, grips=("grip:y",), event_id="evt:2")]
    assert [h.event_id for h in ranked(apart)] == ["evt:1", "evt:2"]


def test_repetitions_stay_where_the_settings_want_them_and_go_where_an_earlier_page_has_said_them() -> None:
    said = " ".join(WORDS)
    settings = RankingSettings(collapse=False)
    assert names(ranked([hit("a", quote=said), hit("b", quote=said)], settings)) == ["a", "b"]
    earlier, hits = [hit("a", quote=said)], [hit("b", quote=said.upper()), hit("c", quote="something else"), hit("d", quote=said)]
    assert names(drop_repetitions(earlier, hits, RankingSettings())) == ["c"]
    assert names(drop_repetitions(earlier, hits, RankingSettings(collapse=False))) == ["b", "c", "d"]
    assert names(drop_repetitions([], hits, RankingSettings())) == ["b", "c", "d"]


# statements that hold no more


def test_a_superseded_statement_stands_right_behind_its_successor_if_that_is_there() -> None:
    hits = [hit("old", 0.9, superseded_by="grip:new"), hit("other", 0.7), hit("new", 0.5), hit("last", 0.1)]
    found = ranked(hits)
    assert names(found) == ["other", "new", "old", "last"]
    assert found[2].superseded_by == "grip:new"
    assert names(ranked([hits[0], hits[1]])) == ["old", "other"]


def test_what_holds_no_more_scores_less_than_what_it_stands_behind() -> None:
    hits = [hit("old", 0.9, superseded_by="grip:new"), hit("older", 0.8, superseded_by="grip:old"), hit("new", 0.9)]
    hits += [hit("taken back", 1.0, superseded_by=RETRACTED), hit("other", 0.7), hit("far", 0.6, superseded_by="grip:elsewhere")]
    scores = {h.title: h.score for h in ranked(hits)}
    assert scores["new"] > scores["old"] > scores["older"] > scores["taken back"] > 0
    # What stands in the place of another and is not here says nothing about the score.
    assert (scores["new"], scores["other"], scores["far"]) == (0.9, 0.7, 0.6)
    assert ranked([hit("taken back", 1.0, superseded_by=RETRACTED)])[0].score == 1.0


def test_a_chain_of_successors_stands_in_the_order_in_which_they_hold_and_of_a_circle_all_are_shown() -> None:
    hits = [hit("a", 0.9, superseded_by="grip:b"), hit("b", 0.8, superseded_by="grip:c"), hit("c", 0.1)]
    assert names(ranked(hits)) == ["c", "b", "a"]
    hits = [hit("a", 0.9, superseded_by="grip:b"), hit("b", 0.8, superseded_by="grip:a"), hit("c", 0.1)]
    assert sorted(names(ranked(hits))) == ["a", "b", "c"]


def test_what_holds_is_never_folded_into_what_does_not() -> None:
    said = " ".join(WORDS)
    hits = [hit("old", 0.9, quote=said, superseded_by="grip:gone"), hit("new", 0.2, quote=said)]
    assert names(ranked(hits)) == ["old", "new"]
    successor = [hit("old", 0.9, quote=said, superseded_by="grip:new"), hit("new", 0.2, quote=said)]
    assert names(ranked(successor)) == ["new"]


# laws


def test_nothing_is_lost_invented_or_named_twice_and_values_stay_within_bounds() -> None:
    assert ranked([]) == []
    rng = random.Random(3)
    kinds = ["", *(k.value for k in MemoryKind)]
    for _ in range(300):
        hits = [
            hit(
                str(n), rng.random(), rng.choice([0, 1, 30, 900]), " ".join(rng.choices(WORDS, k=7)), kind=rng.choice(kinds),
                salience=rng.choice([0.0, 0.5, 1.0]), pinned=rng.random() < 0.2,
                superseded_by=rng.choice(["", "", f"grip:{rng.randrange(8)}"]),
            )
            for n in range(8)
        ]  # fmt: skip
        settings = RankingSettings(preset=rng.choice(sorted(PRESETS)), usage=True, collapse=False)
        found = ranked(hits, settings, rng.random() < 0.3, rng.random() < 0.3, {GripId("grip:1"): GripUsage((NOW,))})
        assert sorted(map(shown_id, found)) == sorted(map(shown_id, hits))
        assert all(0 <= value <= 1 for h in found for _, value in h.parts)
        folded = ranked(hits, dataclasses.replace(settings, collapse=True))
        assert len(folded) + sum(dict(h.parts).get("folded", 0) for h in folded) == len(hits)


# settings


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("preset", "best", "default or spec"),
        ("half_life_days", 0, "half_life_days"),
        ("half_life_days", 40_000, "at most 36500"),
        ("recency_weight", 0.5, "preset chooses the weights"),
        ("usage_weight", 0.5, "preset chooses the weights"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(key: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load({}, {f"ranking.{key}": value})


def test_the_settings_come_from_the_environment_as_from_the_file() -> None:
    found = load({"MEMORY_MCP_RANKING__PRESET": "spec", "MEMORY_MCP_RANKING__USAGE": "true"}).ranking
    assert found == RankingSettings(preset="spec", usage=True)
    assert json.dumps(found.weights) == json.dumps(PRESETS["spec"])
