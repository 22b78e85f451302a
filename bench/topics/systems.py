"""Documents in, groups out: ours and the rivals, each in a process of its own, so that processor time and memory are its own.

Rivals get the same texts (a segment's title, bullets and keywords) and, where they use any, the same vectors. What one needs
is imported by its process alone: it is no dependency of the program, and where it is absent its row is left out.

    python -m bench.topics.systems NAME < pickled Material > pickled Grouped
"""

import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from memory_mcp.indexes.topics.communities import Resolution
    from memory_mcp.indexes.topics.rows import Rows

Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Material:
    """What a system gets of each document, in one order."""

    texts: Sequence[str]
    named: Sequence[frozenset[int]]
    vectors: NDArray[np.float32]
    #: Place of the segment before it in its session, -1: none.
    before: Sequence[int]
    #: Groups for a system that must be told how many.
    wanted: int = 0

    def rows(self, by_meaning: bool = True) -> "Rows":
        """As the program groups them."""
        from memory_mcp.indexes.topics.rows import Rows

        vectors = self.vectors if by_meaning else np.zeros((len(self.named), 0), dtype=np.float32)
        return Rows.of_terms(self.named, vectors)


@dataclass(frozen=True, slots=True)
class Grouped:
    """What a system made: a group's number for each document, -1 for none; what it cost in a process of its own."""

    system: str
    groups: Places
    #: Of the process, imports included.
    cpu_seconds: float
    #: Of the grouping alone.
    own_seconds: float
    peak_mb: float


class Absent(Exception):
    """A system cannot group: what it needs is not installed, which says how to install it, or it failed."""


def grouped(system: str, material: Material) -> Grouped:
    """Run one system in a process of its own, on one thread; Absent."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(
        [sys.executable, "-m", "bench.topics.systems", system],
        input=pickle.dumps(material),
        capture_output=True,
        env=os.environ | single,
        check=False,
    )
    if process.returncode:
        text = process.stderr.decode(errors="replace")
        if "ModuleNotFoundError" in text:
            raise Absent(f"{system} needs: pip install {SYSTEMS[system].needs}")
        raise Absent(f"{system} failed: {text.strip().splitlines()[-1]}")
    result: Grouped = pickle.loads(process.stdout)
    return result


def _ours(material: Material) -> Places:
    from memory_mcp.indexes.topics.grouping import group_segments

    return group_segments(material.rows(), material.before)


def _ours_alone(material: Material) -> Places:
    from memory_mcp.indexes.topics.grouping import group_segments

    return group_segments(material.rows())


def _ours_terms(material: Material) -> Places:
    from memory_mcp.indexes.topics.grouping import group_segments

    return group_segments(material.rows(by_meaning=False), material.before)


def _kmeans(material: Material) -> Places:
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows = TfidfVectorizer(stop_words="english").fit_transform(material.texts)
    return _places(KMeans(material.wanted, n_init=10, random_state=0).fit_predict(rows))


def _bertopic(material: Material) -> Places:
    """The package with what it makes by default, told the vectors; UMAP is given a seed, and nothing else."""
    from bertopic import BERTopic
    from umap import UMAP

    # As BERTopic itself makes it.
    reduced = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", low_memory=False, random_state=0)
    groups, _ = BERTopic(umap_model=reduced).fit_transform(list(material.texts), material.vectors)
    return _places(groups)


def _hdbscan(material: Material) -> Places:
    from sklearn.cluster import HDBSCAN

    return _places(HDBSCAN(min_cluster_size=3, copy=False).fit_predict(material.vectors))


def _usearch(material: Material) -> Places:
    from usearch.index import Index

    index = Index(ndim=material.vectors.shape[1], metric="cos", dtype="f32")
    index.add(np.arange(len(material.texts)), material.vectors, threads=1)
    clusters = index.cluster(vectors=material.vectors, threads=1)
    keys = np.asarray(clusters.matches.keys).reshape(-1)
    return _places(np.unique(keys, return_inverse=True)[1])


def _propagated(material: Material) -> Places:
    """Label propagation on the graph that ours is made on."""
    from memory_mcp.indexes.topics import grouping

    links = grouping._link_segments(material.rows())
    member = list(range(len(links)))
    for _ in range(30):
        move_count = 0
        for n, strengths in enumerate(links):
            weights: dict[int, float] = {}
            for other, strength in strengths.items():
                weights[member[other]] = weights.get(member[other], 0.0) + strength
            if weights and (best := max(sorted(weights), key=weights.__getitem__)) != member[n]:
                member[n], move_count = best, move_count + 1
        if not move_count:
            break
    return grouping._number_communities(np.array(member, dtype=np.int32))


def _leiden(material: Material) -> Places:
    """Leiden's method by igraph (GPL) on the graph that ours is made on, as fine."""
    import random

    import igraph

    from memory_mcp.indexes.topics import grouping

    links, _, resolution = _once(material)
    edges = [(n, other) for n, strengths_of in enumerate(links) for other in strengths_of if other > n]
    igraph.set_random_number_generator(random.Random(0))
    graph = igraph.Graph(n=len(links), edges=edges)
    strengths = [links[a][b] for a, b in edges]
    degrees = resolution.scale_links(links).degrees
    partition = graph.community_leiden("CPM", weights=strengths, node_weights=degrees, resolution=1.0, n_iterations=-1)
    return grouping._number_communities(np.array(partition.membership, dtype=np.int32))


