"""The browser by its keys, on a real memory: what is on the screen, and what was asked for it."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import OptionList

from memory_mcp.app import App
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.browser import widgets
from memory_mcp.cli.browser.asking import Here
from memory_mcp.cli.browser.screen import Browser
from memory_mcp.config import Settings
from memory_mcp.model.event import EventType, Role
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.settings import StorageSettings
from tests.cli.conftest import EVENTS, Cli
from tests.factories import BILLING, SHOP, draft
from tests.fakes import FakeClock
from tests.waiting import until_async

pytestmark = pytest.mark.anyio

#: What a text may try: to steer the terminal, to turn the direction of writing, to be markup of the screen's own.
HOSTILE = (
    "Should we [bold red]keep[/] the queue \x1b[2J\x1b]0;title\x07 \u202eback\u202c \x9b31m?",
    "We decided to keep the retry queue in Postgres [@click=app.quit]here[/]. [$error]x[/] [link=https://example.org]y[/link]",
)
TOOL = "\n".join(f"line {n} of the tool" for n in range(30))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)


class Asked:
    """The memory, and what it was asked; a request may be held, and its end seen."""

    def __init__(self, app: App, project: str = "") -> None:
        self._here = Here(app, Caller(project))
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.held: Callable[[str, dict[str, Any]], bool] = lambda _, __: False
        self.go_on = asyncio.Event()
        self.cancelled: list[dict[str, Any]] = []
        self.error: Exception | None = None

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append((name, arguments))
        if self.error is not None:
            raise self.error
        try:
            if self.held(name, arguments):
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.append(arguments)
            raise
        return await self._here.ask(name, **arguments)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [arguments for known, arguments in self.asked if known == name]


def strips(pilot: Pilot[None]) -> list[Strip]:
    """The lines on the screen, as they are drawn."""
    return pilot.app.screen._compositor.render_strips()


def screen(pilot: Pilot[None]) -> str:
    """The text on the screen."""
    return "\n".join(strip.text for strip in strips(pilot))


async def seen(pilot: Pilot[None], *wanted: str) -> str:
    """Wait until all of that is on the screen; the text on it."""

    try:
        await until_async(lambda: done(pilot, lambda: all(text in screen(pilot) for text in wanted)))
    except AssertionError:
        raise AssertionError(f"{wanted} not on the screen:\n{screen(pilot)}") from None
    return screen(pilot)


def browsing(asking: Asked, size: tuple[int, int] = (80, 24), **where: str) -> AbstractAsyncContextManager[Pilot[None]]:
    return Browser(asking, **where).run_test(size=size, notifications=True)


def tell(app: App, *texts: str, day: str = "2026-01-12", project: str = SHOP) -> None:
    roles = (Role.USER, Role.ASSISTANT)
    drafts = [
        draft(text, at=f"{day} 09:{n:02}", role=roles[n % 2], session=f"{project}-{day}", project=project)
        for n, text in enumerate(texts)
    ]
    app.write(drafts, "test")
    app.derivation.run()


@pytest.fixture(scope="module")
def shop() -> Iterator[App]:
    """A decision with its conversation, tool output beside it, and a month before it."""
    app = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), FakeClock(), in_memory=True)
    tell(app, "The printer is out of paper again, please look.", "I filled it up.", day="2025-12-03", project=BILLING)
    said = [
        draft("How should the retry queue store its jobs?", at="2026-01-12 09:00", session="q"),
        draft("Bash: ls\nand\nmore\nlines", at="2026-01-12 09:01", session="q", role=Role.ASSISTANT, kind=EventType.TOOL_CALL),
        draft(TOOL, at="2026-01-12 09:01", session="q", role=Role.TOOL, kind=EventType.TOOL_RESULT),
        draft("We decided to keep the retry queue in Postgres.", at="2026-01-12 09:02", session="q", role=Role.ASSISTANT),
        draft("Good, then write it down.", at="2026-01-12 09:03", session="q"),
    ]
    app.write(said, "test")
    app.derivation.run()
    yield app
    app.close()


async def test_the_tree_unfolds_level_by_level_to_the_words_of_a_segment_and_to_tool_output_and_folds_again(shop: App) -> None:
    asking = Asked(shop)
    async with browsing(asking) as pilot:
        # The newest month is in sight at once, and what was said in it beside it.
        shown = await seen(pilot, "2025", "2026", "January", "January 2026", "Statements")
        assert "12 Jan" not in shown
        assert [a["node_id"] for a in asking.of("browse_toc")] == ["toc:root", "toc:year:2026"]
        await pilot.press("enter", "j")
        await seen(pilot, "W03 (12 to 18 Jan)")
        await pilot.press("l", "j")
        await seen(pilot, "Mon 12 Jan")
        await pilot.press("right", "down")
        await seen(pilot, "09:00", "the whole conversation")
        await pilot.press("enter")
        shown = await seen(pilot, "Conversation", "user", "09:00 user", "line 0 of the tool (+29")
        assert "line 1 of the tool" not in shown
        # Everything was asked once.
        nodes = [a["node_id"] for a in asking.of("browse_toc")]
        assert nodes == ["toc:root", "toc:year:2026", "toc:month:2026-01", "toc:week:2026-W03", "toc:day:2026-01-12"]
        await pilot.press("j", "j", "j", "enter")
        await seen(pilot, "line 0 of the tool", "line 4 of the tool")
        await pilot.press("G")
        shown = await seen(pilot, "Good, then write it down.", "line 29 of the tool")
        assert "We decided to keep the retry queue" in shown
        await pilot.press("g", "j", "j", "j", "enter", "G")
        assert "line 29 of the tool" not in await seen(pilot, "(+29", "Good, then write it down.")
        await pilot.press("escape", "h", "h")
        shown = await seen(pilot, "━Time")
        assert "09:00" not in shown.split("─")[0]


async def test_a_search_shows_cards_readable_without_colours_in_eighty_columns_and_a_card_its_evidence_in_its_conversation(
    shop: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    asking = Asked(shop)
    async with browsing(asking) as pilot:
        await seen(pilot, "January")
        await pilot.press("slash", *"postgres")
        shown = await seen(pilot, "Results: ", "2026-01-12 09:02 assistant ·", "Understood as")
        assert "We decided to keep the retry" in shown
        assert asking.of("expand_grip") == []
        await pilot.press("enter")
        shown = await seen(pilot, "━Results", "▌ 2026-01-12 09:02", "q Quit")
        assert {len(line) for line in shown.splitlines()} == {80}
        colourless, background = pilot.app._filters[-1], pilot.app.screen.background_colors[1]
        filtered = [s for strip in strips(pilot) for s in strip.apply_filter(colourless, background)]
        colours = {c.name for s in filtered if s.style for c in (s.style.color, s.style.bgcolor) if c is not None}
        assert colours == {"default"}
        await pilot.press("enter")
        shown = await seen(pilot, "━Evidence", "these words are stored exactly so", "The quoted words", "After it")
        assert "Good, then write it down." in shown
        await pilot.press("escape")
        await seen(pilot, "━Results")
        await pilot.press("escape")
        assert "Results" not in await seen(pilot, "━Time")


async def test_a_statement_opens_its_evidence_and_escape_leads_back_to_it(shop: App) -> None:
    async with browsing(Asked(shop)) as pilot:
        await seen(pilot, "January 2026", "decision: ")
        await pilot.press("tab")
        await seen(pilot, "━Page")
        page = pilot.app.query_one("#page", widgets.Entries)
        place = next(n for n, entry in enumerate(page.entries) if "decision" in entry.text.plain)
        await pilot.press(*"j" * place)
        assert page.highlighted == place
        await pilot.press("enter")
        await seen(pilot, "━Evidence", "The quoted words")
        await pilot.press("escape")
        await seen(pilot, "━Page", "decision: ")
        assert page.highlighted == place
        await pilot.press("escape")
        await seen(pilot, "━Time")


async def test_children_come_page_by_page_as_the_cursor_reaches_the_end(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widgets, "_PAGE", 2)
    for day in range(12, 17):
        tell(app, f"Please count the anchors of harbour {day}.", f"There are {day}.", day=f"2026-01-{day}")
    asking = Asked(app)
    async with browsing(asking) as pilot:
        await seen(pilot, "January")
        await pilot.press("l", "l")
        await seen(pilot, "W03")
        await pilot.press("l", "l")
        assert "14 Jan" not in await seen(pilot, "12 Jan", "13 Jan", "more …")
        await pilot.press("j", "j")
        assert "16 Jan" not in await seen(pilot, "14 Jan", "15 Jan", "more …")
        await pilot.press("j", "j")
        assert "more …" not in await seen(pilot, "16 Jan")
        asked = [a for a in asking.of("browse_toc") if a["node_id"] == "toc:week:2026-W03"]
        assert [bool(a["cursor"]) for a in asked] == [False, True, True]


async def test_t_goes_to_the_newest_day_o_to_where_a_result_lies_and_c_copies_the_id_under_the_cursor(shop: App) -> None:
    async with browsing(Asked(shop)) as pilot:
        await seen(pilot, "January")
        await pilot.press("c")
        assert pilot.app.clipboard == "toc:month:2026-01"
        await pilot.press("t")
        await seen(pilot, "Mon 12 Jan 2026")
        tree = pilot.app.query_one(widgets.TimeTree)
        assert tree.cursor_node is not None
        assert tree.cursor_node.data is not None
        assert tree.cursor_node.data.node_id == "toc:day:2026-01-12"
        await pilot.press("slash", *"paper", "enter")
        await seen(pilot, "━Results", "2025-12-03")
        await pilot.press("c")
        assert re.fullmatch(r"grip:\d+:[0-9a-z-]+", pilot.app.clipboard)
        await pilot.press("o")
        await seen(pilot, "━Time", "09:00 ")
        assert tree.cursor_node.data is not None
        assert tree.cursor_node.data.node_id.startswith("toc:segment:2025-12-03:")


@pytest.mark.slow  # in the short form: a search that shows cards.
async def test_typing_on_drops_the_search_before(shop: App) -> None:
    asking = Asked(shop)
    asking.held = lambda name, arguments: name == "intelligent_search" and arguments["query"] == "printer"
    async with browsing(asking) as pilot:
        await seen(pilot, "January")
        await pilot.press("slash", *"printer")
        await until_async(lambda: done(pilot, lambda: len(asking.of("intelligent_search")) == 1))
        await pilot.press(*" retry queue")
        await seen(pilot, "Results: ", "We decided to keep the retry")
        assert [a["query"] for a in asking.cancelled] == ["printer"]
        asking.go_on.set()
        await pilot.pause()
        # The keys between the two were no search of their own.
        assert [a["query"] for a in asking.of("intelligent_search")] == ["printer", "printer retry queue"]


async def done(pilot: Pilot[None], condition: Callable[[], bool]) -> bool:
    await pilot.pause()
    return condition()


async def test_a_project_is_chosen_by_a_part_of_its_name(shop: App) -> None:
    asking = Asked(shop, SHOP)
    render.PROJECT_NAMES.set(shop.tree.short_names())
    async with browsing(asking) as pilot:
        # The caller's own project, as with every command.
        assert "2025" not in await seen(pilot, "project shop", "January")
        await pilot.press("p")
        await seen(pilot, "all projects", SHOP, BILLING, "(here)")
        await pilot.press(*"bill", "enter")
        shown = await seen(pilot, "project billing", "2025", "December 2025")
        assert "January" not in shown
        await pilot.press("p", "enter")
        await seen(pilot, "all projects", "2025", "2026")
        assert {a["scope"] for a in asking.of("get_node")} == {"", "all"}
        await pilot.press("p", "escape", "question_mark")
        await seen(pilot, "search; results come while you type")
        await pilot.press("escape")
        await seen(pilot, "━Time")


async def test_stored_text_is_neither_markup_nor_does_it_steer_the_terminal(app: App) -> None:
    tell(app, *HOSTILE, project="github.com/[bold]/[@click=app.quit]x")
    async with browsing(Asked(app), size=(150, 40)) as pilot:
        await seen(pilot, "January", "[@click=app.quit]here[/]")
        await pilot.press("t", "l", "l", "enter")
        shown = await seen(
            pilot, "━Conversation", "[@click=app.quit]here[/]", "[bold red]keep[/]", "\ufffd[2J\ufffd]0;title\ufffd"
        )
        assert "\ufffdback\ufffd \ufffd31m?" in shown
        await pilot.press("slash", *"queue", "enter")
        await seen(pilot, "━Results", "assistant")
        await pilot.press("enter")
        await seen(pilot, "━Evidence", "[$error]x[/]", "[link=https://example.org]y[/link]")
        await pilot.press("p")
        await seen(pilot, "[@click=app.quit]x")
        shown = screen(pilot)
        assert not set(shown) & {chr(c) for c in (*range(10), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F))}
        drawn = strips(pilot)
        actions = {key for strip in drawn for s in strip if s.style for key in s.style.meta if key.startswith("@")}
        links = {s.style.link for strip in drawn for s in strip if s.style}
        assert (actions, links) == (set(), {None})


@pytest.mark.slow  # in the short form: text that steers nothing.
async def test_wide_characters_and_right_to_left_text_keep_their_columns(app: App) -> None:
    tell(app, "決定しました: キューは残します。" * 4, "قررنا الاحتفاظ بقائمة الانتظار " * 5)
    async with browsing(Asked(app)) as pilot:
        await seen(pilot, "January", "決定しました")
        await pilot.press("t", "l", "l", "enter")
        await seen(pilot, "━Conversation", "قررنا")
        assert {strip.cell_length for strip in strips(pilot)} == {80}


async def test_an_error_is_said_as_it_is_and_the_browser_goes_on(shop: App) -> None:
    asking = Asked(shop)
    async with browsing(asking, size=(120, 30)) as pilot:
        await seen(pilot, "January")
        await seen(pilot, "January 2026")
        asking.error = LayerUnavailable("the daemon cannot be reached [bold]", "memory-mcp daemon status says how it is.")
        await pilot.press("slash", *"retry", "enter")
        await seen(pilot, "UNAVAILABLE: the daemon cannot be", "[bold]")
        asking.error = None
        await pilot.press("slash", "enter")
        await seen(pilot, "We decided to keep the retry")


async def test_an_empty_memory_says_what_fills_it(app: App) -> None:
    async with browsing(Asked(app), empty="Fill it with: memory-mcp import") as pilot:
        await seen(pilot, "Fill it with: memory-mcp import")


@pytest.mark.slow  # in the short form: tool output that is unfolded, above.
async def test_a_long_message_is_read_in_pieces_that_fit_the_screen(app: App) -> None:
    words = " ".join(f"word{n}" for n in range(1000))
    tell(app, words, "Done.")
    async with browsing(Asked(app)) as pilot:
        await seen(pilot, "January")
        await pilot.press("t", "l", "l", "enter")
        await seen(pilot, "━Conversation", "word0")
        page = pilot.app.query_one("#page", OptionList)
        found: list[str] = []
        for _ in range(page.option_count):
            found += re.findall(r"word\d+", screen(pilot))
            await pilot.press("j")
            await pilot.pause()
        assert {f"word{n}" for n in range(1000)} <= set(found)


# where it is no terminal


def test_on_a_pipe_it_prints_years_and_months_and_how_to_go_on_and_as_json_the_root(memory: Cli) -> None:
    done = memory("browse")
    assert done.status == 0
    assert done.text.splitlines()[0] == f"{memory('query', 'root').text.splitlines()[0].partition('  ')[2]} (all projects)"
    assert "toc:year:2026" in done.text
    assert "  toc:month:2026-01  January 2026" in done.text
    assert "memory-mcp query browse ID" in done.text
    assert 'memory-mcp ask "QUESTION"' in done.text
    data = memory("browse", "--json").data
    assert data == memory("query", "root", "--json").data
    assert data["node"]["events"] == EVENTS


def test_one_project_can_be_named_and_an_unknown_one_is_refused(memory: Cli) -> None:
    assert "2026" not in memory("browse", "--project", "printer").text
    done = memory("browse", "--project", "nothing-like-it")
    assert (done.status, done.out) == (2, "")
    assert "no project is called" in done.err


def test_on_a_pipe_an_empty_memory_says_what_fills_it(cli: Cli, own_home: Any) -> None:
    done = cli("browse", "--data-dir", str(own_home / "none"))
    assert done.status == 0
    assert "memory-mcp import" in done.err
