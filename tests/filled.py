"""Memories on disk that are filled once in a run, and copied for each test that changes its own."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from memory_mcp.app import App
from memory_mcp.base.clock import Clock
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.settings import StorageSettings
from tests.fakes import FakeClock
from tests.templates import share_template

#: By the time at which they were derived and what is in them.
_FILLED: dict[str, TemporaryDirectory[str]] = {}


def filled(data_dir: Path, drafts: Sequence[EventDraft], clock: Clock | None = None) -> Settings:
    """Put a memory with these drafts stored and derived into a folder that is not there yet; return its settings.

    `clock` is the one by which they were derived, of which periods that are not over depend; by default that of most tests.
    """
    known = repr((clock and clock.now_ms(), drafts))
    if known not in _FILLED:
        made = TemporaryDirectory()
        storage = StorageSettings(str(Path(made.name) / "data"), "Europe/Berlin")
        app = App(Settings(storage=storage, teleport=TeleportSettings(enabled=False)), clock or FakeClock())
        app.write(drafts, "test")
        app.derivation.run()
        app.close()
        share_template(Path(made.name))
        _FILLED[known] = made
    shutil.copytree(Path(_FILLED[known].name) / "data", data_dir)
    return Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin"))
