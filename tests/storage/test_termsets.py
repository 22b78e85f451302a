"""Term sets and their counts as the engines keep them, held against sets and counters of Python's own."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from memory_mcp.storage.termsets import select_smallest, subtract_sets, sum_counts, unite_sets


def packed(terms: Iterable[int]) -> bytes:
    return np.array(sorted(terms), "<u4").tobytes()


def row(counts: Mapping[int, int]) -> tuple[bytes, bytes]:
    return packed(counts), np.array([counts[term] for term in sorted(counts)], "<i4").tobytes()


def test_sums_unions_and_what_is_left_are_those_of_sets_and_counters() -> None:
    rng = random.Random(5)
    for _ in range(200):
        sets = [{rng.choice((0, 1, 7, 2**31, 2**32 - 1, rng.randrange(9))) for _ in range(rng.randint(1, 8))} for _ in range(6)]
        assert unite_sets(map(packed, sets)) == packed(set.union(*sets))
        counts = [Counter({term: rng.randint(1, 3) for term in one}) for one in sets]
        total = sum(counts, Counter[int]())
        assert sum_counts(map(row, counts)) == row(total)
        # A set in two parts counts once.
        gone = [sets[0], sets[1]]
        left = +(total - Counter(gone[0]) - Counter(gone[1]))
        assert subtract_sets(map(row, counts), [[packed(one), packed(one)] for one in gone]) == (row(left) if left else None)
    assert subtract_sets([row({1: 1, 5: 1})], [[packed({1}), packed({5})]]) is None


def test_a_large_row_is_left_alone_until_the_small_ones_amount_to_something() -> None:
    small, large = [(n, b"1234" * n) for n in (3, 1, 2)], (9, b"1" * 40_000)
    assert select_smallest([large, *small], 4) == sorted(small)
    assert select_smallest([*small, large], 1) == [*sorted(small), large]
    near = (8, b"1" * 20_000)
    assert select_smallest([large, near, *small], 4) == [*sorted(small), near, large]
