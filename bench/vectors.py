"""Vectors behind the face of `bench.engines`: ours, and exact float32 by numpy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import material
from bench.engines import LIMIT, Asked, Built, Watch, timed
from bench.sentences import Question
from memory_mcp.base import machine


class Given:
    """An embedder for texts that are numbers of rows."""

    name = "given"

    def __init__(self, folder: Path) -> None:
        self._vectors: NDArray[np.float32] = np.load(folder / "vectors.npy", mmap_mode="r")
        self.dimensions = material.DIMENSIONS

    def fingerprint(self) -> dict[str, Any]:
        """It is always the same."""
        return {"name": self.name, "folder": "", "dimensions": self.dimensions}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The rows."""
        return np.asarray(self._vectors[[int(t) for t in texts]])


class Vectors:
    """Ours, over vectors that are given: parts of the size in which the child process writes them, merged as it does."""

    def __init__(self, graphs: bool = False) -> None:
        import memory_mcp.indexes.live
        import memory_mcp.indexes.vector.search  # noqa: F401

        self._with_graphs = graphs
        self._snapshot: Any = None
        self._asked: dict[str, NDArray[np.float32]] = {}

    def build(self, folder: Path, home: Path) -> Built:
        from memory_mcp.indexes import merges
        from memory_mcp.indexes.base import Position
        from memory_mcp.indexes.shard import LiveShard, build_shard, merge_shards, read_shard, write_shard
        from memory_mcp.indexes.shard_store import BuiltShard as Part

        index, grips = _vector_index(folder, home), _grips(folder)
        index.folder.create_folders()
        watch, improving, documents = Watch(), Watch(), 0
        parts: list[Any] = []

        def put(part: Any) -> Any:
            place = index.folder.shards_path / f"bench-{len(list(index.folder.shards_path.iterdir()))}"
            files = write_shard(index.kind, part, place)
            return LiveShard(read_shard(index.kind, place, files, index.folder.directory))

        for units in _chunks(folder, grips):
            with watch:
                parts.append(put(build_shard(index.kind, units, [index.kind.prepare_unit(u) for u in units])))
            documents += sum(u.size for u in units)
        with watch:
            while groups := merges.plan_merges([merges.ShardSize(p.size, p.shard.size) for p in parts]):
                joined = put(merge_shards(index.kind, [parts[i] for i in groups[0]]))
                parts = [*(p for i, p in enumerate(parts) if i not in groups[0]), joined]
        note = f"{len(parts)} parts"
        if self._with_graphs:
            better = [index.kind.improve_body(p.shard.body) for p in parts]
            with improving:
                parts = [put(replace(p.shard, body=b)) if b else p for p, b in zip(parts, better, strict=True)]
            note += f"; {len(parts) - better.count(None)} with graphs, in {improving.seconds:.0f} s"
        with watch:
            index.adopt_shards([Part(p.shard.name, p.shard.files) for p in parts], Position())
        return Built(documents, watch.seconds, watch.worked, machine.size_of(home), note)

    def open(self, folder: Path, home: Path) -> None:
        self._asked = material.read_asked(folder)
        index = _vector_index(folder, home)
        index.load(0)
        self._snapshot = index.snapshot

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        from memory_mcp.indexes.base import DocType, Filters
        from memory_mcp.indexes.vector.search import search_documents

        doc_type = DocType.GRIP if grips else None
        asked = [(self._asked[q.text], Filters(doc_type, project=q.project or None)) for q in questions]
        times, answers = timed(partial(search_documents, self._snapshot, v, f, LIMIT) for v, f in asked)
        return replace(
            times, found=[[material.number_of(m.grip_id) for m in a.best if m.grip_id] for a in answers] if told else []
        )


def _vector_index(folder: Path, home: Path) -> Any:
    from memory_mcp.base.clock import SystemClock
    from memory_mcp.indexes.live import LiveIndex
    from memory_mcp.indexes.vector.kind import VectorKind

    return LiveIndex(VectorKind(Given(folder)), home, "bench", SystemClock())


def _grips(folder: Path) -> int:
    return sum(len(s.texts) for s in material.read(folder))


def _chunks(folder: Path, grips: int) -> Iterator[list[Any]]:
    """Units with as many characters as the child collects before it writes a part."""
    units, characters = [], 0
    for stretch in material.read(folder):
        units.append(material.bare(stretch, grips))
        # A grip's words count once in the grip and once in its segment.
        characters += 2 * sum(map(len, stretch.texts))
        if characters > 12_500_000:
            yield units
            units, characters = [], 0
    if units:
        yield units


class Exact:
    """float32, all of them, by numpy."""

    def __init__(self) -> None:
        self._vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        self._grips = 0
        self._asked: dict[str, NDArray[np.float32]] = {}
        self._rows: dict[str, NDArray[np.int64]] = {}

    def build(self, folder: Path, home: Path) -> Built:
        home.mkdir(parents=True)
        with Watch() as watch:
            vectors = np.load(folder / "vectors.npy")
            np.save(home / "vectors.npy", vectors)
        return Built(len(vectors), watch.seconds, watch.worked, machine.size_of(home), "a copy")

    def open(self, folder: Path, home: Path) -> None:
        self._asked = material.read_asked(folder)
        self._vectors = np.load(home / "vectors.npy")
        stretches = list(material.read(folder))
        projects = [s.project for s in stretches for _ in s.texts]
        self._grips = len(projects)
        held = np.array(projects + [s.project for s in stretches])
        self._rows = {p: np.flatnonzero(held == p) for p in set(projects)}

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        rows = self._grips if grips else len(self._vectors)
        times, answers = timed(partial(self._best, self._asked[q.text], q.project, rows) for q in questions)
        return replace(times, found=[[int(r) for r in a if r < self._grips] for a in answers] if told else [])

    def _best(self, vector: NDArray[np.float32], project: str, rows: int) -> NDArray[np.int64]:
        scores = self._vectors[:rows] @ vector
        passing = self._rows[project] if project else np.arange(rows)
        passing = passing[passing < rows]
        held = scores[passing]
        near = np.argpartition(held, len(held) - LIMIT)[len(held) - LIMIT :] if len(held) > LIMIT else np.arange(len(held))
        return passing[near[np.argsort(-held[near], kind="stable")]]
