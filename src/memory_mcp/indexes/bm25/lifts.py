"""Scores of one part's grips, with shares of those beside them, and the best of each segment.

Where a query touches many grips, whole arrays are worked on, else only the touched rows; both do the same sums in the same
order, so that a score never depends on which it was.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_mcp.indexes.columns import Units
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.part import LivePart

#: Shares of the grips one and two places before and behind (measured: +9 points of turns found among the first five).
NEIGHBOURS = (0.5, 0.35)
#: Rows of one block, of which the highest is looked at first.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Smoothed:
    """Grips that may be found."""

    units: Units
    #: Rows that may be among the best, ascending, and their scores.
    rows: Array
    score: Array
    #: Highest score per unit; 0: no grip of it may be found.
    best: Array
    #: How many may be found.
    count: int
    #: Scores of all rows, where whole arrays were worked on.
    dense: Array | None = None

    def best_row(self, unit: int) -> int:
        """The row of a unit's best grip, the first of equals; -1 where there is none."""
        first, count = int(self.units.grip_first[unit]), int(self.units.grip_count[unit])
        if self.best[unit] <= 0:
            return -1
        if self.dense is not None:
            return first + int(np.argmax(self.dense[first : first + count]))
        start, end = np.searchsorted(self.rows, (first, first + count)).tolist()
        return int(self.rows[start + int(np.argmax(self.score[start:end]))])


def some(live: LivePart[Any], rows: Array, dense: Array, shown: Array | None) -> Smoothed:
    """From the touched rows alone (ascending)."""
    if shown is not None:
        rows = rows[shown[rows]]
    units = live.part.units
    unit = live.part.grips.unit[rows]
    before = rows - units.grip_first[unit]
    behind = units.grip_count[unit] - 1 - before
    score = dense[rows]
    for distance, share in enumerate(NEIGHBOURS, start=1):
        score += share * (dense.take(rows - distance, mode="clip") * (before >= distance))
        score += share * (dense.take(rows + distance, mode="clip") * (behind >= distance))
    best = np.zeros(len(units))
    if len(rows):
        starts = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]]))
        best[unit[starts]] = np.maximum.reduceat(score, starts)
    return Smoothed(units, rows, score, best, len(rows))


def all_of(live: LivePart[Any], dense: Array, shown: Array | None, limit: int, slack: float) -> Smoothed:
    """From all rows; those are left out that cannot be among the best `limit` even with `slack` more."""
    units, unit = live.part.units, live.part.grips.unit
    score = dense.copy()
    for distance, share in enumerate(NEIGHBOURS, start=1):
        beside = unit[distance:] == unit[:-distance]
        score[distance:] += share * (dense[:-distance] * beside)
        score[:-distance] += share * (dense[distance:] * beside)
    found = dense > 0 if shown is None else (dense > 0) & shown
    score *= found
    best = np.zeros(len(units))
    quoted = np.flatnonzero(units.grip_count)
    best[quoted] = np.maximum.reduceat(score, units.grip_first[quoted])
    rows = np.flatnonzero(score >= max(_edge(score, limit) - slack, np.finfo(np.float64).tiny))
    return Smoothed(units, rows, score[rows], best, int(np.count_nonzero(found)), score)


def _edge(score: Array, limit: int) -> float:
    """A number that at least `limit` scores reach: the lowest of the highest of the best blocks."""
    whole = len(score) // _BLOCK * _BLOCK
    highest = score[:whole].reshape(-1, _BLOCK).max(axis=1)
    if len(highest) <= limit:
        return 0.0
    return float(np.partition(highest, len(highest) - limit)[len(highest) - limit])
