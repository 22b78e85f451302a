"""The widgets: the time tree, and lists of entries with a cursor."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import OptionList, Tree
from textual.widgets.option_list import Option
from textual.widgets.tree import TreeNode

from memory_mcp.cli.browser.words import Entry, label, line
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import ROOT

#: Children per request.
_PAGE = 50
#: Shown beside the entry of the cursor, so that it is seen without colours.
_CURSOR = "▌ "

Ask = Callable[..., Awaitable[dict[str, Any]]]


@dataclass(slots=True)
class Branch:
    """The node or page behind a line of the tree."""

    node_id: str
    #: A level, or what the line stands for in the place of a node.
    level: str
    cursor: str = ""
    #: Whether what lies below it was asked for.
    is_filled: bool = False


#: Lines that stand for the root, for children on another page, and for those that are folded.
ROOT_LINE, MORE, FOLDED = "root", "more", "folded"


class TimeTree(Tree[Branch]):
    """The time tree, asked for level by level and page by page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("l,right", "inward", show=False),
        Binding("h,left", "outward", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    class Failed(Message):
        """A part of the tree could not be read."""

        def __init__(self, error: Exception) -> None:
            """Keep the error."""
            super().__init__()
            self.error = error

    class Inward(Message):
        """The cursor moves beyond the leaves of the tree."""

    def __init__(self, ask: Ask, **named: Any) -> None:
        """Make the tree with its hidden root alone; `ask` returns responses, `named` goes to Tree."""
        super().__init__("", Branch(ROOT, ROOT_LINE), **named)
        self._ask = ask
        self._reading = asyncio.Lock()
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False

    def begin(self) -> None:
        """Discard all nodes but the root, as unread; nothing is read."""
        self.clear()
        self.root.data = Branch(ROOT, ROOT_LINE)
        self.root.expand()

    async def fill(self, node: TreeNode[Branch]) -> None:
        """Read up to 50 children of a node, or the page behind a "more" line, once; add their lines.

        A "more" line is replaced by what it stood for. Concurrent calls wait for each other. Raises
        MemoryMcpError, and the node then counts as unread.
        """
        branch = node.data
        # A second request for what is being read waits for the first.
        async with self._reading:
            if branch is None or branch.is_filled:
                return
            data = await self._ask("browse_toc", node_id=branch.node_id, cursor=branch.cursor, limit=_PAGE)
            if branch.is_filled or node.data is not branch:
                return
            branch.is_filled = True
        into = node
        if branch.level == MORE and node.parent is not None:
            into = node.parent
            node.remove()
        most = max((child.get("events", 0) for child in data["children"]), default=0)
        for child in data["children"]:
            level = child.get("level", "")
            has_more = level != TocLevel.SEGMENT
            into.add(label(child, most), Branch(child["node_id"], level), allow_expand=has_more)
        if data.get("folded"):
            text = Text(line(data["folded"]), "dim italic")
            into.add(text, Branch(branch.node_id, FOLDED, data["folded_cursor"]), allow_expand=True)
        if data.get("next_cursor"):
            into.add_leaf(Text("more …", "dim italic"), Branch(branch.node_id, MORE, data["next_cursor"]))

    async def reveal(self, path: list[str]) -> bool:
        """Unfold the nodes of a path of ids, from a year down, and put the cursor on the last one found.

        Returns whether all were found; reads what is missing. Raises MemoryMcpError.
        """
        node, found = self.root, True
        for name in path:
            child = await self._child(node, name)
            if child is None:
                found = False
                break
            if node is not self.root:
                node.expand()
            node = child
        self._to(node)
        return found

    async def newest(self, level: str) -> None:
        """Put the cursor on the newest node of a level, reading what is missing.

        Without one, on the newest node of the lowest level above it. Raises MemoryMcpError.
        """
        node = self.root
        while node.data is not None and node.data.level != level:
            while (more := await self._more(node)) is not None:
                await self.fill(more)
            below = [c for c in node.children if c.data is not None and c.data.level != FOLDED]
            if not below:
                break
            node.expand()
            node = below[-1]
        self._to(node)

    def _to(self, node: TreeNode[Branch]) -> None:
        """Move the cursor to a node; nothing for the root, which has no line."""
        if node is not self.root:
            assert self.last_line >= 0
            self.move_cursor(node)

    async def _child(self, node: TreeNode[Branch], name: str) -> TreeNode[Branch] | None:
        """Return the node with an id below another; None where it is not there.

        Reads further pages until it is found, and looks into the folded children last, which are then unfolded.
        Raises MemoryMcpError.
        """
        while True:
            more = await self._more(node)
            for child in node.children:
                if child.data is not None and child.data.node_id == name and child.data.level not in (MORE, FOLDED):
                    return child
            if more is None:
                break
            await self.fill(more)
        folded = next((c for c in node.children if c.data is not None and c.data.level == FOLDED), None)
        found = await self._child(folded, name) if folded is not None else None
        if found is not None and folded is not None:
            folded.expand()
        return found

    async def _more(self, node: TreeNode[Branch]) -> TreeNode[Branch] | None:
        """Read a node's children, and return the "more" line below it; None where all are shown. Raises MemoryMcpError."""
        await self.fill(node)
        return next((c for c in node.children if c.data is not None and c.data.level == MORE), None)

    async def _filled(self, node: TreeNode[Branch]) -> None:
        """Read the children of a node; any error is posted as the message Failed instead of raised."""
        try:
            await self.fill(node)
        except Exception as error:
            self.post_message(self.Failed(error))

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Branch]) -> None:
        """Start reading the children of an expanded node."""
        self.run_worker(self._filled(event.node), group="tree")

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Branch]) -> None:
        """Start reading the next page where the cursor reaches a "more" line."""
        if event.node.data is not None and event.node.data.level == MORE:
            self.run_worker(self._filled(event.node), group="tree")

    def action_inward(self) -> None:
        """Unfold the node under the cursor, or go to its first child; on a leaf post the message Inward."""
        node = self.cursor_node
        if node is None:
            return
        if not node.allow_expand:
            self.post_message(self.Inward())
        elif not node.is_expanded:
            node.expand()
        elif node.children:
            self.move_cursor(node.children[0])

    def action_outward(self) -> None:
        """Fold the node under the cursor, or move to its parent; nothing on a folded node of the first level."""
        node = self.cursor_node
        if node is None:
            return
        if node.is_expanded and node.allow_expand:
            node.collapse()
        elif node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def render_label(self, node: TreeNode[Branch], base_style: Style, style: Style) -> Text:
        """Return a line's text, cut with an ellipsis to the tree's width, at least four characters."""
        text = super().render_label(node, base_style, style)
        depth, above = 0, node.parent
        while above is not None and above is not self.root:
            depth, above = depth + 1, above.parent
        text.truncate(max(self.scrollable_content_region.width - self.guide_depth * (depth + 1), 4), overflow="ellipsis")
        return text


