"""Corpora alone and all in one memory: how many topics each has, and how well they agree with what belongs together.

A segment belongs to its reference, where people gave one, else to its session: rough, but the same alone and mixed. The mixed
memories hold all corpora up to a number of segments; of the largest corpora the first segments in time are taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.quality.corpora import LANGUAGES, LIFEBENCH, corpora_in
from bench.topics.measures import measures
from bench.topics.references import Reference, unjudged
from bench.topics.systems import Grouped, Material, grouped

#: Corpora without references that are mixed in, in families.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "locomo": ("locomo",),
    "beam": ("beam",),
    **{f"lifebench-{name}": (f"lifebench-{name}",) for name in LIFEBENCH},
    "languages": tuple(LANGUAGES),
}


def families(data: Path, folder: Path, judged: Sequence[Reference]) -> dict[str, list[Reference]]:
    """Return the corpora with references and, by family, those without, their stores kept in a folder."""
    stores = {family: corpora_in(data, names).stores for family, names in _FAMILIES.items()}
    return {reference.name: [reference] for reference in judged} | {
        family: [unjudged(name, messages, folder) for name, messages in sorted(messages_by_store.items())]
        for family, messages_by_store in stores.items()
        if messages_by_store
    }


def mixed(corpora: Mapping[str, Sequence[Reference]], counts: Sequence[int]) -> str:
    """Return a table for each number of segments: a line for each family, alone and in the mixed memory."""
    return "\n".join(_table(_cut(corpora, count)) for count in counts)


def _cut(corpora: Mapping[str, Sequence[Reference]], count: int) -> dict[str, list[Reference]]:
    """Return the corpora cut in time to so many segments together: all have as many as the largest bound allows."""
    sizes = sorted(len(r.documents) for references in corpora.values() for r in references)
    remaining, bound = count, max(sizes, default=0)
    for n, size in enumerate(sizes):
        bound = remaining // (len(sizes) - n)
        if size > bound:
            break
        remaining -= size
    else:
        bound = max(sizes, default=0)
    return {family: [_first(r, bound) for r in references] for family, references in corpora.items()}


def _first(reference: Reference, count: int) -> Reference:
    order = sorted(range(len(reference.documents)), key=lambda n: (reference.documents[n].node.start_ms, n))[:count]
    return replace(reference, documents=tuple(reference.documents[n] for n in order), vectors=reference.vectors[order])


def _table(corpora: Mapping[str, Sequence[Reference]]) -> str:
    parts = [(family, r) for family, references in corpora.items() for r in references]
    order = np.random.RandomState(0).permutation(sum(len(r.documents) for _, r in parts))
    labels = [f"{r.name}/{d.reference or d.session}" for _, r in parts for d in r.documents]
    family_of = np.array([family for family, r in parts for _ in r.documents])
    in_all = grouped("ours", _shuffled([r.material() for _, r in parts], order))
    topics = np.empty(len(order), dtype=np.int32)
    topics[order] = in_all.groups
    lines = [f"{len(order)} segments: {_cost(in_all)}", f"  {'':16}{'segments':>9}{'topics':>15}{'purity':>15}{'NMI':>15}"]
    for family, references in corpora.items():
        in_family = np.flatnonzero(family_of == family)
        own_order = np.random.RandomState(0).permutation(len(in_family))
        by_itself = grouped("ours", _shuffled([r.material() for r in references], own_order))
        alone = np.empty(len(in_family), dtype=np.int32)
        alone[own_order] = by_itself.groups
        lines.append(_line(family, alone, topics[in_family], [labels[n] for n in in_family]))
    return "\n".join(lines)


def _shuffled(materials: Sequence[Material], order: NDArray[np.int64]) -> Material:
    """Return several materials as one, its documents in another order: keys of segments say nothing of their corpus."""
    texts, terms = [text for m in materials for text in m.texts], [terms for m in materials for terms in m.named]
    predecessors: list[int] = []
    for material in materials:
        begin = len(predecessors)
        predecessors += [n + begin if n >= 0 else -1 for n in material.before]
    index_of = {int(n): index for index, n in enumerate(order)}
    return Material(
        [texts[n] for n in order],
        [terms[n] for n in order],
        np.concatenate([m.vectors for m in materials])[order],
        [index_of.get(predecessors[n], -1) for n in order],
    )


def _line(family: str, alone: NDArray[np.int32], mixed_topics: NDArray[np.int32], labels: Sequence[str]) -> str:
    apart, together = measures(alone, labels), measures(mixed_topics, labels)
    (purity, nmi), (purity_mixed, nmi_mixed) = apart.one, together.one
    counts = f"{apart.groups:>7} {together.groups:>7}"
    return f"  {family:16}{len(labels):9}{counts}{purity:8.3f}{purity_mixed:7.3f}{nmi:8.3f}{nmi_mixed:7.3f}"


def _cost(done: Grouped) -> str:
    return f"{int(done.groups.max()) + 1} topics, {done.own_seconds:.1f} s, {done.peak_mb:.0f} MB; alone and mixed:"
