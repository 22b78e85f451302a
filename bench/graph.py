"""The graph of a vector part beside the exact scan of its rows, on real texts: where they cross, and what a graph loses.

python -m bench.graph HISTORY [--sizes 20000,45000,100000,200000] [--most 400000]

HISTORY is a folder of `bench.histories`: its messages, cut as grips are, are embedded by the bundled model, and its
questions are asked. Rows are distinct, and written and read as the index does. Milliseconds are the processor's.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, resolve_model
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import FolderContents, seal_folder
from memory_mcp.indexes.vector import stored
from memory_mcp.indexes.vector.rows import CodedQuery, VectorRows
from memory_mcp.model.event import EventType
from memory_mcp.tree.derive.grips import MAX_EXCERPT, spans_of

_BATCH = 5000
_SHARES = (0.01, 0.1, 0.5)


@dataclass
class Row:
    """One size."""

    rows: int
    build_us: float
    plain_us: float
    #: Bytes a row of the index file, with a graph and without.
    bytes_graph: float
    bytes_plain: float
    exact: list[float] = field(default_factory=list)
    graph: list[float] = field(default_factory=list)
    ten: list[float] = field(default_factory=list)
    hundred: list[float] = field(default_factory=list)
    scanned: int = 0
    filtered: dict[float, float] = field(default_factory=dict)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=Path)
    parser.add_argument("--sizes", default="20000,45000,100000,200000")
    parser.add_argument("--most", type=int, default=400_000, help="texts that are read")
    arguments = parser.parse_args()
    if not (arguments.history / "questions.json").is_file():
        print(f"skipped: {arguments.history} was not made by bench.histories")
        return
    embedder = Model2Vec(resolve_model(BUNDLED, None).folder)
    held = _embedded(embedder, islice(_texts(arguments.history), arguments.most))
    questions = json.loads((arguments.history / "questions.json").read_text(encoding="utf-8"))
    queries = [CodedQuery.from_vector(v) for v in embedder.embed(questions) if np.any(v)]
    print("| rows | build us/row, graph / none | bytes/row, graph / none | exact p50 / p95 | graph p50 / p95 / mean "
          "| recall@10 / @100 | scanned | filtered to 1 / 10 / 50 % |")  # fmt: skip
    for size in sorted({min(int(s), len(held)) for s in arguments.sizes.split(",")}):
        print(_line(measure(held.select_rows(np.arange(size)), queries)), flush=True)


def _texts(history: Path) -> Iterator[str]:
    """Yield distinct texts as grips quote them, session by session."""
    importer, seen = ClaudeCodeImporter(IngestSettings()), set()
    for file in sorted((history / "projects").rglob("*.jsonl")):
        for step in importer.read_file(file, 0, ImportReport()):
            for draft in step.drafts:
                message = draft.type not in (EventType.TOOL_CALL, EventType.TOOL_RESULT)
                for start, end in spans_of(draft.text) if message else [(0, MAX_EXCERPT)]:
                    text = draft.text[start:end]
                    if text not in seen:
                        seen.add(text)
                        yield text


def _embedded(embedder: Model2Vec, texts: Iterator[str]) -> VectorRows:
    pieces = [VectorRows.empty(embedder.dimensions)]
    while batch := list(islice(texts, _BATCH)):
        vectors = embedder.embed(batch)
        pieces.append(
            VectorRows.from_vectors(vectors[np.any(vectors, axis=1)], np.zeros(np.any(vectors, axis=1).sum(), dtype=np.uint64))
        )
    return VectorRows.concatenate(pieces)


def measure(held: VectorRows, queries: list[CodedQuery]) -> Row:
    """Write and read rows with a graph, and ask it and them."""
    with tempfile.TemporaryDirectory() as folder:
        plain, plain_us, plain_bytes = _written(held, Path(folder) / "plain", None)
        del plain
        found, us, size = _written(held, Path(folder) / "graph", 1)
        row = Row(len(found.codes), us, plain_us, size, plain_bytes)
        for query in queries:
            _ask(found, query, row)
        rng = np.random.default_rng(0)
        for share in _SHARES:
            some = np.flatnonzero(rng.random(len(found)) < share)
            row.filtered[share] = statistics.median(_timed(found, query, some) for query in queries)
    return row


def _written(held: VectorRows, folder: Path, graph_from: int | None) -> tuple[VectorRows, float, float]:
    folder.mkdir()
    began = time.process_time()
    stored.write_rows(held, folder, DocType.GRIP, graph_from)
    took = time.process_time() - began
    found = stored.read_rows(FolderContents(folder, seal_folder(folder), folder), DocType.GRIP, held.codes.shape[1])
    size = sum((folder / name).stat().st_size for name in stored.files_of(DocType.GRIP)[:2] if (folder / name).exists())
    return found, took / len(found.codes) * 1e6, size / len(found.codes)


def _timed(held: VectorRows, query: CodedQuery, some: NDArray[np.int64]) -> float:
    began = time.thread_time()
    held.compute_similarities(query, some)
    return (time.thread_time() - began) * 1000


def _ask(held: VectorRows, query: CodedQuery, row: Row) -> None:
    assert held.graph is not None
    began = time.thread_time()
    exact = held.compute_similarities(query)
    row.exact.append((time.thread_time() - began) * 1000)
    began = time.thread_time()
    near = held.graph.find_near(query.codes)
    if near is None:
        held.compute_similarities(query)
    else:
        held.compute_similarities(query, near)
    row.graph.append((time.thread_time() - began) * 1000)
    row.scanned += near is None
    for count, shares in ((10, row.ten), (100, row.hundred)):
        least = np.partition(exact, len(exact) - count)[len(exact) - count]
        shares.append(1.0 if near is None else min(np.count_nonzero(exact[near] >= least) / count, 1.0))


def _line(row: Row) -> str:
    def at(times: list[float], share: float) -> str:
        return f"{np.quantile(times, share):.2f}"

    filtered = " / ".join(f"{row.filtered[s]:.2f}" for s in _SHARES)
    return (
        f"| {row.rows:,} | {row.build_us:.0f} / {row.plain_us:.1f} | {row.bytes_graph:.0f} / {row.bytes_plain:.0f} "
        f"| {at(row.exact, 0.5)} / {at(row.exact, 0.95)} "
        f"| {at(row.graph, 0.5)} / {at(row.graph, 0.95)} / {statistics.mean(row.graph):.2f} "
        f"| {statistics.mean(row.ten):.3f} / {statistics.mean(row.hundred):.3f} | {row.scanned / len(row.ten):.0%} | {filtered} |"
    )


if __name__ == "__main__":
    main()
