"""The vector index as a searcher."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np

from memory_mcp.base import metrics
from memory_mcp.base.errors import IndexUnreadable, InvalidQuery
from memory_mcp.base.metrics import span
from memory_mcp.embed.base import Embedder
from memory_mcp.indexes.base import IndexQuery, Matches, Unfiled
from memory_mcp.indexes.calibrate import SIMILARITY, calibrated
from memory_mcp.indexes.candidates import NONE, Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.part import TABLES
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import Body, Vector
from memory_mcp.indexes.vector.rows import Query, Rows
from memory_mcp.indexes.vector.search import candidates, rated, search
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId

#: Events not indexed yet whose vectors are cached.
_REMEMBERED = 512
#: Share of the keywords' vector in that of a query.
_KEYWORDS = 0.4


class VectorIndex:
    """Searches the vector index that a keeper maintains; a `Searcher`."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        #: Rows of events, and the embedder that made them.
        self._remembered: tuple[Embedder | None, dict[EventId, Rows]] = None, {}
        #: The vector of the last query: one search needs it several times.
        self._asked: tuple[Embedder, str, Array] | None = None

    @property
    def embedder(self) -> Embedder:
        """The configured embedder, with which new documents are embedded."""
        return cast("Vector", self.keeper.index.wanted).embedder

    @property
    def serving(self) -> Embedder:
        """The embedder of the current index: the former one until the index is rebuilt with a newly configured one."""
        return cast("Vector", self.keeper.index.kind).embedder

    def unknown(self) -> int:
        """Return the number of living documents without any word the model knows, whose rows are zeros; 0 if unsearchable."""
        try:
            snapshot: Snapshot[Body] = self.keeper.index.snapshot
        except IndexUnreadable:
            return 0
        count = 0
        for live in snapshot:
            for table in TABLES:
                zeros, alive = live.part.body.table(table).unknown, live.alive_rows(table)
                count += int(np.count_nonzero(zeros if alive is None else zeros & alive))
        return count

    def search(self, query: IndexQuery) -> Matches:
        """Return the documents nearest to the query and its keywords; nothing for an empty index.

        They have at least `query.least` similarity. Raises InvalidQuery for a blank text, IndexUnreadable when the index
        cannot be searched, LayerUnavailable without the model.
        """
        if not query.text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        snapshot: Snapshot[Body] = self.keeper.index.snapshot
        embedder = _embedder(snapshot)
        if embedder is None:
            return Matches((), 0)
        with span("parse_query"):
            vector = self._widened_vector(embedder, query.text, query.keywords)
        with span("execute_search"), metrics.timed("vector_search_latency_seconds"):
            return search(snapshot, vector, query.filters, query.limit, query.least)

    def candidates(self, query: IndexQuery, also: Array) -> Candidates:
        """Return the `query.limit` messages nearest to the query, best first, then those named in `also`, `(n,)` uint64.

        Filters do not apply to the latter, and keywords do not count. Empty for an empty index; a blank text is not
        refused. Raises IndexUnreadable when the index cannot be searched, LayerUnavailable without the model.
        """
        snapshot: Snapshot[Body] = self.keeper.index.snapshot
        embedder = _embedder(snapshot)
        if embedder is None:
            return NONE
        with span("execute_search"), metrics.timed("vector_search_latency_seconds"):
            vector = self._vector(embedder, query.text)
            nearest = candidates(snapshot, vector, query.filters, query.limit) if query.limit else NONE
            missing = also[~np.isin(also, nearest.message)]
            return Candidates.joined([nearest, rated(snapshot, vector, missing)]) if len(missing) else nearest

    def _vector(self, embedder: Embedder, text: str) -> Array:
        """Return the unit vector of a text, `(dimensions,)` float32; that of the last text and embedder is cached."""
        last_query = self._asked
        if last_query is None or last_query[0] is not embedder or last_query[1] != text:
            last_query = self._asked = embedder, text, embedder.embed([text])[0]
        return last_query[2]

    def _widened_vector(self, embedder: Embedder, text: str, keywords: Sequence[str]) -> Array:
        """Return the vector of a text, `(dimensions,)` float32, moved towards that of its keywords, where it has any."""
        vector = self._vector(embedder, text)
        if not keywords:
            return vector
        mixed: Array = (1 - _KEYWORDS) * vector + _KEYWORDS * embedder.embed(["\n".join(keywords)])[0]
        length = float(np.linalg.norm(mixed))
        return mixed / length if length else vector

    def scale(self, text: str) -> float:
        """Return 1 for every text: no cosine similarity is higher."""
        del text
        return 1.0

    def unfiled(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[Unfiled]:
        """Return the events with a similarity above 0 to the text, in order; none for a blank text.

        Each is compared as a grip that quotes it whole. Vectors of the last 512 events are cached. Raises
        IndexUnreadable when the index cannot be searched, LayerUnavailable without the model.
        """
        waiting = list(events)
        embedder = _embedder(self.keeper.index.snapshot) or self.serving
        if not waiting or not text.strip():
            return []
        made_by, remembered = self._remembered
        if made_by is not embedder:
            remembered = {}
        fresh = [e for e in waiting if e.event_id not in remembered]
        vectors = embedder.embed([f"{e.speaker}: {e.text}" if e.speaker else e.text for e in fresh])
        new_rows = {e.event_id: Rows.of(vectors[i : i + 1], np.zeros(1, dtype=np.uint64)) for i, e in enumerate(fresh)}
        rows_by_event = {**remembered, **new_rows}
        # Replaced, not changed: another thread may be reading it.
        self._remembered = embedder, dict(list(rows_by_event.items())[-_REMEMBERED:])
        rows = Rows.joined([rows_by_event[e.event_id] for e in waiting])
        raw = rows.similarities(Query.of(self._widened_vector(embedder, text, keywords)))
        scores = calibrated(SIMILARITY, raw).tolist()
        scored = zip(waiting, scores, raw.tolist(), strict=True)
        return [Unfiled(e, round(score, 6), min(similarity, 1.0)) for e, score, similarity in scored if similarity > 0]

    def improve(self, goes_on: Callable[[], bool] = lambda: True) -> int:
        """Build missing graphs of large parts in child processes, for minutes each, while `goes_on()`; return how many."""
        built = 0
        while goes_on() and self.keeper.index.merge(improve=True):
            built += 1
        return built


def _embedder(snapshot: Snapshot[Body]) -> Embedder | None:
    """Return the embedder that made this snapshot's vectors, whatever the index uses now; None for an empty one."""
    return snapshot.parts[0].part.body.embedder if snapshot.parts else None
