"""Another engine behind the `Searcher` of keywords: it gives scores, and our own code adds what neighbours and segments add.

The columns by which filters, messages and neighbours are known stay those of our shards; a unit that changes after the
engine was filled is not seen.
"""

import math
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.keyword_engines.engines import Engine, numbered, open_engine
from memory_mcp.indexes import registry, units
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, PendingMatch
from memory_mcp.indexes.bm25 import index as bm25_index
from memory_mcp.indexes.bm25 import message_scores, search
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.bm25.postings import term_key
from memory_mcp.indexes.bm25.weights import Weights
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.document import Unit, unit_of
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.shard import TABLES, LiveShard
from memory_mcp.model.event import Event
from memory_mcp.storage.base import Storage

#: Documents that an engine is asked for, for each that is wanted, and at least: boosts change their order.
_DEPTH, _FEWEST = 4, 200


@dataclass(frozen=True, slots=True)
class EngineWeights(Weights):
    """Weights that know their words, and what the engine said of them."""

    words: tuple[str, ...] = ()
    #: Scores by table of one question, all of `number`.
    scores: dict[DocType, Array] = field(default_factory=dict)

    def with_keywords(self, keywords: Weights, highest: float) -> "EngineWeights":
        """See `Weights`."""
        widened = Weights.with_keywords(self, keywords, highest)
        more: tuple[str, ...] = getattr(keywords, "words", ())
        return EngineWeights(widened.keys, widened.idf, widened.keywords, self.words + more)


class EngineIndex(Bm25Index):
    """The keyword searcher with the scores of another engine."""

    def __init__(self, keeper: Keeper, name: str) -> None:
        super().__init__(keeper)
        self._name = name
        self._folder = tempfile.TemporaryDirectory()
        self._engine: Engine | None = None
        self._filling = threading.Lock()
        #: Number by key of a document, and by number the key of its unit, `(documents,)` uint64.
        self._numbers: dict[tuple[DocType, int, int], int] = {}
        self._units: Array = np.zeros(0, dtype=np.uint64)
        self._rows: dict[tuple[int, DocType], Array] = {}
        self._also: Array = np.zeros(0, dtype=np.uint64)

    @property
    def engine(self) -> Engine:
        """The engine, filled from the store when first used."""
        with self._filling:
            if self._engine is None:
                self._engine = self._filled()
            return self._engine

    def _filled(self) -> Engine:
        engine, unit_keys = open_engine(self._name, Path(self._folder.name)), list[int]()
        for unit in iter_units(self.keeper._storage):
            documents = numbered(unit, len(unit_keys))
            engine.add(documents)
            unit_keys += [d.unit for d in documents]
            self._numbers |= {(d.document.doc_type, *d.document.key): d.number for d in documents}
        engine.commit()
        self._units = np.array(unit_keys, dtype=np.uint64)
        return engine

    def find_candidates(self, query: IndexQuery, also: Array) -> Candidates:
        """See `Searcher`."""
        _current.index, self._also = self, also
        try:
            return super().find_candidates(query, also)
        finally:
            self._also = also[:0]

    def search(self, query: IndexQuery) -> Any:
        """See `Searcher`."""
        _current.index = self
        return super().search(query)

    def highest_score(self, text: str) -> float:
        """See `Searcher`."""
        _current.index = self
        return super().highest_score(text)

    def score_pending(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[PendingMatch]:
        """See `Searcher`."""
        _current.index = self
        return super().score_pending(text, events, keywords)

    def weigh(self, terms: Sequence[str]) -> EngineWeights:
        """Weigh terms by the engine's own counts."""
        counts, total = self.engine.frequencies(terms)
        idf = np.array([math.log(1 + (max(total - n, 0) + 0.5) / (n + 0.5)) for n in counts])
        return EngineWeights(np.array([term_key(t) for t in terms], dtype=np.uint64), idf, 0, tuple(terms))

    def scores_of(self, weights: EngineWeights, filters: Filters, limit: int) -> dict[DocType, Array]:
        """Return scores by number, `(documents,)`, for each table; asked once a question."""
        if weights.scores:
            return weights.scores
        engine = self.engine
        weights.scores.update({table: np.zeros(len(self._units)) for table in TABLES})
        own = len(weights.words) - weights.keywords
        groups = [(weights.words, weights.idf.tolist(), 1.0)]
        if engine.scores_all and weights.keywords and self._name == "fts5":
            # No term can be given a weight: what lowers keywords is the same factor for all of them.
            plain = self.weigh(weights.words[own:])
            factor = float(weights.idf[own:].sum() / plain.idf.sum())
            groups = [(weights.words[:own], [], 1.0), (weights.words[own:], [], factor)]
        for words, idf, factor in groups:
            self._add_scores(weights.scores, words, idf, factor, filters, max(limit * _DEPTH, _FEWEST) if limit else 0)
        return weights.scores

    def _add_scores(
        self,
        scores: dict[DocType, Array],
        words: Sequence[str],
        idf: Sequence[float],
        factor: float,
        filters: Filters,
        depth: int,
    ) -> None:
        if not words:
            return
        engine = self.engine
        found = {table: engine.score(table, words, idf, filters, depth) for table in TABLES if depth or engine.scores_all}
        if not engine.scores_all:
            reached = [self._units[numbers] for numbers, _ in found.values()]
            wanted = np.unique(np.concatenate([*reached, self._units_also()])).tolist()
            found = {table: engine.score_units(table, words, idf, wanted) for table in TABLES} if wanted else {}
        for table, (numbers, values) in found.items():
            scores[table][numbers] += factor * values

    def _units_also(self) -> Array:
        pieces = [
            live.shard.units.key[live.messages.unit[live.messages_named(self._also)]] for live in self.keeper.index.snapshot
        ]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint64)

    def numbers_of(self, live: LiveShard[Any], table: DocType) -> Array:
        """Return the number of each row of a shard, `(rows,)`; the number after the last for one that is not known."""
        key = (id(live.shard), table)
        if key not in self._rows:
            columns, unknown = live.shard.table(table), len(self._units)
            keys = zip(columns.hi.tolist(), columns.lo.tolist(), strict=True)
            self._rows[key] = np.array([self._numbers.get((table, *k), unknown) for k in keys], dtype=np.int64)
        return self._rows[key]


