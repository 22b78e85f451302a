"""The indexes beside other engines: the same documents, the same questions, in turns, each engine in a process of its own.

Words: ours; tantivy with the terms of our tokenizer, for the ten best alone and with a count of all that match (ours
counts), and with its own English tokenizer; SQLite FTS5 with our terms. Vectors: ours beside exact float32. A document is
a grip of some 250 characters of real language (`bench.sentences`); every 25 have a segment node of some 6 KB over them.
"ours" does more than the others: a grip's score has shares of its neighbours' and of its segment's.

    python -m bench.accelerators --data DIR [--documents 10000,100000,1000000] [--store-events 20000]
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import corpus, material
from bench.engines import Bm25, Built, Fts5, Here, Tantivy, Worker, formula
from bench.place import quantile
from bench.sentences import Documents, Language, Question, usable
from bench.vectors import Exact, Vectors

#: Questions of each round, and of the rounds; engines take turns after each round.
_ROUND = 50
#: Questions whose answers are compared with the formula's.
_COMPARED = 40
#: Documents up to which they are: the formula reads every text.
_COMPARABLE = 200_000
#: What is asked: of grips alone or of everything, with and without a project.
KINDS = ("grips", "grips, project", "all", "all, project")
#: Documents from which a part may have a graph.
_GRAPH = 100_000


@dataclass
class Row:
    """One engine's figures; milliseconds by kind of question."""

    engine: str
    built: Built | None = None
    load_seconds: float = 0.0
    own_bytes: int = 0
    file_bytes: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    #: The same by what the processor had to do.
    worked: dict[str, list[float]] = field(default_factory=dict)
    found: dict[str, list[list[int]]] = field(default_factory=dict)


@dataclass
class Agreement:
    """Ours without lifts against the formula."""

    questions: int = 0
    #: Largest difference of a score from the formula's, with term parts in the steps that are stored.
    difference: float = 0.0
    #: Share of the best ten that are the same: of that formula, and of the one with unrounded term parts.
    same_stored: float = 0.0
    same_exact: float = 0.0


@dataclass
class Figures:
    """One size."""

    documents: int
    words: list[Row] = field(default_factory=list)
    vectors: list[Row] = field(default_factory=list)
    agreement: Agreement = field(default_factory=Agreement)
    #: Each engine in a process of its own.
    apart: bool = True
    #: Of the ten best by exact float32.
    recall: dict[str, float] = field(default_factory=dict)


def words(folder: Path, scratch: Path, questions: list[Question], figures: Figures, others: bool = True) -> None:
    """All engines of words, in turns; without `others` ours and tantivy alone."""
    makes: dict[str, tuple[type, tuple[object, ...]]] = {
        "ours": (Bm25, ()),
        "tantivy, our terms": (Tantivy, (False,)),
        "tantivy, our terms, counting": (Tantivy, (False, True)),
    }
    if others:
        makes |= {"tantivy, en_stem": (Tantivy, (True,)), "SQLite FTS5, our terms": (Fts5, ())}
    homes = {name: scratch / f"w{n}" for n, name in enumerate(makes)}
    homes["tantivy, our terms, counting"] = homes["tantivy, our terms"]
    chosen = questions[:_COMPARED] if figures.documents <= _COMPARABLE else []
    own: list[list[tuple[float, int]]] = []
    figures.words = _run(
        {n: (m, a, homes[n]) for n, (m, a) in makes.items()},
        folder,
        questions,
        Worker if figures.apart else Here,
        lambda workers: own.extend(workers["ours"].call("plain", chosen)),
    )
    if chosen:
        figures.agreement = _agreement(own, formula(folder, chosen, True), formula(folder, chosen, False))


def vectors(folder: Path, scratch: Path, questions: list[Question], figures: Figures) -> None:
    """Ours beside exact float32, and where there are enough of them by graph."""
    makes: dict[str, tuple[type, tuple[object, ...]]] = {"ours, exact int8": (Vectors, ()), "numpy float32": (Exact, ())}
    if figures.documents >= _GRAPH:
        makes["ours, graph"] = (Vectors, (True,))
    material.write_vectors(folder, figures.documents)
    places = {n: (m, a, scratch / f"v{i}") for i, (n, (m, a)) in enumerate(makes.items())}
    rows = _run(places, folder, questions, Worker if figures.apart else Here)
    figures.vectors = rows
    [exact] = [r for r in rows if r.engine == "numpy float32"]
    for row in rows:
        for kind in KINDS[:2]:
            shares = [len(set(a) & set(b)) / len(b) for a, b in zip(row.found[kind], exact.found[kind], strict=True) if b]
            figures.recall[f"{row.engine}, {kind}"] = statistics.mean(shares)


