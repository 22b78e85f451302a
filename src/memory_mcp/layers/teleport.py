"""Layers 3 and 4: one class, two instances. An index says where, the store says what.

Events in no document yet are searched beside the index, so that nothing acknowledged is invisible.
"""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from memory_mcp.errors import IndexUnreadable, InvalidQuery, LayerUnavailable
from memory_mcp.indexes.base import DocType, Filters, Match, Searcher, Unfiled
from memory_mcp.layers.base import CONTRACTS, Hit, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.layers.budget import Budget
from memory_mcp.layers.showing import Showing
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.text import probe, query_terms, terms
from memory_mcp.toc.tree import Tree
from memory_mcp.tracing import span

T = TypeVar("T")
#: Text, filters and limit in, what a jump found out.
Jump = Callable[[str, Filters, int], "Teleported"]

#: Events behind the index that are searched one by one; while an import is ahead by more, the oldest of them wait.
UNFILED = 2000
#: Of those, the newest that are compared by meaning: each has to be embedded first. Words are looked for in all of them.
EMBEDDED = 64
#: Documents asked for per answer wanted, because several may lie in one segment.
WIDER = 4
#: A jump waits so long for an index that is still being read (seconds).
_LOADING = 2.0
#: Literal beginnings of the messages of layers that cannot answer.
NOT_ENABLED = {LayerName.BM25: "BM25 index not enabled", LayerName.VECTOR: "Vector index not enabled"}
_SPANS = {LayerName.BM25: "teleport_search", LayerName.VECTOR: "vector_teleport"}
_WORDS = {LayerName.BM25: "BM25 index", LayerName.VECTOR: "Vector index"}


@dataclass(frozen=True, slots=True)
class Found:
    """What an index answered, before anything is read from the store."""

    matches: tuple[Match, ...]
    #: Events that no document holds yet.
    unfiled: tuple[Unfiled, ...]
    #: Documents that hold something of the query, shown or not.
    total: int
    took_ms: float
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Teleported:
    """What one jump found."""

    hits: tuple[Hit, ...]
    total: int
    took_ms: float
    notices: tuple[str, ...] = ()
    #: One of two sides could not answer.
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """Whether a layer may be used; if not, why, and the settings that would change it."""

    enabled: bool
    reason: str = ""
    enable_with: str = ""


