"""Groups and references of the same documents in, how well they agree out.

Counted are the documents that have a reference; groups are made of all. Purity: the share that belongs to the reference most
frequent in its group. NMI: normalised mutual information, by the mean of both entropies. A document without a group counts in
three ways, the same for every system: all of them as one group more (which is what is compared), each as a group of its own
(which flatters whoever leaves many out), and not at all.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Measures:
    """How well groups agree with references. `one`, `alone`, `without`: purity and NMI, see above."""

    groups: int
    #: Share of all documents: in no group, and in the largest.
    ungrouped: float
    largest: float
    one: tuple[float, float]
    alone: tuple[float, float]
    without: tuple[float, float]


def measures(groups: NDArray[np.int32], references: Sequence[str]) -> Measures:
    """Of groups (-1: none) and references ("": none) in the same order."""
    known = [(int(g), r) for g, r in zip(groups, references, strict=True) if r]
    sizes = Counter(g for g in groups.tolist() if g >= 0)
    apart = [(("alone", n) if g < 0 else g, r) for n, (g, r) in enumerate(known)]
    return Measures(
        groups=len(sizes),
        ungrouped=float((groups < 0).mean()),
        largest=max(sizes.values(), default=0) / len(groups),
        one=_pair(known),
        alone=_pair(apart),
        without=_pair([(g, r) for g, r in known if g >= 0]),
    )


def _pair(pairs: Sequence[tuple[Hashable, str]]) -> tuple[float, float]:
    """Purity and NMI; zeros of nothing."""
    if not pairs:
        return 0.0, 0.0
    inside: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for group, reference in pairs:
        inside[group][reference] += 1
    purity = sum(max(c.values()) for c in inside.values()) / len(pairs)
    of_groups, of_references = Counter(g for g, _ in pairs), Counter(r for _, r in pairs)
    shared = _entropy(of_groups) + _entropy(of_references) - _entropy(Counter(pairs))
    mean = (_entropy(of_groups) + _entropy(of_references)) / 2
    return purity, shared / mean if mean else 0.0


def _entropy(counts: "Counter[Hashable] | Counter[str] | Counter[tuple[Hashable, str]]") -> float:
    whole = counts.total()
    return -math.fsum(n / whole * math.log(n / whole) for n in counts.values())
