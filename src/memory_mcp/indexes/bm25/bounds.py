"""Upper bounds of the scores of messages and nodes, computed per unit from the best score in it.

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


def highest_in(units: Units, grips: Array) -> Array:
    """Return the highest score among every unit's grips, `(units,)`; 0 where none holds a term. `grips` are those of all rows."""
    highest = np.zeros(len(units))
    holding = np.flatnonzero(units.grip_count)
    if len(holding):
        highest[holding] = np.maximum.reduceat(grips, units.grip_first[holding])
    return highest


def of_messages(units: Units, highest: Array, nodes: Array, segment: float, best: float) -> Array:
    """Return what no message of each unit scores above, `(units,)`; 0 where none holds a term.

    `nodes` are the scores of all nodes; `segment` and `best` the shares of a segment's score and of the best message in it.
    """
    bound: Array = (highest * (_NEAR * (1 + best)) + nodes[units.node_first] * segment) * (highest > 0) * _ROUNDING
    return bound


def of_nodes(own: Array, highest: Array, grip: float) -> Array:
    """Return what nodes score at most: their own scores, and a share of the best message of their units (`highest` in each)."""
    bound: Array = (own + grip * _NEAR * highest) * _ROUNDING
    return bound
