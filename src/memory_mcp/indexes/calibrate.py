"""An engine's numbers in, 0..1 out: how often a result with such a number was what had been looked for. Pure.

What is calibrated is a result's *standing*: its score against what the query could give at most, times its share among
the best ten of its table. The first factor tells a good result from the best of a bad lot; the second how far it stands
out. The tables say what share of results at each standing was relevant, fitted on the tuning half of judged queries and
checked on the other (`bench.judged`). Only so are results of different layers comparable.
"""

import numpy as np

from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array

#: Knots of a rising, piecewise linear table: standing, share that was relevant.
Table = tuple[tuple[float, float], ...]

#: Added to what a query could give: one short common word says little however well it is met.
_SLACK = 8.0
#: Results compared with each other.
_BEST = 10
#: How much a difference of one in BM25 scores counts.
BM25_SHARPNESS = 0.6

BM25: dict[DocType, Table] = {
    DocType.GRIP: (
        (0.0011, 0.018), (0.0047, 0.019), (0.0091, 0.022), (0.0141, 0.062), (0.0211, 0.064), (0.0303, 0.078),
        (0.0411, 0.134), (0.0571, 0.201), (0.0879, 0.286), (0.1424, 0.454), (0.2329, 0.603), (0.4158, 0.744),
    ),
    DocType.NODE: (
        (0.0, 0.012), (0.0001, 0.013), (0.001, 0.021), (0.004, 0.044), (0.0124, 0.054), (0.0322, 0.113),
        (0.056, 0.132), (0.1027, 0.262), (0.2364, 0.537), (0.5072, 0.833), (0.7346, 0.893), (0.9698, 0.922),
    ),
}  # fmt: skip


def standing(scores: Array, possible: float, sharpness: float) -> Array:
    """The standing of results, best first, for a query that could give `possible`."""
    if not len(scores):
        return scores
    odds = np.exp(sharpness * (scores - scores[0]))
    found: Array = scores / (possible + _SLACK) * odds / odds[:_BEST].sum()
    return found


def calibrated(table: Table, standings: Array) -> Array:
    """The table's shares at some standings; beyond its ends the ends'."""
    found: Array = np.interp(standings, [x for x, _ in table], [y for _, y in table])
    return found
