"""Clients wait no longer than promised: the bench's short form, with room, and its full size.

What the promises rest on is counted elsewhere: what a call asks of the store in `tests/interaction/test_costs.py`, what the
relay loads and passes on in `tests/daemon/test_pump.py`, what a hook loads in `tests/acceptance/test_hook.py`.
"""

import pytest

from bench import place
from bench.latency import Bar, Figures, Options, bars, measure

#: A shared machine may be this much slower than the one the promises are measured on.
ROOM = 3.0

pytestmark = pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure(Options(base=1000, events=3000, repeats=3, calls=30, searches=40))


@pytest.mark.slow
def test_every_promise_is_kept_with_room(figures: Figures) -> None:
    measured = bars(figures)
    assert len(measured) == 13
    assert [b for b in measured if not b.value <= b.most * (1 if b.unit == "MB" else ROOM)] == []


@pytest.mark.slow
def test_an_import_beside_searches_succeeds(figures: Figures) -> None:
    assert (figures.import_status, figures.import_said) == (0, "")
    assert figures.during


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_promise_is_kept_at_full_size() -> None:
    assert [b for b in bars(measure(Options())) if not b.kept] == []


def test_few_samples_are_not_judged_by_their_last() -> None:
    times = {"one term": [10.0] * 40 + [500.0]}
    few = Figures(during=times, idle_after=times, warm_during=[1.0])
    many = Figures(during={"one term": [10.0] * 98 + [500.0] * 3}, idle_after=times, warm_during=[1.0])
    assert [(b.name, b.value) for b in bars(few)][1] == ("search p90 during an import", 10.0)
    assert [(b.name, b.value) for b in bars(many)][1] == ("search p99 during an import", 500.0)


def test_a_bar_that_is_not_kept_says_so() -> None:
    assert not Bar("a call", 2.1, 2).kept
    assert Bar("a call", 2.0, 2).kept
