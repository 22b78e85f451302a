"""browse_toc, get_node and get_toc_root: reading the time tree, its children page by page.

Invariants
1. Every child is on one of the pages, or on one of those that open what is folded; none is on two.
2. How much is said of a child depends on those of its list that come first, and not on the page.

Change here: how much of a node's children is shown, and which are folded.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import ROOT, NodeId, segment_key_of
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocNode
from memory_mcp.model.tokens import tokens_in
from memory_mcp.requests import arguments, shapes
from memory_mcp.requests.entry import TIMELINE_PAGE, answers
from memory_mcp.requests.later_changes import find_later_changes
from memory_mcp.requests.limits import PAGE, PAGE_TOKENS, Detail, parse_choice
from memory_mcp.requests.plain import count_fitting, list_size, size_of, tokens_of
from memory_mcp.requests.response import Recalled, offset_cursor, offset_of
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.shapes import Bullet, Child, ChildDetail, Event, FullChild, Node, cut_child, full_child, shape_child
from memory_mcp.requests.times import times_of
from memory_mcp.tree.toc.quiet import choose_folded

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Tokens that a node's bullets have on its first page, and where its children do not all fit; and tokens for what joins parts.
_BULLETS, _FEW_BULLETS, _SPARE = 200, 80, 4
#: Tokens of the first children of a list, which decide how much beside their titles is shown of each.
_ROOM = 520


@dataclass(frozen=True, slots=True)
class Browse:
    """Open one page of the time tree (year > month > week > day > segment).

    Gives its title, summary, bullets with grip_ids, neighbours and children. Without node_id: the years.
    """

    node_id: arguments.NodeId = ""
    limit: Annotated[int, arguments.most("children", PAGE)] = PAGE.default
    cursor: arguments.Cursor = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browsed(Recalled):
    """The node, and its children from the cursor on; the quiet ones of many in one line."""

    node: Node
    children: Sequence[Child]
    next_cursor: str = ""
    #: Children that are folded into one line, and the cursor that shows them.
    folded: str = ""
    folded_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GetNode:
    """One node with all its bullets and children.

    For a segment also its context: what came just before in its session, and the day, week, month and year above it.
    """

    node_id: arguments.NodeId
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    limit: Annotated[int, arguments.most("children", PAGE)] = PAGE.default
    cursor: arguments.Cursor = ""
    detail: Annotated[
        str,
        arguments.detail(
            "full: also kind, projects, agents of each child", "full: also kind, projects and agents of each child (JSON)"
        ),
    ] = Detail.LEAN


@dataclass(frozen=True, slots=True)
class GetRoot:
    """The root of the time tree and its years: what time there is to look at."""

    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of a segment: its session, what came before it there, and its periods."""

    session_id: str = ""
    before: Annotated[Sequence[Event], "End of the session's segment before"] = ()
    #: Day, week, month and year.
    parents: Sequence[Child] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNode(Recalled):
    """The whole node, its first children as browse_toc pages them, and for a segment its context."""

    node: Node
    children: Sequence[FullChild] | Sequence[Child]
    next_cursor: str = ""
    folded: str = ""
    folded_cursor: str = ""
    context: Context | None = None
    scope: str


