"""The explorer as it is served: in this process for what HTTP shows, by the installed program for a real browser."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from bench.place import VISIBLE, Place
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.web.visits import Visits
from tests import sessions, topics
from tests.daemon.door import Door, opened
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, copied
from tests.factories import BILLING, SITE, a_small_history, draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.indexes import helpers
from tests.templates import share_template
from tests.waiting import PATIENCE
from tests.web.visitor import Visitor, entered
from tests.work_cases import failing_in_sessions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request


def fill(app: App) -> None:
    """A week of three projects, two longer sessions, and twelve weeks of recurring themes."""
    app.write(a_small_history(1, "2026-02-02"), "test")
    app.write(topics.sessions(), "jsonl")
    app.write([_drafted(line) for line in sessions.sessions()], "jsonl")
    app.write(
        [
            draft(text, at=f"2026-02-17 10:{minute:02}", session="writing", role=role, project=SITE, source_id=f"w{minute}")
            for minute, (role, text) in enumerate(
                (
                    (Role.USER, "העגלה ריקה אחרי התשלום (src/cart.py). למה?"),
                    (Role.ASSISTANT, "السلة فارغة لأن الجلسة تنتهي قبل الدفع، وقررنا أن نطيلها إلى 30 دقيقة."),
                    (Role.USER, "決済の再試行は三回までにすると決めました。"),
                    (Role.ASSISTANT, "결제 재시도는 세 번으로 제한했습니다. 支付重试最多三次。"),
                )
            )
        ],
        "test",
    )
    app.write(failing_in_sessions(3, SITE, "2026-02"), "test")
    app.derivation.run()


def _drafted(line: dict[str, Any]) -> EventDraft:
    """One event of the JSONL form."""
    return EventDraft(
        session_id=line["session_id"],
        role=Role(line["role"]),
        type=EventType(line["type"]),
        text=line["text"],
        timestamp=line["timestamp"],
        source_id=line["id"],
        agent=line["agent"],
        project=BILLING,
        metadata=line["metadata"],
    )


# over HTTP, in this process


@dataclass
class Explorer:
    """An open door with pages, and how to be let in."""

    door: Door
    visits: Visits
    clock: FakeClock

    @property
    def server(self) -> str:
        return urlsplit(self.door.base).netloc

    def ticket(self, is_person: bool = False) -> str:
        """An address that opens a visit, once."""
        return self.door.base + self.visits.issue_ticket(is_person)

    def visit(self, is_person: bool = False) -> Visitor:
        """A visit of its own."""
        return entered(self.ticket(is_person))

    def stranger(self) -> Visitor:
        """Somebody who was not let in."""
        return Visitor(self.server)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """A small history behind pages; time stands still for tickets and visits."""
    clock = FakeClock()
    visits = Visits(clock.monotonic)
    directory = tmp_path_factory.mktemp("explorer") / "data"
    filled(directory, a_small_history(1))
    with opened(directory, visits=visits) as door:
        yield Explorer(door, visits, clock)


@pytest.fixture
def visitor(explorer: Explorer) -> Visitor:
    """Somebody who was let in."""
    return explorer.visit()


# in a browser, by the installed program

#: Without a model, which no page needs and each process would load.
BY_WORDS = {**DAEMON, "MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"}


@pytest.fixture(scope="session")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a memory of weeks with its topics, to be copied."""
    if not VISIBLE:
        pytest.skip("processes are looked at through /proc")
    directory = tmp_path_factory.mktemp("grouped") / "data"
    # In the time zone of `Place`: in another one the background process would file everything anew.
    app = App(Settings(storage=StorageSettings(str(directory), "UTC"), teleport=helpers.ONLY_BM25))
    fill(app)
    app.accelerators.catch_up()
    app.topics.rebuild_graph()
    app.close()
    return share_template(directory)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, grouped: Path, processes: None) -> Iterator[Place]:
    """A memory whose background process is there as long as the module's tests."""
    with copied(grouped, tmp_path_factory.mktemp("served"), more=BY_WORDS, kind=Beside) as place:
        yield place


