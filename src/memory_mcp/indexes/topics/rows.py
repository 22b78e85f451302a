"""The columns of the topic graph, one row per segment.

Change here: what is kept of a segment for topics.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import node_of
from memory_mcp.model.ids import NodeId

#: Factor from components of a unit vector to int8.
SCALE = 127.0
#: Types of the columns that are not int64.
_PLAIN: Mapping[str, type[np.generic]] = {
    "hi": np.uint64, "lo": np.uint64, "project": np.int32, "agents": np.int32, "events": np.int32, "relevance": np.float32
}  # fmt: skip
_PLACE_AT, _PLACE = np.uint64(32), np.uint64((1 << 28) - 1)


@dataclass(frozen=True, slots=True)
class Rows:
    """One row per segment, ordered by key; columns have equal length unless stated."""

    #: Key of its node's document (see `keys`).
    hi: Array
    lo: Array
    #: UTC milliseconds.
    start: Array
    end: Array
    #: Indices in `tables.Tables`.
    project: Array
    agents: Array
    events: Array
    #: Index of its topic, -1 for none, and its relevance to that (0..1).
    topic: Array
    relevance: Array
    #: Its terms are `terms[ptr[n]:ptr[n + 1]]`, sorted 32-bit hashes of words' keys; `ptr` is one longer.
    ptr: Array
    terms: Array
    #: `(n, dimensions)` int8; 0 dimensions without an embedder.
    vectors: Array

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def days(self) -> Array:
        """Local day of each as a proleptic ordinal."""
        return ((self.hi >> _PLACE_AT) & _PLACE).astype(np.int64)

    def node_id_at(self, row: int) -> NodeId:
        """Return the node id of the segment in one row."""
        return node_of(int(self.hi[row]), int(self.lo[row]))

    def select(self, indices: Array) -> "Rows":
        """Return the rows at some indices, with their terms."""
        counts = np.diff(self.ptr)[indices]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.repeat(self.ptr[:-1][indices] - ptr[:-1], counts) + np.arange(ptr[-1])
        plain = {f.name: getattr(self, f.name)[indices] for f in fields(self) if f.name not in ("ptr", "terms")}
        return Rows(**plain, ptr=ptr, terms=self.terms[at])

    @classmethod
    def of_terms(cls, terms: Sequence[Collection[int]], vectors: Array) -> "Rows":
        """Return rows with terms and vectors only; others 0, topics -1."""
        n = len(terms)
        ptr = np.concatenate([[0], np.cumsum([len(t) for t in terms])]).astype(np.int64)
        all_terms = np.fromiter((t for row_terms in terms for t in sorted(row_terms)), dtype=np.uint32, count=int(ptr[-1]))
        plain = {f.name: np.zeros(n, dtype=_PLAIN.get(f.name, np.int64)) for f in fields(cls)}
        quantized = np.rint(vectors * SCALE).astype(np.int8).reshape(n, -1 if n else 0)
        return cls(**plain | {"ptr": ptr, "terms": all_terms, "vectors": quantized, "topic": np.full(n, -1, dtype=np.int32)})

    @classmethod
    def merge(cls, blocks: Sequence["Rows"]) -> "Rows":
        """Return rows of several in the order of their keys."""
        plain = {f.name: np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(cls) if f.name != "ptr"}
        counts = np.concatenate([np.diff(b.ptr) for b in blocks])
        rows = cls(**plain, ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        order = np.argsort(rows.lo, kind="stable")
        return rows if np.array_equal(order, np.arange(len(order))) else rows.select(order)

    def with_topics(self, topic: Array, relevance: Array) -> "Rows":
        """Return the same segments with topics, -1 for none, and relevance."""
        return replace(self, topic=topic.astype(np.int32), relevance=relevance.astype(np.float32))


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The rows that hold each word of a query, with weights by rarity."""

    #: For each word: the rows that hold it, and its weight.
    matches: tuple[tuple[Array, float], ...]
    rows: int
    #: Weight of the words that no row holds, by the rarity of those that one holds.
    missing: float = 0.0

    @classmethod
    def from_rows(cls, rows: Rows, query_weights: Mapping[int, float], spaced: Mapping[int, float] | None = None) -> "QueryTerms":
        """Find the rows that hold each word, by hash.

        Of words in no row only those in `spaced` count, as missing.
        """
        positions = (np.flatnonzero(rows.terms == np.uint32(hashed)) for hashed in query_weights)
        rows_of_terms = (np.searchsorted(rows.ptr, at, side="right") - 1 for at in positions)
        weighted_rows = list(zip(rows_of_terms, query_weights.values(), strict=True))
        matches = (
            (rows_of_term, weight * float(np.log1p(len(rows) / len(rows_of_term))))
            for rows_of_term, weight in weighted_rows
            if len(rows_of_term)
        )
        absent = sum(
            (spaced or {}).get(hashed, 0.0)
            for (hashed, _), (rows_of_term, _) in zip(query_weights.items(), weighted_rows, strict=True)
            if not len(rows_of_term)
        )
        return cls(tuple(matches), len(rows), absent * float(np.log1p(len(rows))))

    @property
    def known_share(self) -> float:
        """Share of the words, by weight, that some row holds, 0..1."""
        total = sum(weight for _, weight in self.matches)
        return total / (total + self.missing) if total else 0.0

    def by_row(self) -> Array:
        """Return the share of the found words that each row holds, 0..1."""
        total = sum(weight for _, weight in self.matches)
        shares = np.zeros(self.rows)
        for rows, weight in self.matches:
            shares[rows] += weight / total
        return shares

    def by_topic(self, topic: Array, mentions: Array, full_share: float) -> Array:
        """Return the share of the found words that each topic holds, 0..1.

        A word counts by the share of the topic's segments that hold it, fully from `full_share` on.
        """
        total = sum(weight for _, weight in self.matches)
        shares = np.zeros(len(mentions))
        for rows, weight in self.matches:
            holding = np.bincount(topic[rows], minlength=len(mentions)) / np.maximum(mentions, 1)
            shares += weight / total * np.minimum(holding / full_share, 1.0)
        return shares


def by_area(rows: Rows, areas: Sequence[int] | Array) -> Rows:
    """Return segments with areas in place of topics."""
    topic = np.where(rows.topic >= 0, np.asarray(areas, dtype=np.int32)[rows.topic] if len(areas) else -1, -1)
    return rows.with_topics(topic, rows.relevance)
