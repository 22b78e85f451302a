"""Candidate messages of a query with their features, as arrays."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.columns import ROLES, is_among
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.shard import LiveShard
from memory_mcp.model.exchange import TurnKind

#: Columns of `words`: BM25 scores of the message, its neighbours, its segment and the best message in that, as shares of the
#: query's highest possible score; columns of `meaning`: cosine similarity of the message and of its segment.
OWN_SCORE = 0
SIMILARITY = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """One message per row; arrays are `(n,)`, `words` `(n, 4)`, `meaning` `(n, 2)`."""

    #: Names of the message and of its session, uint64.
    message: Array
    session: Array
    #: Halves of the keys of its best grip and of its segment, uint64.
    hi: Array
    lo: Array
    node_hi: Array
    node_lo: Array
    unit: Array
    #: Time, UTC milliseconds, int64; index of its role in `columns.ROLES`.
    start: Array
    role: Array
    #: Its `TurnKind`, uint8, and the name of the message that begins its exchange, uint64; 0 if unknown.
    turn: Array
    exchange: Array
    #: The engine's score.
    raw: Array
    words: Array
    meaning: Array

    def __len__(self) -> int:
        return len(self.message)

    @classmethod
    def from_rows(
        cls, live: LiveShard[Any], rows: Array, unit: Array, raw: Array, words: Array | None = None, meaning: Array | None = None
    ) -> "Candidates":
        """Return candidates of one shard from the rows of their best grips.

        `unit` and `raw` are `(n,)`; None for zeros. A grip that is a message of its own is named by the low half of its
        key.
        """
        grips, nodes, units = live.shard.grips, live.shard.nodes, live.shard.units
        node = units.node_first[unit]
        low, message = grips.lo[rows], grips.message[rows]
        begin = live.messages.first[live.exchange_starts[live.messages.message_of_row[rows]]]
        first = grips.message[begin]
        name, exchange = np.where(message != 0, message, low), np.where(first != 0, first, grips.lo[begin])
        return cls(
            name, units.session[unit], grips.hi[rows], low, nodes.hi[node], nodes.lo[node], units.key[unit],
            grips.start[rows], grips.role[rows], grips.turn[rows], exchange, raw,
            np.zeros((len(rows), 4)) if words is None else words,
            np.zeros((len(rows), 2)) if meaning is None else meaning,
        )  # fmt: skip

    @classmethod
    def concatenate(cls, pieces: Sequence["Candidates"]) -> "Candidates":
        """Return all candidates in order; equal messages stay."""
        if len(pieces) < 2:
            return pieces[0] if pieces else NO_CANDIDATES
        return cls(*map(np.concatenate, zip(*map(_read_columns, pieces), strict=True)))

    def select_rows(self, places: Array) -> "Candidates":
        """Return the candidates at some indices, in that order."""
        return Candidates(*(column[places] for column in _read_columns(self)))

    def best(self, limit: int, also: Array) -> "Candidates":
        """Return the `limit` best by `raw`, ties by key, and those in `also`."""
        order = np.lexsort((self.lo, self.hi, -self.raw))
        is_kept = is_among(self.message[order], also)
        is_kept[:limit] = True
        return self.select_rows(order[is_kept])


#: Returns all columns, in order.
_read_columns = attrgetter(*(field.name for field in fields(Candidates)))


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A message not indexed yet: its `share` is its BM25 score as a share of the highest possible one."""

    name: int
    session: int
    start_ms: int
    role: str
    share: float
    similarity: float
    turn: TurnKind = TurnKind.PLAIN


def pending_candidates(rows: Sequence[PendingRow]) -> Candidates:
    """Return messages not indexed yet, each as if alone in its segment.

    Their `raw` is the sum of share and similarity; keys are 0. Raises ValueError for an unknown role.
    """
    if not rows:
        return NO_CANDIDATES
    zeros = np.zeros(len(rows), dtype=np.uint64)
    share, similarity = np.array([row.share for row in rows]), np.array([row.similarity for row in rows])
    return Candidates(
        np.array([row.name for row in rows], dtype=np.uint64), np.array([row.session for row in rows], dtype=np.uint64),
        zeros, zeros, zeros, zeros, zeros,
        np.array([row.start_ms for row in rows], dtype=np.int64),
        np.array([ROLES.index(row.role) for row in rows], dtype=np.uint8),
        np.array([row.turn for row in rows], dtype=np.uint8), zeros, share + similarity,
        np.stack([share, np.zeros(len(rows)), share, share], axis=1), np.stack([similarity, similarity], axis=1),
    )  # fmt: skip


_NO_NAMES = np.zeros(0, dtype=np.uint64)
_NO_BYTES = np.zeros(0, dtype=np.uint8)
NO_CANDIDATES = Candidates(
    _NO_NAMES, _NO_NAMES, _NO_NAMES, _NO_NAMES, _NO_NAMES, _NO_NAMES, _NO_NAMES, np.zeros(0, dtype=np.int64),
    _NO_BYTES, _NO_BYTES, _NO_NAMES, np.zeros(0), np.zeros((0, 4)), np.zeros((0, 2)),
)  # fmt: skip
