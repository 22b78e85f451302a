"""Which units can hold one of the best messages, told from the best score in each, before neighbours are looked at.

A message's lifts are shares of scores of its own unit, so that what it can reach is bounded by the highest of these and its
segment's. Of 400,000 grips that hold a word of a question, its best 120 messages then cost the smoothing of a few thousand.
"""

import numpy as np

from memory_mcp.indexes.bm25.lifts import NEIGHBOURS
from memory_mcp.indexes.columns import Units
from memory_mcp.indexes.files import Array

#: Roundings differ between a bound and a score.
_ROUNDING = 1 + 1e-9
_NEAR = 1 + 2 * sum(NEIGHBOURS)


def reachable(units: Units, grips: Array, nodes: Array, segment: float, best: float) -> Array:
    """Return a bound of every unit's messages, `(units,)`; 0 where none holds a term.

    `grips` and `nodes` are the scores of all rows; `segment` and `best` the shares of a segment's score and of the best
    message in it.
    """
    bound = np.zeros(len(units))
    holding = np.flatnonzero(units.grip_count)
    if len(holding):
        highest = np.maximum.reduceat(grips, units.grip_first[holding])
        bound[holding] = (highest * (_NEAR * (1 + best)) + nodes[units.node_first[holding]] * segment) * (highest > 0) * _ROUNDING
    return bound
