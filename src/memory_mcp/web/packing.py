"""Packs circles of given radii so that they touch and do not overlap. Deterministic and pure.

Each circle is put, in the order given, where it touches two that are placed and is nearest to the middle. A corner between two
that had no room once is not looked at again: it is small, and there are n squared of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: How far circles may overlap by rounding.
_EPSILON = 1e-6
#: Steps by which the circle around others is found.
_STEPS = 80


@dataclass(frozen=True, slots=True)
class Circle:
    """A circle by its middle and radius."""

    x: float
    y: float
    r: float

    def moved(self, x: float, y: float) -> "Circle":
        """Return a new circle with the middle moved by (x, y)."""
        return Circle(self.x + x, self.y + y, self.r)


#: Two circles and the side of them on which another may touch both.
_Corner = tuple[Circle, Circle, int]


def packed(
    radii: Sequence[float], gap: float = 0.0, wide: float = 1.0, pulls: Mapping[tuple[int, int], float] | None = None
) -> list[Circle]:
    """Return a circle for each radius, in the same order; no two are nearer to each other than `gap`.

    The first is placed at (0, 0), so the largest should come first. The whole gets about `wide` times wider than high. `pulls`
    says by (place, later place) of two circles how strongly they are drawn to each other.
    """
    placed: list[Circle] = []
    corners: list[_Corner] = []
    for place, radius in enumerate(radii):
        pulling = [(one, pull) for other, one in enumerate(placed) if (pull := (pulls or {}).get((other, place), 0.0))]
        x, y = _free_place(placed, corners, radius + gap, wide, pulling)
        made = Circle(x, y, radius)
        reach = 2 * max(radii[place + 1 :], default=0.0) + 2 * gap
        corners += [
            (one, made, side) for one in placed if math.hypot(one.x - x, one.y - y) - one.r - radius <= reach for side in (1, -1)
        ]
        placed.append(made)
    return placed


def _free_place(
    placed: Sequence[Circle], corners: list[_Corner], radius: float, wide: float, pulling: Sequence[tuple[Circle, float]]
) -> tuple[float, float]:
    """Return the middle (x, y) of the place with the least cost for the next circle, whose `radius` includes the gap.

    Corners that were tried and have no room for it are taken from the list for good. The first circle is at (0, 0), the
    second at its right, and one without any free corner at the right of all.
    """
    if len(placed) < 2:
        return (placed[0].x + placed[0].r + radius, placed[0].y) if placed else (0.0, 0.0)
    # The centre of gravity, circles weighted by their areas.
    whole = sum(one.r * one.r for one in placed)
    middle = sum(one.x * one.r * one.r for one in placed) / whole, sum(one.y * one.r * one.r for one in placed) / whole
    points = [(_cost(x, y, middle, wide, pulling), x, y, corner) for corner in corners for x, y in _touching(*corner, radius)]
    full, best = [], None
    for _, x, y, corner in sorted(points, key=lambda point: point[:3]):
        if _is_free(placed, x, y, radius):
            best = x, y
            break
        full.append(corner)
    corners[:] = [corner for corner in corners if corner not in full]
    return best or (max(one.x + one.r for one in placed) + radius, 0.0)


def _touching(one: Circle, other: Circle, side: int, radius: float) -> Iterable[tuple[float, float]]:
    """Yield the middle (x, y) of the circle that touches both on one side (1 or -1); none if they are too far apart for it."""
    across, down = other.x - one.x, other.y - one.y
    first, second = one.r + radius, other.r + radius
    square = across * across + down * down
    if square <= (first + second) ** 2:
        distance = math.sqrt(square)
        along = (first * first - second * second + square) / (2 * distance)
        aside = side * math.sqrt(max(first * first - along * along, 0.0)) / distance
        along /= distance
        yield one.x + along * across + aside * down, one.y + along * down - aside * across


def _cost(x: float, y: float, middle: tuple[float, float], wide: float, pulling: Iterable[tuple[Circle, float]]) -> float:
    """Return the cost of a place: its distance from the middle, and for each pull its distance to that circle.

    In the former x is divided by `wide`, the latter is multiplied by the pull. Rounded to 4 digits, so that all machines agree.
    """
    away = math.hypot((x - middle[0]) / wide, y - middle[1])
    return round(away + sum(pull * math.hypot(x - one.x, y - one.y) for one, pull in pulling), 4)


def _is_free(placed: Sequence[Circle], x: float, y: float, radius: float) -> bool:
    """Return whether a circle of this middle and radius overlaps none of `placed`; touching is no overlap."""
    for one in reversed(placed):
        across, down, apart = one.x - x, one.y - y, one.r + radius
        if across * across + down * down < apart * apart - _EPSILON * apart:
            return False
    return True


def around(circles: Sequence[Circle]) -> Circle:
    """Return a circle around all of them, hardly larger than it must be; one of radius 0 at (0, 0) for none."""
    if not circles:
        return Circle(0.0, 0.0, 0.0)
    x = sum(one.x for one in circles) / len(circles)
    y = sum(one.y for one in circles) / len(circles)
    for step in range(2, _STEPS):
        far = max(circles, key=lambda one: (math.hypot(one.x - x, one.y - y) + one.r, one.x, one.y))
        distance = math.hypot(far.x - x, far.y - y)
        if distance:
            # Towards the farthest point of the farthest circle, less with each step.
            share = (distance + far.r) / distance / step / 2
            x, y = x + (far.x - x) * share, y + (far.y - y) * share
    return Circle(x, y, max(math.hypot(one.x - x, one.y - y) + one.r for one in circles))


def grouped(
    groups: Sequence[Sequence[float]], gap: float, margin: float, wide: float, pulls: Mapping[tuple[int, int], float]
) -> list[tuple[Circle, list[Circle]]]:
    """Return for each group of radii (circle of the group, circles in it), in the order of groups and radii.

    The circle of a group is `margin` larger than its circles need. Groups are placed by `packed`, with `wide` and `pulls`.
    """
    inner = [packed(radii, gap) for radii in groups]
    rings = [around(circles) for circles in inner]
    outer = packed([ring.r + margin for ring in rings], gap, wide, pulls)
    return [
        (place, [one.moved(place.x - ring.x, place.y - ring.y) for one in circles])
        for place, ring, circles in zip(outer, rings, inner, strict=True)
    ]