def address(place: Place, *words: str) -> str:
    """What `memory-mcp open` prints."""
    return place.ok("open", "--print", "--port", "0", *words).strip()


@dataclass
class Visit:
    """A tab of the explorer, and everything that went wrong in it."""

    page: "Page"
    base: str
    wrong: list[str] = field(default_factory=list)
    #: Paths below the visit whose failing is what a test is about.
    may_fail: tuple[str, ...] = ()

    def go(self, page: str = "") -> "Page":
        """Load a page, and wait until its scripts have run."""
        self.page.goto(f"{self.base}/{page}", wait_until="load")
        return self.page

    def watch(self, origin: str) -> None:
        """Note errors of the console and of scripts, dialogs, requests that fail, and those to another server."""
        page = self.page

        def requested(request: "Request") -> None:
            if not request.url.startswith((f"{origin}/", "data:", "blob:")):
                self.wrong.append(f"asked {request.url}")

        def failed(request: "Request") -> None:
            # A page that is left ends its stream of changes, and whatever else it still waited for.
            if request.failure != "net::ERR_ABORTED":
                self.wrong.append(f"failed {request.url}: {request.failure}")

        def said(message: "ConsoleMessage") -> None:
            expected = any(part in str(message.location.get("url", "")) for part in self.may_fail)
            if message.type in ("error", "warning") and not expected:
                self.wrong.append(f"console: {message.text}")

        page.on("request", requested)
        page.on("requestfailed", failed)
        page.on("console", said)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))

        def asked(dialog: Any) -> None:
            self.wrong.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", asked)
        page.on("popup", lambda other: self.wrong.append(f"window: {other.url}"))


class Tabs:
    """Opens tabs, each with a visit of its own; at the end nothing may have gone wrong in any of them."""

    def __init__(self, browser: "Browser", place: Place) -> None:
        self._browser = browser
        self._place = place
        self.contexts: list[BrowserContext] = []
        self._visits: list[Visit] = []

    def open(self, **options: Any) -> Visit:
        """A tab in a new profile; `options` are those of playwright's contexts."""
        given = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        context = self._browser.new_context(**given)
        context.set_default_timeout(PATIENCE * 1000)
        self.contexts.append(context)
        url = address(self._place)
        page = context.new_page()
        visit = Visit(page, "")
        visit.watch(url.partition("/ui/")[0])
        page.goto(url)
        page.wait_for_url(lambda found: "/ui/enter/" not in found and found.rstrip("/").count("/") > 4)
        visit.base = "/".join(page.url.split("/")[:5])
        self._visits.append(visit)
        return visit

    def check(self) -> None:
        """Fail with everything that went wrong."""
        wrong = [said for visit in self._visits for said in visit.wrong]
        for context in self.contexts:
            context.close()
        assert wrong == []


@pytest.fixture
def tabs(browser: "Browser", served: Place) -> Iterator[Tabs]:
    made = Tabs(browser, served)
    yield made
    made.check()


@pytest.fixture
def tab(tabs: Tabs) -> Visit:
    """A light, wide tab."""
    return tabs.open(color_scheme="light")


@pytest.fixture(scope="module")
def standing(browser: "Browser", served: Place) -> Iterator[Visit]:
    """The tab of `desk`."""
    made = Tabs(browser, served)
    yield made.open(color_scheme="light")
    made.check()


@pytest.fixture
def desk(standing: Visit) -> Iterator[Visit]:
    """A light, wide tab that the tests of a module use one after another: a tab of its own costs more than most of them."""
    standing.wrong.clear()
    standing.may_fail = ()
    yield standing
    assert standing.wrong == []


@pytest.fixture
def phone(tabs: Tabs) -> Visit:
    """A tab as narrow as the smallest phones."""
    return tabs.open(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
