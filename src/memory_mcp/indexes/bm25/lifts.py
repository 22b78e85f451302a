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
from memory_mcp.indexes.messages import by_message
from memory_mcp.indexes.part import LivePart
from memory_mcp.model.exchange import LISTED_LAST

#: Shares of the messages one and two places away (fitted: see `layers.score`).
NEIGHBOURS = (0.17, 0.12)


class Zeros(threading.local):
    """Arrays of zeros that a thread uses again and again: each user leaves them zero."""

    def __init__(self) -> None:
        """Start without arrays; called once in each thread that uses it."""
        self._held: dict[str, Array] = {}

    def take(self, name: str, size: int) -> Array:
        """Return the thread's array of a name, `(size,)` float64, a view used again; zeros if every user has left it so."""
        array = self._held.get(name)
        if array is None or len(array) < size:
            array = self._held[name] = np.zeros(max(size, 1024), dtype=np.float64)
        return array[:size]

    def forget(self) -> None:
        """Drop this thread's arrays, because a user of one was interrupted and left it other than zero."""
        self._held.clear()


ZEROS = Zeros()


@dataclass(frozen=True, slots=True)
class Smoothed:
    """The messages that may be found, ascending, with their scores; the arrays are `(messages,)` unless said otherwise."""

    units: Units
    #: Index of the message, row of its best grip, and its unit.
    place: Array
    rows: Array
    unit: Array
    #: Own score, and the shares of its neighbours'.
    own: Array
    near: Array
    #: Whether it only asks.
    asks: Array
    #: `(units,)`: highest score of a message with shares of its neighbours in each unit; 0 if none may be found.
    best: Array

    def best_row(self, unit: int) -> int:
        """Return the row of a unit's best grip by score with neighbours' shares, the first of equals; -1 for none.

        One that only asks is chosen where there is no other. None means that no message of the unit
        that holds a term may be found.
        """
        start, end = np.searchsorted(self.unit, (unit, unit + 1)).tolist()
        if start == end or self.best[unit] <= 0:
            return -1
        value = (self.own[start:end] + self.near[start:end]) * (1 - 0.99 * self.asks[start:end])
        return int(self.rows[start + int(np.argmax(value))])


def smoothed(live: LivePart[Any], rows: Array, dense: Array, findable_rows: Array | None, also: Array | None = None) -> Smoothed:
    """Return the messages of some grips, ascending, with shares of their neighbours' scores.

    Neighbours count even if they may not be found. Messages of questions lose a share of their own score. `rows` are those of
    the grips, `(n,)` int64, ascending; `dense` the scores of all grips, `(grips,)` float64; `findable_rows` which may be found,
    `(grips,)` bool, None for all; `also` indices of messages that are returned whatever they hold, `(m,)` int64, distinct. The
    thread's array "messages" is used and left zero.
    """
    messages, units = live.messages, live.part.units
    value = dense[rows] * live.voices[rows]
    message_index, own_scores, best = by_message(messages, rows, value)
    scores = ZEROS.take("messages", len(messages))
    scores[message_index] = own_scores
    if findable_rows is not None:
        keep = findable_rows[rows]
        message_index, own_scores, best = by_message(messages, rows[keep], value[keep])
    if also is not None and len(also):
        extra = np.setdiff1d(also, message_index, assume_unique=True)
        order = np.argsort(np.concatenate([message_index, extra]), kind="stable")
        message_index, own_scores, best = (
            np.concatenate([a, b])[order]
            for a, b in ((message_index, extra), (own_scores, np.zeros(len(extra))), (best, messages.first[extra]))
        )
    unit, near = messages.unit[message_index], np.zeros(len(message_index))
    for distance, share in enumerate(NEIGHBOURS, start=1):
        for other in (message_index - distance, message_index + distance):
            neighbour = np.clip(other, 0, len(messages) - 1)
            near += share * scores[neighbour] * ((other == neighbour) & (messages.unit[neighbour] == unit))
    scores[messages.of_row[rows]] = 0.0
    highest = np.zeros(len(units))
    if len(unit):
        starts = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]]))
        highest[unit[starts]] = np.maximum.reduceat(np.where(own_scores > 0, own_scores + near, 0.0), starts)
    asks = (live.part.grips.turn[best] & LISTED_LAST) != 0
    return Smoothed(units, message_index, best, unit, own_scores, near, asks, highest)