def _run(
    makes: dict[str, tuple[type, tuple[object, ...], Path]],
    folder: Path,
    questions: list[Question],
    work: type[Worker] | type[Here],
    afterwards: Callable[[Mapping[str, Worker | Here]], None] = lambda _: None,
) -> list[Row]:
    """Built one after another, then opened and asked in turns."""
    rows = {name: Row(name) for name in makes}
    for name, (make, arguments, home) in makes.items():
        if not home.exists():
            builder = work(make, *arguments)
            rows[name].built = builder.call("build", folder, home)
            builder.end()
    workers = {name: work(make, *arguments) for name, (make, arguments, _) in makes.items()}
    for name, worker in workers.items():
        before = worker.call("memory")
        began = time.perf_counter()
        worker.call("open", folder, makes[name][2])
        rows[name].load_seconds = time.perf_counter() - began
        rows[name].own_bytes, rows[name].file_bytes = -before[0], -before[1]
    _ask(workers, rows, questions)
    for name, worker in workers.items():
        own, files = worker.call("memory")
        rows[name].own_bytes += own
        rows[name].file_bytes += files
    afterwards(workers)
    for worker in workers.values():
        worker.end()
    return list(rows.values())


def _ask(workers: Mapping[str, Worker | Here], rows: dict[str, Row], questions: list[Question]) -> None:
    by_kind = {k: [q for q in questions if bool(q.project) == k.endswith("project")] for k in KINDS}
    # What is loaded at first use is no part of a question.
    for worker in workers.values():
        for kind in KINDS:
            worker.call("ask", by_kind[kind][:10], kind.startswith("grips"), False)
    for kind, asked in by_kind.items():
        for start in range(0, len(asked), _ROUND):
            for name, worker in workers.items():
                answer = worker.call("ask", asked[start : start + _ROUND], kind.startswith("grips"), True)
                rows[name].times.setdefault(kind, []).extend(1000 * s for s in answer.seconds)
                rows[name].worked.setdefault(kind, []).extend(1000 * s for s in answer.worked)
                rows[name].found.setdefault(kind, []).extend(answer.found)


def _agreement(
    own: list[list[tuple[float, int]]], stored: list[list[tuple[float, int]]], exact: list[list[tuple[float, int]]]
) -> Agreement:
    found = Agreement(len(own))
    pairs = [(a, b) for mine, theirs in zip(own, stored, strict=True) for (a, _), (b, _) in zip(mine, theirs, strict=True)]
    found.difference = max((abs(a - b) for a, b in pairs), default=0.0)
    found.same_stored = _same(own, stored)
    found.same_exact = _same(own, exact)
    return found


def _same(own: list[list[tuple[float, int]]], other: list[list[tuple[float, int]]]) -> float:
    shares = [len({n for _, n in a} & {n for _, n in b}) / len(b) for a, b in zip(own, other, strict=True) if b]
    return statistics.mean(shares) if shares else 1.0


def rebuild(language: Language, events: int, scratch: Path) -> str:
    """`rebuild` on a store that was imported: everything a rebuild does, reading the store included."""
    from memory_mcp.app import App
    from memory_mcp.config import load
    from memory_mcp.tree.derive.derivation import ExecutionMode

    source = scratch / "events.jsonl"
    _history(language, events, source)
    app = App(
        load({}, {"storage.data_dir": str(scratch / "store"), "storage.timezone": "UTC", "teleport.vector.enabled": "false"})
    )
    try:
        app.run_import("jsonl", source)
        app.derivation.run(mode=ExecutionMode.SHARED)
        began = time.perf_counter()
        made = app.accelerators.rebuild("bm25")
        seconds = time.perf_counter() - began
        status = app.accelerators.index_statuses()["bm25"]
        text = app.storage.get_stats().text_bytes
    finally:
        app.close()
    return (
        f"rebuild of a store of {events:,} events: {made.documents:,} documents in {seconds:.1f} s, "
        f"{made.documents / seconds:,.0f} documents/s; index {status.size_bytes / 1e6:.1f} MB, text {text / 1e6:.1f} MB"
    )