class Entries(OptionList):
    """Entries, one below the other; a mark beside one of them is the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("l,right", "select", show=False),
        Binding("h,left", "outward", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
        Binding("space", "page_down", show=False),
        Binding("b", "page_up", show=False),
    ]

    class Outward(Message):
        """The user goes back to the previous place."""

    def __init__(self, **named: Any) -> None:
        """Make an empty list; `named` goes to OptionList."""
        super().__init__(markup=False, compact=True, **named)
        self.entries: list[Entry] = []
        self._open: dict[int, int] = {}

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor; None where there is none."""
        return self.entries[self.highlighted] if self.highlighted is not None and self.entries else None

    def show(self, entries: Iterable[Entry], at: int = 0) -> None:
        """Replace all entries; the cursor goes to entry `at`, else to the first that is marked as start, else to the first."""
        self.entries = list(entries)
        start = next((place for place, entry in enumerate(self.entries) if entry.is_start), 0)
        self._put(at or start)
        if not at:
            self.call_after_refresh(self.scroll_to_highlight, top=True)

    def add(self, entries: Iterable[Entry]) -> None:
        """Replace the last entry, the one that stood for more, by these; the cursor stays."""
        at = self.highlighted or 0
        self.entries[-1:] = entries
        self._put(at)

    def _put(self, at: int) -> None:
        """Show `entries` anew with the cursor on entry `at`, else on the last one; without entries on none."""
        self.set_options([Option(entry.text) for entry in self.entries])
        self.highlighted = min(at, len(self.entries) - 1) if self.entries else None

    def toggle(self) -> bool:
        """Unfold the entry under the cursor, or fold it if what belongs below it is there; return whether it can be folded."""
        entry, at = self.entry, self.highlighted
        if entry is None or at is None or not entry.below:
            return False
        top = self.scroll_offset.y
        behind = self.entries[at + 1 : at + 1 + len(entry.below)]
        if tuple(behind) == entry.below:
            del self.entries[at + 1 : at + 1 + len(entry.below)]
        else:
            self.entries[at + 1 : at + 1] = entry.below
        self._put(at)
        self.scroll_to(y=top, animate=False)
        return True

    def action_outward(self) -> None:
        """Post the message that the user goes back."""
        self.post_message(self.Outward())

    def _get_left_gutter_width(self) -> int:
        """Return the columns that are kept free for the cursor mark."""
        return len(_CURSOR)

    def render_line(self, y: int) -> Strip:
        """Return the strip of a screen line with the cursor mark, or blanks of its width, in front of it."""
        strip = super().render_line(y)
        lines = self._lines
        place = self.scroll_offset.y + y
        is_here = place < len(lines) and lines[place][0] == self.highlighted and self.has_focus
        style = self.rich_style + (Style(color="green", bold=True) if is_here else Style())
        return Strip([Segment(_CURSOR if is_here else " " * len(_CURSOR), style), *strip], strip.cell_length + len(_CURSOR))
