"""The BM25 index as a searcher."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np

from memory_mcp.base import metrics
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.metrics import span
from memory_mcp.base.text import query_terms
from memory_mcp.indexes.base import ArrivedMatches, IndexQuery, Matches, PendingMatch
from memory_mcp.indexes.bm25.arrived import ArrivedTerms
from memory_mcp.indexes.bm25.pending_counts import PendingCounts
from memory_mcp.indexes.bm25.search import find_candidates, find_segments, score_pending_texts, search_documents
from memory_mcp.indexes.bm25.weights import Weights, weigh_terms
from memory_mcp.indexes.calibrate import SCORE_OFFSET
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keywords import keyword_terms
from memory_mcp.model.event import Event
from memory_mcp.storage.base import EventStore


def _terms_of(text: str) -> list[str]:
    """Raises InvalidQuery if it has none."""
    terms = query_terms(text)
    if not terms:
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    return terms


class Bm25Index:
    """A `Searcher` of the keyword index that a keeper maintains."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._pending = PendingCounts()
        self._arrived = ArrivedTerms()

    def search(self, query: IndexQuery) -> Matches:
        """Return documents that hold a term of the query or its keywords.

        Those below `query.min_score` are left out, but counted in the total. Raises InvalidQuery for a text without
        terms, IndexUnreadable when the index cannot be searched.
        """
        with span("parse_query"):
            terms = _terms_of(query.text)
        with span("execute_search"), metrics.timed("bm25_search_latency_seconds"):
            keywords = keyword_terms(query.keywords, terms)
            matches = search_documents(self.keeper.index.snapshot, terms, query.filters, query.limit, keywords)
        return (
            Matches(tuple(m for m in matches.best if m.raw >= query.min_score), matches.total) if query.min_score > 0 else matches
        )

    def find_candidates(self, query: IndexQuery, also: Array) -> Candidates:
        """Return best messages that hold a term, and those in `also`.

        All must pass the filters; keywords do not count. Raises as `search`.
        """
        terms = _terms_of(query.text)
        with span("execute_search"), metrics.timed("bm25_search_latency_seconds"):
            return find_candidates(self.keeper.index.snapshot, terms, query.filters, query.limit, also)

    def find_segments(self, terms: Sequence[str], project: str | None) -> list[int]:
        """Return keys of segments that hold every term; raises IndexUnreadable."""
        return find_segments(self.keeper.index.snapshot, terms, project)

    def highest_score(self, text: str) -> float:
        """Return the query's highest score with `SCORE_OFFSET` added."""
        return weigh_terms(self.keeper.index.snapshot, query_terms(text)).total + SCORE_OFFSET

    def improve_shards(self, goes_on: Callable[[], bool]) -> int:
        """Return 0: there is no faster form."""
        del goes_on
        return 0

    def score_pending(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[PendingMatch]:
        """Score events as one grip without neighbours; raises IndexUnreadable."""
        terms, weights = self._weigh_pending(text, keywords)
        pending = list(events)
        counts, lengths = self._pending.count_terms(pending, terms)
        places = np.flatnonzero(counts.any(axis=1))
        raw, scores = score_pending_texts(weights, counts[places], lengths[places])
        rows = zip(places.tolist(), scores.tolist(), raw.tolist(), strict=True)
        return [PendingMatch(pending[place], score, raw_score) for place, score, raw_score in rows]

    def count_arrivals(self, events: EventStore) -> bool:
        """Count the terms of the next events that are not indexed yet, in a child; return whether there were any.

        Until the index holds them `search_arrived` finds them. Raises OSError or EOFError if the child has gone.
        """
        return self._arrived.count_arrivals(events, self.keeper.index.position.events)

    def end_counting(self) -> bool:
        """End the counting child and drop indexed events; return whether counted ones are left."""
        self._arrived.end_child()
        return self._arrived.drop_indexed(self.keeper.index.position.events)

    @property
    def is_counting(self) -> bool:
        """Whether `count_arrivals` goes on: what arrives is counted within a second."""
        return self._arrived.is_counting

    def counted_to(self, after: int) -> int:
        """Return up to which number all events behind `after` are counted, `after` if not the next one."""
        return self._arrived.reach_from(after)

    def search_arrived(
        self, text: str, keywords: Sequence[str], after: int, is_wanted: Callable[[Event], bool], limit: int
    ) -> ArrivedMatches | None:
        """Return the best counted events behind number `after`, the earliest first of equals, scored as by `score_pending`.

        None if the first of these is not counted. Raises IndexUnreadable.
        """
        terms, weights = self._weigh_pending(text, keywords)
        arrived = self._arrived.find_events(after, terms)
        if arrived is None:
            return None
        raw, scores = score_pending_texts(weights, arrived.counts, arrived.lengths)
        best = np.argsort(-raw, kind="stable").tolist()
        rows = islice((row for row in best if is_wanted(arrived.events[row])), limit)
        matches = tuple(PendingMatch(arrived.events[row], float(scores[row]), float(raw[row])) for row in rows)
        return ArrivedMatches(matches, arrived.reach)

    def _weigh_pending(self, text: str, keywords: Sequence[str]) -> tuple[list[str], Weights]:
        terms = query_terms(text)
        weights = weigh_terms(self.keeper.index.snapshot, terms)
        if extra_terms := keyword_terms(keywords, terms):
            weights = weights.with_keywords(weigh_terms(self.keeper.index.snapshot, extra_terms), 0.0)
        return [*terms, *extra_terms], weights