def _history(language: Language, events: int, target: Path) -> None:
    """Sessions of 40 events, each of two documents."""
    made = Documents(language, run=80).take(2 * events)
    with target.open("w", encoding="utf-8") as out:
        for number in range(events):
            (first, project), (second, _) = next(made), next(made)
            at = corpus.START.timestamp() + (number // 40) * 7200 + (number % 40) * 60
            event = {
                "session_id": f"s{number // 40}",
                "id": f"e{number}",
                "timestamp": at,
                "role": ("user", "assistant")[number % 2],
            }
            out.write(json.dumps(event | {"text": f"{first} {second}", "project": project, "agent": "bench"}) + "\n")


def measure(
    language: Language, documents: int, asked: int, parts: tuple[str, ...] = ("words", "vectors"), apart: bool = True
) -> Figures:
    """One size, in a directory of its own; each engine in a process of its own, unless it must be quick."""
    figures = Figures(documents, apart=apart)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "units"
        folder.mkdir()
        questions = material.write(language, documents, asked, folder)
        if "words" in parts or "tantivy" in parts:
            words(folder, Path(scratch), questions, figures, "words" in parts)
        if "vectors" in parts:
            vectors(folder, Path(scratch), questions, figures)
    return figures


def lines(found: Figures) -> list[str]:
    """Tables for people, in markdown."""
    told = [f"### {found.documents:,} grips, {-(-found.documents // material.RUN):,} segments", ""]
    for rows in (found.words, found.vectors):
        if rows:
            told += [*_table(rows), ""]
    if found.agreement.questions:
        same = found.agreement
        agreed = f"largest difference of a score {same.difference:.1e}, overlap@10 {same.same_stored:.3f}"
        told.append(f"Ours without lifts against the formula, {same.questions} questions: {agreed}.")
        told += [f"Against unrounded term parts: {same.same_exact:.3f}.", ""]
    told += [f"recall@10, {name}: {share:.4f}" for name, share in found.recall.items()]
    return told


def _table(rows: list[Row]) -> list[str]:
    head = ["ms p50 / p99, and of the processor", *KINDS]
    told = _markdown(head, [[row.engine, *(_times(row, kind) for kind in KINDS)] for row in rows])
    head = ["", "docs/s", "of the processor", "disk MB", "load s", "own MB", "mapped MB", ""]
    return [*told, "", *_markdown(head, [[row.engine, *_made(row)] for row in rows])]


def _times(row: Row, kind: str) -> str:
    times, worked = row.times[kind], row.worked[kind]
    quick = f"{statistics.median(times):.3f} / {quantile(times, 0.99):.2f}"
    return f"{quick} ({statistics.median(worked):.3f} / {quantile(worked, 0.99):.2f})"


def _made(row: Row) -> list[str]:
    made = row.built
    rates = [f"{made.documents / made.seconds:,.0f}", f"{made.documents / made.worked:,.0f}"] if made else ["", ""]
    told = [f"{made.bytes / 1e6:.1f}" if made else "", f"{row.load_seconds:.2f}"]
    return [*rates, *told, f"{row.own_bytes / 1e6:.1f}", f"{row.file_bytes / 1e6:.1f}", made.note if made else ""]


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def main() -> int:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/, commits/ and qmsum/, each with units.jsonl")
    parser.add_argument("--documents", default="10000,100000", help="sizes")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--parts", default="words,vectors", help="words, vectors; tantivy: words without the slower engines")
    parser.add_argument("--store-events", type=int, default=20_000, help="events of the store that is rebuilt; 0: none")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not usable(arguments.data):
        print("skipped: --data DIR with locomo/, commits/ and qmsum/ is not there")
        return 0
    language = Language.of(arguments.data)
    print(f"load average at the start {os.getloadavg()[0]:.1f}; other work on the machine shows: compare ratios\n")
    for size in map(int, arguments.documents.split(",")):
        found = measure(language, size, arguments.questions, tuple(arguments.parts.split(",")))
        print(json.dumps(asdict(found)) if arguments.json else "\n".join(lines(found)), flush=True)
    if arguments.store_events:
        with tempfile.TemporaryDirectory() as scratch:
            print("\n" + rebuild(language, arguments.store_events, Path(scratch)))
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
