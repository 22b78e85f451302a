"""A query's words as the tree knows them: what they weigh, and which of them a node's whole text holds. No index."""

from collections.abc import Sequence

from memory_mcp.layers.agentic.match import Weighted, below, weigh
from memory_mcp.layers.base import Query, Weighed
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.storage.values import Scope
from memory_mcp.text import query_terms, term_hash
from memory_mcp.toc.terms import EMPTY
from memory_mcp.toc.tree import Tree


class TreeWords:
    """See Words."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def inhabited(self, query: Query) -> bool:
        """See Words. Events that are not filed yet may lie anywhere."""
        scope = Scope(query.project, query.agent, query.window)
        return self._tree.pending_from() is not None or self._tree.count_below(ROOT, scope) > 0

    def weigh(self, text: str, project: str | None) -> Weighed:
        """See Words."""
        tally = self._tree.tally(project)
        if not query_terms(text):
            return Weighed({}, {}, tally.segments, tally.events)
        found = weigh(text, self._tree.frequencies(), project, tally.segments)
        return Weighed(found.weights, found.counts, tally.segments, tally.events)

    def covered(self, query: Weighed, nodes: Sequence[NodeId]) -> dict[NodeId, frozenset[str]]:
        """See Words. Of a period that mixes projects, everything it holds counts."""
        sets = self._tree.term_sets(nodes)
        hashes = {t: term_hash(t) for t in query.weights}
        weighted = Weighted("", query.weights, hashes, query.counts, ())
        return {n: below(weighted, sets.get(n, EMPTY)) for n in nodes}
