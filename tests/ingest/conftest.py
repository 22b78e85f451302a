"""The pipeline that importers are tested with, a home without any client in it, and other people's transcripts."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memory_mcp.capture.pipeline import Pipeline
    from memory_mcp.storage.base import Storage


@pytest.fixture
def pipeline(storage: "Storage") -> "Pipeline":
    from memory_mcp.base.clock import SystemClock
    from memory_mcp.capture.gate import Gate
    from memory_mcp.capture.log import EventLog
    from memory_mcp.capture.pipeline import Pipeline

    return Pipeline(EventLog(storage.events, SystemClock()), storage.outbox, Gate())


@pytest.fixture
def transcripts(request: pytest.FixtureRequest) -> Path:
    """The folder with other people's, for the tests that measure on it."""
    data = request.config.getoption("--data")
    if data is None or not (data / "transcripts").is_dir():
        pytest.skip("--data DIR with transcripts/ is not there")
    return Path(data) / "transcripts"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any client in it."""
    for variable in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    return tmp_path / "home"
