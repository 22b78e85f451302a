"""Other keyword engines in the place of ours, judged by quality and by what they cost.

    python -m bench.keyword_engines quality ENGINE --data DIR --stores DIR --rows FILE [--corpora NAME ...] [--questions 40]
    python -m bench.keyword_engines cost ENGINE --data DIR --store DIR

ENGINE: bm25s (ours), tantivy (the best by the engine, then the messages of their segments), tantivy-all (everything that
matches), fts5. All get the terms of our tokenizer, and our boosts are added to their scores. `quality` writes rows of
`bench.quality`, whose `compare` gives the differences of two engines. `cost` measures one store in a process of its own,
for example one of 24,000 events that `python -m bench.speed --scale 24000 --keep DIR` made.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from bench.engines import memory
from bench.keyword_engines.engines import numbered, open_engine
from bench.keyword_engines.searcher import EngineIndex, install, iter_units
from bench.place import quantile
from bench.quality import rows as rows_file
from bench.quality import systems
from bench.quality.asking import Server
from bench.quality.corpora import CORPORA, Kind, Question, corpora_in
from bench.quality.stores import TIERS, Stores
from bench.quality.systems import Group, ask_store
from memory_mcp import config
from memory_mcp.app import App
from memory_mcp.base import machine
from memory_mcp.base.text import iter_terms
from memory_mcp.indexes.base import DocType, Filters, IndexQuery
from memory_mcp.indexes.bm25.kind import Bm25Kind
from memory_mcp.indexes.bm25.postings import Postings
from memory_mcp.indexes.document import Unit

ENGINES = ("bm25s", "tantivy", "tantivy-all", "fts5")
#: The tier at which keywords and vectors answer.
_TIER = 2
#: The keyword layer alone, and the whole answer with bounds that a busy machine does not reach.
_GROUPS = frozenset({Group.LAYERS, Group.INTELLIGENT})
#: Candidates that a layer asks for, and documents that `teleport_search` asks for.
_CANDIDATES, _DOCUMENTS = 120, 10
#: Units that are replaced one by one, documents a batch when building, and questions asked before any that counts.
_FOLLOWED, _BATCH, _WARM = 100, 2000, 10


def spread_questions(questions: Sequence[Question], most: int, most_stores: int) -> dict[str, list[Question]]:
    """Return at most so many answerable questions of each corpus and half by store, shared by its first stores."""
    by_group: dict[tuple[str, str], dict[str, list[Question]]] = {}
    for question in questions:
        if question.kind is Kind.ANSWERABLE:
            by_group.setdefault((question.corpus, question.half), {}).setdefault(question.store, []).append(question)
    chosen: dict[str, list[Question]] = {}
    for group in by_group.values():
        by_store = dict(islice(group.items(), most_stores))
        turn, left = 0, most
        while left and any(len(asked) > turn for asked in by_store.values()):
            for store, asked in by_store.items():
                if left and len(asked) > turn:
                    chosen.setdefault(store, []).append(replace(asked[turn], keywords=()))
                    left -= 1
            turn += 1
    return chosen


def measure_quality(arguments: argparse.Namespace) -> None:
    """Ask the keyword layer alone, and the whole answer, of every corpus."""
    corpora = corpora_in(arguments.data, arguments.corpora)
    stores = Stores(arguments.stores, corpora.stores, payloads=corpora.payloads)
    systems.LAYERS = tuple(layer for layer in systems.LAYERS if layer.name.startswith("bm25"))  # type: ignore[assignment]
    rows_file.write(arguments.rows, [])
    for name, questions in spread_questions(corpora.questions, arguments.questions, arguments.most_stores).items():
        began = time.monotonic()
        rows_file.write(arguments.rows, ask_store(stores, name, questions, [_TIER], _GROUPS), more=True)
        print(f"  {name}: {len(questions)} questions in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


class Costs:
    """Lines of figures: name, median and 95th percentile, or one number."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, values: Sequence[float], unit: str) -> None:
        """Add a line, and print it."""
        spread = f"{values[0]:.2f}" if len(values) == 1 else f"{statistics.median(values):.2f} / {quantile([*values], 0.95):.2f}"
        self.lines.append(f"| {name} | {spread} {unit} |")
        print(self.lines[-1], flush=True)

    def time(self, name: str, calls: Sequence[Callable[[], Any]]) -> None:
        """Add the processor time of some calls, all threads together, and their time by the clock, in ms."""
        worked, waited = [], []
        for call in calls:
            cpu, began = time.process_time(), time.perf_counter()
            call()
            worked.append(1000 * (time.process_time() - cpu))
            waited.append(1000 * (time.perf_counter() - began))
        self.add(f"{name}, CPU", worked, "ms")
        self.add(f"{name}, time", waited, "ms")


def measure_cost(arguments: argparse.Namespace) -> None:
    """Measure building, following, asking, memory and disk on a copy of one store."""
    costs, name = Costs(), arguments.engine
    questions = [q for q in corpora_in(arguments.data, ["messages", "answers", "commits"]).questions if q.kind is Kind.ANSWERABLE]
    questions = questions[: arguments.questions]
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(arguments.store, Path(scratch) / "store")
        settings = {"storage.data_dir": f"{scratch}/store", "server.profile": "full", **TIERS[_TIER]}
        app = App(config.load({}, settings, Path(scratch) / "none.toml"))
        try:
            app.accelerators.catch_up()
            units = list(iter_units(app.storage))
            _measure_building(costs, name, units, Path(scratch))
            [(project, _)] = Counter(d.project for unit in units for d in unit.grips if d.project).most_common(1)
            _measure_asking(costs, app, questions, project)
            _measure_following(costs, app, name, [u for u in units if u.grips][-1])
        finally:
            app.close()


