"""Code unit vectors as int8 rows, and compute cosine similarities exactly.

The largest component of a row is 127, whatever its length, so that all steps are used; 1 / length is stored
next to it. A query is coded in two such rows, coarse and fine, multiplied in one pass. Compared with exact
float32, that finds .992 of the ten best among 42,000 real turns and .993 among 93,000 real sentences; one row
for the query finds .988 and .992 in a quarter less time. Finer rows would find all, with twice the memory.

Invariants
1. Products are summed as integers: exact, in any order, on any processor.
2. A row depends only on its own vector.
"""

from collections.abc import Sequence
from typing import Any

import numkong as nk
import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.vector.graph import Graph

#: Largest component of a row.
_MOST = 127
#: Bits by which the second row of a query is finer, so that both make one integer. With `_MOST` they limit the dimensions:
#: 1,024 fill 31 bits.
_FINER_BITS = 7
MOST_DIMENSIONS = 1024


@dataclass(frozen=True, slots=True)
class VectorRows:
    """The vectors of one table; documents with equal vectors may share a row."""

    #: `(rows, dimensions)` int8.
    codes: Array
    #: 1 / length of each, `(rows,)` float32; 0 if no word of the text was known.
    inverse: Array
    #: Row of each document in `codes`, `(documents,)` int.
    row_of: Array
    #: Digests of the texts, `(documents,)` uint64, for reuse.
    digests: Array
    #: Finds near rows of a large table that was improved.
    graph: Graph | None = None

    def __len__(self) -> int:
        return len(self.row_of)

    @classmethod
    def from_vectors(cls, vectors: Array, digests: Array) -> "VectorRows":
        """Return rows of unit vectors, `(n, dimensions)` float32."""
        codes = np.rint(_scale_vectors(vectors)).astype(np.int8)
        lengths = np.sqrt(np.square(codes.astype(np.int32)).sum(axis=1).astype(np.float64))
        inverse = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0).astype(np.float32)
        return cls(codes, inverse, np.arange(len(codes)), digests)

    @classmethod
    def empty(cls, dimensions: int) -> "VectorRows":
        """Return rows of no documents."""
        return cls.from_vectors(np.zeros((0, dimensions), dtype=np.float32), np.zeros(0, dtype=np.uint64))

    @classmethod
    def concatenate(cls, pieces: Sequence["VectorRows"]) -> "VectorRows":
        """Return all rows in one, without graphs; equal ones stay."""
        offsets = np.cumsum([0, *(len(p.codes) for p in pieces)])
        row_of = np.concatenate([p.row_of + n for p, n in zip(pieces, offsets.tolist(), strict=False)])
        codes, inverse, digests = (np.concatenate([getattr(p, n) for p in pieces]) for n in ("codes", "inverse", "digests"))
        return cls(codes, inverse, row_of, digests)

    def select_rows(self, documents: Array) -> "VectorRows":
        """Return the rows of some ascending documents, without a graph."""
        if len(documents) == len(self):
            return self
        rows, row_of = np.unique(self.row_of[documents], return_inverse=True)
        return VectorRows(self.codes[rows], self.inverse[rows], row_of, self.digests[documents])

    @property
    def unknown(self) -> Array:
        """Which documents have no word that the model knows."""
        is_unknown: Array = (self.inverse == 0)[self.row_of]
        return is_unknown

    def compute_similarities(self, query: "CodedQuery", documents: Array | None = None) -> Array:
        """Return cosine similarities, float32; 0 without a known word.

        `documents` are indices, None for all. Rounding may exceed 1.
        """
        if documents is None:
            return np.take(_multiply_rows(self.codes, self.inverse, query), self.row_of)
        rows = self.row_of[documents]
        # mode="clip" is faster than checking bounds.
        return _multiply_rows(np.take(self.codes, rows, axis=0, mode="clip"), self.inverse[rows], query)


@dataclass(frozen=True, slots=True)
class CodedQuery:
    """A coded query vector."""

    #: The coarse row, for a graph.
    codes: Array
    #: Coarse and fine row, packed for the kernel.
    packed: Any
    #: 1 / length of both together.
    inverse: np.float32

    @classmethod
    def from_vector(cls, vector: Array) -> "CodedQuery":
        """Return the query of a vector; one of zeros is similar to nothing."""
        wide = _scale_vectors(np.asarray(vector, dtype=np.float64)[np.newaxis])
        codes = np.rint(wide)
        fine = np.rint((wide - codes) * (1 << _FINER_BITS))
        length = float(np.sqrt(np.square(codes * (1 << _FINER_BITS) + fine).sum()))
        halves = np.concatenate([codes, fine]).astype(np.int8)
        return cls(halves[0], nk.dots_pack(halves), np.float32(1 / length if length else 0.0))


def _multiply_rows(codes: Array, inverse: Array, query: CodedQuery) -> Array:
    sums = np.asarray(nk.dots_packed(codes, query.packed))
    products = sums[:, 0] << _FINER_BITS
    products += sums[:, 1]
    similarities: Array = products.astype(np.float32)
    similarities *= inverse
    similarities *= query.inverse
    return similarities


def _scale_vectors(vectors: Array) -> Array:
    """Scale vectors so that the largest component is `_MOST`."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    stretched: Array = vectors * (_MOST / np.where(largest > 0, largest, 1.0)).astype(vectors.dtype)
    return stretched
