"""Titles and the stretches they stand over in, which model finds more of them out: a test made of the user's own memory.

A title is taken from its stretch, so sentences that share most of its words are left out of the stretch first: what is
counted is meaning, not an echo.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memory_mcp.children import Child, answering
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.errors import LayerUnavailable
from memory_mcp.text import term_set

#: A title is found when its stretch is among so many.
FOUND_IN = 10
#: Characters of a stretch that are read, and terms that must be left of one.
_READ, _LEAST_TERMS = 4000, 8
_LEAST_TITLE = 2
#: Share of a title's terms from which on a sentence counts as its echo.
_ECHO = 0.5
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
#: Texts that are sent to a child process at once, and titles that are compared at once.
_SENT, _BATCH = 1024, 256
_RESAMPLED = 2000


@dataclass(frozen=True, slots=True)
class Pair:
    """A title, and what is left of its stretch."""

    title: str
    stretch: str


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more of the titles one model finds than another, as shares, with the middle 95 % of resampled ones."""

    mean: float
    low: float
    high: float

    @property
    def told(self) -> bool:
        """Whether it is more than chance."""
        return self.low > 0 or self.high < 0


def pair(title: str, said: Sequence[str]) -> Pair | None:
    """One question of the test from a title and the texts below it; None where too little is left to ask about."""
    wanted = term_set(title)
    if len(wanted) < _LEAST_TITLE:
        return None
    kept, length = [], 0
    for sentence in (s for text in said for s in _SENTENCE.split(text)):
        if length < _READ and len(term_set(sentence) & wanted) < _ECHO * len(wanted):
            kept.append(sentence)
            length += len(sentence)
    stretch = " ".join(kept)[:_READ]
    return Pair(title, stretch) if len(term_set(stretch)) >= _LEAST_TERMS else None


def ranks(titles: Vectors, stretches: Vectors) -> NDArray[np.int64]:
    """Of each title the place of its own stretch among all, from 1; equals count against it, and so do rows of zeros."""
    found = np.empty(len(titles), dtype=np.int64)
    for start in range(0, len(titles), _BATCH):
        scores = titles[start : start + _BATCH] @ stretches.T
        own = scores[np.arange(len(scores)), start + np.arange(len(scores))]
        found[start : start + _BATCH] = (scores >= own[:, None]).sum(axis=1)
    return found


def difference(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> Difference:
    """Between two models on the same titles."""
    each = (ours <= FOUND_IN).astype(np.int64) - (theirs <= FOUND_IN)
    # Each title says -1, 0 or 1: how often each is drawn again is all that resampling needs.
    shares = np.array([(each == value).mean() for value in (-1, 0, 1)])
    drawn = np.random.default_rng(0).multinomial(len(each), shares, _RESAMPLED) @ np.array([-1, 0, 1]) / len(each)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Difference(float(each.mean()), float(low), float(high))


def embedded(
    folder: Path,
    texts: Sequence[str],
    told: Callable[[int], None] = lambda _: None,
    began: Callable[[], object] = lambda: None,
) -> Vectors:
    """Vectors of many texts by the model in a folder, made by a child process of low priority.

    `told` counts texts; `began` is called when the process has loaded what it needs. LayerUnavailable when it has gone.
    """
    child = Child(__name__, str(folder))
    try:
        child.begin()
        began()
        rows = []
        for start in range(0, len(texts), _SENT):
            # One at a time: answers are larger than a pipe holds, and two sides that both write wait for ever.
            rows.append(cast("Vectors", child.ask(list(texts[start : start + _SENT]))))
            told(start + len(rows[-1]))
        return np.concatenate(rows)
    except (OSError, EOFError) as error:
        raise LayerUnavailable(f"the process that embeds with the model in {folder} has ended") from error
    finally:
        child.end()


def _begin(hello: object) -> Callable[[object], object]:
    model = Model2Vec(str(hello))
    model.embed([""])
    return lambda texts: model.embed(cast("Any", texts))


if __name__ == "__main__":
    answering(_begin)
