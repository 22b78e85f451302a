"""Scores of a walk in, 0..1 out: how often a segment of that standing was the one looked for. Pure.

As the indexes' scores are (`indexes.calibrate`), so that what a walk found can be compared with what they did. A standing is
the score times its share among the best ten. Fitted on the tuning halves of the judged conversations and coding sessions,
asked of layer 2 alone; expected calibration error on the other halves .008.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.layers.base import Hit

#: Results compared with each other, and how much a difference of one in scores counts.
_COMPARED, _SHARPNESS = 10, 12.0
#: Standing, and the share that was right; the first is what no standing at all is worth.
_TABLE = (
    (0.0, 0.0025), (0.0013, 0.03), (0.0059, 0.041), (0.0147, 0.093), (0.0387, 0.132), (0.103, 0.18), (0.2688, 0.415),
    (0.5984, 0.773), (0.8069, 0.892),
)  # fmt: skip
#: The part of a score that says what the walk itself thought: the saturated term frequencies, by weight.
TERMS = "terms"


def calibrated(hits: Sequence[Hit]) -> list[Hit]:
    """Hits, best first, with calibrated scores; what they were is kept among the parts."""
    if not hits:
        return []
    scores = np.array([h.score for h in hits])
    odds = np.exp(_SHARPNESS * (scores - scores[0]))
    standings = scores * odds / odds[:_COMPARED].sum()
    values = np.interp(standings, [x for x, _ in _TABLE], [y for _, y in _TABLE]).tolist()
    return [
        replace(h, score=round(value, 4), parts=(*(p for p in h.parts if p[0] != TERMS), (TERMS, h.score)))
        for h, value in zip(hits, values, strict=True)
    ]
