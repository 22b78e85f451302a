"""The BM25 index as a searcher."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from memory_mcp.base import metrics
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.metrics import span
from memory_mcp.base.text import iter_terms, query_terms
from memory_mcp.indexes.base import IndexQuery, Matches, PendingMatch
from memory_mcp.indexes.bm25.search import find_candidates, find_segments, search_documents, unfiled_score
from memory_mcp.indexes.bm25.weights import weigh_terms
from memory_mcp.indexes.calibrate import SCORE_OFFSET
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keywords import keyword_terms
from memory_mcp.model.event import Event
from memory_mcp.tree.derive.build import searchable_pieces


def _terms_of(text: str) -> list[str]:
    """Return the terms of a query, distinct, without stop words if it has others; raises InvalidQuery if it has none."""
    terms = query_terms(text)
    if not terms:
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    return terms


class Bm25Index:
    """Searches the keyword index that a keeper maintains; a `Searcher`."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper

    def search(self, query: IndexQuery) -> Matches:
        """Return the documents that hold a term of the query or its keywords, best first, at most `query.limit`.

        Those below `query.least` are left out, but counted in the total. Raises InvalidQuery for a text
        without terms, IndexUnreadable when the index cannot be searched.
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
        """Return the best `query.limit` messages that hold a term, and those named in `also`, `(n,)` uint64.

        All must pass the filters; keywords do not count. Raises InvalidQuery for a text without terms, IndexUnreadable when the
        index cannot be searched.
        """
        terms = _terms_of(query.text)
        with span("execute_search"), metrics.timed("bm25_search_latency_seconds"):
            return find_candidates(self.keeper.index.snapshot, terms, query.filters, query.limit, also)

    def find_segments(self, terms: Sequence[str], project: str | None) -> list[int]:
        """Return the keys of the segments that hold every term, newest first.

        `project` None means all projects. Raises IndexUnreadable when the index cannot be searched.
        """
        return find_segments(self.keeper.index.snapshot, terms, project)

    def highest_score(self, text: str) -> float:
        """Return the query's highest possible raw score with `calibrate.SLACK` (8) added. Raises IndexUnreadable."""
        return weigh_terms(self.keeper.index.snapshot, query_terms(text)).total + SCORE_OFFSET

    def improve_shards(self, goes_on: Callable[[], bool]) -> int:
        """Return 0: there is no faster form of this index."""
        del goes_on
        return 0

    def score_pending(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[PendingMatch]:
        """Return the events that hold a term of the text or of `keywords`, in order, scored as one grip without neighbours.

        Raises IndexUnreadable when the index cannot be searched.
        """
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
                raw, score = unfiled_score(weights, term_counts, sum(counts.values()))
                matches.append(PendingMatch(event, score, raw))
        return matches
