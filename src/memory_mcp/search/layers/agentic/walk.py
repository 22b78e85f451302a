"""The state of one walk through the tree, what its bounds allow it next, and its steps in words."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TocLevel, level_of
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.search.layers.agentic.match import WeightedQuery
from memory_mcp.search.layers.agentic.read import SegmentFind
from memory_mcp.search.layers.base import Query, Step
from memory_mcp.search.layers.budget import Budget
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.tree import finer_level as finer

#: Time reserved for reading the words to quote: a share of the limit, between these milliseconds. It takes 8 at 100,000
#: documents on an idle machine.
_TO_QUOTE, _QUOTE_SHARE, _MOST_TO_QUOTE = 8.0, 0.4, 60.0


@dataclass(slots=True)
class Walk:
    """The state of one search."""

    query: Query
    weighted: WeightedQuery
    scope: Scope
    budget: Budget
    mean_tokens: float
    #: Nodes and calls reserved for scanning events, and when the walk ends (monotonic seconds).
    kept_nodes: int = 0
    kept_calls: int = 0
    until: float = math.inf
    #: Whether anything that may answer was not compared.
    is_cut: bool = False
    frontier: list[tuple[float, int, int, NodeId]] = field(default_factory=list)
    seen: set[NodeId] = field(default_factory=set)
    found: list[SegmentFind] = field(default_factory=list)
    path: list[Step] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    #: Segments that may answer, with the best that they can cover, which need not be read for the hits wanted.
    unread: list[tuple[float, Segment]] = field(default_factory=list)
    #: Whether time is short: it goes depth first until anything is found, and reports what it finds at once.
    is_hasty: bool = False
    #: In haste, a node with more segments than could be compared: events below it are scanned first.
    crowded: NodeId | None = None
    #: The slices of its time that are not scanned yet.
    slices: Sequence[Scope] = ()
    #: The score of the best message reported so far.
    reported: float = 0.0

    def begin_attempt(self, *, is_hasty: bool) -> None:
        """Forget what an earlier attempt left undone."""
        self.is_cut, self.is_hasty = False, is_hasty
        self.crowded, self.slices, self.unread = None, (), []

    def is_late(self, finds: Sequence[SegmentFind] = (), step_ms: float = 0.0) -> bool:
        """Return whether only time to quote is left after `step_ms`."""
        to_quote = max(_TO_QUOTE, min(_MOST_TO_QUOTE, _QUOTE_SHARE * self.budget.bounds.timeout_ms))
        has_finds = bool(self.found or finds)
        return self.budget.out_of_time() or (has_finds and self.budget.is_short_of(to_quote + step_ms))

    def end_scan(self) -> str:
        """Lift the reserve for scanning; return the bound that ended the walk."""
        is_late, is_called = self.budget.clock.monotonic() > self.until, self.budget.calls_left() <= self.kept_calls
        self.kept_nodes, self.kept_calls, self.until = 0, 0, math.inf
        return "timeout_ms" if is_late else "max_rpc_calls" if is_called else "max_nodes_visited"

    def has_enough(self) -> bool:
        """Return whether nothing left can cover more than the hits wanted."""
        counts = Counter(t for f in self.found for t in f.terms)
        if self.found and all(counts[t] >= count for t, count in self.weighted.counts.items()):
            return True
        if len(self.found) < self.query.limit:
            return False
        covered = sorted((f.coverage for f in self.found), reverse=True)[self.query.limit - 1]
        return -self.frontier[0][0] <= covered

    def nodes_left(self) -> int:
        """Return how many nodes the walk may compare, without the reserve."""
        return max(0, self.budget.nodes_left() - self.kept_nodes)

    def visit_nodes(self, count: int) -> int:
        """Count nodes as visited; return how many may be compared."""
        return self.budget.visit_nodes(min(count, self.nodes_left()) if self.kept_nodes else count)


#: Share of the query's weight above which a match is called strongest.
STRONG_MATCH = 0.5


def descent_step(node_id: NodeId, terms_by_child: Mapping[NodeId, frozenset[str]], query: WeightedQuery, tell: bool) -> Step:
    """Return the step from a node to its best child.

    `terms_by_child` maps each compared child to the query terms it holds; without any the branch is left. Without `tell` the
    terms and the score are "" and 0: they may be of another project.
    """
    level = finer(level_of(node_id))
    best = max(terms_by_child, key=lambda i: query.share_of(terms_by_child[i]), default=None)
    if best is None or not terms_by_child[best]:
        return Step(node_id, node_label(node_id), len(terms_by_child), level, "", 0.0, "Nothing here: leaving this branch")
    if not tell:
        return Step(node_id, node_label(node_id), len(terms_by_child), level, "", 0.0, f"Drilling into {node_label(best)}")
    share = round(query.share_of(terms_by_child[best]), 4)
    strength = "strongest" if share > STRONG_MATCH else "best, though weak,"
    words = f"below it: {', '.join(t for t in query.weights if t in terms_by_child[best])}"
    return Step(
        node_id,
        node_label(node_id),
        len(terms_by_child),
        level,
        words,
        share,
        f"Drilling into {node_label(best)} ({strength} {level} match)",
    )


def comparison_step(node_id: NodeId, compared: int, finds: Sequence[SegmentFind], otherwise: str) -> Step:
    """Return the step of comparing segments, with the best of `finds`.

    If nothing was found, `otherwise` is the decision.
    """
    best = max(finds, key=lambda f: (f.coverage, f.score), default=None)
    if best is None:
        return Step(node_id, node_label(node_id), compared, TocLevel.SEGMENT, "", 0.0, otherwise)
    decision = f"Found {len(finds)} relevant segment{'s' if len(finds) != 1 else ''}"
    return Step(node_id, node_label(node_id), compared, TocLevel.SEGMENT, best.node.title, round(best.coverage, 3), decision)


def node_label(node_id: NodeId) -> str:
    """Return a node's name for people, such as "Month 2026-01"."""
    if node_id == ROOT:
        return "Root"
    level = level_of(node_id)
    name = node_id.split(":", 2)[2]
    return f"{level.capitalize()} {name}" if level is not TocLevel.SEGMENT else f"Segment {name}"
