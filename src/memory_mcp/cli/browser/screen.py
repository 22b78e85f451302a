"""The browser: a search above, the time tree and results at the left, what was said at the right.

Invariants
1. The thread of the screen waits for nothing: every request is awaited by a worker, and the last one of its kind counts.
2. Nothing but `asking` reaches the memory.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static, Tree

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.browser import words
from memory_mcp.cli.browser.asking import Asking
from memory_mcp.cli.browser.style import CSS
from memory_mcp.cli.browser.widgets import FOLDED, MORE, ROOT_LINE, Branch, Entries, TimeTree
from memory_mcp.cli.browser.windows import Keys, Projects
from memory_mcp.cli.browser.words import Entry, Kind, Target
from memory_mcp.model.calendar import TocLevel

#: Seconds without a key before a search begins, and before the page of a line is read that the cursor only passes.
_TYPED, _PASSED = 0.2, 0.12
#: Most results, events and tokens of a page, and projects of the list.
_RESULTS, _EVENTS, _TOKENS, _PROJECTS = 10, 60, 20_000, 1000
_OPENING = "Opening the memory …"
_NOTHING = "Unfold a period at the left with Enter, or search with /. ? shows the keys."


class Browser(App[None]):
    """The screen, with its search, its tree, its results and its page."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any other, so that words typed at once behind it are not taken for keys.
        Binding("slash", "search", "Search", key_display="/", priority=True),
        Binding("escape", "outward", "Back", key_display="Esc"),
        Binding("p", "project", "Project"),
        Binding("t", "today", "Today"),
        Binding("o", "reveal", "Where"),
        Binding("c", "copy", "Copy id"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, asking: Asking, project: str = "", scope: str = "", empty: str = "") -> None:
        """Browse what `asking` returns for a project and scope; `empty` is the text for an empty memory."""
        super().__init__(ansi_color=True)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
        self._asking, self._empty = asking, empty
        self._where = {"project": project, "scope": scope}
        #: The page that is shown, and those before it with the place of the cursor.
        self._shown: Target | None = None
        self._before: list[tuple[Target, int]] = []
        #: Where the page was opened from.
        self._opener = "#tree"

    def compose(self) -> ComposeResult:
        """Yield the widgets: scope and search above, tree and results at the left, the page at the right, keys below."""
        # Kept, as a worker may have words for one while the screen is being closed.
        self._search = Input(placeholder="/ search: words or a question (last week too)", compact=True, id="search")
        self._tree, self._results, self._page = TimeTree(self.ask, id="tree"), Entries(id="results"), Entries(id="page")
        with Horizontal(id="top"):
            yield Static(Content("memory"), id="scope")
            yield self._search
        with Horizontal(id="body"):
            with Container(id="left"):
                yield self._tree
                yield self._results
            yield self._page
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        """Set theme and titles, focus the tree, and start reading the root and the newest month."""
        self.theme = "ansi-dark"
        self._tree.border_title, self._results.border_title, self._page.border_title = "Time", "Results", "Page"
        self._page.show([Entry(Content(_OPENING))])
        self._focus(self._tree)
        self._begin()

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the response of a request in the chosen project and scope, as JSON values; raises MemoryMcpError."""
        return await self._asking.ask(name, **arguments, **self._where)

    def _focus(self, widget: Widget) -> None:
        """Focus a widget of the main screen at once; `Widget.focus` does so a moment later."""
        self.screen_stack[0].set_focus(widget)

    def _tell(self, error: Exception) -> None:
        """Show an error as a notification for eight seconds."""
        self.notify(words.clean(str(error)), severity="error", timeout=8, markup=False)

    # the tree

    @work(group="tree", exclusive=True)
    async def _begin(self) -> None:
        """Read the tree anew in the current scope, and put the cursor on the newest month; an error is notified. A worker."""
        self._tree.begin()
        try:
            root = await self.ask("get_node")
            scope = root["scope"]
            shown = scope if scope == "all projects" else f"project {render.project_name(scope)}"
            self.screen_stack[0].query_one("#scope", Static).update(Content(f"memory · {words.line(shown)}"))
            if not root["children"]:
                self._page.show([Entry(Content(self._empty or _NOTHING))])
            await self._tree.newest(TocLevel.MONTH)
        except MemoryMcpError as error:
            self._tell(error)

    def on_time_tree_failed(self, event: TimeTree.Failed) -> None:
        """Show why a part of the tree could not be read."""
        self._tell(event.error)

    def on_time_tree_inward(self, _: TimeTree.Inward) -> None:
        """Show the conversation of the segment under the cursor."""
        self._enter()

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Branch]) -> None:
        """Show the node's page once the cursor rests there; lines that stand for no node show none."""
        branch = event.node.data
        if branch is not None and branch.level not in (ROOT_LINE, MORE, FOLDED):
            self._opener = "#tree"
            self._open(Target(Kind.NODE, branch.node_id), _PASSED)

    def on_tree_node_selected(self, event: Tree.NodeSelected[Branch]) -> None:
        """Unfold or fold a line that has lines below it; of a segment show the conversation."""
        if event.node.allow_expand:
            event.node.toggle()
        else:
            self._enter()

    def _enter(self) -> None:
        """Focus the page and show the conversation of the segment under the tree's cursor; nothing on any other line."""
        node = self._tree.cursor_node
        if node is not None and node.data is not None and node.data.level == TocLevel.SEGMENT:
            self._opener = "#tree"
            self._before.clear()
            self._focus(self._page)
            self._open(Target(Kind.WORDS, node.data.node_id))

    @work(group="reveal", exclusive=True)
    async def action_today(self) -> None:
        """Put the tree's cursor on the newest day there is (today or an earlier one) and focus the tree. A worker."""
        try:
            await self._tree.newest(TocLevel.DAY)
        except MemoryMcpError as error:
            self._tell(error)
        self._focus(self._tree)

    # pages

    @work(group="page", exclusive=True)
    async def _open(self, target: Target, after: float = 0, at: int = 0) -> None:
        """Show a page, read `after` so many seconds, with the cursor on entry `at`; a later call cancels it. A worker.

        A page of kind MORE is added to the one shown. On an error, which is notified, the page shown stays.
        """
        await asyncio.sleep(after)
        page = self._page
        page.border_subtitle = "reading …"
        try:
            entries = list(await self._read(target))
        except MemoryMcpError as error:
            self._tell(error)
            if self._shown is None:
                page.show([Entry(Content(words.clean(str(error))))])
            return
        finally:
            page.border_subtitle = ""
        if target.kind is Kind.MORE:
            page.add(entries)
            return
        self._shown = target
        page.border_title = {Kind.NODE: "Page", Kind.WORDS: "Conversation", Kind.GRIP: "Evidence"}[target.kind]
        page.show(entries, at)

    async def _read(self, target: Target) -> Iterable[Entry]:
        """Return the entries of a page: a grip in its conversation, a node, or 60 events; raises MemoryMcpError.

        Of kind MORE the events behind the target's cursor, without the title.
        """
        if target.kind is Kind.GRIP:
            around = {"before": target.around, "after": target.around, "token_budget": target.tokens}
            return words.grip_page(await self._asking.ask("expand_grip", grip_id=target.name, **around), target)
        data = await self.ask("get_node", node_id=target.name)
        if target.kind is Kind.NODE:
            return words.node_page(data)
        node = data["node"]
        found = await self._asking.ask(
            "get_events",
            session_id=data.get("context", {}).get("session_id", ""),
            since=node["start"],
            until=words.second_after(node["end"]),
            limit=_EVENTS,
            token_budget=_TOKENS,
            cursor=target.cursor,
        )
        told = list(words.words_page(node, found))
        return told[1:] if target.kind is Kind.MORE else told

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open what the cursor is on, or fold or unfold it; the page that is left can be gone back to.

        Of a result the page gets the focus; on the line for more the next results are read.
        """
        entries = event.option_list
        if entries is self._results:
            entry = self._results.entry
            if entry is None or entry.opens is None:
                return
            if entry.opens.kind is Kind.MORE:
                self._find(self._search.value.strip(), 0, entry.opens.cursor)
                return
            self._opener = "#results"
            self._before.clear()
            self._focus(self._page)
            self._open(entry.opens)
        elif entries is self._page and not self._page.toggle():
            entry = self._page.entry
            if entry is not None and entry.opens is not None:
                if self._shown is not None and entry.opens.kind is not Kind.MORE:
                    self._before.append((self._shown, self._page.highlighted or 0))
                self._open(entry.opens)

    def on_entries_outward(self, _: Entries.Outward) -> None:
        """Go back one step: to the page before, else to the list it was opened from; as `action_outward`."""
        self.action_outward()

    # the search

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for what is typed after 0.2 s without a key, dropping an earlier search; an empty box hides the results."""
        self._find(event.value.strip(), _TYPED)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search at once and focus the results; nothing where the box is empty."""
        if event.value.strip():
            self._find(event.value.strip(), 0, then_focus=True)

    @work(group="search", exclusive=True)
    async def _find(self, typed: str, after: float, cursor: str = "", then_focus: bool = False) -> None:
        """Search for `typed` after so many seconds and show ten results; an error is notified. A worker.

        A later call cancels it. With a cursor the next results are added; an empty text hides them all.
        """
        results = self._results
        if not typed:
            self._show_results(False)
            return
        await asyncio.sleep(after)
        results.border_title = "Searching …"
        self._show_results(True)
        if then_focus:
            self._focus(results)
        try:
            found = await self.ask("intelligent_search", query=typed, limit=_RESULTS, detail="full", cursor=cursor)
        except MemoryMcpError as error:
            results.border_title = "Results"
            self._tell(error)
            return
        results.border_title = f"Results: {found['confidence']}"
        cards = list(words.cards(found))
        if cursor:
            # The note on how it was searched comes again with the next page.
            del results.entries[-1:]
            results.add(cards)
        else:
            results.show(cards)

    def _show_results(self, shown: bool) -> None:
        """Show or hide the list of results, by which the tree gets less or more room."""
        self._results.display = shown
        self.screen_stack[0].set_class(shown, "-found")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the evidence of the result under the cursor once it rests there, if the results have the focus."""
        entry = self._results.entry
        if event.option_list is self._results and self._results.has_focus and entry is not None and entry.opens is not None:
            self._opener = "#results"
            if entry.opens.kind is not Kind.MORE:
                self._open(entry.opens, _PASSED)

    # keys

    def action_search(self) -> None:
        """Focus the search box."""
        self._focus(self._search)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - see App
        """Return whether an action may run: `search` not in a box or a window, where a slash is a slash; others always."""
        return action != "search" or (len(self.screen_stack) == 1 and not isinstance(self.focused, Input))

    def action_outward(self) -> None:
        """Go back one step: to the page before, else to the list it was opened from, from the search to its results.

        From anywhere else the search is cleared and the tree is focused.
        """
        focused = self.focused
        if focused is self._page and self._before:
            target, at = self._before.pop()
            self._open(target, at=at)
        elif focused is self._page:
            self._focus(self._list(self._opener))
        elif focused is self._search:
            self._focus(self._list("#results"))
        else:
            self._search.value = ""
            self._show_results(False)
            self._focus(self._tree)

    def _list(self, wanted: str) -> Widget:
        """Return the results where `wanted` is "#results" and they are shown, else the tree."""
        return self._results if wanted == "#results" and self._results.display else self._tree

    def action_copy(self) -> None:
        """Copy the id of the entry or node under the cursor to the clipboard, and say so; nothing where it has none."""
        node = self._tree.cursor_node
        if isinstance(self.focused, Entries):
            name = self.focused.entry.name if self.focused.entry is not None else ""
        else:
            name = node.data.node_id if node is not None and node.data is not None else ""
        if name:
            self.copy_to_clipboard(name)
            self.notify(f"copied {words.line(name)}", markup=False)

    @work(group="reveal", exclusive=True)
    async def action_reveal(self) -> None:
        """Put the tree's cursor on the entry under the cursor, for a grip on its segment, else on the page shown; focus the tree.

        An error, or that it is not there, is notified. A worker.
        """
        entry = self.focused.entry if isinstance(self.focused, Entries) else None
        target = entry.opens if entry is not None and entry.opens is not None else self._shown
        if target is None:
            return
        name = target.name
        try:
            if target.kind is Kind.GRIP:
                name = (await self._asking.ask("expand_grip", grip_id=name, before=0, after=0))["grip"].get("node_id", "")
        except MemoryMcpError as error:
            self._tell(error)
            return
        if not name:
            return
        try:
            if not await self._tree.reveal(words.path_to(name)):
                self.notify("it is not in this part of the tree", markup=False)
        except MemoryMcpError as error:
            self._tell(error)
        self._focus(self._tree)

    def action_keys(self) -> None:
        """Open the window that explains the keys."""
        self.push_screen(Keys())

    @work(group="projects", exclusive=True)
    async def action_project(self) -> None:
        """Let a project be chosen, then read the tree and search in it; nothing when that is cancelled. A worker."""
        try:
            found = await self._asking.ask("list_projects", limit=_PROJECTS)
        except MemoryMcpError as error:
            self._tell(error)
            return
        chosen = await self.push_screen_wait(Projects(found["projects"], found.get("yours", "")))
        if chosen is None:
            return
        self._where = {"project": chosen, "scope": "" if chosen else "all"}
        self._before.clear()
        self._begin()
        if self._search.value.strip():
            self._find(self._search.value.strip(), 0)
