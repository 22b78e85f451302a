"""A query's words as the tree knows them: what they weigh, and how much of them a node's whole text holds. No index."""

from collections.abc import Sequence

from memory_mcp.layers.agentic.match import Weighted, shares_of, weigh
from memory_mcp.layers.base import Weighed
from memory_mcp.model.ids import NodeId
from memory_mcp.text import query_terms, term_hash
from memory_mcp.toc.tree import Tree


class TreeWords:
    """See Words."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def weigh(self, text: str, project: str | None) -> Weighed:
        """See Words."""
        if not query_terms(text):
            return Weighed({}, {})
        found = weigh(text, self._tree.frequencies(), project, self._tree.tally(project).segments)
        return Weighed(found.weights, found.counts)

    def covered(self, query: Weighed, nodes: Sequence[NodeId]) -> dict[NodeId, float]:
        """See Words. Of a period that mixes projects, everything it holds counts."""
        sets = self._tree.term_sets(nodes)
        hashes = {t: term_hash(t) for t in query.weights}
        weighted = Weighted("", query.weights, hashes, query.counts, ())
        return dict(zip(nodes, shares_of(weighted, [sets.get(n) for n in nodes]), strict=True))
