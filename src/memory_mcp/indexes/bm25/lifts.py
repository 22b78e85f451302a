"""Score the messages of one part from the scores of its grips, with shares of neighbouring messages.

A message has the score of its best grip. Neighbours are counted by message, so that the pieces of a long one are not
neighbours of each other.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_mcp.indexes.columns import Units
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.messages import ASKING, Messages, by_message
from memory_mcp.indexes.part import LivePart

#: Shares of the messages one and two places away (fitted: see `layers.score`).
NEIGHBOURS = (0.17, 0.12)


class _Lane(threading.local):
    """Per thread: an array of zeros, which every user leaves zero again."""

    def __init__(self) -> None:
        self.kept = np.zeros(1024, dtype=np.float64)

    def take(self, size: int) -> Array:
        """Return at least `size` zeros."""
        if len(self.kept) < size:
            self.kept = np.zeros(size, dtype=np.float64)
        return self.kept


_lane = _Lane()


@dataclass(frozen=True, slots=True)
class Smoothed:
    """The messages that may be found, ascending; arrays have one row each."""

    units: Units
    #: Index of the message, row of its best grip, and its unit.
    place: Array
    rows: Array
    unit: Array
    #: Own score, and the shares of its neighbours'.
    own: Array
    near: Array
    #: Per unit: highest score of a message with shares of its neighbours; 0 if none may be found.
    best: Array

    def best_row(self, unit: int) -> int:
        """Return the row of a unit's best grip, the first of equals; -1 for none."""
        start, end = np.searchsorted(self.unit, (unit, unit + 1)).tolist()
        if start == end or self.best[unit] <= 0:
            return -1
        return int(self.rows[start + int(np.argmax(self.own[start:end] + self.near[start:end]))])


def smoothed(live: LivePart[Any], rows: Array, dense: Array, shown: Array | None, also: Array | None = None) -> Smoothed:
    """Return the messages of some rows (ascending), and those with indices `also`, whatever they hold.

    `dense` are the scores of all rows; `shown` which rows may be found, `(rows,)` bool (None: all).
    """
    messages, units = live.messages, live.part.units
    value = dense[rows] * (1 - ASKING / 255 * live.part.grips.asks[rows])
    place, own, best = by_message(messages, rows, value)
    lane = _lane.take(len(messages))
    lane[place] = own
    if shown is not None:
        keep = shown[rows]
        place, own, best = by_message(messages, rows[keep], value[keep])
    if also is not None and len(also):
        extra = np.setdiff1d(also, place, assume_unique=True)
        order = np.argsort(np.concatenate([place, extra]), kind="stable")
        place, own, best = (
            np.concatenate([a, b])[order] for a, b in ((place, extra), (own, np.zeros(len(extra))), (best, messages.first[extra]))
        )
    near = _near(messages, lane, place)
    lane[messages.of_row[rows]] = 0.0
    unit = messages.unit[place]
    return Smoothed(units, place, best, unit, own, near, _best(own, near, unit, len(units)))


def _near(messages: Messages, lane: Array, place: Array) -> Array:
    near = np.zeros(len(place))
    unit, last = messages.unit[place], len(messages) - 1
    for distance, share in enumerate(NEIGHBOURS, start=1):
        for other in (place - distance, place + distance):
            beside = np.clip(other, 0, last)
            near += share * lane[beside] * ((other == beside) & (messages.unit[beside] == unit))
    return near


def _best(own: Array, near: Array, unit: Array, units: int) -> Array:
    best = np.zeros(units)
    if len(unit):
        starts = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]]))
        best[unit[starts]] = np.maximum.reduceat(np.where(own > 0, own + near, 0.0), starts)
    return best
