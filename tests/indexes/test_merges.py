"""Which parts are merged: laws of the plan, and that a life of commits leaves few parts."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.indexes import merges
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.merges import ShardSize, plan_merges
from tests.indexes.helpers import filled, made_up, merged, unit

SIZES = st.builds(
    lambda stored, share: ShardSize(int(stored * share), stored),
    st.integers(0, 400_000),
    st.sampled_from([0.0, 0.1, 0.5, 0.51, 0.9, 1.0]),
)


def carried_out(sizes: list[ShardSize]) -> tuple[list[ShardSize], int]:
    """The sizes when nothing is due any more, and how often something was."""
    rounds = 0
    while groups := plan_merges(sizes):
        rounds += 1
        taken = {i for g in groups for i in g}
        made = [sum(sizes[i].living for i in g) for g in groups]
        sizes = [s for i, s in enumerate(sizes) if i not in taken] + [ShardSize(n, n) for n in made if n]
        assert rounds < 200, "it never ends"
    return sizes, rounds


@given(st.lists(SIZES, max_size=40))
def test_no_part_is_in_two_groups_and_none_is_made_up(sizes: list[ShardSize]) -> None:
    taken = [i for group in plan_merges(sizes) for i in group]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(range(len(sizes)))


@given(st.lists(SIZES, max_size=40))
def test_merging_ends_and_keeps_every_document(sizes: list[ShardSize]) -> None:
    left, _ = carried_out(sizes)
    assert sum(s.living for s in left) == sum(s.living for s in sizes)


@given(st.lists(SIZES, max_size=60))
def test_what_is_left_are_few_parts_by_the_logarithm_of_their_size_and_large_ones(sizes: list[ShardSize]) -> None:
    left, _ = carried_out(sizes)
    small = [s.living for s in left if s.living <= 131_072]
    tiers = 2 + math.ceil(math.log(max([*small, 512]) / 512, 4))
    assert len(small) <= 3 * tiers


@given(st.lists(SIZES, max_size=40))
def test_no_part_is_left_of_which_half_is_replaced_but_for_the_smallest(sizes: list[ShardSize]) -> None:
    left, _ = carried_out(sizes)
    assert all(s.living > s.stored / 2 or s.stored - s.living < 512 for s in left)


def test_a_handful_of_replaced_documents_is_not_worth_a_part_written_anew() -> None:
    assert plan_merges([ShardSize(122_484, 122_500), ShardSize(1, 8), ShardSize(2, 17)]) == []


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=200))
def test_documents_that_come_in_small_commits_are_rewritten_a_logarithmic_number_of_times(commits: list[int]) -> None:
    parts: list[ShardSize] = []
    written = 0
    for count in commits:
        parts.append(ShardSize(count, count))
        while groups := plan_merges(parts):
            taken = set(groups[0])
            made = sum(parts[i].living for i in taken)
            written += made
            parts = [p for i, p in enumerate(parts) if i not in taken] + [ShardSize(made, made)]
    total = sum(commits)
    # A small part may be merged with others of the lowest tier several times before it leaves that tier.
    assert written <= total * (2 + math.log(max(total / 512, 1), 4)) + 4 * 512 * (1 + len(commits) / 3)


def test_a_part_too_large_for_a_child_is_merged_with_no_other() -> None:
    most = merges.MERGE_LIMIT
    assert plan_merges([ShardSize(most + 1, most + 1)] * 8) == []
    assert plan_merges([ShardSize(most, most)] * 4) == [[0, 1], [2, 3]]
    assert plan_merges([ShardSize(most + 1, 2 * most + 2)]) == [[0]]


@given(st.lists(SIZES, max_size=40))
def test_after_a_bulk_only_large_parts_and_a_rest_are_left(sizes: list[ShardSize]) -> None:
    groups = merges.plan_full_merge(sizes)
    taken = [i for group in groups for i in group]
    assert len(taken) == len(set(taken))
    assert all(sum(sizes[i].living for i in group) <= 2 * merges.MERGE_LIMIT for group in groups)
    left = [s for i, s in enumerate(sizes) if i not in taken and s.living <= merges.MERGE_LIMIT]
    assert len(left) <= 2 + len(groups)


def test_after_a_bulk_a_large_part_is_written_anew_only_where_much_has_come() -> None:
    large = ShardSize(200_000, 200_000)
    assert merges.plan_full_merge([large, ShardSize(3000, 3000)]) == []
    assert merges.plan_full_merge([large, ShardSize(3000, 3000), ShardSize(3000, 3000)]) == [[1, 2]]
    assert merges.plan_full_merge([large, ShardSize(20_000, 20_000)]) == [[0, 1]]
    assert merges.plan_full_merge([large, large, ShardSize(3000, 3000)]) == [[0, 1, 2]]


def test_at_rest_all_becomes_one_part_where_others_than_the_largest_hold_much() -> None:
    sizes = {(): False, (40_000,): False, (40_000, 3_000, 900): False, (40_000, 5_000): True, (1_500, 1_500): False}
    sizes[2_000, 2_000] = True
    sizes[300_000, 50_000], sizes[300_000, 50_000, 7_000] = False, True
    assert {several: merges.is_scattered([ShardSize(n, n) for n in several]) for several in sizes} == sizes


@pytest.mark.parametrize("sizes", [(), (40_000,), (200_000,), (262_144,), (300_000, 50_000), (400_000, 300_000, 200_000)])
def test_an_index_that_grows_rewrites_a_small_multiple_of_what_is_added(sizes: tuple[int, ...]) -> None:
    for step in (300, 2_000, 7_000):
        parts, written = list(sizes), 0
        for _ in range(240_000 // step):
            parts.append(step)
            while groups := plan_at_rest(parts):
                made = sum(parts[index] for index in groups[0])
                written += made
                parts = [n for index, n in enumerate(parts) if index not in groups[0]] + [made]
        assert written < 12 * 240_000, step
        assert sum(n < 131_072 for n in parts) < 13


def plan_at_rest(living: list[int]) -> list[list[int]]:
    """The merges of a round that finds no more changes."""
    sizes = [ShardSize(n, n) for n in living]
    return merges.plan_full_merge(sizes) if merges.is_scattered(sizes) else plan_merges(sizes)


def test_an_index_that_took_in_much_is_made_of_few_parts(tmp_path: Path) -> None:
    index = filled(tmp_path, [[u] for u in made_up(3, 9)])
    assert index.status().parts == 3
    assert index.merge_once(thoroughly=True)
    assert index.status().parts == 1
    assert not index.merge_once(thoroughly=True)


def test_many_small_commits_leave_few_parts_and_no_leftovers(tmp_path: Path) -> None:
    units = made_up(21, 9)
    index = filled(tmp_path, [[u] for u in units])
    while index.merge_once():
        continue
    assert index.status().parts < 4
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.shard.name for p in index.snapshot}
    assert len(list(tmp_path.glob("gen-*.json"))) == 1


def test_a_part_whose_units_were_all_replaced_is_dropped(tmp_path: Path) -> None:
    index = filled(tmp_path, [made_up(20, 1)])
    before = [p.shard.name for p in index.snapshot]
    index.apply_units(made_up(20, 2), [], Position(5, 5))
    index.commit()
    merged(index)
    assert not set(before) & {p.name for p in (tmp_path / "parts").iterdir()}
    index.apply_units([], [u.key for u in made_up(20, 2)], Position(6, 6))
    index.commit()
    assert list((tmp_path / "parts").iterdir()) == []
    index.apply_units([unit(0, "again")], [], Position(7, 7))
    index.commit()
    assert index.status().parts == 1
