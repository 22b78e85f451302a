"""Group grips by the message they were cut from: pieces of one must not compete."""

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.columns import ROLES, Columns, is_turn
from memory_mcp.indexes.files import Array
from memory_mcp.model.event import Role
from memory_mcp.model.exchange import TurnKind

#: Share of its score that a message of questions alone loses: it holds the words of a question, not of its answer. A larger
#: one gains on dialogue and loses on personal records (`bench.quality`).
QUESTION_LOSS = 0.15
#: Share of its score that a request keeps to which nothing was said in return: it is listed after everything else.
UNANSWERED_FACTOR = 0.05
_USER = ROLES.index(Role.USER)


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a shard in order; grips of one event are adjacent."""

    #: Index of each grip's message, `(grips,)` int32.
    message_of_row: Array
    #: First row and unit of each message, `(messages,)` int64.
    first: Array
    unit: Array

    def __len__(self) -> int:
        return len(self.first)

    def count_messages(self, rows: Array) -> int:
        """Return the number of messages that ascending rows belong to."""
        of_row = self.message_of_row[rows]
        return int(np.count_nonzero(of_row[1:] != of_row[:-1])) + bool(len(rows))

    def rows_of(self, places: Array) -> tuple[Array, Array]:
        """Return the first row and the number of rows of some messages."""
        after = np.minimum(places + 1, len(self) - 1)
        ends = np.where(places + 1 < len(self), self.first[after], len(self.message_of_row))
        return self.first[places], ends - self.first[places]

    @classmethod
    def from_grips(cls, grips: Columns) -> "Messages":
        """Group adjacent rows of a unit with one message name."""
        if not len(grips):
            none = np.zeros(0, dtype=np.int64)
            return cls(none.astype(np.int32), none, none)
        begins = np.ones(len(grips), dtype=bool)
        same = (grips.message[1:] == grips.message[:-1]) & (grips.unit[1:] == grips.unit[:-1])
        begins[1:] = ~(same & (grips.message[1:] != 0))
        first = np.flatnonzero(begins)
        return cls((np.cumsum(begins) - 1).astype(np.int32), first, grips.unit[first])


def score_factors_of(grips: Columns) -> Array:
    """Return each grip's score factor for what it asks, float64."""
    factor: Array = 1 - QUESTION_LOSS / 255 * grips.asks
    factor[is_turn(grips.turn, TurnKind.UNANSWERED)] = UNANSWERED_FACTOR
    return factor


def exchange_starts_of(grips: Columns, messages: Messages) -> Array:
    """Return the message that begins each message's exchange, int32."""
    begins = grips.role[messages.first] == _USER
    begins[:1] = True
    begins[1:] |= messages.unit[1:] != messages.unit[:-1]
    exchanges: Array = np.maximum.accumulate(np.where(begins, np.arange(len(begins), dtype=np.int32), 0))
    return exchanges


def companions_of(grips: Columns, messages: Messages, exchanges: Array, rows: Array) -> Array:
    """Return the message that complements each grip's, `(n,)`; -1 for none.

    Of a reply right after it, it is the message of a person that it replies to, also one that only asks: what is
    asked tells of who asks. One from farther back took the room of others (any gold of coding sessions -1 to -3).
    In a dialogue between people what was said next.
    """
    message = messages.message_of_row[rows].astype(np.int64)
    prompt, after = exchanges[message], np.minimum(message + 1, len(messages) - 1)
    is_replied = (prompt == message - 1) & (grips.role[messages.first[prompt]] == _USER)
    is_followed = (after > message) & (messages.unit[after] == messages.unit[message])
    is_reply = is_turn(grips.turn[rows], TurnKind.REPLY)
    companions: Array = np.where(is_reply, np.where(is_replied, prompt, -1), np.where(is_followed, after, -1))
    return companions


def best_by_message(messages: Messages, rows: Array, value: Array) -> tuple[Array, Array, Array]:
    """Return messages of some rows, their highest value and its row.

    `rows`, ascending, and `value` are `(n,)`; the results `(messages,)`. Of equal values the first row counts.
    """
    if not len(rows):
        none = np.zeros(0, dtype=np.int64)
        return none, np.zeros(0), none
    of_row = messages.message_of_row[rows]
    begins = np.ones(len(rows), dtype=bool)
    np.not_equal(of_row[1:], of_row[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    highest = np.maximum.reduceat(value, starts)
    is_highest = np.flatnonzero(value == highest[np.cumsum(begins) - 1])
    firsts = of_row[is_highest]
    chosen = is_highest[np.concatenate([[True], firsts[1:] != firsts[:-1]])]
    return of_row[starts].astype(np.int64), highest, rows[chosen]
