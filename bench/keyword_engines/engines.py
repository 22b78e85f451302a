"""Engines that store and score terms: tantivy and SQLite FTS5, both given the terms of our tokenizer, joined by spaces."""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memory_mcp.base.text import iter_terms
from memory_mcp.indexes.base import DocType, Filters, Visibility
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.shard import TABLES

#: Both engines multiply a term's share of a score by this: k1 + 1, with k1 1.2 and b .75, which neither lets one set.
SCALE = 2.2
_HEAP = 50_000_000
#: More hits than any search has.
_ALL = 1_000_000
_NO_SCORES = (np.zeros(0, dtype=np.int64), np.zeros(0))
#: Numbers of documents, `(n,)` int64, and their scores, `(n,)` float64.
Scores = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class NumberedDocument:
    """A document with a number of its own, and the key of its unit."""

    number: int
    unit: int
    document: IndexDocument

    @property
    def terms(self) -> str:
        """All its terms, joined by spaces."""
        return " ".join(term for text in self.document.words for term in iter_terms(text))


class Engine(Protocol):
    """Documents by number, in a table of nodes and a table of grips."""

    #: Whether one search gives the scores of everything that matches; otherwise filters must be applied by the engine.
    scores_all: bool

    def add(self, documents: Sequence[NumberedDocument]) -> None:
        """Add documents, seen after `commit`."""
        ...

    def drop(self, units: Sequence[int], numbers: Sequence[int]) -> None:
        """Remove units, named by their keys and by the numbers of their documents."""
        ...

    def commit(self) -> None:
        """Write what was added and removed, and let searches see it."""
        ...

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        """Return how many documents hold each term, and the number of all."""
        ...

    def score(self, table: DocType, terms: Sequence[str], weights: Sequence[float], filters: Filters, limit: int) -> Scores:
        """Return the best documents; all that match if it `scores_all`."""
        ...

    def score_units(self, table: DocType, terms: Sequence[str], weights: Sequence[float], units: Sequence[int]) -> Scores:
        """Return all documents of some units that match."""
        ...


class Tantivy:
    """One index a table, since the length of a document counts against the mean of its index."""

    def __init__(self, folder: Path, scores_all: bool = False) -> None:
        import tantivy

        self._tantivy = tantivy
        self.scores_all = scores_all
        self._indexes = {table: self._open(folder / table.value) for table in TABLES}
        self._writers: dict[DocType, Any] = {}
        self._searchers = {table: index.searcher() for table, index in self._indexes.items()}

    def _open(self, folder: Path) -> Any:
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field("tags", tokenizer_name="raw", index_option="basic")
        builder.add_unsigned_field("unit", indexed=True, fast=True)
        builder.add_unsigned_field("number", fast=True)
        for name in ("start", "end"):
            builder.add_integer_field(name, indexed=True, fast=True)
        folder.mkdir(parents=True, exist_ok=True)
        return self._tantivy.Index(builder.build(), path=str(folder))

    def _writer(self, table: DocType) -> Any:
        if table not in self._writers:
            self._writers[table] = self._indexes[table].writer(_HEAP, 1)
        return self._writers[table]

    def add(self, documents: Sequence[NumberedDocument]) -> None:
        for numbered in documents:
            document, row = numbered.document, self._tantivy.Document(body=numbered.terms, tags=[*_tags(numbered.document)])
            for name, value in (("unit", numbered.unit), ("number", numbered.number)):
                row.add_unsigned(name, value)
            for name, value in (("start", document.start_ms), ("end", document.end_ms)):
                row.add_integer(name, value)
            self._writer(document.doc_type).add_document(row)

    def drop(self, units: Sequence[int], numbers: Sequence[int]) -> None:
        del numbers
        for table in TABLES:
            for unit in units:
                self._writer(table).delete_documents_by_term("unit", unit)

    def commit(self) -> None:
        for table, writer in self._writers.items():
            writer.commit()
            self._indexes[table].reload()
            self._searchers[table] = self._indexes[table].searcher()

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        counts = [sum(searcher.doc_freq("body", term) for searcher in self._searchers.values()) for term in terms]
        return counts, sum(searcher.num_docs for searcher in self._searchers.values())

    def score(self, table: DocType, terms: Sequence[str], weights: Sequence[float], filters: Filters, limit: int) -> Scores:
        query, must = self._tantivy.Query, self._tantivy.Occur.Must
        schema = self._indexes[table].schema
        clauses = [(must, self._any_of(table, terms, weights))]
        if not self.scores_all:
            wanted = [query.term_query(schema, "tags", tag, "basic") for tag in _wanted_tags(filters)]
            if window := filters.window:
                integer = self._tantivy.FieldType.Integer
                wanted.append(query.range_query(schema, "start", integer, upper_bound=window.end_ms, include_upper=False))
                wanted.append(query.range_query(schema, "end", integer, lower_bound=window.start_ms))
            clauses += [(must, query.const_score_query(condition, 0.0)) for condition in wanted]
        return self._scores(table, query.boolean_query(clauses), _ALL if self.scores_all else limit)

    def score_units(self, table: DocType, terms: Sequence[str], weights: Sequence[float], units: Sequence[int]) -> Scores:
        query, must = self._tantivy.Query, self._tantivy.Occur.Must
        inside = query.const_score_query(query.term_set_query(self._indexes[table].schema, "unit", list(units)), 0.0)
        return self._scores(table, query.boolean_query([(must, self._any_of(table, terms, weights)), (must, inside)]), _ALL)

    def _any_of(self, table: DocType, terms: Sequence[str], weights: Sequence[float]) -> Any:
        """Terms, each of which counts as much as its weight: the engine's own idf is divided out."""
        query, searcher = self._tantivy.Query, self._searchers[table]
        clauses = []
        for term, weight in zip(terms, weights, strict=True):
            count = searcher.doc_freq("body", term)
            own = math.log(1 + (max(searcher.num_docs - count, 0) + 0.5) / (count + 0.5))
            words = query.term_query(self._indexes[table].schema, "body", term, "freq")
            clauses.append((self._tantivy.Occur.Should, query.boost_query(words, weight / (own * SCALE))))
        return query.boolean_query(clauses)

    def _scores(self, table: DocType, query: Any, limit: int) -> Scores:
        searcher = self._searchers[table]
        hits = searcher.search(query, max(min(limit, searcher.num_docs), 1), count=False).hits
        if not hits:
            return _NO_SCORES
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return np.array(numbers, dtype=np.int64), np.array([score for score, _ in hits])


