"""Ranking, fusion and intervals, pure: BM25 as the product has it, two ways to make one ranking of two, paired bootstrap."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base.text import query_terms, terms

Floats = NDArray[np.float64]

#: Rows of each side that fusion looks at, and answers that count.
DEPTH, TOP = 100, 10
#: Dense weights that are tried.
GRID = tuple(round(0.05 * i, 2) for i in range(21))
#: Of `pooled`, chosen on the tune halves: what a difference of one in BM25 scores and of one in similarity counts, and what
#: a share must be to count at all.
_SHARPNESS, _NEARNESS, _NOTHING = 0.3, 10.0, 0.003
_NEIGHBOURS = np.array([1.0, 2.0, 3.0, 2.0, 1.0])


class Bm25:
    """Postings of a few thousand texts; k1 and b as the product's index has them, no neighbours."""

    def __init__(self, texts: Sequence[str], k1: float = 0.9, b: float = 0.4) -> None:
        counts = [Counter(terms(t)) for t in texts]
        lengths = np.array([sum(c.values()) for c in counts], dtype=np.float64)
        norms = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9))
        held: dict[str, list[tuple[int, int]]] = {}
        for row, count in enumerate(counts):
            for term, times in count.items():
                held.setdefault(term, []).append((row, times))
        self._size = len(texts)
        self._postings: dict[str, tuple[NDArray[np.intp], Floats]] = {}
        for term, found in held.items():
            rows = np.array([r for r, _ in found], dtype=np.intp)
            n = np.array([c for _, c in found], dtype=np.float64)
            weight = math.log(1 + (self._size - len(found) + 0.5) / (len(found) + 0.5))
            self._postings[term] = (rows, weight * n * (k1 + 1) / (n + norms[rows]))

    def scores(self, query: str) -> Floats:
        """A score for each text; 0 where no term of the query is."""
        out = np.zeros(self._size)
        for term in query_terms(query):
            if term in self._postings:
                found, gains = self._postings[term]
                out[found] += gains
        return out


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that either side has among its best, with both sides' scores brought to one scale."""

    rows: NDArray[np.intp]
    lexical: Floats
    dense: Floats


def best(scores: Floats, depth: int) -> NDArray[np.intp]:
    """The rows with the highest scores, best first; equal ones in reading order."""
    return np.argsort(-scores, kind="stable")[:depth]


def scaled(scores: Floats, depth: int = DEPTH) -> tuple[NDArray[np.intp], Floats]:
    """The best rows and their scores between 0 (the worst of them) and 1."""
    rows = best(scores, depth)
    held = scores[rows]
    if not len(held):
        return rows, held
    low, high = held.min(), held.max()
    return rows, (held - low) / (high - low) if high > low else np.ones(len(held))


def candidates(lexical: Floats, dense: Floats) -> Candidates:
    """Each side's best between 0 and 1. A text without any of the query's words, or unlike it, is none of them."""
    words, share = scaled(np.where(lexical > 0, lexical, 0.0), min(DEPTH, int((lexical > 0).sum())))
    near, likeness = scaled(np.where(dense > 0, dense, 0.0), min(DEPTH, int((dense > 0).sum())))
    rows = np.union1d(words, near)
    one, other = np.zeros(len(rows)), np.zeros(len(rows))
    one[np.searchsorted(rows, words)] = share
    other[np.searchsorted(rows, near)] = likeness
    return Candidates(rows, one, other)


def pooled(lexical: Floats, dense: Floats) -> Candidates:
    """Logarithms of each text's share among its side's ten best: how the product's fusion weighs two opinions."""
    sides = [_log_shares(lexical, _SHARPNESS), _log_shares(dense, _NEARNESS)]
    rows = np.union1d(best(lexical, DEPTH), best(dense, DEPTH))
    return Candidates(rows, sides[0][rows], sides[1][rows])


def _log_shares(scores: Floats, sharpness: float) -> Floats:
    odds = np.where(scores > 0, np.exp(sharpness * (scores - scores.max(initial=0.0))), 0.0)
    shares: Floats = np.log(odds / max(odds[best(odds, TOP)].sum(), 1e-9) + _NOTHING)
    return shares


FUSIONS = {"min-max": candidates, "log shares": pooled}


def recall(rows: Sequence[int] | NDArray[np.intp], groups: Sequence[str], gold: frozenset[str], top: int = TOP) -> float:
    """Share of the gold among the first distinct groups of the rows."""
    found: dict[str, None] = {}
    for row in rows:
        found[groups[row]] = None
        if len(found) == top:
            break
    return len(gold & found.keys()) / len(gold)


def fused(own: Candidates, weight: float) -> NDArray[np.intp]:
    """Rows by the weighted sum, best first."""
    return own.rows[best((1 - weight) * own.lexical + weight * own.dense, len(own.rows))]


def choose(recalls: Floats) -> int:
    """Which column (dense weight) is best for the rows (queries), the smallest of equal ones.

    Neighbouring weights count too: they find nearly the same, and the highest point of some hundred questions is luck.
    """
    means = recalls.mean(axis=0)
    smooth = np.convolve(np.pad(means, len(_NEIGHBOURS) // 2, mode="edge"), _NEIGHBOURS, "valid")
    return int(np.argmax(np.round(smooth, 9)))


def crossed(recalls: Floats, folds: Sequence[str]) -> Floats:
    """Each row's recall with the weight that is best on the other folds."""
    own, out = np.array(folds), np.zeros(len(folds))
    for fold in sorted(set(folds)):
        out[own == fold] = recalls[own == fold, choose(recalls[own != fold])]
    return out


def interval(differences: Floats, rounds: int = 10_000) -> tuple[float, float]:
    """95% interval of the mean of paired differences, by resampling queries; seeded."""
    rng = np.random.default_rng(7)
    means = np.array([differences[rng.integers(0, len(differences), len(differences))].mean() for _ in range(rounds)])
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