def _measure_building(costs: Costs, name: str, units: Sequence[Unit], scratch: Path) -> None:
    documents = [document for unit in units for document in (*unit.nodes, *unit.grips)]
    costs.add("documents", [len(documents)], "")
    costs.time("splitting into terms", [lambda: [sum(1 for _ in iter_terms(t)) for d in documents for t in d.words]])
    folder = scratch / "built"

    def build() -> None:
        if name == "bm25s":
            kind = Bm25Kind()
            prepared = [kind.prepare_unit(unit) for unit in units]
            for table, counts in (
                (DocType.NODE, [c for p in prepared for c in p.nodes]), (DocType.GRIP, [c for p in prepared for c in p.grips])
            ):  # fmt: skip
                Postings.from_counts(counts, table).write(folder)
            return
        engine, first = open_engine(name, folder), 0
        for unit in units:
            rows = numbered(unit, first)
            engine.add(rows)
            first += len(rows)
        engine.commit()

    folder.mkdir()
    costs.time("building, terms included", [build])
    costs.add("disk", [machine.size_of(folder) / 1e6], "MB")


def _measure_asking(costs: Costs, app: App, questions: Sequence[Question], project: str) -> None:
    searcher: Any = app.accelerators.find_searcher("bm25")
    if isinstance(searcher, EngineIndex):
        searcher.engine.frequencies(["none"])
    none, before = np.zeros(0, dtype=np.uint64), memory()
    for kind, filters in (("", Filters()), (", one project", Filters(project=project))):
        asked = [IndexQuery(q.text, filters, _CANDIDATES) for q in questions]
        for query in asked[:_WARM]:
            searcher.find_candidates(query, none)
        costs.time(f"candidates{kind}", [lambda q=q: searcher.find_candidates(q, none) for q in asked])  # type: ignore[misc]
    shown = [IndexQuery(q.text, Filters(), _DOCUMENTS) for q in questions]
    costs.time("documents", [lambda q=q: searcher.search(q) for q in shown])  # type: ignore[misc]
    worded = [replace(q, keywords=("timeout", "retry policy", "config")) for q in shown]
    costs.time("documents, keywords", [lambda q=q: searcher.search(q) for q in worded])  # type: ignore[misc]
    own, files = memory()
    costs.add("memory, own", [own / 1e6], "MB")
    costs.add("memory, of files", [files / 1e6], "MB")
    costs.add("growth by asking", [(own + files - sum(before)) / 1e6], "MB")
    anyio.run(_measure_answers, costs, app, questions)


async def _measure_answers(costs: Costs, app: App, questions: Sequence[Question]) -> None:
    server, worked, waited = Server(app), [], []
    for at, question in enumerate((*questions[:_WARM], *questions)):
        cpu, began = time.process_time(), time.perf_counter()
        await server.call("intelligent_search", {"query": question.text, "limit": 5, "scope": "all"})
        if at >= _WARM:
            worked.append(1000 * (time.process_time() - cpu))
            waited.append(1000 * (time.perf_counter() - began))
    costs.add("whole answer, CPU", worked, "ms")
    costs.add("whole answer, time", waited, "ms")


def _measure_following(costs: Costs, app: App, name: str, unit: Unit) -> None:
    """A segment that gets event after event is replaced each time with all its documents, and must then be found."""
    searcher: Any = app.accelerators.find_searcher("bm25")
    index = searcher.keeper.index
    costs.add("documents of the segment", [len(unit.nodes) + len(unit.grips)], "")
    if name == "bm25s":
        costs.time("one event, found", [lambda: index.apply_units([unit], [], index.position, index.position)] * _FOLLOWED)
        costs.time("the same, kept on disk", [index.commit])
        return
    engine, free = searcher.engine, len(searcher._units)
    numbers = [searcher._numbers[d.doc_type, *d.key] for d in (*unit.nodes, *unit.grips)]

    def replace_unit() -> None:
        nonlocal free, numbers
        engine.drop([unit.key], numbers)
        rows = numbered(unit, free)
        numbers, free = [row.number for row in rows], free + len(rows)
        engine.add(rows)
        engine.commit()

    costs.time("one event, found and kept on disk", [replace_unit] * _FOLLOWED)


def main(given: Sequence[str]) -> int:
    """Measure one engine, or say why not."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.keyword_engines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("quality", "cost"))
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo/, commits/, beam/ and lifebench/")
    parser.add_argument("--stores", type=Path, help="folder of the stores of bench.quality")
    parser.add_argument("--store", type=Path, help="data directory of the store whose costs are measured")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="NAME")
    parser.add_argument("--questions", type=int, default=40, help="most questions of each corpus and half, or of each kind")
    parser.add_argument("--most-stores", type=int, default=5, help="most stores of each corpus and half")
    arguments = parser.parse_args(given)
    if not arguments.data.is_dir():
        print("skipped: --data DIR with the corpora is not there")
        return 0
    try:
        install(arguments.engine)
    except ImportError as error:
        print(f"skipped: {error.name} is not installed")
        return 0
    (measure_quality if arguments.what == "quality" else measure_cost)(arguments)
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