def _louvain(material: Material) -> Places:
    """Louvain's method from one beginning, likewise."""
    return _once(material)[1]


def _once(material: Material) -> tuple[list[dict[int, float]], Places, "Resolution"]:
    from memory_mcp.indexes.topics import grouping
    from memory_mcp.indexes.topics.communities import find_parts

    rows = material.rows()
    links = grouping._link_segments(rows)
    grouping.link_neighbours(links, material.before)
    return links, *grouping._bounded_communities(links, grouping._project_resolution(find_parts(links), rows.project))


def _ours_embedded(material: Material) -> Places:
    """With what comes before it in the child: opening the model and embedding the texts."""
    from memory_mcp.embed.model2vec import Model2Vec
    from memory_mcp.embed.models import BUNDLED, resolve_model
    from memory_mcp.indexes.topics.grouping import group_segments

    vectors = Model2Vec(str(resolve_model(BUNDLED, None).folder)).embed(material.texts)
    return group_segments(replace(material, vectors=vectors).rows(), material.before)


@dataclass(frozen=True, slots=True)
class System:
    """How a system groups, and what must be installed for it."""

    group: Callable[[Material], Places]
    needs: str = ""
    #: How many groups it is told to make: "" none, "ours" or "references".
    told: str = ""


#: By the name in the table; ours is first, since others are told how many groups it made.
SYSTEMS: Mapping[str, System] = {
    "ours": System(_ours),
    "ours, texts embedded by it": System(_ours_embedded),
    "ours, order of segments unknown": System(_ours_alone),
    "ours, terms alone": System(_ours_terms),
    "k-means on TF-IDF, as many as ours": System(_kmeans, "scikit-learn", "ours"),
    "k-means on TF-IDF, as many as references": System(_kmeans, "scikit-learn", "references"),
    "BERTopic": System(_bertopic, "umap-learn hdbscan scikit-learn pandas plotly tqdm && pip install --no-deps bertopic"),
    "HDBSCAN": System(_hdbscan, "scikit-learn"),
    "usearch Index.cluster": System(_usearch),
    "label propagation": System(_propagated),
    "Leiden": System(_leiden, "igraph"),
    "Louvain from one beginning": System(_louvain),
}


def _places(groups: Sequence[int] | NDArray[np.int64]) -> Places:
    return np.asarray(groups, dtype=np.int32)


def main(system: str) -> None:
    """Answer in a process that does nothing else."""
    material: Material = pickle.load(sys.stdin.buffer)
    out, sys.stdout = sys.stdout, sys.stderr
    start = time.process_time()
    groups = SYSTEMS[system].group(material)
    seconds = time.process_time() - start
    peak = _peak_mb()
    # Defined anew under its importable name: this module runs as `__main__`.
    from bench.topics.systems import Grouped as Told

    result = Told(system, groups, time.process_time(), seconds, peak)
    out.buffer.write(pickle.dumps(result))
    out.flush()


def _peak_mb() -> float:
    """The most memory that this process had; what `resource` tells begins with that of whoever started it."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))[0]) / 1024


def told_how_many(system: str, material: Material, ours: int, references: int) -> Material:
    """The material with as many groups as a system is to make."""
    return replace(material, wanted={"ours": ours, "references": references}.get(SYSTEMS[system].told, 0))


if __name__ == "__main__":
    main(sys.argv[1])
