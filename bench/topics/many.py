"""Time and memory of many segments, made of real ones: what a child process that does nothing else takes."""

import random
from collections.abc import Sequence

import numpy as np

from bench.topics.references import Reference
from bench.topics.systems import SYSTEMS, Absent, Material, grouped, told_how_many
from memory_mcp.indexes.topics.documents import hash_term

#: Systems that are no rival's and take no time worth seeing with so many.
_SLOW = ("HDBSCAN",)
#: Share of a segment's terms that come from the other of the two it is made of, and share that nobody else names.
_OTHERS, _FRESH = 0.3, 0.1


def recombined(references: Sequence[Reference], count: int) -> Material:
    """Segments made of two real ones each: 70 % of the words, terms and meaning of the one, 30 % of the other.

    A tenth of what comes from the other is new to the store: vocabularies grow. Half of the segments follow the one before.
    """
    rng = random.Random(7)
    documents = [(d, r.vectors[n]) for r in references for n, d in enumerate(r.documents)]
    texts, terms, vectors = [], [], np.zeros((count, documents[0][1].shape[0]), dtype=np.float32)
    for n in range(count):
        (document, vector), (other, other_vector) = rng.choice(documents), rng.choice(documents)
        keys = sorted(document.named)
        keys_kept = [key for key in keys if rng.random() > _OTHERS]
        keys_kept += [
            hash_term(f"{key} {n}") if rng.random() < _FRESH else key for key in sorted(other.named) if rng.random() < _OTHERS
        ]
        terms.append(frozenset(keys_kept))
        texts.append(f"{document.gist[: len(document.gist) * 7 // 10]} {other.gist[len(other.gist) * 7 // 10 :]}")
        mixed = (1 - _OTHERS) * vector + _OTHERS * other_vector
        vectors[n] = mixed / max(float(np.linalg.norm(mixed)), 1e-9)
    return Material(texts, terms, vectors, [n - 1 if n and rng.random() < 0.5 else -1 for n in range(count)])


def many(references: Sequence[Reference], count: int, systems: Sequence[str]) -> str:
    """A line for each system."""
    material = recombined(references, count)
    terms = sum(map(len, material.named)) / count
    lines = [f"{count} segments recombined of {sum(len(r.documents) for r in references)} real ones, {terms:.0f} terms each"]
    ours = 0
    for name in [n for n in SYSTEMS if n in systems and n not in _SLOW]:
        try:
            result = grouped(name, told_how_many(name, material, ours, 300))
        except Absent as absent:
            lines.append(f"  left out: {absent}")
            continue
        ours = ours or int(result.groups.max()) + 1
        ungrouped, largest = float((result.groups < 0).mean()), int(np.bincount(result.groups[result.groups >= 0]).max()) / count
        lines.append(
            f"  {name:42} {result.groups.max() + 1:5} groups, none {ungrouped:.2f}, largest {largest:.2f}: "
            f"{result.cpu_seconds:.1f} s, grouping alone {result.own_seconds:.1f} s, {result.peak_mb:.0f} MB"
        )
    return "\n".join(lines)
