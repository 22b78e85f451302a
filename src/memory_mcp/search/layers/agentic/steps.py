"""Describe the steps of a walk: what was compared where, and the decision. Pure."""

from collections.abc import Mapping, Sequence

from memory_mcp.model.calendar import TocLevel, level_of
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.search.layers.agentic.match import WeightedQuery
from memory_mcp.search.layers.agentic.read import SegmentFind
from memory_mcp.search.layers.base import Step
from memory_mcp.tree.toc.tree import finer_level as finer

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
