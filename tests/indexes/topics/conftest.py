"""A memory of seventy-two segments in six themes, filled once and copied; topics are looked for in the test's own process."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base.clock import Clock
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings, TopicsSettings
from memory_mcp.indexes.topics import keeper as keeping
from memory_mcp.indexes.topics.child import begin
from memory_mcp.indexes.topics.keeper import TopicKeeper
from memory_mcp.indexes.topics.stored import GroupingSetup
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.settings import StorageSettings
from tests.fakes import FakeClock
from tests.indexes.helpers import InProcess
from tests.templates import share_template
from tests.topics_material import themed

#: With neither index: topics are found by terms alone, and nothing but them is kept.
BARE = TeleportSettings(enabled=False)


class Here(InProcess):
    """The child that groups segments, in this process. Counts how often it began."""

    begun = 0

    def __init__(self, module: str, hello: GroupingSetup) -> None:
        assert module == "memory_mcp.indexes.topics.child"
        Here.begun += 1
        super().__init__(begin(hello))

    def end(self) -> None:
        """Nothing is held."""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "begun", 0)
    monkeypatch.setattr(keeping, "Child", Here)


def over(
    directory: Path, clock: Clock | None = None, topics: TopicsSettings | None = None, teleport: TeleportSettings = BARE
) -> App:
    """A memory in a folder, with topics."""
    settings = Settings(
        storage=StorageSettings(str(directory), "Europe/Berlin"), teleport=teleport, topics=topics or TopicsSettings()
    )
    return App(settings, clock or FakeClock())


def said(app: App, drafts: Iterable[EventDraft]) -> None:
    """Written and derived."""
    app.write(list(drafts), "test")
    app.derivation.run()


def topics_of(app: App) -> TopicKeeper:
    found = app.accelerators.find_topic_keeper()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory at rest: stored, derived and grouped by terms alone."""
    place = tmp_path_factory.mktemp("grouped") / "data"
    app = over(place)
    said(app, themed())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping, "Child", Here)
        topics_of(app).rebuild()
    app.close()
    return share_template(place)


@pytest.fixture
def directory(grouped: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(grouped, tmp_path / "data"))


@pytest.fixture
def memory(directory: Path) -> Iterator[App]:
    """That copy, open."""
    app = over(directory)
    yield app
    app.close()


@pytest.fixture
def keeper(memory: App) -> TopicKeeper:
    return topics_of(memory)
