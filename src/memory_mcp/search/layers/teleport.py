"""Layers 3 and 4: one class for the keyword and the vector index. The index gives ids, the store the words.

Events that are not indexed yet are searched next to the index, so that everything acknowledged can be found.
"""

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexNotReady, IndexUnreadable, InvalidQuery, LayerUnavailable
from memory_mcp.base.metrics import span
from memory_mcp.base.text import terms
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, Match, PendingMatch, Searcher
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.columns import is_among, sort_distinct
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.index_reader import IndexReader
from memory_mcp.indexes.keys import name_excluded
from memory_mcp.model.exchange import LISTED_LAST, TurnKind
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import EventId
from memory_mcp.search.layers.base import Hit, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.layers.pending import PendingSearch, list_query_terms
from memory_mcp.search.layers.score import KEYWORDS, MEANING, Weights, ground_replies, keyword_boost, rank_candidates
from memory_mcp.search.layers.showing import HitReader, turns_of
from memory_mcp.search.layers.sides import Side, Sides, candidates_of, find_cut, matches_of, pending_events
from memory_mcp.storage.base import Storage
from memory_mcp.tree.toc.tree import Tree

if TYPE_CHECKING:  # it opens engines
    from memory_mcp.indexes.accelerators import Accelerators

#: Messages requested from each side: the other side's best may rank low here.
DEPTH = 120
#: Longest wait in seconds for an index that is still being loaded.
_LOADING = 2.0
#: Literal beginnings of the error messages of layers that are off.
NOT_ENABLED = {LayerName.BM25: "BM25 index not enabled", LayerName.VECTOR: "Vector index not enabled"}
#: The tools that search by one index, best first.
TOOLS = {LayerName.BM25: "teleport_search", LayerName.VECTOR: "vector_teleport"}
#: The tool that needs only the tree.
_ALWAYS = "search_children"
_SPANS = {LayerName.BM25: "teleport_search", LayerName.VECTOR: "vector_teleport"}
_WORDS = {LayerName.BM25: "BM25 index", LayerName.VECTOR: "Vector index"}


@dataclass(frozen=True, slots=True)
class FoundDocuments:
    """Matches of an index, before their words are read."""

    matches: tuple[Match, ...]
    #: Events that are not indexed yet.
    pending: tuple[PendingMatch, ...]
    #: Number of documents that match, shown or not.
    total: int
    took_ms: float
    notices: tuple[str, ...] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class FoundHits:
    """Hits of one search of an index."""

    hits: tuple[Hit, ...]
    total: int
    took_ms: float
    notices: tuple[str, ...] = ()
    #: Whether one of two sides could not answer, or an index lacks something of the time that was asked for.
    partial: bool = False


class MessageLayer:
    """A layer that answers with the messages of one index or both."""

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """Return the best messages for one call, a node each hit.

        No hits without a call left, and, with a notice, for a time without a word to look for. Hits that the node bound has no
        room for are left out; those visited before cost nothing. Raises LayerUnavailable when it cannot answer.
        """
        if query.window is not None and not terms(query.text):
            return LayerAnswer((), window=query.window, notices=("a time and no word to look for",))
        if not budget.count_call():
            return LayerAnswer((), window=query.window)
        scope = (query.window, query.project, query.agent, query.speaker, None, query.role, name_excluded(query.excluded))
        filters = Filters(DocType.GRIP, None, *scope)
        messages = self.search_messages(
            IndexQuery(query.text, filters, query.limit, literal=query.literal, keywords=query.keywords)
        )
        hits = messages.hits
        if (count := budget.visit_named([hit.event_id or hit.node_id for hit in hits])) < len(hits):
            hits = (*hits[:count], *(hit for hit in hits[count:] if budget.visit_named([hit.event_id or hit.node_id])))
        return LayerAnswer(hits, window=query.window, notices=messages.notices, is_partial=messages.partial)

    def search_messages(self, query: IndexQuery) -> FoundHits:
        """Return the best messages, at most `query.limit`.

        Raises LayerUnavailable when no index can answer.
        """
        raise NotImplementedError


