"""search_node and search_children: match one node, or the children of a node, against a query."""

from collections.abc import Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.text import snippet
from memory_mcp.model.calendar import DEPTH, TocLevel, level_of
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import TocNode
from memory_mcp.search.layers.agentic.match import (
    FieldMatch,
    SearchField,
    WeightedQuery,
    match_node,
    parse_fields,
    shares_of,
    terms_below,
    weigh_query,
)
from memory_mcp.search.layers.budget import Budget
from memory_mcp.tree.toc.tree import Tree
from memory_mcp.tree.toc.tree import finer_level as finer

#: Matches shown per node of a children search.
MATCHES_PER_NODE = 3
MAX_LIMIT = 100
#: Most nodes read whole for one search; of more, term sets select which.
_READ = 300


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A node, its matches, and the share of the query below it."""

    node: TocNode
    matches: tuple[FieldMatch, ...]
    relevance: float


@dataclass(frozen=True, slots=True)
class ChildrenResult:
    """Nodes, the next offset, and how many nodes were considered."""

    results: tuple[NodeResult, ...]
    next_offset: int | None
    compared: int


class NodeSearch:
    """Searches of one tree by node."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def weigh_query(self, text: str, project: str | None, keywords: Sequence[str] = ()) -> WeightedQuery:
        """Return the query's terms with IDF weights in a project.

        Raises InvalidQuery without terms.
        """
        return weigh_query(text, self._tree.frequencies(), project, self._tree.tally(project).segments, keywords)

    def search_node(
        self,
        node_id: NodeId,
        text: str,
        fields: Sequence[str] | None,
        limit: int,
        project: str | None,
        keywords: Sequence[str] = (),
    ) -> tuple[TocNode, list[FieldMatch]]:
        """Return a node and the matches in its own fields, best first.

        Raises NotFound for an unknown node, InvalidQuery for a limit out of 1..100, an unknown field or an empty text.
        """
        _check_limit(limit)
        chosen = parse_fields(fields)
        query = self.weigh_query(text, project, keywords)
        node = self._tree.node(node_id, project)
        return node, match_node(node, query, chosen)[:limit]

    def search_children(
        self,
        parent: NodeId,
        text: str,
        level: TocLevel | None,
        fields: Sequence[str] | None,
        limit: int,
        project: str | None,
        offset: int = 0,
        keywords: Sequence[str] = (),
    ) -> ChildrenResult:
        """Return children, or descendants of a level, that hold query terms.

        With `fields`, only those fields count. Of more than 300 nodes those are read whose term sets hold most of the query,
        and refined ones. Raises NotFound for an unknown parent, InvalidQuery for a level that is not below it, a limit out of
        1..100, an unknown field or an empty text.
        """
        _check_limit(limit)
        chosen = parse_fields(fields)
        query = self.weigh_query(text, project, keywords)
        self._tree.node(parent, project)
        ids = self.level_ids(parent, level, project)
        likely = ids
        if len(ids) > _READ:  # reading thousands of nodes whole took a second at 100,000 events
            sets = self._tree.term_sets(ids, project)
            shares = shares_of(query, [sets.get(i) for i in ids])
            best = sorted((-share, -at) for at, share in enumerate(shares) if share > 0)[: max(_READ, offset + limit + 1)]
            # A node's words are those of its events, or those of an agent who refined it.
            read = {ids[-at] for _, at in best} | (self._tree.refined_ids() & set(ids))
            likely = [i for i in ids if i in read]
        ranked = self.rank_nodes(likely, query, chosen, below_too=not fields, project=project)
        page = ranked[offset : offset + limit]
        more = offset + limit if len(ranked) > offset + limit else None
        return ChildrenResult(tuple(page), more, len(ids))

    def level_ids(self, parent: NodeId, level: TocLevel | None, project: str | None) -> list[NodeId]:
        """Return the direct children, or all descendants at a level.

        Raises InvalidQuery for a level that is not below the parent's.
        """
        parent_level = level_of(parent)
        if level is None or level is finer(parent_level):
            return self._tree.children(parent, project)
        if DEPTH[level] <= DEPTH[parent_level]:
            raise InvalidQuery(
                f"{level} is not below {parent_level}",
                f"Below {parent_level} come {', '.join(k for k in DEPTH if DEPTH[k] > DEPTH[parent_level])}.",
            )
        return self._tree.descendants(parent, level, project)

    def rank_nodes(
        self, ids: Sequence[NodeId], query: WeightedQuery, fields: Sequence[SearchField], below_too: bool, project: str | None
    ) -> list[NodeResult]:
        """Return the nodes that match, best first.

        With `below_too` words of their events count as well; a node that has them only there gets a pointer as its match.
        """
        nodes, sets = self._tree.with_terms(ids, project) if below_too else (self._tree.nodes(ids, project), {})
        ranked = []
        for node_id, node in nodes.items():
            matches = match_node(node, query, fields)
            own_terms = frozenset[str]().union(*(m.terms for m in matches))
            under = terms_below(query, sets[node_id]) if node_id in sets else frozenset[str]()
            if own_terms or under:
                shown_matches = tuple(matches[:MATCHES_PER_NODE])
                if not shown_matches:  # a pointer to the events below, not a quotation
                    words = ", ".join(t for t in query.weights if t in under)
                    text = snippet(f"not in this summary; in the events below: {words}", (), 240)
                    share = round(len(under) / len(query.weights), 3)
                    shown_matches = (FieldMatch(SearchField.BELOW, text, (), share, under),)
                ranked.append((query.share_of(own_terms | under), query.share_of(own_terms), node, shown_matches))
        ranked.sort(key=lambda f: (-f[0], -f[1], -f[2].start_ms, f[2].node_id))
        return [NodeResult(node, shown_matches, round(min(relevance, 1.0), 4)) for relevance, _, node, shown_matches in ranked]


def fit_results(results: Sequence[NodeResult], budget: Budget) -> list[NodeResult]:
    """Return the first results that the token budget has room for, counted."""
    fitting = []
    for result in results:
        text = result.node.title + "".join(m.text + "".join(m.grip_ids) for m in result.matches) + result.node.node_id
        if not budget.spend_tokens(text):
            break
        fitting.append(result)
    return fitting


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidQuery(f"limit must be 1 to {MAX_LIMIT}, not {limit}")
