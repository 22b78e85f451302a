"""Token vectors in context: moved until the mean of a text's tokens points where the teacher points for the text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.embedder.model import Matrix

#: Two passes at this rate: more of either gained on documentation what it lost on dialogue.
_ROUNDS, _RATE, _BATCH = 2, 1e-3, 512
#: Tokens left out at random, so that no text rests on one of them.
_DROPPED = 0.1
#: Steps until the full rate.
_WARM = 30


def trained(start: Matrix, tokens: list[list[int]], targets: Matrix, weights: Sequence[float]) -> Matrix:
    """The matrix after training. `weights`: how often a text is drawn, beside the others. Seeded, two threads."""
    import torch

    torch.set_num_threads(2)
    rng = np.random.default_rng(0)
    matrix = torch.nn.Parameter(torch.tensor(start))
    optimizer = torch.optim.Adam([matrix])
    drawn = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    steps = _ROUNDS * len(tokens) // _BATCH
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = _RATE * 0.5 * (1 + np.cos(np.pi * step / steps)) * min(1.0, (step + 1) / _WARM)
        rows = rng.choice(len(tokens), _BATCH, p=drawn)
        means = _means(torch, matrix, [_thinned(rng, np.array(tokens[r])) for r in rows])
        loss = (1 - (means * torch.tensor(targets[rows])).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} of {steps}: distance {loss.item():.4f}", flush=True)
    return np.asarray(matrix.detach().numpy(), dtype=np.float32)


def _thinned(rng: np.random.Generator, ids: Any) -> Any:
    some = ids[rng.random(len(ids)) >= _DROPPED] if len(ids) > 3 else ids
    return some if len(some) else ids


def _means(torch: Any, matrix: Any, texts: list[Any]) -> Any:
    starts = torch.tensor(np.cumsum([0, *(len(t) for t in texts[:-1])]))
    found = torch.nn.functional.embedding_bag(torch.tensor(np.concatenate(texts)), matrix, starts, mode="mean")
    return torch.nn.functional.normalize(found, dim=1)