class TeleportLayer(MessageLayer):
    """Searches one index by words or by meaning."""

    def __init__(self, name: LayerName, indexes: "Accelerators", storage: Storage, tree: Tree, reader: IndexReader) -> None:
        self.name = name
        self._indexes = indexes
        self._storage = storage
        self._tree = tree
        self._pending = PendingSearch(name, storage, tree, reader)
        self._showing = HitReader(storage, tree, reader)

    def status(self) -> LayerStatus:
        """Return why there is no index, or its health and size."""
        searcher = self._indexes.find_searcher(self.name)
        if searcher is None:
            return explain_missing(self.name, self._indexes)
        status = searcher.keeper.status()
        reason = status.reason
        if status.building is not None and not status.ready:
            reason = f"{reason} ({status.building:,} documents so far)"
        covered_from, remark = find_cut(self._tree, searcher.keeper.index.cutoffs) if status.ready else (0, "")
        return LayerStatus(self.name, True, status.ready, status.documents, reason or remark, "", covered_from)

    @property
    def searcher(self) -> Searcher:
        """The index. Raises LayerUnavailable when there is none."""
        searcher = self._indexes.find_searcher(self.name)
        if searcher is None:
            raise unavailable(NOT_ENABLED[self.name], self.status(), best_tool(self._indexes, self.name))
        return searcher

    def teleport(self, query: IndexQuery) -> FoundHits:
        """Return the best documents for a text, pending events included.

        Raises InvalidQuery for an empty text and LayerUnavailable when the index cannot answer.
        """
        if not query.text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        with span(_SPANS[self.name]):
            return self.show_documents(query, self.find_documents(query))

    def find_documents(self, query: IndexQuery) -> FoundDocuments:
        """Return matching documents and events not indexed yet, without their words.

        Waits up to 2 seconds for an index being loaded; raises LayerUnavailable when it cannot answer.
        """
        # Loading an index takes a second after a start: waiting is better than an error.
        self.searcher.keeper.index.wait_loaded(_LOADING)
        began = time.perf_counter()
        # Read before the search: an event indexed meanwhile is found twice rather than not at all.
        done = self.searcher.keeper.index.position.events
        with self._explain_unreadable():
            matches = self.searcher.search(query)
        with self._explain_unreadable():
            pending = self._pending.search(self.searcher, query, done)
        took = (time.perf_counter() - began) * 1000
        return FoundDocuments(
            matches.best, pending.matches, matches.total + len(pending.matches), took, pending.notices, pending.is_partial
        )

    def show_documents(self, query: IndexQuery, matches: FoundDocuments) -> FoundHits:
        """Return at most `query.limit` hits of documents, best first."""
        with span("collect_results"):
            query_terms = list_query_terms(query)
            hits = sorted(self._showing.read_hits(matches.matches, query.filters, query_terms), key=lambda h: h.asks)
            shown_events = {h.event_id for h in hits}
            # During an import hundreds may match, and finding the words to quote costs more than comparing.
            fresh = (u for u in matches.pending if u.event.event_id not in shown_events)
            pending_hits = self._pending_hits(heapq.nlargest(query.limit, fresh, key=lambda u: u.score), query_terms)
            if pending_hits:
                hits = sorted([*hits, *pending_hits], key=lambda h: (h.asks, -h.score))[: query.limit]
        return FoundHits(tuple(hits), matches.total, matches.took_ms, matches.notices, matches.is_partial)

    def _pending_hits(self, pending_matches: Sequence[PendingMatch], query_terms: frozenset[str]) -> list[Hit]:
        turns = turns_of(self._storage, (u.event for u in pending_matches))
        evidence = [u for u in pending_matches if not turns.get(u.event.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY]
        hits = self._showing.pending_hits(evidence, query_terms)
        return [copy_with(h, asks=bool(turns.get(EventId(h.event_id), TurnKind.PLAIN) & LISTED_LAST)) for h in hits]

    @contextmanager
    def _explain_unreadable(self) -> Iterator[None]:
        try:
            yield
        except IndexUnreadable as error:
            hint = (
                f"It is built in the background: retry in a few seconds, or use {best_tool(self._indexes, self.name)} meanwhile."
            )
            raise IndexNotReady(f"{_WORDS[self.name]} not ready: {error.message}", hint, error.message) from error

    def search_side(self, query: IndexQuery, also: Array) -> Side:
        """Return message candidates of the index and events not indexed yet.

        `also` are names of messages, `(n,)` uint64, that are rated whatever their rank. Waits up to 2 seconds
        for an index being loaded; raises LayerUnavailable when it cannot answer.
        """
        self.searcher.keeper.index.wait_loaded(_LOADING)
        # Read before the search: an event indexed meanwhile is found twice rather than not at all.
        done = self.searcher.keeper.index.position.events
        query = copy_with(query, keywords=())  # they are searched as a query of their own
        with self._explain_unreadable():
            candidates = self.searcher.find_candidates(query, also)
        with self._explain_unreadable():
            pending = self._pending.search(self.searcher, query, done)
        with self._explain_unreadable():
            scale = self.searcher.highest_score(query.text) if pending.matches else 1.0
        shares = {u.event.event_id: max(u.raw / scale, 0.0) for u in pending.matches}
        return Side(candidates, pending.matches, shares, pending.notices, pending.is_partial)

    def rate_messages(self, query: IndexQuery, names: Array) -> Candidates:
        """Return candidates for the named messages only, `(n,)` uint64.

        Raises IndexNotReady when the index cannot be read, LayerUnavailable when there is none.
        """
        with self._explain_unreadable():
            candidates: Candidates = self.searcher.find_candidates(copy_with(query, limit=0), names)
        return candidates

    def list_messages(self, sides: Sides, weights: Weights, query: IndexQuery, keyword_sides: Sides) -> FoundHits:
        """Rank the messages of both sides, and return their hits.

        `keyword_sides` are those of the query's keywords, empty without any. The total is the number of candidates; an event not
        indexed yet is one, as if it were its segment's only message. Messages that the store no longer holds are left out.
        """
        pending = pending_events(keyword_sides, sides)
        # Each prompt costs a read: those that cannot be shown are not looked up.
        likely = heapq.nlargest(query.limit, pending.values(), key=lambda u: u.score)
        turns = turns_of(self._storage, (u.event for u in likely))
        everything = ground_replies(candidates_of(sides, pending, turns))
        boost = keyword_boost(everything, candidates_of(keyword_sides, pending, turns), weights) if keyword_sides else None
        ranking = rank_candidates(everything, weights, query.literal, query.limit, boost)
        matches = matches_of(everything.select_rows(ranking.places), ranking.score)
        query_terms = list_query_terms(query)
        hits: list[Hit] = []
        filed = self._showing.read_hits([m for m in matches if m.grip_id], query.filters, query_terms)
        by_grip = {h.grip_id: h for h in filed}
        for match, position in zip(matches, ranking.places.tolist(), strict=True):
            if match.grip_id:
                hits += [by_grip[match.grip_id]] if match.grip_id in by_grip else []
            else:
                pending_match = copy_with(pending[int(everything.message[position])], score=match.score)
                hits += [copy_with(hit, asks=match.asks) for hit in self._showing.pending_hits([pending_match], query_terms)]
        notices = tuple(dict.fromkeys(n for s in (*sides.values(), *keyword_sides.values()) for n in s.notices))
        return FoundHits(tuple(hits), len(everything), 0.0, notices, any(side.is_partial for side in sides.values()))

    def search_messages(self, query: IndexQuery) -> FoundHits:
        """Return the best messages of this index."""
        with span(_SPANS[self.name]):
            searched = search_sides([self], copy_with(query, limit=DEPTH))
            if not searched.sides:
                raise searched.missing[self.name]
            weights = KEYWORDS if self.name is LayerName.BM25 else MEANING
            return self.list_messages(searched.sides, weights, query, searched.keyword_sides)


@dataclass(frozen=True, slots=True)
class SearchedSides:
    """What indexes return for a query and its keywords."""

    sides: Sides
    keyword_sides: Sides
    missing: Mapping[LayerName, LayerUnavailable]


def search_sides(layers: Sequence[TeleportLayer], query: IndexQuery) -> SearchedSides:
    """Search indexes for the messages of a query and its keywords.

    Each index also rates what the others found, and for the query what was found for the keywords and the other way round, so
    that every message has all numbers whatever its rank.
    """
    names, text = np.zeros(0, dtype=np.uint64), "\n".join(query.keywords)
    if not terms(text):
        sides, missing, _ = _search_layers(layers, query, names)
        return SearchedSides(sides, {}, missing)
    keyword_query = copy_with(query, text=text)
    keyword_sides, _, names = _search_layers(layers, keyword_query, names)
    sides, missing, names = _search_layers(layers, query, names)
    rated_by = [layer for layer in layers if layer.name in keyword_sides]
    return SearchedSides(sides, _rate_missing(rated_by, keyword_query, keyword_sides, names), missing)


def _search_layers(
    layers: Sequence[TeleportLayer], query: IndexQuery, names: Array
) -> tuple[dict[LayerName, Side], dict[LayerName, LayerUnavailable], Array]:
    sides: dict[LayerName, Side] = {}
    missing: dict[LayerName, LayerUnavailable] = {}
    for layer in layers:
        try:
            sides[layer.name] = layer.search_side(query, names)
            names = sort_distinct(np.concatenate([names, sides[layer.name].candidates.message]))
        except LayerUnavailable as error:
            missing[layer.name] = error
    return _rate_missing([layer for layer in layers if layer.name in sides], query, sides, names), missing, names


def _rate_missing(layers: Sequence[TeleportLayer], query: IndexQuery, sides: Sides, names: Array) -> dict[LayerName, Side]:
    rated_sides: dict[LayerName, Side] = {}
    for layer in layers:
        side = rated_sides[layer.name] = sides[layer.name]
        unrated = names[~is_among(names, side.candidates.message)]
        if len(unrated):
            candidates = Candidates.concatenate([side.candidates, layer.rate_messages(query, unrated)])
            rated_sides[layer.name] = copy_with(side, candidates=candidates)
    return rated_sides


def explain_missing(name: LayerName, indexes: "Accelerators") -> LayerStatus:
    """Return why a layer has no index, and the settings that enable it."""
    if reason := indexes.reasons.get(name):
        return LayerStatus(name, enabled=True, healthy=False, reason=reason)
    off = indexes.disabling_settings(name)
    reason = f"disabled ({off[0]} = false)" if off else "a memory without a directory keeps no index"
    enable_with = " and ".join(f"{key} = true" for key in off)
    return LayerStatus(name, enabled=not off, healthy=False, reason=reason, enable_with=enable_with)


def unavailable(message: str, status: LayerStatus, tool: str) -> LayerUnavailable:
    """Return the error of a layer without an index, with the tool to use instead."""
    how = f"Enable with {status.enable_with}" if status.enable_with else status.reason[:1].upper() + status.reason[1:]
    return LayerUnavailable(message, f"{how}; use {tool} meanwhile.", status.reason)


def best_tool(indexes: "Accelerators", missing: LayerName, *, has_hybrid: bool = False) -> str:
    """Return the tool of the best usable index but `missing`, else search_children.

    `has_hybrid` says whether there is a tool for both.
    """
    layer_names = [name for name in (LayerName.BM25, LayerName.VECTOR) if name is not missing]
    searchers = ((name, indexes.find_searcher(name)) for name in layer_names)
    usable = [name for name, searcher in searchers if searcher is not None and searcher.keeper.status().ready]
    if has_hybrid and len(usable) == 2:
        return "hybrid_search"
    return TOOLS[usable[0]] if usable else _ALWAYS
