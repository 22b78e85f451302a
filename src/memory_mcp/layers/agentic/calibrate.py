"""Scores of a walk in, 0..1 out: how often a message of that standing was the one looked for. Pure.

As the indexes' scores are (`indexes.calibrate`), so that what a walk found can be compared with what they did. A standing is
the score times its share among the best ten. Fitted on the tuning halves of conversations and of records of a phone (English
and Chinese) whose answering messages are known, asked of layer 2 alone; expected calibration error on the other halves .009.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.layers.base import Hit

#: Results compared with each other, and how much a difference of one in scores counts.
_COMPARED, _SHARPNESS = 10, 36.0
#: Standing, and the share that was right; the first is what no standing at all is worth, the last that of a message that holds
#: the query word for word (not fitted: nobody asks conversations so).
_TABLE = (
    (0.0, 0.0035), (0.0004, 0.021), (0.0012, 0.041), (0.0026, 0.055), (0.0043, 0.074), (0.0057, 0.1), (0.0085, 0.134),
    (0.0124, 0.196), (0.0206, 0.221), (0.0497, 0.295), (0.1014, 0.433), (0.1908, 0.568), (0.8, 0.95),
)  # fmt: skip
#: The part of a score that says what the walk thought of the segment: the saturated term frequencies, by weight.
TERMS = "terms"


def calibrated(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits, best first, with calibrated scores."""
    if not hits:
        return []
    scores = np.array([h.score for h in hits])
    odds = np.exp(_SHARPNESS * (scores - scores[0]))
    standings = scores * odds / odds[:_COMPARED].sum()
    values = np.interp(standings, [x for x, _ in _TABLE], [y for _, y in _TABLE]).tolist()
    return [replace(h, score=round(value, 4)) for h, value in zip(hits, values, strict=True)]