def _tags(document: IndexDocument) -> Iterator[str]:
    """What filters ask of a document, by equality."""
    if document.visible is not Visibility.SCOPED:
        yield "unscoped"
    if document.visible is not Visibility.UNSCOPED:
        yield f"project {document.project}"
    yield from (f"agent {name}" for name in document.agents)
    yield from (f"speaker {name.casefold()}" for name in document.speakers)
    yield from (f"kind {document.kind}", f"level {document.level.value}", f"role {document.role}")


def _wanted_tags(filters: Filters) -> Iterator[str]:
    yield "unscoped" if filters.project is None else f"project {filters.project}"
    for name, wanted in (
        ("agent", filters.agent), ("speaker", filters.speaker and filters.speaker.casefold()), ("kind", filters.kind),
        ("level", filters.level), ("role", filters.role),
    ):  # fmt: skip
        if wanted is not None:
            yield f"{name} {wanted}"


class Fts5:
    """One table of SQLite each, which keeps the terms of a document: SQLite before 3.43 cannot delete without them."""

    scores_all = True

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / "keywords.sqlite", check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        for table in TABLES:
            # Everything but white space belongs to a term.
            self._connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {table.value} USING fts5(body, "
                "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* P* S* M* Co Cf Cn Cs'\")"
            )
            self._connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {table.value}_terms USING fts5vocab({table.value}, 'row')"
            )

    def add(self, documents: Sequence[NumberedDocument]) -> None:
        for table in TABLES:
            rows = ((d.number, d.terms) for d in documents if d.document.doc_type is table)
            self._connection.executemany(f"INSERT INTO {table.value}(rowid, body) VALUES (?, ?)", rows)

    def drop(self, units: Sequence[int], numbers: Sequence[int]) -> None:
        del units
        for table in TABLES:
            self._connection.executemany(f"DELETE FROM {table.value} WHERE rowid = ?", [(n,) for n in numbers])

    def commit(self) -> None:
        self._connection.commit()

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        counts = [0] * len(terms)
        for table in TABLES:
            statement = f"SELECT doc FROM {table.value}_terms WHERE term = ?"
            for at, term in enumerate(terms):
                row = self._connection.execute(statement, (term,)).fetchone()
                counts[at] += row[0] if row else 0
        total = sum(self._connection.execute(f"SELECT count(*) FROM {table.value}_docsize").fetchone()[0] for table in TABLES)
        return counts, total

    def score(self, table: DocType, terms: Sequence[str], weights: Sequence[float], filters: Filters, limit: int) -> Scores:
        """Weights are its own: no term of a query can be given one."""
        del weights, filters, limit
        words = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
        with closing(self._connection.cursor()) as cursor:
            rows = cursor.execute(f"SELECT rowid, bm25({table.value}) FROM {table.value}(?)", (words,)).fetchall()
        if not rows:
            return _NO_SCORES
        found = np.array(rows)
        # Never 0, so that a document that holds a term always scores.
        return found[:, 0].astype(np.int64), np.maximum(found[:, 1] / -SCALE, 1e-3)

    def score_units(self, table: DocType, terms: Sequence[str], weights: Sequence[float], units: Sequence[int]) -> Scores:
        raise NotImplementedError


def numbered(unit: Unit, first: int) -> list[NumberedDocument]:
    """Number the documents of a unit from `first`."""
    return [NumberedDocument(first + at, unit.key, document) for at, document in enumerate((*unit.nodes, *unit.grips))]


def open_engine(name: str, folder: Path) -> Engine:
    """Open an engine by its name; raises ImportError where it is not installed."""
    return Fts5(folder) if name == "fts5" else Tantivy(folder, scores_all=name == "tantivy-all")
