"""Score the messages of one shard from its grips, and bound these scores by unit.

A message has the score of its best grip, with shares of neighbouring messages. Neighbours are counted by
message, so that the pieces of a long one are not neighbours of each other. As these shares are of scores of the
same unit, a score is bounded by the highest of these and the segment's: for 400,000 grips that hold a query
word, finding the best 120 messages then means smoothing a few thousand.

Change here: what neighbours and segments add to a message.
"""

import threading
from typing import Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.columns import Units, is_among, is_turn
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.messages import best_by_message
from memory_mcp.indexes.shard import LiveShard
from memory_mcp.model.exchange import LISTED_LAST

#: Shares of the messages one and two places away (fitted: see `layers.score`).
NEIGHBOURS = (0.17, 0.12)


class ZeroArrays(threading.local):
    """Arrays of zeros that a thread reuses: each user leaves them zero."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def take(self, name: str, size: int) -> Array:
        """Return the thread's array of a name, `(size,)` float64, a view."""
        array = self._held.get(name)
        if array is None or len(array) < size:
            array = self._held[name] = np.zeros(max(size, 1024), dtype=np.float64)
        return array[:size]

    def drop_all(self) -> None:
        """Drop this thread's arrays, as an interrupted user left one not zero."""
        self._held.clear()


ZERO_ARRAYS = ZeroArrays()


@dataclass(frozen=True, slots=True)
class SmoothedScores:
    """The messages that may be found, ascending, with their scores.

    Arrays are `(messages,)` unless said otherwise.
    """

    units: Units
    #: Index of the message, row of its best grip, and its unit.
    message_index: Array
    rows: Array
    unit: Array
    #: Own score, and the shares of its neighbours'.
    own_score: Array
    neighbour_score: Array
    #: Whether it only asks.
    is_request: Array
    #: `(units,)`: highest score of a message with shares of its neighbours in each unit; 0 if none may be found.
    best: Array

    def best_row(self, unit: int) -> int:
        """Return the row of a unit's best grip; -1 for none.

        One that only asks is chosen where there is no other.
        """
        start, end = np.searchsorted(self.unit, (unit, unit + 1)).tolist()
        if start == end or self.best[unit] <= 0:
            return -1
        value = (self.own_score[start:end] + self.neighbour_score[start:end]) * (1 - 0.99 * self.is_request[start:end])
        return int(self.rows[start + int(np.argmax(value))])


def smooth_scores(
    live: LiveShard[Any], rows: Array, dense: Array, findable_rows: Array | None, also: Array | None = None
) -> SmoothedScores:
    """Score messages from their grips and those of their neighbours.

    Neighbours count even if they may not be found. Messages of questions lose a share of their own score. `rows`
    are those of the grips, `(n,)` int64, ascending; `dense` the scores of all grips, `(grips,)` float64;
    `findable_rows` which may be found, `(grips,)` bool, None for all; `also` indices of messages that are returned
    whatever they hold, `(m,)` int64, distinct. The thread's array "messages" is used and left zero.
    """
    messages, units = live.messages, live.shard.units
    value = dense[rows] * live.score_factors[rows]
    message_index, own_scores, best = best_by_message(messages, rows, value)
    scores = ZERO_ARRAYS.take("messages", len(messages))
    scores[message_index] = own_scores
    if findable_rows is not None and not (keep := findable_rows[rows]).all():
        message_index, own_scores, best = best_by_message(messages, rows[keep], value[keep])
    if also is not None and len(also):
        extra = also[~is_among(also, message_index)]
        order = np.argsort(np.concatenate([message_index, extra]), kind="stable")
        message_index, own_scores, best = (
            np.concatenate([a, b])[order]
            for a, b in ((message_index, extra), (own_scores, np.zeros(len(extra))), (best, messages.first[extra]))
        )
    unit, near = messages.unit[message_index], np.zeros(len(message_index))
    for distance, share in enumerate(NEIGHBOURS, start=1):
        for other in (message_index - distance, message_index + distance):
            neighbour = np.minimum(np.maximum(other, 0), len(messages) - 1)
            near += share * scores[neighbour] * ((other == neighbour) & (messages.unit[neighbour] == unit))
    scores[messages.message_of_row[rows]] = 0.0
    highest = np.zeros(len(units))
    if len(unit):
        starts = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]]))
        highest[unit[starts]] = np.maximum.reduceat(np.where(own_scores > 0, own_scores + near, 0.0), starts)
    asks = is_turn(live.shard.grips.turn[best], LISTED_LAST)
    return SmoothedScores(units, message_index, best, unit, own_scores, near, asks, highest)


#: A bound and a score round differently.
_ROUNDING = 1 + 1e-9
_NEAR = 1 + 2 * sum(NEIGHBOURS)


def highest_by_unit(units: Units, grips: Array) -> Array:
    """Return the highest score of a grip in each unit, or 0."""
    highest = np.zeros(len(units))
    holding = np.flatnonzero(units.grip_count)
    if len(holding):
        highest[holding] = np.maximum.reduceat(grips, units.grip_first[holding])
    return highest


def bound_messages(units: Units, highest: Array, nodes: Array, segment: float, best: float) -> Array:
    """Return an upper bound of the message scores in each unit.

    `segment` and `best` are the shares of a segment's score and of its best message. 0 where no grip holds a term.
    """
    bound: Array = (highest * (_NEAR * (1 + best)) + nodes[units.node_first] * segment) * (highest > 0) * _ROUNDING
    return bound


def bound_nodes(scores: Array, highest: Array, grip: float) -> Array:
    """Return upper bounds of node scores; `grip` is the share of messages."""
    bound: Array = (scores + grip * _NEAR * highest) * _ROUNDING
    return bound
