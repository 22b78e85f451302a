"""The vector index as a searcher."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np

from memory_mcp.base import metrics
from memory_mcp.base.errors import IndexUnreadable, InvalidQuery
from memory_mcp.base.metrics import span
from memory_mcp.embed.base import Embedder
from memory_mcp.indexes.base import IndexQuery, Matches, PendingMatch
from memory_mcp.indexes.calibrate import SIMILARITY, calibrate_scores
from memory_mcp.indexes.candidates import NO_CANDIDATES, Candidates
from memory_mcp.indexes.columns import is_among
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.shard import TABLES
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from memory_mcp.indexes.vector.rows import CodedQuery, VectorRows
from memory_mcp.indexes.vector.search import find_candidates, rate_messages, search_documents
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId

#: Events not indexed yet whose vectors are cached.
_REMEMBERED = 512
#: Share of the keywords' vector in that of a query.
_KEYWORDS = 0.4


class VectorIndex:
    """A `Searcher` of the vector index that a keeper maintains."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        #: Rows of events, and the embedder that made them.
        self._pending_rows: tuple[Embedder | None, dict[EventId, VectorRows]] = None, {}
        #: The vector of the last query, and the same coded: one search needs it several times.
        self._last_query: tuple[Embedder, str, Array, CodedQuery] | None = None

    @property
    def embedder(self) -> Embedder:
        """The configured embedder, which embeds new documents."""
        return cast("VectorKind", self.keeper.index.target_kind).embedder

    @property
    def serving_embedder(self) -> Embedder:
        """The embedder of the current index; the former one until rebuilt."""
        return cast("VectorKind", self.keeper.index.kind).embedder

    def count_unknown(self) -> int:
        """Return the number of living documents without a known word."""
        try:
            snapshot: Snapshot[VectorBody] = self.keeper.index.snapshot
        except IndexUnreadable:
            return 0
        count = 0
        for live in snapshot:
            for table in TABLES:
                zeros, alive = live.shard.body.table(table).unknown, live.alive_rows(table)
                count += int(np.count_nonzero(zeros if alive is None else zeros & alive))
        return count

    def search(self, query: IndexQuery) -> Matches:
        """Return the documents nearest to the query and its keywords.

        They have at least `query.min_score` similarity. Raises InvalidQuery for a blank text, IndexUnreadable when the
        index cannot be searched, LayerUnavailable without the model.
        """
        if not query.text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        snapshot: Snapshot[VectorBody] = self.keeper.index.snapshot
        embedder = _embedder_of(snapshot)
        if embedder is None:
            return Matches((), 0)
        with span("parse_query"):
            vector = self._widened_vector(embedder, query.text, query.keywords)
        with span("execute_search"), metrics.timed("vector_search_latency_seconds"):
            return search_documents(snapshot, vector, query.filters, query.limit, query.min_score)

    def find_candidates(self, query: IndexQuery, also: Array) -> Candidates:
        """Return messages nearest to the query, then those in `also`.

        Filters do not apply to the latter, and keywords do not count. Raises IndexUnreadable when the index cannot be
        searched, LayerUnavailable without the model.
        """
        snapshot: Snapshot[VectorBody] = self.keeper.index.snapshot
        embedder = _embedder_of(snapshot)
        if embedder is None:
            return NO_CANDIDATES
        with span("execute_search"), metrics.timed("vector_search_latency_seconds"):
            _, coded = self._embed_query(embedder, query.text)
            nearest = find_candidates(snapshot, coded, query.filters, query.limit) if query.limit else NO_CANDIDATES
            missing = also[~is_among(also, nearest.message)]
            return Candidates.concatenate([nearest, rate_messages(snapshot, coded, missing)]) if len(missing) else nearest

    def _embed_query(self, embedder: Embedder, text: str) -> tuple[Array, CodedQuery]:
        last_query = self._last_query
        if last_query is None or last_query[0] is not embedder or last_query[1] != text:
            vector: Array = embedder.embed([text])[0]
            last_query = self._last_query = embedder, text, vector, CodedQuery.from_vector(vector)
        return last_query[2:]

    def _widened_vector(self, embedder: Embedder, text: str, keywords: Sequence[str]) -> Array:
        """Move the vector of a text towards that of its keywords."""
        vector, _ = self._embed_query(embedder, text)
        if not keywords:
            return vector
        mixed: Array = (1 - _KEYWORDS) * vector + _KEYWORDS * embedder.embed(["\n".join(keywords)])[0]
        length = float(np.linalg.norm(mixed))
        return mixed / length if length else vector

    def highest_score(self, text: str) -> float:
        """Return 1: no cosine similarity is higher."""
        del text
        return 1.0

    def score_pending(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[PendingMatch]:
        """Return events with a similarity above 0 to the text.

        Each is compared as a grip that quotes it whole. Vectors of the last 512 events are cached. Raises
        IndexUnreadable, LayerUnavailable.
        """
        waiting = list(events)
        embedder = _embedder_of(self.keeper.index.snapshot) or self.serving_embedder
        if not waiting or not text.strip():
            return []
        made_by, remembered = self._pending_rows
        if made_by is not embedder:
            remembered = {}
        fresh = [e for e in waiting if e.event_id not in remembered]
        vectors = embedder.embed([f"{e.speaker}: {e.text}" if e.speaker else e.text for e in fresh])
        new_rows = {
            e.event_id: VectorRows.from_vectors(vectors[i : i + 1], np.zeros(1, dtype=np.uint64)) for i, e in enumerate(fresh)
        }
        rows_by_event = {**remembered, **new_rows}
        # Replaced, not changed: another thread may be reading it.
        self._pending_rows = embedder, dict(list(rows_by_event.items())[-_REMEMBERED:])
        rows = VectorRows.concatenate([rows_by_event[e.event_id] for e in waiting])
        raw = rows.compute_similarities(CodedQuery.from_vector(self._widened_vector(embedder, text, keywords)))
        scores = calibrate_scores(SIMILARITY, raw).tolist()
        scored = zip(waiting, scores, raw.tolist(), strict=True)
        return [PendingMatch(e, round(score, 6), min(similarity, 1.0)) for e, score, similarity in scored if similarity > 0]

    def improve_shards(self, goes_on: Callable[[], bool] = lambda: True) -> int:
        """Build missing graphs in child processes, minutes each; return how many."""
        built = 0
        while goes_on() and self.keeper.index.merge_once(improve=True):
            built += 1
        return built


def _embedder_of(snapshot: Snapshot[VectorBody]) -> Embedder | None:
    return snapshot.shards[0].shard.body.embedder if snapshot.shards else None
