"""Upper bounds of the scores of messages and nodes, computed per unit from the best score in it.

A message's score has shares of other scores of its unit, so it is bounded by the highest of these and the segment's. For
400,000 grips that hold a query word, finding the best 120 messages then means smoothing a few thousand.
"""

import numpy as np

from memory_mcp.indexes.bm25.lifts import NEIGHBOURS
from memory_mcp.indexes.columns import Units
from memory_mcp.indexes.files import Array

#: A bound and a score round differently.
_ROUNDING = 1 + 1e-9
_NEAR = 1 + 2 * sum(NEIGHBOURS)


def highest_in(units: Units, grips: Array) -> Array:
    """Return the highest score of a grip in each unit, `(units,)`; 0 if none holds a term. `grips` are all scores, `(grips,)`."""
    highest = np.zeros(len(units))
    holding = np.flatnonzero(units.grip_count)
    if len(holding):
        highest[holding] = np.maximum.reduceat(grips, units.grip_first[holding])
    return highest


def of_messages(units: Units, highest: Array, nodes: Array, segment: float, best: float) -> Array:
    """Return an upper bound of the message scores in each unit, `(units,)`; 0 where no grip holds a term.

    `highest` are the highest scores of grips, `(units,)`, `nodes` the scores of all nodes, `(nodes,)`;
    `segment` and `best` the shares of a segment's score and of its best message.
    """
    bound: Array = (highest * (_NEAR * (1 + best)) + nodes[units.node_first] * segment) * (highest > 0) * _ROUNDING
    return bound


def of_nodes(scores: Array, highest: Array, grip: float) -> Array:
    """Return upper bounds of node scores, `(n,)`: the node's own score and a share of its unit's best message.

    `scores` are scores of nodes, `highest` the highest of a grip in their units, both `(n,)`; `grip` is the share.
    """
    bound: Array = (scores + grip * _NEAR * highest) * _ROUNDING
    return bound
