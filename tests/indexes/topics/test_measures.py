"""What the bench says of groups is right where it can be counted by hand."""

import numpy as np
import pytest

from bench.topics.measures import measures


def test_purity_and_information_by_hand() -> None:
    found = measures(np.array([0, 0, 0, 1, 1, 1], dtype=np.int32), ["a", "a", "b", "b", "b", "b"])
    assert found.one[0] == pytest.approx(5 / 6)
    # H(groups) = ln 2, H(references) = .6365, H(both) = 1.0114.
    assert found.one[1] == pytest.approx((0.6931 + 0.6365 - 1.0114) / ((0.6931 + 0.6365) / 2), abs=1e-3)
    assert found.largest == 0.5


def test_what_is_in_no_group_counts_in_three_ways() -> None:
    found = measures(np.array([0, 0, -1, -1, -1], dtype=np.int32), ["a", "a", "b", "c", ""])
    assert found.groups == 1
    assert found.ungrouped == 0.6
    assert found.one[0] == pytest.approx(3 / 4)
    assert found.alone == pytest.approx((1.0, 1.0))
    assert found.without[0] == 1.0