class TeleportLayer:
    """Jumps to documents by words or by meaning."""

    def __init__(
        self,
        name: LayerName,
        searcher: "Callable[[], Searcher | Switch]",
        storage: Storage,
        tree: Tree,
    ) -> None:
        self.name = name
        self.contract = CONTRACTS[name]
        #: The index, or why there is none; asked each time, so that nothing is loaded before it is needed.
        self._find = searcher
        self._storage = storage
        self._tree = tree
        self._showing = Showing(storage, tree)

    def status(self) -> LayerStatus:
        """See Layer."""
        found = self._find()
        if isinstance(found, Switch):
            return LayerStatus(self.name, found.enabled, healthy=False, reason=found.reason, enable_with=found.enable_with)
        status = found.keeper.status()
        reason = status.reason
        if status.building is not None and not status.ready:
            reason = f"{reason} ({status.building:,} documents so far)"
        return LayerStatus(self.name, enabled=True, healthy=status.ready, count=status.documents, reason=reason)

    @property
    def searcher(self) -> Searcher:
        """The index; LayerUnavailable with what to do instead."""
        found = self._find()
        if isinstance(found, Switch):
            instead = "use search_children meanwhile"
            how = f"Enable with {found.enable_with}" if found.enable_with else found.reason[:1].upper() + found.reason[1:]
            raise LayerUnavailable(NOT_ENABLED[self.name], f"{how}; {instead}.", found.reason)
        return found

    def teleport(self, text: str, filters: Filters, limit: int, least: float = 0.0, per_node: bool = False) -> Teleported:
        """The best documents for a text, or the best nodes with their grips (`per_node`).

        InvalidQuery for an empty text, LayerUnavailable when the index cannot answer.
        """
        if not text.strip():
            raise InvalidQuery("the query is empty", "Give at least one word to look for.")
        with span(_SPANS[self.name]):
            found = self.find(text, filters, limit * WIDER if per_node else limit, least)
            return self.show(text, filters, limit, one_per_node(found, limit) if per_node else found)

    def find(self, text: str, filters: Filters, limit: int, least: float = 0.0) -> Found:
        """What the index says, and which events behind it match; LayerUnavailable when it cannot answer."""
        # Reading an index takes a second after a start; whoever asks for it by name would rather wait than be refused.
        self.searcher.keeper.index.wait(_LOADING)
        began = time.perf_counter()
        # Read before the search: an event that is filed meanwhile is found twice rather than not at all.
        done = self.searcher.keeper.index.position.events
        found = self._ask(lambda: self.searcher.search(text, filters, limit, least))
        beside, notices = self._beside(text, filters, least, done)
        took = (time.perf_counter() - began) * 1000
        return Found(found.best, tuple(beside), found.total + len(beside), took, tuple(notices))

    def show(self, text: str, filters: Filters, limit: int, found: Found) -> Teleported:
        """The words behind what was found."""
        with span("collect_results"):
            wanted = frozenset(query_terms(text))
            hits = self._showing.hits(found.matches, filters, wanted)
            known = {h.event_id for h in hits}
            # During an import hundreds may match; finding the words to quote of one costs more than comparing it.
            fresh = (u for u in found.unfiled if u.event.event_id not in known)
            beside = self._showing.unfiled(heapq.nlargest(limit, fresh, key=lambda u: u.score), wanted)
            if beside:
                hits = sorted([*hits, *beside], key=lambda h: -h.score)[:limit]
        return Teleported(tuple(hits), found.total, found.took_ms, found.notices)

    def _ask(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except IndexUnreadable as error:
            hint = "It is built in the background; use search_children meanwhile."
            raise LayerUnavailable(f"{_WORDS[self.name]} not ready: {error.message}", hint, error.message) from error

    def _beside(self, text: str, filters: Filters, least: float, done: int) -> tuple[list[Unfiled], list[str]]:
        """Matches among events behind number `done`, which no document holds yet."""
        last = self._storage.events.last_seq()
        if last <= done or not filters.wants_grips or filters.kind is not None:
            return [], []
        first = max(done, last - UNFILED)
        scope = Scope(filters.project, filters.agent, filters.window)
        probes = list(map(probe, query_terms(text))) if self.name is LayerName.BM25 else ()
        events = self._storage.events.arrived(first, last, scope, probes)
        spoken = [e for e in events if filters.speaker is None or e.speaker.casefold() == filters.speaker.casefold()]
        spoken = spoken[-EMBEDDED:] if self.name is LayerName.VECTOR else spoken
        found = [u for u in self._ask(lambda: self.searcher.unfiled(text, spoken)) if u.raw >= least]
        return found, [f"{first - done:,} events wait to be indexed"] if first > done else []

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """See Layer."""
        return as_layer(query, budget, lambda text, filters, limit: self.teleport(text, filters, limit, per_node=True))


def one_per_node(found: Found, limit: int) -> Found:
    """Each node once, by its best document; what else of it was found is named with it."""
    best: dict[NodeId, Match] = {}
    for match in found.matches:
        held = best.get(match.node_id)
        grips = tuple(g for g in (match.grip_id, match.best_grip) if g)
        if held is None:
            # A grip stands for its segment here; whichever it is, the words shown are that grip's.
            best[match.node_id] = replace(match, grip_id=None, doc_type=DocType.NODE, best_grip=grips[0] if grips else None)
        else:
            best[match.node_id] = replace(held, also=(*held.also, *(g for g in grips if g != held.best_grip)))
    return replace(found, matches=tuple(best.values())[:limit])


def as_layer(query: Query, budget: Budget, jump: Jump) -> LayerAnswer:
    """A jump as the policy asks for it: one call, each segment one hit, and every hit a node visited."""
    if query.window is not None and not terms(query.text):
        return LayerAnswer((), window=query.window, notices=("a time and no word to look for",))
    if not budget.call():
        return LayerAnswer((), window=query.window)
    filters = Filters(window=query.window, project=query.project, agent=query.agent)
    found = jump(query.text, filters, query.limit)
    hits = found.hits[: budget.visit(len(found.hits))]
    return LayerAnswer(hits, window=query.window, notices=found.notices)
