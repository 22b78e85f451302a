"""Topics' segments in, what each topic is like out, and which topic a segment belongs to. Pure.

How well a segment fits a topic is told in 0..1: how near its meaning is to the topic's middle, and how much of what it names
the topic's segments name too, rare terms counting more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.rows import SCALE, Rows
from memory_mcp.summarize.rarity import rarity

#: Share of rare terms; the rest is meaning.
TERMS = 0.8
#: A term that more than this share of all segments name tells nothing; of few segments one that more than so many name.
_COMMON, _COMMON_OF_FEW = 0.25, 3
#: What fits less well belongs to no topic.
LEAST = 0.12
#: Segments whose fits are held at a time.
_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Telling:
    """The terms that tell something: at least two segments name each, and not too many. Sorted; their weights beside them."""

    terms: Array
    weights: Array

    @classmethod
    def of(cls, rows: Rows) -> "Telling":
        """Weigh the terms of some segments."""
        terms, held = np.unique(rows.terms, return_counts=True)
        good = (held >= 2) & (held <= max(_COMMON_OF_FEW, _COMMON * len(rows)))
        return cls(terms[good], np.array([rarity(count, len(rows)) for count in held[good].tolist()]))

    def shares(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Return row, place of the term, and its share in what the row names (length 1 a row), for each telling term named."""
        row = np.repeat(np.arange(len(rows)), np.diff(rows.ptr))
        if not len(self.terms):
            return row[:0], row[:0], np.zeros(0)
        place = np.minimum(np.searchsorted(self.terms, rows.terms), len(self.terms) - 1)
        good = self.terms[place] == rows.terms
        row, place = row[good], place[good]
        weight = self.weights[place]
        length = np.sqrt(np.bincount(row, weights=weight**2, minlength=len(rows)))
        return row, place, weight / length[row]


@dataclass(frozen=True, slots=True)
class Profiles:
    """What topics are like."""

    count: int
    telling: Telling
    #: Topics that name term n are `topics[ptr[n]:ptr[n + 1]]`, with its share in each.
    ptr: Array
    topics: Array
    shares: Array
    #: (topics, dimensions) float32 of length 1: the middle of each, less what all segments have in common.
    middles: Array
    common: Array

    @classmethod
    def of(cls, rows: Rows, count: int) -> "Profiles":
        """Say what `count` topics are like, by the segments that have them."""
        telling = Telling.of(rows)
        row, place, share = telling.shares(rows)
        placed = rows.topic[row] >= 0
        pairs = place[placed].astype(np.int64) * max(count, 1) + rows.topic[row[placed]]
        found, where = np.unique(pairs, return_inverse=True)
        total = np.bincount(where, weights=share[placed], minlength=len(found))
        term, topic = found // max(count, 1), found % max(count, 1)
        length = np.sqrt(np.bincount(topic, weights=total**2, minlength=max(count, 1)))
        # What no topic names says nothing of how well a segment fits one.
        named, term = np.unique(term, return_inverse=True)
        telling = Telling(telling.terms[named], telling.weights[named])
        ptr = np.searchsorted(term, np.arange(len(named) + 1))
        shares = (total / length[topic]).astype(np.float32)
        common = common_of(rows)
        return cls(count, telling, ptr, topic.astype(np.int32), shares, middles(rows, count, common), common)

    def fits(self, rows: Rows) -> Array:
        """Return (rows, topics) float32: how well each segment fits each topic, 0..1."""
        row, place, share = self.telling.shares(rows)
        reach = np.diff(self.ptr)[place]
        begin = np.concatenate([[0], np.cumsum(reach)])
        at = np.repeat(self.ptr[:-1][place] - begin[:-1], reach) + np.arange(begin[-1])
        cells = np.repeat(row, reach) * self.count + self.topics[at]
        named = np.bincount(cells, weights=np.repeat(share, reach) * self.shares[at], minlength=len(rows) * self.count)
        named = named.reshape(len(rows), self.count).astype(np.float32)
        if not rows.vectors.shape[1]:
            return named
        near = np.maximum(less(rows.vectors, self.common) @ self.middles.T, 0)
        mixed: Array = TERMS * named + (1 - TERMS) * near
        return mixed

    def relevance(self, rows: Rows) -> Array:
        """Return (rows,) how well each segment fits the topic it has, 0 where it has none."""
        found = np.zeros(len(rows), dtype=np.float32)
        for places in _blocks(rows) if self.count else ():
            topic = rows.topic[places]
            fit = self.fits(rows.taken(places))[np.arange(len(places)), topic]
            found[places] = np.where(topic >= 0, fit, 0.0)
        return np.minimum(found, 1.0)

    def nearest(self, rows: Rows) -> tuple[Array, Array]:
        """Return the topic that each segment belongs to, -1 for none, and how well it fits (0 for none)."""
        topic, relevance = np.full(len(rows), -1, dtype=np.int32), np.zeros(len(rows), dtype=np.float32)
        for places in _blocks(rows) if self.count else ():
            fits = self.fits(rows.taken(places))
            best = fits.argmax(axis=1)
            fit = fits[np.arange(len(places)), best]
            good = fit >= LEAST
            topic[places], relevance[places] = np.where(good, best, -1), np.where(good, np.minimum(fit, 1.0), 0.0)
        return topic, relevance


def _blocks(rows: Rows) -> Iterator[Array]:
    for start in range(0, len(rows), _BLOCK):
        yield np.arange(start, min(start + _BLOCK, len(rows)))


def common_of(rows: Rows) -> Array:
    """Return what all rows have in common in meaning, (dimensions,) float32: their mean; rows of zeros do not count."""
    known = rows.vectors.any(axis=1)
    if not known.any():
        return np.zeros(rows.vectors.shape[1], dtype=np.float32)
    found: Array = rows.vectors[known].mean(axis=0, dtype=np.float32) / SCALE
    return found


def middles(rows: Rows, count: int, common: Array) -> Array:
    """Return where the meanings of topics lie, (topics, dimensions) float32 of length 1, less what all have in common."""
    found = np.zeros((count, rows.vectors.shape[1]), dtype=np.float32)
    there = np.flatnonzero(rows.topic >= 0)
    order = there[np.argsort(rows.topic[there], kind="stable")]
    topics, begins = np.unique(rows.topic[order], return_index=True)
    if len(topics) and rows.vectors.shape[1]:
        # Adding row by row (`np.add.at`) takes ten times as long.
        found[topics] = np.add.reduceat(less(rows.vectors[order], common), begins, axis=0)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    return found


def less(vectors: Array, common: Array) -> Array:
    """Return int8 rows as float32 ones of length 1, less what all have in common; a row of zeros stays one."""
    known = vectors.any(axis=1, keepdims=True)
    moved = (vectors.astype(np.float32) / SCALE - common) * known
    found: Array = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return found
