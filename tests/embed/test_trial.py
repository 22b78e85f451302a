"""The test made of a memory: titles are no echo of what they are to find, and places are counted fairly."""

import numpy as np
import pytest

from memory_mcp.embed.models import BUNDLED, named
from memory_mcp.embed.trial import FOUND_IN, difference, embedded, pair, ranks


def test_sentences_that_share_most_of_the_title_are_left_out_of_its_stretch() -> None:
    said = [
        "We moved the lock to Postgres advisory locks. A lock in Redis has a clock of its own.",
        "Postgres advisory locks it is, then.\nThe process that stalls longer than its lease still holds the row.",
    ]
    found = pair("Postgres advisory locks", said)
    assert found is not None
    assert "advisory" not in found.stretch
    assert "A lock in Redis has a clock of its own." in found.stretch


@pytest.mark.parametrize(("title", "said"), [("Locks", ["A long text about other things in the harbour."]), ("Two words", [])])
def test_what_leaves_nothing_to_ask_about_is_no_question(title: str, said: list[str]) -> None:
    assert pair(title, said) is None


def test_places_are_counted_from_one_and_equals_and_zeros_count_against() -> None:
    stretches = np.eye(3, dtype=np.float32)
    titles = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0]], dtype=np.float32)
    assert ranks(titles, stretches).tolist() == [1, 2, 3]


def test_a_difference_is_told_when_it_is_more_than_chance() -> None:
    first, last = np.full(200, 1), np.full(200, FOUND_IN + 1)
    assert difference(first, last).told
    assert difference(first, last).mean == 1
    mixed = np.where(np.arange(200) % 2 == 0, 1, FOUND_IN + 1)
    same = difference(mixed, mixed[::-1])
    assert (same.mean, same.told) == (0, False)


@pytest.mark.timeout(60)
def test_many_texts_are_embedded_aside_in_order() -> None:
    texts = [f"sentence number {n} about {('boats', 'bread', 'locks')[n % 3]} " + "and so on " * (n % 20) for n in range(5000)]
    counted: list[int] = []
    rows = embedded(named(BUNDLED, None).folder, texts, counted.append)
    assert rows.shape == (5000, 256)
    assert counted[-1] == 5000
    assert np.array_equal(rows[4321:4322], embedded(named(BUNDLED, None).folder, texts[4321:4322]))
