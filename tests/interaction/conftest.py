"""The server through the library's own client, in memory, in both eras of the protocol."""

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.types import CallToolResult, Implementation, TextContent

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.server.build import build_server
from memory_mcp.server.guard import MemoryServer
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, a_day_of_drafts, draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.templates import share
from tests.waiting import PATIENCE

T = TypeVar("T")

#: Files about the protocol itself, whose tests run in both eras also in the short form.
_BOTH = frozenset(f"test_{name}.py" for name in ("log", "progress", "status", "tool_list"))

#: "auto" speaks the newest revision without a handshake, "legacy" begins with initialize.
ERAS = ("auto", "legacy")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one era of each test to the long form, by turns: what a tool does with a call does not depend on it."""
    turns: dict[str, dict[str, int]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        era = callspec.params.get("era") if callspec and item.path.parent == Path(__file__).parent else None
        if era in ERAS and item.path.name not in _BOTH:
            tests = turns.setdefault(item.path.name, {})
            number = tests.setdefault(item.name.partition("[")[0], len(tests))
            if era != ERAS[number % len(ERAS)]:
                item.add_marker(pytest.mark.slow)


_CHECKED: set[str] = set()
_check = Draft202012Validator.check_schema


def _checked_once(schema: dict[str, Any]) -> None:
    key = json.dumps(schema, sort_keys=True)
    if key not in _CHECKED:
        _check(schema)
        _CHECKED.add(key)


# Every connection of the library's client checks the schema of each tool that it calls, which takes longer than the call.
Draft202012Validator.check_schema = _checked_once


#: What clients have learned of a server's answers: each would list all tools before it believes the first.
_LEARNED: WeakKeyDictionary[MemoryServer, tuple[dict[str, Any], dict[str, Any]]] = WeakKeyDictionary()


@lru_cache(4)
def _server(app: App, project: str) -> MemoryServer:
    """Making one takes longer than most answers."""
    return build_server(app, project)


class Door:
    """A client's view of the server; each call opens a connection of its own."""

    def __init__(
        self, app: App, era: str, project: str = "", client: str = "Test Client", server: MemoryServer | None = None
    ) -> None:
        self.app = app
        self.server = server or _server(app, project)
        self.era = era
        self._client = Implementation(name=client, version="1")

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with an open connection."""

        async def main() -> T:
            with anyio.fail_after(PATIENCE):
                async with Client(self.server, mode=self.era, client_info=self._client) as client:
                    session = client.session
                    session._tool_output_schemas, session._tool_output_validators = _LEARNED.get(self.server, ({}, {}))
                    done = await work(client)
                    _LEARNED[self.server] = session._tool_output_schemas, session._tool_output_validators
                    return done

        return anyio.run(main)

    def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool, whatever comes."""
        found = self.run(lambda client: client.call_tool(name, arguments))
        assert isinstance(found, CallToolResult)
        return found

    def ok(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a call that succeeds; it holds no nulls and no empty texts."""
        found = self.call(name, **arguments)
        assert not found.is_error, found.content
        assert isinstance(found.structured_content, dict)
        assert not list(hollow(found.structured_content)), found.structured_content
        return found.structured_content

    def full(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """As `ok`, with everything that a result and an explanation hold."""
        return self.ok(name, detail="full", **arguments)

    def error(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that fails."""
        found = self.call(name, **arguments)
        assert found.is_error, found.structured_content
        [block] = found.content
        assert isinstance(block, TextContent)
        return block.text


def hollow(value: Any, place: str = "") -> Iterator[str]:
    """Places that say nothing: null or an empty text."""
    if value is None or value == "":
        yield place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from hollow(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from hollow(inner, place + "[]")


DAYS = ("2026-01-20", "2026-01-29", "2026-02-10")


def history(days: Sequence[str] = DAYS) -> list[EventDraft]:
    """Working days of two projects in January and February 2026, and a few messages to look for."""
    worked = [d for day in days for d in a_day_of_drafts(day, (SHOP, BILLING))]
    said = [
        ("2026-01-21 10:00", "auth", Role.USER, "How should the refresh token rotate? The JWT expires after 15 minutes."),
        ("2026-01-21 10:02", "auth", Role.ASSISTANT, "We decided on single-use refresh tokens with a 30 second grace window."),
        ("2026-01-21 10:05", "auth", Role.USER, "Good. Never log the refresh token, and keep the grace window configurable."),
        ("2026-02-24 15:00", "release", Role.USER, "The release train leaves on Thursday; freeze the payment module before it."),
        ("2026-02-24 15:03", "release", Role.ASSISTANT, "Noted: payment module frozen from Wednesday, hotfixes need review."),
    ]
    return worked + [draft(text, at=at, session=session, role=role) for at, session, role, text in said]


def open_app(profile: str = "default", days: Sequence[str] | None = DAYS, clock: FakeClock | None = None, **more: Any) -> App:
    """An App in memory, in Berlin's time, filled unless `days` is None."""
    settings = Settings(storage=StorageSettings(timezone="Europe/Berlin"), server=ServerSettings(profile=profile), **more)
    app = App(settings, clock or FakeClock(), in_memory=True)
    if days is not None:
        app.write(history(days), "jsonl")
        app.derivation.run()
    return app


def copied(place: Path, days: Sequence[str] = DAYS) -> App:
    """As `open_app`, in a folder and quicker: what is filled once is copied."""
    settings = replace(filled(place, history(days)), server=ServerSettings("full"), teleport=TeleportSettings(False))
    return App(settings, FakeClock())


@pytest.fixture(scope="session")
def shared_app() -> Iterator[App]:
    """Filled once; for tests that only read."""
    app = open_app(profile="full")

    def read() -> dict[str, object]:
        return {"shared_app": (app.storage.events.last_seq(), app.storage.toc.current_version())}

    share(read)
    yield app
    app.close()


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def everywhere(shared_app: App) -> MemoryServer:
    return build_server(shared_app, "")


@pytest.fixture(scope="session")
def in_shop(shared_app: App) -> MemoryServer:
    return build_server(shared_app, SHOP)


@pytest.fixture
def door(shared_app: App, era: str, everywhere: MemoryServer) -> Door:
    """All tools, no project known."""
    return Door(shared_app, era, server=everywhere)


@pytest.fixture
def shop(shared_app: App, era: str, in_shop: MemoryServer) -> Door:
    """A client that works on one of the two projects."""
    return Door(shared_app, era, SHOP, server=in_shop)


@pytest.fixture
def own(era: str, data_dir: Path) -> Iterator[Door]:
    """A filled App of one's own, for tests that write; the client works on the shop."""
    app = copied(data_dir, DAYS[:1])
    yield Door(app, era, SHOP, "Claude Code")
    app.close()


def tokens(answer: object) -> int:
    """What an answer costs a client."""
    return estimate_tokens(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


@pytest.fixture
def pipes(processes: None, data_dir: Path) -> Iterator[list[Any]]:
    """Servers on pipes (`Pipe` of test_stdio.py), which end with the test."""
    started: list[Any] = []
    yield started
    for pipe in started:
        pipe.stop()
