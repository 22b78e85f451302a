"""The BM25 index as a searcher."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from memory_mcp.base import metrics
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.metrics import span
from memory_mcp.base.text import iter_terms, query_terms
from memory_mcp.indexes.base import IndexQuery, Matches, PendingMatch
from memory_mcp.indexes.bm25.search import find_candidates, find_segments, score_pending_text, search_documents
from memory_mcp.indexes.bm25.weights import weigh_terms
from memory_mcp.indexes.calibrate import SCORE_OFFSET
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keywords import keyword_terms
from memory_mcp.model.event import Event
from memory_mcp.tree.derive.build import searchable_pieces


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
        terms = query_terms(text)
        weights = weigh_terms(self.keeper.index.snapshot, terms)
        if extra_terms := keyword_terms(keywords, terms):
            weights = weights.with_keywords(weigh_terms(self.keeper.index.snapshot, extra_terms), 0.0)
            terms = [*terms, *extra_terms]
        matches = []
        for event in events:
            counts: Counter[str] = Counter()
            for piece in searchable_pieces(event):
                counts.update(iter_terms(piece))
            term_counts = [counts[t] for t in terms]
            if any(term_counts):
                raw, score = score_pending_text(weights, term_counts, sum(counts.values()))
                matches.append(PendingMatch(event, score, raw))
        return matches
