"""Windows that open above the browser: the choice of a project, and the keys."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from memory_mcp.cli.browser.widgets import Entries
from memory_mcp.cli.browser.words import projects

_KEYS = (
    ("/", "search; results come while you type, Enter goes to them"),
    ("up down  k j", "move"),
    ("right  l", "unfold, or go further in"),
    ("left  h", "fold, or go back"),
    ("Enter", "open: a period unfolds; a segment, a statement or a result shows the words"),
    ("Esc", "back"),
    ("Tab", "to the next part of the screen"),
    ("g G", "to the beginning, to the end"),
    ("space b", "a page on, a page back"),
    ("t", "today, or the newest day there is"),
    ("o", "show where this lies in the tree"),
    ("p", "look at one project, or at all"),
    ("c", "copy the id, for memory-mcp show and for agents"),
    ("q", "quit"),
)


class Keys(ModalScreen[None]):
    """What each key does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Yield the window with a line for each key."""
        wide = max(len(keys) for keys, _ in _KEYS)
        lines = [Content.assemble((keys.ljust(wide), "bold"), "  ", what) for keys, what in _KEYS]
        with Vertical(id="window"):
            yield Static(Content("\n").join(lines))


class Projects(ModalScreen["str | None"]):
    """A dialog that returns a project's name, "" for all projects, None when cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("down", "into", show=False),
    ]

    def __init__(self, found: Sequence[Mapping[str, Any]], yours: str) -> None:
        """Offer `found`, the projects of a response to list_projects; `yours` is marked as here."""
        super().__init__()
        self._found, self._yours = found, yours

    def compose(self) -> ComposeResult:
        """Yield the window with an input and the list of projects below it."""
        with Vertical(id="window"):
            yield Input(placeholder="type a part of a project's name", compact=True)
            yield Entries()

    def on_mount(self) -> None:
        """Show all projects."""
        self._show("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the projects that match the input."""
        event.stop()
        self._show(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Choose the project under the list's cursor, at first the first match, and close the window."""
        event.stop()
        self._take()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose the selected project and close the window."""
        event.stop()
        self._take()

    def action_into(self) -> None:
        """Move the focus from the input to the list."""
        self.query_one(Entries).focus()

    def _show(self, typed: str) -> None:
        """Show the projects whose names contain `typed`; with "" all, and first the choice of all projects."""
        self.query_one(Entries).show(projects(self._found, self._yours, typed))

    def _take(self) -> None:
        """Close the window with the name of the project under the cursor ("": all projects); nothing where no project matches."""
        entry = self.query_one(Entries).entry
        if entry is not None:
            self.dismiss(entry.name)
