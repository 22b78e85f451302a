"""Search engines behind one face, each in a process of its own: built from one file of units, opened, asked."""

import math
import multiprocessing
import re
import resource
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench import material
from bench.place import PROC
from bench.sentences import Question
from memory_mcp.base import machine
from memory_mcp.base.text import query_terms

#: Results asked for.
LIMIT = 10
#: Documents that tantivy and SQLite are given between two looks at the clock.
_SLICE = 200
_HEAP = 50_000_000
#: What a query parser may be given without meaning something by it.
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Built:
    """What building took, and what lies on disk now."""

    documents: int
    seconds: float
    #: Of the processor, of all processes that took part.
    worked: float
    bytes: int
    #: Beyond the rate: parts, stages.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Seconds of each question, and the numbers of the grips that were found, where they were wanted."""

    seconds: list[float]
    #: Of the processor: what a busy machine hardly changes.
    worked: list[float]
    found: list[list[int]]


class Engine(Protocol):
    """One way to search."""

    def build(self, folder: Path, home: Path) -> Built:
        """From the units in `folder`, into `home`."""
        ...

    def open(self, folder: Path, home: Path) -> None:
        """Ready to be asked."""
        ...

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        """One after another: only grips, or everything; `told`: what was found as well."""
        ...


def memory() -> tuple[int, int]:
    """Proportional memory of this process in bytes: its own, and that of files."""
    own = files = 0
    for line in (PROC / "self" / "smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss_Anon":
            own = int(rest.split()[0]) * 1024
        elif name in ("Pss_File", "Pss_Shmem"):
            files += int(rest.split()[0]) * 1024
    return own, files


class Worker:
    """An engine in a process of its own."""

    def __init__(self, make: type[Any], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
        self._process.start()

    def call(self, name: str, *arguments: object) -> Any:
        """What the engine's method returns; "memory" is this process's."""
        self._here.send((name, arguments))
        ok, answer = self._here.recv()
        if not ok:
            raise RuntimeError(f"{name}: {answer}")
        return answer

    def end(self) -> None:
        """Let it go."""
        self._here.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()


class Here:
    """The same in this process: quicker to have, but what it says of memory is everybody's."""

    def __init__(self, make: type[Any], *arguments: object) -> None:
        self._engine = make(*arguments)

    def call(self, name: str, *arguments: object) -> Any:
        """See Worker."""
        return memory() if name == "memory" else getattr(self._engine, name)(*arguments)

    def end(self) -> None:
        """See Worker."""


def _serve(pipe: Any, make: type[Any], arguments: tuple[object, ...]) -> None:
    engine = make(*arguments)
    while True:
        try:
            name, given = pipe.recv()
        except EOFError:
            return
        try:
            answer = memory() if name == "memory" else getattr(engine, name)(*given)
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))
        else:
            pipe.send((True, answer))


def timed(calls: Iterable[Callable[[], Any]]) -> tuple[Asked, list[Any]]:
    """The seconds of some calls, and what they returned."""
    asked, answers = Asked([], [], []), []
    for call in calls:
        worked, began = time.thread_time(), time.perf_counter()
        answer = call()
        asked.seconds.append(time.perf_counter() - began)
        asked.worked.append(time.thread_time() - worked)
        answers.append(answer)
    return asked, answers


