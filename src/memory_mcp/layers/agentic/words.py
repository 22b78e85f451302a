"""Weigh a query's words by the tree, and find which of them a node's whole text holds. Needs no index."""

from collections.abc import Sequence

from memory_mcp.derive.terms import EMPTY
from memory_mcp.layers.agentic.match import Weighted, below, weigh
from memory_mcp.layers.base import Weighed
from memory_mcp.model.ids import NodeId
from memory_mcp.text import query_terms, term_hash
from memory_mcp.toc.tree import Tree


class TreeWords:
    """Weighs a query's words by their frequencies in the tree; a `Words`."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def weigh(self, text: str, project: str | None) -> Weighed:
        """Return the terms of a text with IDF weights in a project (None: all); no terms for a text without words."""
        tally = self._tree.tally(project)
        if not query_terms(text):
            return Weighed({}, {}, tally.segments, tally.events)
        found = weigh(text, self._tree.frequencies(), project, tally.segments)
        return Weighed(found.weights, found.counts, tally.segments, tally.events)

    def covered(self, query: Weighed, nodes: Sequence[NodeId]) -> dict[NodeId, frozenset[str]]:
        """Return the query terms in each node's term set, none of an unknown node; those of a period are of all projects."""
        sets = self._tree.term_sets(nodes)
        hashes = {t: term_hash(t) for t in query.weights}
        weighted = Weighted("", query.weights, hashes, query.counts, ())
        return {n: below(weighted, sets.get(n, EMPTY)) for n in nodes}
