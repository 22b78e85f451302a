"""A memory with a keyword index over the made-up working life."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.indexes.keeper import Keeper
from tests.factories import a_day_of_drafts
from tests.fakes import FakeClock


@pytest.fixture
def kept(data_dir: Path, clock: FakeClock) -> Iterator[App]:
    """Two working days on disk, derived; the keyword index is switched on and not built yet."""
    from tests.filled import filled
    from tests.indexes.helpers import opened

    filled(data_dir, [d for day in ("2026-01-12", "2026-01-13") for d in a_day_of_drafts(day)])
    app = opened(data_dir, clock)
    yield app
    app.close()


@pytest.fixture
def keeper(kept: App, tmp_path: Path) -> Keeper:
    """Healthy, over the two working days."""
    from tests.indexes.helpers import keeper_of

    made = keeper_of(kept.storage, tmp_path / "index")
    made.load()
    made.rebuild()
    return made


@pytest.fixture
def keeper_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClock]:
    """The keeper's own time."""
    clock = FakeClock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    yield clock
    monkeypatch.undo()
