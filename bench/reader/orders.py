"""Ways to join a score of question and passage with the present order, as what is added to the log odds of the candidates."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.reader.files import Ranked
from memory_mcp.search.layers.score import BOTH, log_odds

Numbers = NDArray[Any]

#: What is added to ranks, so that first places do not count for everything.
_RANK = 60


class Way(StrEnum):
    """How two scores become one."""

    #: The score times a factor is added to the log odds.
    ADDED = "added"
    #: The same with the score in standard deviations, those of the log odds of the question's candidates.
    DEVIATIONS = "z-score"
    #: Reciprocal ranks are added; the present log odds are given out anew in that order.
    RANKS = "RRF"


@dataclass(frozen=True, slots=True)
class Joining:
    """A way and what the score counts in it."""

    way: Way
    factor: float

    def boost(self, ranked: Ranked, score: Numbers) -> Numbers:
        """What is added to the log odds of the candidates, `(candidates,)`."""
        boost: Numbers = self.factor * score.astype(np.float64)
        if self.way is Way.ADDED:
            return boost
        odds = log_odds(ranked.candidates.words, ranked.candidates.meaning, BOTH)
        if self.way is Way.DEVIATIONS:
            boost = self.factor * odds.std() * (score - score.mean()) / max(float(score.std()), 1e-6)
            return boost
        joined = 1 / (_RANK + _ranks(odds)) + self.factor / (_RANK + _ranks(score))
        given = np.empty(len(odds))
        given[np.argsort(-joined, kind="stable")] = np.sort(odds)[::-1]
        boost = given - odds
        return boost


def _ranks(values: Numbers) -> Numbers:
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


#: What is tried, for each of the ways.
JOININGS = tuple(
    Joining(way, factor)
    for way, factors in (
        (Way.ADDED, (3.0, 4.5, 6.0, 8.0, 10.0, 12.0)),
        (Way.DEVIATIONS, (0.2, 0.35, 0.5, 0.7)),
        (Way.RANKS, (0.25, 0.5, 1.0)),
    )
    for factor in factors
)
