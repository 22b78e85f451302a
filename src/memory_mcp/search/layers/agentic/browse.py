"""List what happened in a time, for a query without words: segments or, for an overview, periods."""

from collections.abc import Iterable

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.toc import TocNode
from memory_mcp.question.timehints import TimeHint
from memory_mcp.search.layers.agentic.walk import node_label
from memory_mcp.search.layers.base import Hit, LayerAnswer, Query, Step
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.layers.showing import add_standing
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.tree import Tree

#: Levels of an overview, the finest first.
_PERIODS = (TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH, TocLevel.YEAR)


def list_nodes(tree: Tree, query: Query, scope: Scope) -> list[TocNode]:
    """Return the nodes of the scope, newest first, at most `query.limit`.

    The node of exactly the window, if any, comes before. These are segments, or for an overview the finest periods that number
    at most `query.limit`; segments too where one day holds everything, and where an agent is named, because periods mix agents.
    """
    ids = _list_periods(tree, query, scope) if query.overview and scope.agent is None else []
    if not ids:
        ids = _list_segments(tree, query, scope)
    nodes = tree.nodes(ids, scope.project)
    listed = sorted(nodes.values(), key=lambda n: (-n.start_ms, n.node_id))
    period_node = _find_period_node(tree, scope) if scope.agent is None else None
    return listed if period_node is None else [period_node, *(n for n in listed if n.node_id != period_node.node_id)]


def _find_period_node(tree: Tree, scope: Scope) -> TocNode | None:
    if scope.window is None:
        return None
    inside = TimeWindow(scope.window.start_ms, scope.window.end_ms - 1)
    for level in _PERIODS:
        ids = [i for i in tree.descendants(ROOT, level, scope.project, inside) if tree.calendar.node_window(i) == scope.window]
        if ids:
            return tree.nodes(ids, scope.project).get(ids[0])
    return None


def _list_periods(tree: Tree, query: Query, scope: Scope) -> list[NodeId]:
    """Return the periods of the finest level with at most `query.limit`.

    The last years if no level has so few; without a window the latest days. Empty where one day holds everything.
    """
    if scope.window is None:  # the latest days are overview enough
        days = tree.descendants(ROOT, TocLevel.DAY, scope.project)
        return days[-query.limit :] if len(days) > 1 else []
    for level in _PERIODS:
        ids = tree.descendants(ROOT, level, scope.project, scope.window)
        if level is TocLevel.DAY and len(ids) < 2:
            return []
        if len(ids) <= query.limit:
            return ids
    return tree.descendants(ROOT, TocLevel.YEAR, scope.project, scope.window)[-query.limit :]


def _list_segments(tree: Tree, query: Query, scope: Scope) -> list[NodeId]:
    if scope.window is not None or scope.agent is not None:
        return [s.node_id for s in tree.segments_below(ROOT, scope)[::-1][: query.limit]]
    segment_ids: list[NodeId] = []
    for day in reversed(tree.descendants(ROOT, TocLevel.DAY, scope.project)):
        segment_ids += [s.node_id for s in tree.segments_below(day, scope)[::-1]]
        if len(segment_ids) >= query.limit:
            break
    return segment_ids[: query.limit]


def node_hit(node: TocNode, query: Query) -> Hit:
    """Return a hit with a score of 1 for a node.

    It quotes the first bullet, or else the summary. Project and agent are "" where the node has several.
    """
    bullet = node.bullets[0] if node.bullets else None
    return Hit(
        node_id=node.node_id,
        title=node.title,
        quote=bullet.text if bullet else node.summary,
        grip_ids=bullet.grip_ids[:3] if bullet else (),
        timestamp=node.start_ms,
        session_id="",
        project=query.project or (node.projects[0] if len(node.projects) == 1 else ""),
        agent=node.agents[0] if len(node.agents) == 1 else "",
        role="",
        speaker="",
        score=1.0,
        level=node.level,
    )


def list_window(
    tree: Tree, storage: Storage, query: Query, hint: TimeHint, scope: Scope, budget: Budget, pending: Iterable[Hit]
) -> LayerAnswer:
    """Return what happened in the window, newest first.

    It costs a call, and a node for each. `pending` are hits of events without a node, read once the nodes are.
    """
    budget.count_call()
    nodes = list_nodes(tree, query, scope)
    allowed = budget.visit_nodes(len(nodes))
    budget.spent.satisfied |= allowed > 0
    hits = [*(node_hit(node, query) for node in nodes[:allowed]), *pending]
    # The node of the requested period stays first.
    first_count = 1 if len(nodes) > 1 and nodes[0].level is not nodes[1].level else 0
    hits = [*hits[:first_count], *sorted(hits[first_count:], key=lambda h: -h.timestamp)][: query.limit]
    hits = add_standing(hits, {n.node_id: n for n in nodes}, storage)
    level = nodes[0].level if nodes else TocLevel.SEGMENT
    step = Step(ROOT, node_label(ROOT), allowed, level, "", 1.0, f"Listed what happened {hint.words}".rstrip())
    return LayerAnswer(tuple(hits), (step,), hint.window, hint.words, ())