class Watch:
    """Adds up what its bodies take."""

    def __init__(self) -> None:
        self.seconds = self.worked = 0.0
        self._began = self._worked = 0.0

    def __enter__(self) -> "Watch":
        self._worked, self._began = processor(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began
        self.worked += processor() - self._worked


def processor() -> float:
    """Seconds of the processor that this process and its children have had."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class Bm25:
    """Ours: built by the child process that builds in daily life, loaded and verified as at start-up."""

    def __init__(self) -> None:
        # What has to be there in any case is no growth.
        import memory_mcp.indexes.bm25.search
        import memory_mcp.indexes.live  # noqa: F401

        self._snapshot: Any = None

    def build(self, folder: Path, home: Path) -> Built:
        from memory_mcp.indexes.base import Position
        from memory_mcp.indexes.build import ShardBuilder

        index = live(home)
        watch, done = Watch(), [0]

        def count(added: int) -> None:
            done[0] += added

        with watch, ShardBuilder(index, {}, 50).build_shards(_frames(folder), False, count) as made:
            index.adopt_shards(made, Position())
        return Built(done[0], watch.seconds, watch.worked, index.status().size_bytes, f"{len(index.snapshot.shards)} parts")

    def open(self, folder: Path, home: Path) -> None:
        del folder
        index = live(home)
        index.load(0)
        self._snapshot = index.snapshot

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        from memory_mcp.indexes.base import DocType, Filters
        from memory_mcp.indexes.bm25.search import search_documents

        doc_type = DocType.GRIP if grips else None
        asked = [(query_terms(q.text), Filters(doc_type, project=q.project or None)) for q in questions]
        times, answers = timed(partial(search_documents, self._snapshot, t, f, LIMIT) for t, f in asked)
        return replace(
            times, found=[[material.number_of(m.grip_id) for m in a.best if m.grip_id] for a in answers] if told else []
        )

    def plain(self, questions: Sequence[Question]) -> list[list[tuple[float, int]]]:
        """Raw scores and numbers of the best grips without any lift."""
        from unittest.mock import patch

        from memory_mcp.indexes.base import DocType, Filters
        from memory_mcp.indexes.bm25 import message_scores, search

        found = []
        with patch.object(message_scores, "NEIGHBOURS", (0.0, 0.0)), patch.object(search, "SEGMENT", 0.0):
            for question in questions:
                filters = Filters(DocType.GRIP, project=question.project or None)
                best = search.search_documents(self._snapshot, query_terms(question.text), filters, LIMIT).best
                found.append(
                    sorted(((m.raw, material.number_of(m.grip_id)) for m in best if m.grip_id), key=lambda m: (-m[0], m[1]))
                )
        return found


def numbers(answers: Sequence[Any]) -> list[list[int]]:
    """Of the grips that each answer of ours names."""
    return [[material.number_of(m.grip_id) for m in a.best if m.grip_id] for a in answers]


def live(home: Path) -> Any:
    from memory_mcp.base.clock import SystemClock
    from memory_mcp.indexes.bm25.kind import Bm25Kind as Kind
    from memory_mcp.indexes.live import LiveIndex

    return LiveIndex(Kind(), home, "bench", SystemClock())


def _frames(folder: Path) -> Iterator[list[Any]]:
    from memory_mcp.indexes.units import FRAME_SIZE

    frame: list[Any] = []
    for stretch in material.read(folder):
        frame.append(material.source(stretch))
        if len(frame) == FRAME_SIZE:
            yield frame
            frame = []
    if frame:
        yield frame


class Tantivy:
    """tantivy, one thread, one commit: our terms as they are, or texts with its own English tokenizer."""

    def __init__(self, own_words: bool, total: bool = False) -> None:
        import tantivy

        self._tantivy = tantivy
        self._own_words = own_words
        #: Whether it counts all that match, as ours does; it may skip much of them otherwise.
        self._total = total
        self._indexes: dict[bool, Any] = {}

    def build(self, folder: Path, home: Path) -> Built:
        watch, documents = Watch(), 0
        for grips in (True, False):
            index = self._index(home, grips)
            with watch:
                writer = index.writer(_HEAP, 1)
            for rows in _slices(folder, grips):
                texts = [r.text if self._own_words else r.terms for r in rows]
                with watch:
                    for row, text in zip(rows, texts, strict=True):
                        number = row.number if row.grip else -1
                        writer.add_document(self._tantivy.Document(body=text, project=row.project, number=number))
                documents += len(rows)
            with watch:
                writer.commit()
                writer.wait_merging_threads()
        return Built(documents, watch.seconds, watch.worked, machine.size_of(home / "all"), f"{self._segments(home)} segments")

    def _segments(self, home: Path) -> int:
        index = self._index(home, False)
        index.reload()
        return int(index.searcher().num_segments)

    def _index(self, home: Path, grips: bool) -> Any:
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("body", tokenizer_name="en_stem" if self._own_words else "whitespace", index_option="freq")
        builder.add_text_field("project", tokenizer_name="raw", index_option="basic")
        builder.add_integer_field("number", stored=True)
        place = home / ("grips" if grips else "all")
        place.mkdir(parents=True, exist_ok=True)
        return self._tantivy.Index(builder.build(), path=str(place))

    def open(self, folder: Path, home: Path) -> None:
        del folder
        for grips in (True, False):
            index = self._indexes[grips] = self._index(home, grips)
            index.reload()
            index.searcher()

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        index = self._indexes[grips]
        searcher = index.searcher()
        asked = [(_WORD.findall(q.text) if self._own_words else query_terms(q.text), q.project) for q in questions]

        def found(terms: Sequence[str], project: str) -> Any:
            return searcher.search(self._query(index, terms, project), LIMIT, count=self._total)

        times, answers = timed(partial(found, terms, project) for terms, project in asked)
        return replace(times, found=[[searcher.doc(d)["number"][0] for _, d in a.hits] for a in answers] if told else [])

    def _query(self, index: Any, terms: Sequence[str], project: str) -> Any:
        query, occur = self._tantivy.Query, self._tantivy.Occur
        if self._own_words:
            words = index.parse_query_lenient(" ".join(terms), ["body"])[0]
        else:
            words = query.boolean_query([(occur.Should, query.term_query(index.schema, "body", t, "freq")) for t in terms])
        if not project:
            return words
        only = query.const_score_query(query.term_query(index.schema, "project", project, "basic"), 0.0)
        return query.boolean_query([(occur.Must, words), (occur.Must, only)])


class Fts5:
    """SQLite FTS5 without its own copy of the texts; our terms; the project is a column that is searched."""

    def __init__(self) -> None:
        self._connections: dict[bool, sqlite3.Connection] = {}

    def build(self, folder: Path, home: Path) -> Built:
        watch, documents = Watch(), 0
        for grips in (True, False):
            connection = self._connection(home, grips)
            connection.execute(
                "CREATE VIRTUAL TABLE d USING fts5(body, project, content='', "
                "tokenize=\"unicode61 remove_diacritics 0 tokenchars '-_./:@+#\\'\")"
            )
            connection.execute("INSERT INTO d(d, rank) VALUES ('rank', 'bm25(1.0, 0.0)')")
            for rows in _slices(folder, grips):
                # Two columns must not share row numbers: grips are even, nodes odd.
                given = [(2 * r.number + (not r.grip) + 2, r.terms, _word(r.project)) for r in rows]
                with watch:
                    connection.executemany("INSERT INTO d(rowid, body, project) VALUES (?, ?, ?)", given)
                documents += len(rows)
            with watch:
                connection.commit()
            connection.close()
        return Built(documents, watch.seconds, watch.worked, machine.size_of(home / "all"))

    def _connection(self, home: Path, grips: bool) -> sqlite3.Connection:
        place = home / ("grips" if grips else "all")
        place.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(place / "fts.sqlite")

    def open(self, folder: Path, home: Path) -> None:
        del folder
        for grips in (True, False):
            self._connections[grips] = self._connection(home, grips)
            self._connections[grips].execute("SELECT rowid FROM d('thereisnone') LIMIT 1").fetchall()

    def ask(self, questions: Sequence[Question], grips: bool, told: bool) -> Asked:
        connection = self._connections[grips]
        asked = [_matching(query_terms(q.text), q.project) for q in questions]
        statement = f"SELECT rowid FROM d WHERE d MATCH ? ORDER BY rank LIMIT {LIMIT}"

        def found(matching: str) -> Any:
            return connection.execute(statement, (matching,)).fetchall()

        times, answers = timed(partial(found, matching) for matching in asked)
        return replace(times, found=[[(n - 2) // 2 for (n,) in a if n % 2 == 0] for a in answers] if told else [])


def _word(project: str) -> str:
    return project.replace("/", "").replace(".", "").replace("-", "")


def _matching(terms: Sequence[str], project: str) -> str:
    words = "{body} : (" + " OR ".join('"' + t.replace('"', '""') + '"' for t in terms) + ")"
    return f'{words} AND {{project}} : "{_word(project)}"' if project else words


def _slices(folder: Path, grips: bool) -> Iterator[list[material.Flat]]:
    rows: list[material.Flat] = []
    for stretch in material.read(folder):
        rows += [f for f in material.flat(stretch) if f.grip or not grips]
        if len(rows) >= _SLICE:
            yield rows
            rows = []
    if rows:
        yield rows


def formula(folder: Path, questions: Sequence[Question], stored: bool) -> list[list[tuple[float, int]]]:
    """Scores and numbers of the best grips by the book, from the texts: what any index of them must answer.

    `stored`: with term parts in the steps in which ours keeps them.
    """
    from memory_mcp.indexes.base import DocType
    from memory_mcp.indexes.bm25.postings import FORMS, STEP

    form = FORMS[DocType.GRIP]
    asked = [query_terms(q.text) for q in questions]
    postings: dict[str, list[tuple[int, str, float]]] = {t: [] for terms in asked for t in terms}
    nodes, documents = Counter[str](), 0
    for stretch in material.read(folder):
        for row in material.flat(stretch):
            documents += 1
            counts = Counter(row.terms.split(" "))
            held = postings.keys() & counts.keys()
            if not row.grip:
                nodes.update(held)
                continue
            length = counts.total()
            for term in held:
                tf = counts[term]
                part = tf / (tf + form.k1 * (1 - form.b + form.b * length / form.average))
                steps = min(max(round(part / STEP), 1), 255)
                postings[term].append((row.number, row.project, steps if stored else part / STEP))
    found = []
    for question, terms in zip(questions, asked, strict=True):
        scores: dict[int, float] = {}
        for term in terms:
            df = len(postings[term]) + nodes[term]
            idf = math.log(1 + (documents - df + 0.5) / (df + 0.5))
            for number, project, part in postings[term]:
                if not question.project or project == question.project:
                    scores[number] = scores.get(number, 0.0) + part * (idf * STEP)
        ranked = sorted(((s, n) for n, s in scores.items()), key=lambda m: (-m[0], m[1]))
        found.append(ranked[:LIMIT])
    return found
