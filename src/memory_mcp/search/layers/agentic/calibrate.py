"""Calibrate the scores of a walk: 0..1, how often a message with such a score was the expected one. Pure.

Calibrated like the indexes' scores (`indexes.calibrate`), so that both can be compared. The normalized score is the score
times its share among the best ten. Fitted on the tuning halves of conversations and of phone records (English and Chinese)
whose answering messages are known, with layer 2 alone; expected calibration error on the other halves .009.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.search.layers.base import Hit

#: Results that share the odds, and the log odds of a score difference of 1.
_COMPARED, _SHARPNESS = 10, 36.0
#: Normalized score and the share that was right. The first is for a score of 0, the last for a message that holds the query
#: verbatim (not fitted: the corpora have no such queries).
_TABLE = (
    (0.0, 0.0035), (0.0004, 0.021), (0.0012, 0.041), (0.0026, 0.055), (0.0043, 0.074), (0.0057, 0.1), (0.0085, 0.134),
    (0.0124, 0.196), (0.0206, 0.221), (0.0497, 0.295), (0.1014, 0.433), (0.1908, 0.568), (0.8, 0.95),
)  # fmt: skip
#: Name of the part of a score that is the segment's `text_score`.
TERMS = "terms"


def calibrate_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits of one search with calibrated scores, in their order."""
    if not hits:
        return []
    scores = np.array([h.score for h in hits])
    odds = np.exp(_SHARPNESS * (scores - scores[0]))
    standings = scores * odds / odds[:_COMPARED].sum()
    values = np.interp(standings, [x for x, _ in _TABLE], [y for _, y in _TABLE]).tolist()
    return [replace(h, score=round(value, 4)) for h, value in zip(hits, values, strict=True)]