@answers("browse_toc", Browse, "Browse the time tree", page=TIMELINE_PAGE)
def browse_toc(app: "App", request: Browse, caller: Caller) -> Browsed:
    """Return a node and a page of its children.

    Raises NotFound where the scope holds no such node. A page of the usual size costs at most about PAGE_TOKENS: bullets that
    do not fit are left out, children come on the next page, but at least one is shown. With a cursor the node has no text.
    Raises InvalidQuery for an invalid argument.
    """
    limit = PAGE.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    opened = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
    full_node = _shape_node(app, opened, scoped, caller)
    listing = list_children(app, opened, scoped, limit, request.cursor)
    # The node itself was shown with the first page.
    node = replace(full_node, summary="", bullets=[], keywords=[]) if request.cursor else full_node
    bare = Browsed(
        node=replace(node, bullets=[]),
        children=[],
        # Whether there is one is known when the children are chosen: its place is kept.
        next_cursor=listing.cursor(0),
        folded=listing.folded,
        folded_cursor=listing.folded_cursor,
        scope=scoped.words,
        notices=scoped.notices(app, bool(opened.event_count)),
    )
    factor = app.settings.retrieval.token_factor
    room = PAGE_TOKENS * max(1.0, limit / PAGE.default) - tokens_of(bare, factor) - _SPARE
    bullet_tokens = tokens_of(node.bullets, factor)
    count = listing.count_fitting(room - min(bullet_tokens, _BULLETS), factor)
    if count < len(listing.children):
        count = listing.count_fitting(room - min(bullet_tokens, _FEW_BULLETS), factor)
    remaining = room - tokens_in(list_size(listing.sizes[:count]), factor)
    return replace(
        bare,
        node=replace(node, bullets=most_salient(node.bullets, remaining, factor)),
        children=listing.children[:count],
        next_cursor=listing.cursor(count),
    )


@answers("get_toc_root", GetRoot, "Years of the memory")
def get_root(app: "App", request: GetRoot, caller: Caller) -> WholeNode:
    """Return the root with its years; raises InvalidQuery for an unknown scope."""
    return get_node(app, GetNode(ROOT, scope=request.scope), caller)


@answers("get_node", GetNode, "Whole node")
def get_node(app: "App", request: GetNode, caller: Caller) -> WholeNode:
    """Return a whole node with a page of its children.

    At most `limit` of them, without a token budget; a segment has its context. Raises NotFound for a node that the scope does
    not hold, InvalidQuery for an invalid argument.
    """
    limit, full = PAGE.check(request.limit), parse_choice(Detail, "detail", request.detail) is Detail.FULL
    scoped = scope_of(app, request.project, request.scope, caller)
    opened = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
    listing = list_children(app, opened, scoped, limit, request.cursor, full)
    key, context = segment_key_of(opened.node_id) if opened.level is TocLevel.SEGMENT else None, None
    if key is not None and (segment := app.storage.toc.get_segments([key]).get(key)) is not None:
        segment_context = app.tree.context(segment, scoped.project)
        context = Context(
            session_id=segment.session_id,
            before=[shapes.shape_event(e, app.calendar) for e in segment_context.before],
            parents=[shapes.shape_child(n) for n in reversed(segment_context.parents)],
        )
    return WholeNode(
        node=_shape_node(app, opened, scoped, caller),
        children=listing.children,
        next_cursor=listing.cursor(len(listing.children)),
        folded=listing.folded,
        folded_cursor=listing.folded_cursor,
        context=context,
        scope=scoped.words,
    )


