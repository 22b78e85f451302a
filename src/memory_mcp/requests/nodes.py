"""Reading the time tree: browse_toc, get_node and get_toc_root."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.app import App
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import ROOT, NodeId, segment_key_of
from memory_mcp.requests import shapes
from memory_mcp.requests.cursors import offset_cursor, offset_of
from memory_mcp.requests.limits import PAGE
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.shapes import Child, Event, Node
from memory_mcp.requests.times import times_of


@dataclass(frozen=True, slots=True)
class Browse:
    """One page of the tree, and a page of its children."""

    node_id: str = ""
    limit: int = PAGE.default
    cursor: str = ""
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browsed(Recalled):
    """The node, and its children from the cursor on."""

    node: Node
    children: Sequence[Child]
    next_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GetNode:
    """One node with all its children; the root where no node is named."""

    node_id: str = ""
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a segment stands."""

    session_id: str = ""
    #: The end of the session's segment before.
    before: Sequence[Event] = ()
    #: Day, week, month and year.
    parents: Sequence[Child] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNode(Recalled):
    """The node, all its children, and for a segment its context."""

    node: Node
    children: Sequence[Child]
    context: Context | None = None
    scope: str


def browse(app: App, request: Browse, caller: Caller) -> Browsed:
    """Return a page of the tree; NotFound where the scope holds no such node."""
    limit = PAGE.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller.project)
    opened = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
    ids = app.tree.children(opened.node_id, scoped.project)
    question = ("browse_toc", opened.node_id, scoped.words)
    offset = offset_of(request.cursor, *question)
    end = offset + limit
    return Browsed(
        node=shapes.node(opened, app.calendar, *_neighbours(app, opened.node_id, scoped)),
        children=_children(app, ids[offset:end], scoped),
        next_cursor=offset_cursor(end, *question) if end < len(ids) else "",
        scope=scoped.words,
        notices=[] if opened.event_count else scoped.nothing(app),
    )


def get_node(app: App, request: GetNode, caller: Caller) -> WholeNode:
    """Return a whole node; NotFound where the scope holds none such."""
    scoped = scope_of(app, request.project, request.scope, caller.project)
    opened = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
    return WholeNode(
        node=shapes.node(opened, app.calendar, *_neighbours(app, opened.node_id, scoped)),
        children=_children(app, app.tree.children(opened.node_id, scoped.project), scoped),
        context=_context(app, opened.node_id, scoped) if opened.level is TocLevel.SEGMENT else None,
        scope=scoped.words,
    )


def _children(app: App, ids: Sequence[NodeId], scoped: Scoped) -> list[Child]:
    """Return children as a node lists them, in the order given."""
    found = app.tree.nodes(ids, scoped.project)
    return [shapes.child(found[i]) for i in ids if i in found]


def _neighbours(app: App, node_id: NodeId, scoped: Scoped) -> tuple[str, str]:
    """Return the nodes just before and after one under the same parents; "" where there is none."""
    ids = [] if node_id == ROOT else app.tree.siblings(node_id, scoped.project)
    times = app.storage.toc.nodes([*ids, node_id]) if ids else {}
    if node_id not in times:
        return "", ""
    own = (times[node_id].start_ms, node_id)
    order = sorted((n.start_ms, i) for i, n in times.items() if i != node_id)
    return next((i for s, i in reversed(order) if (s, i) < own), ""), next((i for s, i in order if (s, i) > own), "")


def _context(app: App, node_id: str, scoped: Scoped) -> Context | None:
    key = segment_key_of(node_id)
    segment = app.storage.toc.segments([key]).get(key) if key is not None else None
    if segment is None:
        return None
    found = app.tree.context(segment, scoped.project)
    before = [shapes.event(e, app.calendar) for e in found.before]
    return Context(session_id=segment.session_id, before=before, parents=[shapes.child(n) for n in reversed(found.parents)])
