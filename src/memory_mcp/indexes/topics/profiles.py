"""Profiles of topics, and the fit of segments to them. Pure.

The fit, 0..1, combines the similarity of vectors and the share of common terms, rare terms weighing more.
"""

from collections.abc import Iterator

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.rows import SCALE, Rows
from memory_mcp.tree.summarize.vocabulary import shared_term_weight

#: Weight of terms; the rest is vectors.
TERMS = 0.8
#: Most segments that may name a term that counts, as a share of all, and at least.
_COMMON, _COMMON_OF_FEW = 0.25, 3
#: Least fit of a segment to its topic.
LEAST = 0.12
#: Segments whose fits are computed at a time, and terms of topics that are compared at a time.
_BLOCK, _TERMS = 1024, 8192


@dataclass(frozen=True, slots=True)
class TellingTerms:
    """Terms that at least two and not too many segments name, with weights."""

    terms: Array
    weights: Array

    @classmethod
    def from_rows(cls, rows: Rows) -> "TellingTerms":
        """Return terms that two to a quarter of the segments name."""
        terms, counts = np.unique(rows.terms, return_counts=True)
        counted = (counts >= 2) & (counts <= max(_COMMON_OF_FEW, _COMMON * len(rows)))
        return cls(terms[counted], np.array([shared_term_weight(count, len(rows)) for count in counts[counted].tolist()]))

    def term_shares(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Return row, term and share of each such term of some rows.

        The shares of a row have length 1; terms unknown here are left out.
        """
        row = np.repeat(np.arange(len(rows)), np.diff(rows.ptr))
        if not len(self.terms):
            return row[:0], row[:0], np.zeros(0)
        term = np.minimum(np.searchsorted(self.terms, rows.terms), len(self.terms) - 1)
        matched = self.terms[term] == rows.terms
        row, term = row[matched], term[matched]
        weight = self.weights[term]
        length = np.sqrt(np.bincount(row, weights=weight**2, minlength=len(rows)))
        return row, term, weight / length[row]


@dataclass(frozen=True, slots=True)
class Profiles:
    """Terms and mean vectors of topics."""

    count: int
    telling: TellingTerms
    #: Topics with term n are `topics[ptr[n]:ptr[n + 1]]`; `shares` are its shares in them.
    ptr: Array
    topics: Array
    shares: Array
    #: Mean vectors less the common one, `(topics, dimensions)` float32 of length 1.
    mean_vectors: Array
    common_vector: Array

    @classmethod
    def from_rows(cls, rows: Rows, count: int) -> "Profiles":
        """Return the profiles of `count` topics from their segments.

        Segments without a topic count for rarity alone.
        """
        telling = TellingTerms.from_rows(rows)
        row, term, share = telling.term_shares(rows)
        assigned = rows.topic[row] >= 0
        pairs = term[assigned].astype(np.int64) * max(count, 1) + rows.topic[row[assigned]]
        cells, cell = np.unique(pairs, return_inverse=True)
        total = np.bincount(cell, weights=share[assigned], minlength=len(cells))
        term, topic = cells // max(count, 1), cells % max(count, 1)
        length = np.sqrt(np.bincount(topic, weights=total**2, minlength=max(count, 1)))
        # Terms that no topic has do not matter.
        used_terms, term = np.unique(term, return_inverse=True)
        telling = TellingTerms(telling.terms[used_terms], telling.weights[used_terms])
        ptr = np.searchsorted(term, np.arange(len(used_terms) + 1))
        shares = (total / length[topic]).astype(np.float32)
        common = common_vector_of(rows)
        return cls(count, telling, ptr, topic.astype(np.int32), shares, mean_vectors(rows, count, common), common)

    def fits(self, rows: Rows) -> Array:
        """Return the fit of each segment to each topic, `(rows, topics)`, 0..1."""
        term_fit = self._term_fits(len(rows), *self.telling.term_shares(rows))
        return (
            self._combine_fits(term_fit, subtract_common(rows.vectors, self.common_vector)) if rows.vectors.shape[1] else term_fit
        )

    def compute_similarities(self) -> Array:
        """Return how similar the topics are, `(topics, topics)`, 0..1."""
        term = np.repeat(np.arange(len(self.telling.terms)), np.diff(self.ptr))
        term_fit = np.zeros((self.count, self.count), dtype=np.float32)
        for start in range(0, len(term), _TERMS):
            block = slice(start, start + _TERMS)
            term_fit += self._term_fits(self.count, self.topics[block], term[block], self.shares[block])
        return self._combine_fits(term_fit, self.mean_vectors) if self.mean_vectors.shape[1] else term_fit

    def _term_fits(self, count: int, row: Array, term: Array, share: Array) -> Array:
        reach = np.diff(self.ptr)[term]
        begin = np.concatenate([[0], np.cumsum(reach)])
        cell_terms = np.repeat(self.ptr[:-1][term] - begin[:-1], reach) + np.arange(begin[-1])
        cells = np.repeat(row.astype(np.int64), reach) * self.count + self.topics[cell_terms]
        term_fit = np.bincount(cells, weights=np.repeat(share, reach) * self.shares[cell_terms], minlength=count * self.count)
        return term_fit.reshape(count, self.count).astype(np.float32)

    def _combine_fits(self, term_fit: Array, vectors: Array) -> Array:
        combined: Array = TERMS * term_fit + (1 - TERMS) * np.maximum(vectors @ self.mean_vectors.T, 0)
        return combined

    def compute_relevance(self, rows: Rows) -> Array:
        """Return the fit of each segment to its own topic, 0..1."""
        fits_own = np.zeros(len(rows), dtype=np.float32)
        for block in _iter_blocks(rows) if self.count else ():
            topic = rows.topic[block]
            fit = self.fits(rows.select(block))[np.arange(len(block)), topic]
            fits_own[block] = np.where(topic >= 0, fit, 0.0)
        return np.minimum(fits_own, 1.0)

    def find_nearest(self, rows: Rows) -> tuple[Array, Array]:
        """Return each segment's best topic and fit; -1 and 0 below `LEAST`."""
        topic, relevance = np.full(len(rows), -1, dtype=np.int32), np.zeros(len(rows), dtype=np.float32)
        for block in _iter_blocks(rows) if self.count else ():
            fits = self.fits(rows.select(block))
            best = fits.argmax(axis=1)
            fit = fits[np.arange(len(block)), best]
            accepted = (fit >= LEAST) & (np.diff(rows.ptr)[block] > 0)
            topic[block], relevance[block] = np.where(accepted, best, -1), np.where(accepted, np.minimum(fit, 1.0), 0.0)
        return topic, relevance


def _iter_blocks(rows: Rows) -> Iterator[Array]:
    for start in range(0, len(rows), _BLOCK):
        yield np.arange(start, min(start + _BLOCK, len(rows)))


def common_vector_of(rows: Rows) -> Array:
    """Return the mean of all rows' vectors without zero rows."""
    nonzero = rows.vectors.any(axis=1)
    if not nonzero.any():
        return np.zeros(rows.vectors.shape[1], dtype=np.float32)
    mean: Array = rows.vectors[nonzero].mean(axis=0, dtype=np.float32) / SCALE
    return mean


def mean_vectors(rows: Rows, count: int, common: Array) -> Array:
    """Return the mean vectors of topics less the common one, of length 1."""
    means = np.zeros((count, rows.vectors.shape[1]), dtype=np.float32)
    assigned = np.flatnonzero(rows.topic >= 0)
    order = assigned[np.argsort(rows.topic[assigned], kind="stable")]
    topics, begins = np.unique(rows.topic[order], return_index=True)
    if len(topics) and rows.vectors.shape[1]:
        # Adding row by row (`np.add.at`) takes ten times as long.
        means[topics] = np.add.reduceat(subtract_common(rows.vectors[order], common), begins, axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    return means


def subtract_common(vectors: Array, common: Array) -> Array:
    """Return int8 rows less the common vector, of length 1; zeros stay."""
    nonzero = vectors.any(axis=1, keepdims=True)
    shifted = (vectors.astype(np.float32) / SCALE - common) * nonzero
    unit: Array = shifted / np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), 1e-9)
    return unit
