"""Packs circles of given radii so that they touch and do not overlap. Deterministic and pure.

Each circle is put, in the order given, where it touches two that are placed and is nearest to the middle. A corner between two
that had no room once is not looked at again: it is small, and there are n squared of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from memory_mcp.base.dataclass import dataclass

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

    def shift(self, x: float, y: float) -> "Circle":
        """Return a new circle with the middle moved by (x, y)."""
        return Circle(self.x + x, self.y + y, self.r)


#: Two circles and the side of them on which another may touch both.
_Corner = tuple[Circle, Circle, int]


def pack_circles(
    radii: Sequence[float], gap: float = 0.0, wide: float = 1.0, pulls: Mapping[tuple[int, int], float] | None = None
) -> list[Circle]:
    """Return a circle for each radius, at least `gap` apart.

    The first is placed at (0, 0), so the largest should come first. The whole gets about `wide` times wider than high. `pulls`
    says by (place, later place) of two circles how strongly they are drawn to each other.
    """
    placed: list[Circle] = []
    corners: list[_Corner] = []
    for index, radius in enumerate(radii):
        pulling = [(circle, pull) for other, circle in enumerate(placed) if (pull := (pulls or {}).get((other, index), 0.0))]
        x, y = _free_place(placed, corners, radius + gap, wide, pulling)
        new_circle = Circle(x, y, radius)
        reach = 2 * max(radii[index + 1 :], default=0.0) + 2 * gap
        corners += [
            (circle, new_circle, side)
            for circle in placed
            if math.hypot(circle.x - x, circle.y - y) - circle.r - radius <= reach
            for side in (1, -1)
        ]
        placed.append(new_circle)
    return placed


def _free_place(
    placed: Sequence[Circle], corners: list[_Corner], radius: float, wide: float, pulling: Sequence[tuple[Circle, float]]
) -> tuple[float, float]:
    """Return a corner with room, dropping those without; `radius` includes the gap."""
    if len(placed) < 2:
        return (placed[0].x + placed[0].r + radius, placed[0].y) if placed else (0.0, 0.0)
    # The centre of gravity, circles weighted by their areas.
    weight = sum(circle.r * circle.r for circle in placed)
    middle = (
        sum(circle.x * circle.r * circle.r for circle in placed) / weight,
        sum(circle.y * circle.r * circle.r for circle in placed) / weight,
    )
    points = [(_cost(x, y, middle, wide, pulling), x, y, corner) for corner in corners for x, y in _touching(*corner, radius)]
    full, best = [], None
    for _, x, y, corner in sorted(points, key=lambda point: point[:3]):
        if _is_free(placed, x, y, radius):
            best = x, y
            break
        full.append(corner)
    corners[:] = [corner for corner in corners if corner not in full]
    return best or (max(circle.x + circle.r for circle in placed) + radius, 0.0)


def _touching(first_circle: Circle, second_circle: Circle, side: int, radius: float) -> Iterable[tuple[float, float]]:
    across, down = second_circle.x - first_circle.x, second_circle.y - first_circle.y
    first, second = first_circle.r + radius, second_circle.r + radius
    square = across * across + down * down
    if square <= (first + second) ** 2:
        distance = math.sqrt(square)
        along = (first * first - second * second + square) / (2 * distance)
        aside = side * math.sqrt(max(first * first - along * along, 0.0)) / distance
        along /= distance
        yield first_circle.x + along * across + aside * down, first_circle.y + along * down - aside * across


def _cost(x: float, y: float, middle: tuple[float, float], wide: float, pulling: Iterable[tuple[Circle, float]]) -> float:
    """Rounded to 4 digits, so that all machines agree."""
    away = math.hypot((x - middle[0]) / wide, y - middle[1])
    return round(away + sum(pull * math.hypot(x - circle.x, y - circle.y) for circle, pull in pulling), 4)


def _is_free(placed: Sequence[Circle], x: float, y: float, radius: float) -> bool:
    for circle in reversed(placed):
        across, down, min_distance = circle.x - x, circle.y - y, circle.r + radius
        if across * across + down * down < min_distance * min_distance - _EPSILON * min_distance:
            return False
    return True


def enclosing_circle(circles: Sequence[Circle]) -> Circle:
    """Return a circle around all of them."""
    if not circles:
        return Circle(0.0, 0.0, 0.0)
    x = sum(circle.x for circle in circles) / len(circles)
    y = sum(circle.y for circle in circles) / len(circles)
    for step in range(2, _STEPS):
        far = max(circles, key=lambda circle: (math.hypot(circle.x - x, circle.y - y) + circle.r, circle.x, circle.y))
        distance = math.hypot(far.x - x, far.y - y)
        if distance:
            # Towards the farthest point of the farthest circle, less with each step.
            share = (distance + far.r) / distance / step / 2
            x, y = x + (far.x - x) * share, y + (far.y - y) * share
    return Circle(x, y, max(math.hypot(circle.x - x, circle.y - y) + circle.r for circle in circles))


def pack_groups(
    groups: Sequence[Sequence[float]], gap: float, margin: float, wide: float, pulls: Mapping[tuple[int, int], float]
) -> list[tuple[Circle, list[Circle]]]:
    """Return for each group of radii its circle and theirs.

    The circle of a group is `margin` larger than its circles need.
    """
    inner = [pack_circles(radii, gap) for radii in groups]
    rings = [enclosing_circle(circles) for circles in inner]
    outer = pack_circles([ring.r + margin for ring in rings], gap, wide, pulls)
    return [
        (outer_circle, [circle.shift(outer_circle.x - ring.x, outer_circle.y - ring.y) for circle in circles])
        for outer_circle, ring, circles in zip(outer, rings, inner, strict=True)
    ]
