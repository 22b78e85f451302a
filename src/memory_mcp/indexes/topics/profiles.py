"""Topics' segments in, what each topic is like out, and which topic a new segment belongs to. Pure.

How well a segment fits a topic is told in 0..1: how near its meaning is to the topic's middle, and how much of what it names
the topic's segments name too, rare terms counting more.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_mcp.summarize.rarity import rarity

Floats = NDArray[np.float32]
Places = NDArray[np.int32]

#: Share of rare terms in how alike two segments are; the rest is meaning.
TERMS = 0.8
#: A term that more than this share of all segments name tells nothing; of few segments one that more than so many name.
_COMMON, _COMMON_OF_FEW = 0.25, 3
#: What fits less well belongs to no topic.
LEAST = 0.12


def rare_terms(named: Sequence[Collection[str]]) -> dict[str, float]:
    """How telling each term is that at least two segments name, and not too many."""
    count = Counter(key for keys in named for key in keys)
    most = max(_COMMON_OF_FEW, _COMMON * len(named))
    return {key: rarity(held, len(named)) for key, held in count.items() if 2 <= held <= most}


def shares(named: Collection[str], rare: Mapping[str, float]) -> dict[str, float]:
    """How much each of a segment's rare terms tells of it: the squares make 1, so that products make a cosine."""
    own = {key: rare[key] for key in sorted(named) if key in rare}
    length = math.sqrt(math.fsum(weight * weight for weight in own.values()))
    return {key: weight / length for key, weight in own.items()}


def middle_of(vectors: Floats) -> Floats:
    """What all rows have in common, `(dimensions,)`: their mean; rows of zeros do not count."""
    known = vectors.any(axis=1)
    mean: Floats = vectors[known].mean(axis=0, dtype=np.float32) if known.any() else np.zeros(vectors.shape[1], np.float32)
    return mean


def told_apart(vectors: Floats, common: Floats) -> Floats:
    """Rows less what all have in common, of length 1 again; a row of zeros stays one."""
    return _unit((vectors - common) * vectors.any(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Profiles:
    """What topics are like, by their numbers."""

    count: int
    rare: Mapping[str, float]
    #: Of each rare term the topics that name it, and how much it tells of each.
    terms: Mapping[str, tuple[Places, Floats]]
    #: (topics, dimensions): where each topic's meanings lie, of length 1; and what all meanings have in common. None without.
    middles: Floats | None
    common: Floats | None

    def fits(self, vector: Floats | None, named: Collection[str]) -> Floats:
        """How well a segment fits each topic, `(topics,)`, 0..1."""
        shared = np.zeros(self.count, dtype=np.float32)
        for key, share in shares(named, self.rare).items():
            topics, told = self.terms[key]
            shared[topics] += share * told
        if self.middles is None or self.common is None or vector is None:
            return shared
        near = self.middles @ told_apart(vector[None, :], self.common)[0]
        mixed: Floats = TERMS * shared + (1 - TERMS) * np.maximum(near, 0)
        return np.minimum(mixed, 1)

    def nearest(self, vector: Floats | None, named: Collection[str]) -> tuple[int, float] | None:
        """The topic a segment belongs to, and how well it fits; None where it fits none.

        `vector`: of length 1 or 0; None: by its terms alone.
        """
        if not self.count:
            return None
        fits = self.fits(vector, named)
        best = int(fits.argmax())
        return (best, float(fits[best])) if fits[best] >= LEAST else None


def profiles_of(vectors: Floats | None, named: Sequence[Collection[str]], found: Places) -> Profiles:
    """What the topics are like into which segments were put; the arguments and the answer of `grouping.groups`."""
    count = int(found.max(initial=-1)) + 1
    rare = rare_terms(named)
    sums: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(count)]
    for topic, keys in zip(found.tolist(), named, strict=True):
        if topic >= 0:
            for key, share in shares(keys, rare).items():
                sums[topic][key] += share
    holders: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for topic, told in enumerate(sums):
        length = math.sqrt(math.fsum(weight * weight for weight in told.values()))
        for key, weight in told.items():
            holders[key].append((topic, weight / length))
    terms = {
        key: (np.array([t for t, _ in held], dtype=np.int32), np.array([s for _, s in held], dtype=np.float32))
        for key, held in holders.items()
    }
    kept = {key: rare[key] for key in terms}
    if vectors is None:
        return Profiles(count, kept, terms, None, None)
    common = middle_of(vectors)
    middles = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    np.add.at(middles, found[found >= 0], told_apart(vectors, common)[found >= 0])
    return Profiles(count, kept, terms, _unit(middles), common)


def _unit(rows: Floats) -> Floats:
    made: Floats = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)
    return made