def _shape_node(app: "App", node: TocNode, scoped: Scoped, caller: Caller) -> Node:
    ids = [] if node.node_id == ROOT else app.tree.siblings(node.node_id, scoped.project)
    heads = app.storage.toc.get_heads([*ids, node.node_id]) if ids else {}
    previous_id = next_id = ""
    if node.node_id in heads:
        position = (heads[node.node_id].start_ms, node.node_id)
        order = sorted((n.start_ms, i) for i, n in heads.items() if i != node.node_id)
        previous_id = next((i for s, i in reversed(order) if (s, i) < position), "")
        next_id = next((i for s, i in order if (s, i) > position), "")
    over = app.storage.superseded.get_successors({grip for b in node.bullets for grip in b.grip_ids})
    return shapes.shape_node(node, app.calendar, previous_id, next_id, over, find_later_changes(app, node.bullets, caller))


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of children, as long as a limit allows; how long it is in the end, its tokens say."""

    children: Sequence[Child]
    #: The bytes of each in a response.
    sizes: Sequence[int]
    #: What is folded, in words, and the cursor that opens it; "" for nothing.
    folded: str
    folded_cursor: str
    #: Where the page begins in its list, how long that is, and the question its cursors belong to.
    offset: int
    total: int
    question: tuple[str, ...]

    def cursor(self, shown_count: int) -> str:
        """Return the cursor after `shown_count` children; "" at the end."""
        end = self.offset + shown_count
        return offset_cursor(end, *self.question) if end < self.total else ""

    def count_fitting(self, tokens: float, factor: float) -> int:
        """Return how many of the first children fit `tokens`, at least one if there are any."""
        return min(max(count_fitting(self.sizes, tokens, factor), 1), len(self.children))


def list_children(app: "App", opened: TocNode, scoped: Scoped, limit: int, cursor: str = "", full: bool = False) -> Listing:
    """Return a page of a node's children, in order of time.

    A day's short exchanges are folded into one line on its first page; their cursor leads to pages of them
    alone. Without `full`, how much is said of each child depends on the size of the first children of the
    list. Raises InvalidQuery for a cursor that is damaged, or of another question.
    """
    below = app.tree.children(opened.node_id, scoped.project)
    heads = app.storage.toc.get_heads(below)
    # What is in no node yet comes with the next reading; a place in the list must not depend on it.
    ids = [i for i in below if i in heads]
    hidden = choose_folded([heads[i] for i in ids], app.storage.toc.list_pins()) if opened.level is TocLevel.DAY else []
    question: tuple[str, ...] = ("browse_toc", opened.node_id, scoped.words)
    folded_question = (*question, "folded")
    offset: int | None = None
    hidden_ids = set(hidden)
    if hidden and cursor:
        with suppress(InvalidQuery):  # a cursor of the children that are not folded
            offset = offset_of(cursor, *folded_question)
    if offset is None:
        rows, page_question, offset = [i for i in ids if i not in hidden_ids], question, offset_of(cursor, *question)
    else:
        rows, page_question = hidden, folded_question
    end = offset + limit
    if full:
        children = _children(app, rows[offset:end], scoped, full=True)
        sizes = list(map(size_of, children))
    else:
        first, sizes, detail = _cut_first(app, _children(app, rows[: PAGE.default], scoped))
        children, sizes = first[offset:end], sizes[offset:end]
        if end > PAGE.default:
            children = [cut_child(child, detail) for child in _children(app, rows[offset:end], scoped)]
            sizes = list(map(size_of, children))
    folded = "" if cursor or not hidden else f"{len(hidden)} short exchanges, {sum(heads[i].event_count for i in hidden)} events"
    return Listing(
        children, sizes, folded, offset_cursor(0, *folded_question) if folded else "", offset, len(rows), page_question
    )


def most_salient(bullets: Sequence[Bullet], tokens: float, factor: float) -> Sequence[Bullet]:
    """Return the most salient bullets that fit, in their order, perhaps none."""
    ranked = sorted(range(len(bullets)), key=lambda i: -KIND_SALIENCE[MemoryKind(bullets[i].kind or MemoryKind.OBSERVATION)])
    count = count_fitting((size_of(bullets[i]) for i in ranked), tokens, factor)
    return [bullets[i] for i in sorted(ranked[:count])]


def _cut_first(app: "App", first: Sequence[Child]) -> tuple[list[Child], list[int], ChildDetail]:
    """Return the first children of a list as much as fits of each, their sizes, and how much that is."""
    for detail in ChildDetail:
        children = [cut_child(child, detail) for child in first]
        sizes = list(map(size_of, children))
        if tokens_in(list_size(sizes), app.settings.retrieval.token_factor) <= _ROOM:
            break
    return children, sizes, detail


def _children(app: "App", ids: Sequence[NodeId], scoped: Scoped, full: bool = False) -> list[Child]:
    """FullChild with `full`; ids that the scope does not hold are left out."""
    nodes = app.tree.nodes(ids, scoped.project)
    counted = [(nodes[i], app.tree.count_children(i, scoped.project)) for i in ids if i in nodes]
    return [full_child(node, count, app.calendar) if full else shape_child(node, count) for node, count in counted]
