"""What one event costs: work that is none of its own makes it neither cheaper than nothing nor dearer."""

from pathlib import Path

import anyio
import pytest

from bench import place
from bench.alone import WAYS, Cost, Figures, Run, Window, noise
from bench.place import Place


def windows(*costs: Cost) -> list[Window]:
    return [Window(75.0, cost) for cost in costs]


def test_background_work_in_an_idle_window_does_not_make_an_event_cheaper() -> None:
    idle = windows(Cost(0.25, 0, 4_000, 70), Cost(0.5, 0, 5_000, 75), Cost(9.0, 8_000_000, 90_000, 400))
    found = Figures(rest=75.0, idle_windows=idle, event_windows={"hook": windows(Cost(0.75, 61_000, 11_000, 95))})
    assert found.idle == Cost(0.5, 0, 5_000, 75)
    assert found.alone["hook"] == Cost(0.25, 61_000, 6_000, 20)


def test_background_work_in_one_of_several_event_windows_does_not_make_it_dearer() -> None:
    several = windows(Cost(0.5, 61_000, 6_000, 20), Cost(7.0, 5_000_000, 70_000, 300), Cost(0.25, 70_000, 5_000, 22))
    found = Figures(rest=75.0, idle_windows=windows(Cost()), event_windows={"remember": several})
    assert found.alone["remember"] == Cost(0.5, 70_000, 6_000, 22)


def test_a_window_that_lasts_longer_holds_more_idle_time_and_no_more_of_the_event() -> None:
    idle = [Window(50.0, Cost(1.0, 100, 200, 10)), Window(25.0, Cost(0.5, 50, 100, 5))]
    found = Figures(rest=25.0, idle_windows=idle, event_windows={"hook": [Window(100.0, Cost(2.5, 500, 900, 30))]})
    assert found.idle == Cost(0.5, 50, 100, 5)
    assert found.alone["hook"] == Cost(0.5, 300, 500, 10)


def test_no_cost_is_below_zero() -> None:
    idle, event = windows(Cost(0.75, 10, 10, 10)), windows(Cost(0.25, 5, 20, 5))
    found = Figures(rest=75.0, idle_windows=idle, event_windows={"hook": event})
    assert found.alone["hook"] == Cost(0.0, 0, 10, 0)


def test_it_is_said_how_far_idle_windows_differ() -> None:
    found = Figures(
        rest=75.0,
        idle_windows=windows(Cost(0.04), Cost(0.05)),
        busy_windows=1,
        event_windows={"hook": windows(*[Cost(0.15, 61_000, 11_000)] * 3)},
    )
    assert noise(found) == "median of 3, 2 idle windows that differ by 10.0 ms, 1 with other work left out"


@pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")
@pytest.mark.usefixtures("processes")
def test_an_event_of_each_kind_is_measured_on_a_served_store(tmp_path: Path) -> None:
    with Place(tmp_path, profile="full") as served:
        run = Run(served, rest=0.2, times=1)
        anyio.run(run.measure)
        served.stop()
    assert list(run.figures.alone) == [*WAYS]
    assert len(run.figures.idle_windows) == 2
    assert all(min(spent.worked, spent.written, spent.handed) >= 0 for spent in run.figures.alone.values())