class _Current(threading.local):
    index: EngineIndex


_current = _Current()


@contextmanager
def _score_shard(live: LiveShard[Any], weights: Weights, filters: Filters, limit: int) -> Iterator[search._ShardSearch]:
    """In the place of `search._score_shard`: the scores of a shard's rows are the engine's."""
    assert isinstance(weights, EngineWeights)
    index = _current.index
    scores = index.scores_of(weights, filters, limit)
    tables = []
    for table in TABLES:
        dense = np.append(scores[table], 0.0)[index.numbers_of(live, table)]
        tables.append(search._TableScores(np.flatnonzero(dense), dense))
    try:
        yield search._ShardSearch(live, tables[0], tables[1], filters, limit)
    except BaseException:
        message_scores.ZERO_ARRAYS.drop_all()
        raise


def iter_units(storage: Storage) -> Iterator[Unit]:
    """Yield the documents of all units of a store, as an index gets them."""
    for frame in units.iter_all_units(storage):
        yield from map(unit_of, frame)


def install(name: str) -> None:
    """Let every memory of this process search keywords with an engine; "bm25s" changes nothing."""
    if name == "bm25s":
        return
    open_engine(name, Path(tempfile.mkdtemp()))

    def weigh_terms(snapshot: Any, terms: Sequence[str]) -> EngineWeights:
        del snapshot
        return _current.index.weigh(terms)

    create: Callable[[Keeper], Any] = lambda keeper: EngineIndex(keeper, name)  # noqa: E731
    registry.SEARCHERS["bm25"] = create
    for module, attribute, other in (
        (search, "_score_shard", _score_shard), (search, "weigh_terms", weigh_terms), (bm25_index, "weigh_terms", weigh_terms),
    ):  # fmt: skip
        setattr(module, attribute, other)
