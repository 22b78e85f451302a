"""Train the token rows for late interaction: softmax over each question's candidates, in numpy.

What is learned is what the present order lacks: the log odds that candidates have already are added before the softmax. Rows
stay of length 1; those of tokens that were not seen stay as they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.reader.tokens import Ids, Rows


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with passages, some of which answer it."""

    group: str
    question: Ids
    #: Weight of each token of the question; they sum to 1.
    weights: Rows
    #: Tokens of all passages in a row, how much a match of each counts, and where each passage begins.
    tokens: Ids
    counts: Rows
    begins: Ids
    #: Log odds before, and the share of each passage in what answers; the shares sum to 1.
    odds: Rows
    gold: Rows


@dataclass(frozen=True, slots=True)
class Recipe:
    """How long and how fast."""

    rounds: int = 2
    rate: float = 3e-3
    batch: int = 16
    #: Matches up to this count nothing; share of a question's tokens that are left out at random.
    least: float = 0.3
    dropped: float = 0.1
    #: Factor of the score at first; how strongly rows are drawn back to where they began.
    factor: float = 15.0
    kept: float = 0.02
    seed: int = 3


@dataclass(slots=True)
class Trainer:
    """Rows under training, with their moments."""

    rows: Rows
    recipe: Recipe
    factor: float = 0.0
    _start: Rows = field(init=False)
    _gradient: Rows = field(init=False)
    _first: Rows = field(init=False)
    _second: Rows = field(init=False)
    _steps: int = 0

    def __post_init__(self) -> None:
        """Begin at the rows given."""
        self.factor = self.recipe.factor
        self._start = self.rows.copy()
        self._gradient, self._first = np.zeros_like(self.rows), np.zeros_like(self.rows)
        self._second = np.zeros((len(self.rows), 1), dtype=np.float32)

    def train(self, samples: Sequence[Sample], shares: Sequence[float]) -> list[float]:
        """Go over all samples some times; `shares`: how much each counts. Returns the mean loss of each round."""
        chance, recipe = np.random.default_rng(self.recipe.seed), self.recipe
        losses: list[float] = []
        batches = -(-len(samples) // recipe.batch)
        for number in range(recipe.rounds):
            order, lost = chance.permutation(len(samples)), 0.0
            for at in range(batches):
                touched: list[Ids] = []
                for place in order[at * recipe.batch : (at + 1) * recipe.batch].tolist():
                    loss, rows = self._add_gradient(samples[place], shares[place] / recipe.batch, chance)
                    lost += loss * shares[place]
                    touched.append(rows)
                progress = (number * batches + at) / (recipe.rounds * batches)
                self._step(np.unique(np.concatenate(touched)), recipe.rate * 0.5 * (1 + np.cos(np.pi * progress)))
            losses.append(lost / float(np.sum(shares)))
        return losses

    def _add_gradient(self, sample: Sample, share: float, chance: np.random.Generator) -> tuple[float, Ids]:
        asked, weights = sample.question, sample.weights
        stays = chance.random(len(asked)) >= self.recipe.dropped
        if len(asked) > 3 and stays.any():
            asked, weights = asked[stays], weights[stays] / max(float(weights[stays].sum()), 1e-6)
        ids, inverse = np.unique(sample.tokens, return_inverse=True)
        mine, theirs = self.rows[asked], self.rows[ids]
        similarity = (mine @ theirs.T)[:, inverse] * sample.counts
        best = np.maximum.reduceat(similarity, sample.begins, axis=1)
        counted = np.maximum((best - self.recipe.least) / (1 - self.recipe.least), 0.0)
        scored = weights @ counted
        odds = sample.odds + self.factor * scored
        odds -= odds.max()
        likely = np.exp(odds)
        likely /= likely.sum()
        loss = -float(sample.gold @ np.log(np.maximum(likely, 1e-9)))
        gap = (likely - sample.gold) * share
        self.factor -= 0.5 * self.recipe.rate * float(gap @ scored) * 100
        sizes = np.diff([*sample.begins.tolist(), len(sample.tokens)])
        token, place = np.nonzero(similarity >= np.repeat(np.maximum(best, self.recipe.least + 1e-6), sizes, axis=1))
        passage = np.repeat(np.arange(len(sizes)), sizes)[place]
        ties = np.bincount(token * len(sizes) + passage, minlength=len(asked) * len(sizes))[token * len(sizes) + passage]
        pull = self.factor / (1 - self.recipe.least) * gap[passage] * weights[token] * sample.counts[place] / ties
        pulls = np.bincount(token * len(ids) + inverse[place], pull, len(asked) * len(ids)).reshape(len(asked), len(ids))
        pulls = pulls.astype(np.float32)
        np.add.at(self._gradient, asked, pulls @ theirs)
        self._gradient[ids] += pulls.T @ mine
        return loss, np.concatenate([asked, ids])

    def _step(self, touched: Ids, rate: float) -> None:
        """One step of Adam, one second moment a row, for the rows that were touched."""
        self._steps += 1
        rows = self.rows[touched]
        gradient = self._gradient[touched] + self.recipe.kept * 1e-2 * (rows - self._start[touched])
        gradient -= (gradient * rows).sum(axis=1, keepdims=True) * rows
        self._first[touched] = 0.9 * self._first[touched] + 0.1 * gradient
        self._second[touched] = 0.99 * self._second[touched] + 0.01 * np.square(gradient).mean(axis=1, keepdims=True)
        moved = rows - rate * self._first[touched] / (np.sqrt(self._second[touched]) + 1e-6)
        self.rows[touched] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        self._gradient[touched] = 0.0
