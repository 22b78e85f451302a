"""A server over real index files: a data directory that is filled once, and copied for whoever wants one."""

import atexit
import functools
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import Role
from memory_mcp.storage.settings import StorageSettings
from tests.factories import draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.interaction.conftest import history
from tests.templates import share_template

#: Named once in all of the history.
RARE = "reconcile_zx81_tapes"


def extra() -> list[Any]:
    """What the filters of these tests ask about."""
    return [
        draft("The nightly job is slow since the upgrade.", at="2026-02-17 11:00", session="talk", speaker="Melanie"),
        draft("I painted the harbour at sunrise last week.", at="2026-02-17 11:03", session="talk", speaker="Caroline"),
        draft("Never store session cookies in the local cache.", at="2026-02-17 11:05", session="talk", speaker="Melanie"),
        draft(f"The culprit is {RARE} in the nightly job.", at="2026-02-17 11:06", session="talk", role=Role.ASSISTANT),
    ]


def opened(place: Path, model: str = "", teleport: TeleportSettings | None = None, filled: bool = True) -> App:
    """An App with a data directory and its indexes, up to date."""
    if filled:
        shutil.copytree(full(model, teleport or TeleportSettings()), place)
    app = over(place, model, teleport or TeleportSettings())
    if filled:
        app.accelerators.catch_up()
    return app


@functools.cache
def full(model: str, teleport: TeleportSettings) -> Path:
    """A data directory with everything in it, at rest: filled once, and copied for whoever wants one."""
    place = Path(tempfile.mkdtemp()) / "data"
    atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
    stored = filled(place, [*history(), *extra()])
    app = App(replace(stored, teleport=teleport, embedder=EmbedderSettings(model)), FakeClock())
    app.accelerators.catch_up()
    app.close()
    return share_template(place)


def over(place: Path, model: str, teleport: TeleportSettings) -> App:
    settings = Settings(
        storage=StorageSettings(str(place), "Europe/Berlin"),
        server=ServerSettings(profile="full"),
        teleport=teleport,
        embedder=EmbedderSettings(model),
    )
    return App(settings, FakeClock())
