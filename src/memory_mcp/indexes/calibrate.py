"""Calibrate scores of engines: 0..1, how often such a result was relevant.

What is calibrated is a result's *normalized score*. For words it is the score as a share of the query's highest
possible one, times its share among the best ten of its table: the first factor separates good results from the
best of bad ones, the second measures how far it stands out. For vectors it is the share alone, because the best
similarity says next to nothing: in some models every text is within .1 of every other (AUC of the similarity
itself .55, of the share .76). The tables map it to the share of relevant results, fitted on the tuning half of
judged queries and checked on the other (`bench.judged`). This makes results of different layers comparable.

Change here: make or bring another bundled model.
Change here: what a score of 0.7 means.
"""

import numpy as np

from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array

#: Factor on the calibrated score of a message that only asks: a question is not its answer.
REQUEST_FACTOR = 0.01
#: Knots of a rising, piecewise linear table: normalized score and share that was relevant. The first is half of what the
#: lowest of the first ten results had; nothing was fitted below that.
Table = tuple[tuple[float, float], ...]

#: Added to a query's highest possible score: a match of one common word says little.
SCORE_OFFSET = 8.0
#: Results that share the odds.
COMPARED = 10
#: Log odds of a BM25 score difference of 1.
_BM25_SHARPNESS = 0.6
#: Exponent of a quotient of distances. Unlike differences of similarities, quotients do not depend on a direction that all
#: vectors of a model share.
VECTOR_SHARPNESS = 4.0
#: Distances below this are rounding.
_NEAREST = 1e-3

BM25: dict[DocType, Table] = {
    DocType.GRIP: (
        (0.0, 0.0075), (0.0016, 0.015), (0.0061, 0.031), (0.0129, 0.047), (0.025, 0.064), (0.0402, 0.133),
        (0.0562, 0.138), (0.0897, 0.251), (0.1535, 0.349), (0.2854, 0.586), (0.4892, 0.732),
    ),
    DocType.NODE: (
        (0.0, 0.0065), (0.0002, 0.027), (0.0012, 0.032), (0.0066, 0.038), (0.0205, 0.1), (0.0425, 0.11),
        (0.0812, 0.172), (0.1934, 0.447), (0.488, 0.747), (0.9071, 0.89),
    ),
}  # fmt: skip

VECTOR: dict[DocType, Table] = {
    DocType.GRIP: (
        (0.0, 0.0125), (0.0492, 0.025), (0.0766, 0.034), (0.094, 0.052), (0.1125, 0.072), (0.1269, 0.125),
        (0.1535, 0.192), (0.1989, 0.285), (0.3109, 0.384), (0.5883, 0.696),
    ),
    DocType.NODE: (
        (0.0, 0.0215), (0.0687, 0.043), (0.0843, 0.046), (0.0907, 0.054), (0.0972, 0.065), (0.1049, 0.106),
        (0.1147, 0.108), (0.1275, 0.147), (0.1468, 0.246), (0.1756, 0.297), (0.2369, 0.571), (0.3858, 0.736),
    ),
}  # fmt: skip

#: For the similarity of a lone event. Says little, and only for the bundled model.
SIMILARITY: Table = (
    (0.0, 0.0275), (0.7329, 0.055), (0.7855, 0.064), (0.8053, 0.089), (0.8246, 0.094), (0.8514, 0.136), (0.8899, 0.281),
)  # fmt: skip

#: For the fused scores of `layers.score`, which are too low by themselves.
HYBRID: dict[DocType, Table] = {
    DocType.GRIP: (
        (0.0, 0.0075), (0.0177, 0.015), (0.0315, 0.017), (0.0369, 0.042), (0.0527, 0.067), (0.0737, 0.126),
        (0.0986, 0.174), (0.1471, 0.271), (0.2423, 0.419), (0.4307, 0.579), (0.604, 0.768),
    ),
    DocType.NODE: (
        (0.0, 0.0045), (0.0169, 0.009), (0.0379, 0.031), (0.0599, 0.048), (0.0744, 0.078), (0.0921, 0.123),
        (0.1347, 0.197), (0.2473, 0.437), (0.4328, 0.749), (0.6374, 0.854), (0.8019, 0.958),
    ),
}  # fmt: skip


def normalize_bm25(scores: Array, possible: float) -> Array:
    """Normalize BM25 scores, `(n,)` float64, best first.

    `possible` is the query's highest possible score.
    """
    if not len(scores):
        return scores
    odds = np.exp(_BM25_SHARPNESS * (scores - scores[0]))
    normalized: Array = scores / (possible + SCORE_OFFSET) * odds / odds[:COMPARED].sum()
    return normalized


def normalize_similarity(similarities: Array) -> Array:
    """Normalize cosine similarities, `(n,)`, best first.

    Fewer than ten similarities are treated as if the last were repeated.
    """
    if not len(similarities):
        return similarities
    distances = np.maximum(1.0 - similarities.astype(np.float64), _NEAREST)
    odds = (distances[0] / distances) ** VECTOR_SHARPNESS
    best = odds[:COMPARED]
    normalized: Array = odds / (best.sum() + best[-1] * (COMPARED - len(best)))
    return normalized


def calibrate_scores(table: Table, normalized: Array) -> Array:
    """Interpolate a table at normalized scores, `(n,)` float64."""
    values: Array = np.interp(normalized, [x for x, _ in table], [y for _, y in table])
    return values
