"""Fusion of two ranked lists: what must hold for any lists, and a few by hand."""

from dataclasses import replace
from itertools import pairwise, permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.indexes.base import DocType, Match, PendingMatch
from memory_mcp.indexes.calibrate import BM25, VECTOR
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.search.layers.score import fuse_matches, fuse_pending
from tests.factories import event

#: Few different ones, so that equals are common.
SCORES = st.sampled_from((0.0, 0.004, 0.02, 0.1, 0.25, 0.5, 0.7, 0.93, 1.0))


def match(number: int, score: float, node: bool | None = None) -> Match:
    """A document; whether it is a node hangs on its number, so that both sides agree."""
    grip = number % 3 > 0 if node is None else not node
    return Match(
        doc_type=DocType.GRIP if grip else DocType.NODE,
        node_key=number,
        node_id=NodeId(f"toc:segment:{number:03}"),
        grip_id=GripId(f"grip:{number:03}") if grip else None,
        start_ms=number,
        score=score,
        raw=10 * score,
    )


def listed(scores: dict[int, float]) -> list[Match]:
    """Best first, as a side answers."""
    return sorted((match(n, s) for n, s in scores.items()), key=lambda m: (-m.score, name(m)))


def name(found: Match) -> str:
    return found.grip_id or found.node_id


sides = st.dictionaries(st.integers(0, 30), SCORES, max_size=20).map(listed)
filled = st.dictionaries(st.integers(0, 30), SCORES, min_size=1, max_size=20).map(listed)
limits = st.one_of(st.none(), st.integers(1, 25))


@given(sides, sides)
def test_every_document_is_named_once_with_a_score_and_in_order(keyword: list[Match], similar: list[Match]) -> None:
    found = fuse_matches(keyword, similar)
    assert sorted(map(name, found)) == sorted({name(m) for m in (*keyword, *similar)})
    assert all(0 <= m.score <= 1 for m in found)
    assert all(a.score >= b.score for a, b in pairwise(found))
    if keyword and similar:
        assert all(sum(dict(m.parts).values()) == pytest.approx(m.score, abs=1e-5) for m in found)
        both = {name(m) for m in keyword} & {name(m) for m in similar}
        assert {name(m) for m in found if len(m.parts) == 2} == both


@given(sides, sides, limits)
def test_a_limit_takes_the_first(keyword: list[Match], similar: list[Match], limit: int | None) -> None:
    assert fuse_matches(keyword, similar, limit) == fuse_matches(keyword, similar)[:limit]


@given(filled, filled, st.randoms(use_true_random=False))
def test_equal_inputs_may_come_in_any_order(keyword: list[Match], similar: list[Match], random: Random) -> None:
    expected = fuse_matches(keyword, similar)
    for side in (keyword, similar):
        random.shuffle(side)
        side.sort(key=lambda m: -m.score)
    assert fuse_matches(keyword, similar) == expected


@given(sides)
def test_one_side_alone_is_as_it_was(side: list[Match]) -> None:
    assert fuse_matches(side, []) == side
    assert fuse_matches([], side) == side


@given(filled, filled)
def test_what_is_nowhere_worse_is_nowhere_behind(keyword: list[Match], similar: list[Match]) -> None:
    """Of two documents of one sort; absent is worst."""
    raw = {name(m): m.raw for m in fuse_matches(keyword, similar)}
    left, right = ({name(m): m.score for m in side} for side in (keyword, similar))
    for a, b in permutations(raw, 2):
        same = a.startswith("grip") == b.startswith("grip")
        if same and left.get(a, -1) >= left.get(b, -1) and right.get(a, -1) >= right.get(b, -1):
            assert raw[a] >= raw[b] - 1e-12


@given(filled, filled, st.integers(0, 30), SCORES)
def test_a_better_score_on_one_side_never_costs(keyword: list[Match], similar: list[Match], number: int, better: float) -> None:
    target = name(match(number, 0))
    before = {name(m): m.score for m in fuse_matches(keyword, similar)}
    raised = [m for m in keyword if name(m) != target]
    held = max((m.score for m in keyword if name(m) == target), default=0.0)
    raised = sorted([*raised, match(number, max(better, held))], key=lambda m: (-m.score, name(m)))
    after = {name(m): m.score for m in fuse_matches(raised, similar)}
    assert after[target] >= before.get(target, 0.0)
    # Others are not touched by it.
    assert all(after[i] == score for i, score in before.items() if i != target)


def test_agreement_beats_the_best_of_one_side_where_what_is_not_named_has_what_no_standing_is_worth() -> None:
    keyword = [match(1, 0.6), match(2, 0.5)]
    similar = [match(4, 0.6), match(2, 0.5)]
    assert [m.node_key for m in fuse_matches(keyword, similar)] == [2, 1, 4]
    # Named at the very end or not at all is the same.
    nothing = VECTOR[DocType.GRIP][0][1]
    absent = fuse_matches([match(1, 0.6)], [match(2, 0.5)])
    named = fuse_matches([match(1, 0.6)], [match(2, 0.5), match(1, nothing)])
    assert [(m.node_key, m.score) for m in absent] == [(m.node_key, m.score) for m in named]
    assert absent[0].raw == pytest.approx(1 / (1 + (0.4 / 0.6) ** 0.6 * ((1 - nothing) / nothing) ** 0.4))
    assert BM25[DocType.GRIP][0][1] > 0


def test_a_node_keeps_the_grip_that_either_side_found() -> None:
    found = match(3, 0.5, node=True)
    proven = replace(found, best_grip=GripId("grip:proof"))
    for keyword, similar in (([found], [proven]), ([proven], [found])):
        assert fuse_matches(keyword, similar)[0].best_grip == "grip:proof"


def unfiled(number: int, score: float) -> PendingMatch:
    """Return an event that no document holds yet."""
    return PendingMatch(event(f"m{number}"), score, 10 * score)


def test_an_event_that_only_its_meaning_finds_must_be_rather_near_and_one_that_both_sides_find_is_worth_more() -> None:
    far, near, worded = unfiled(1, 0.05), unfiled(2, 0.3), unfiled(3, 0.02)
    assert [u.event for u in fuse_pending([worded], [far, near])] == [worded.event, near.event]
    assert fuse_pending([], []) == []
    both, single = fuse_pending([unfiled(1, 0.4), unfiled(2, 0.4)], [unfiled(1, 0.4)])
    assert (both.event, single.event) == (unfiled(1, 0.4).event, unfiled(2, 0.4).event)
    assert both.score > single.score
    assert both.raw > single.raw
