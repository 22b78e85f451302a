"""Pages of a node's children, each with what it was about and how much there was of it.

Invariants
1. Every child is on one of the pages, or on one of those that open what is folded; none is on two.
2. How much is said of a child depends on those of its list that come first, and not on the page.

Change here: how much of a node's children is shown, and which are folded.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocNode
from memory_mcp.model.tokens import tokens_in
from memory_mcp.requests.cursors import offset_cursor, offset_of
from memory_mcp.requests.limits import PAGE
from memory_mcp.requests.plain import count_fitting, list_size, size_of
from memory_mcp.requests.scope import Scoped
from memory_mcp.requests.shapes import Bullet, Child, ChildDetail, cut_child, full_child, shape_child
from memory_mcp.tree.toc.quiet import choose_folded

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Tokens of the first children of a list, which decide how much beside their titles is shown of each.
_ROOM = 520


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
    """Return the most salient bullets that fit, in their order.

    The list is empty where not even one fits.
    """
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
    """Return the children of these ids, with their numbers of children.

    They are FullChild with `full`; ids that the scope does not hold are left out.
    """
    nodes = app.tree.nodes(ids, scoped.project)
    counted = [(nodes[i], app.tree.count_children(i, scoped.project)) for i in ids if i in nodes]
    return [full_child(node, count, app.calendar) if full else shape_child(node, count) for node, count in counted]
