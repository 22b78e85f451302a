"""A server process and laptops: memories opened in this process that share with it."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import EventId
from memory_mcp.requests import forget
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.settings import StorageSettings
from memory_mcp_team.sharing import requests as share
from memory_mcp_team.sharing import run
from tests.team.sharing.server import Server

ANYONE = Caller("")


class Laptop:
    """One memory."""

    def __init__(self, folder: Path, server: Server, key: str) -> None:
        self.folder, self._server, self.key = folder, server, key
        self.app = self._open()

    def _open(self) -> App:
        storage = StorageSettings(data_dir=str(self.folder), timezone="UTC")
        return App(Settings(storage=storage, teleport=TeleportSettings(enabled=False)))

    def join(self, *projects: str) -> "Laptop":
        share.share_to(self.app, share.ShareTo(self._server.url, self.key), ANYONE)
        for project in projects:
            self.add(project)
        return self

    def add(self, project: str) -> None:
        share.share_project(self.app, share.ShareProject(project), ANYONE)

    def say(self, *drafts: EventDraft, source: str = "jsonl") -> list[EventId]:
        ids = self.app.write(list(drafts), source).new_ids
        self.app.derivation.run()
        return list(ids)

    def exchange(self, agreed: bool = False) -> run.RunOutcome:
        done = run.exchange_once(self.app, agreed=agreed)
        assert done is not None
        self.app.derivation.run()
        return done

    def forget(self, **what: Any) -> None:
        forget.forget(self.app, dataclasses.replace(forget.Forget(**what), dry_run=False, is_person=True), ANYONE)

    def status(self) -> share.ShareState:
        return share.share_status(self.app, share.ShareStatus(), ANYONE)

    def texts(self, project: str = "") -> list[str]:
        events = [one.event for part in self.app.storage.events.iter_all() for one in part]
        return sorted(e.text for e in events if project in ("", e.project))

    def reopen(self) -> None:
        self.app.close()
        self.app = self._open()


Make = Callable[..., Laptop]


@pytest.fixture(scope="session")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.kill()


@pytest.fixture
def server(process: Server) -> Server:
    """The process, with nothing yet in the spaces of its team."""
    process.team += 1
    if not process.is_sound:
        process.kill()
        process.start()
    return process


@pytest.fixture
def laptop(tmp_path: Path, server: Server) -> Iterator[Make]:
    """Laptops by the names of their owners; `role` is the owner's in the space."""
    made: list[Laptop] = []

    def make(owner: str, role: str = "writer", place: str = "") -> Laptop:
        made.append(Laptop(tmp_path / (place or owner), server, f"{owner}-{role}"))
        return made[-1]

    yield make
    for one in made:
        one.app.close()
