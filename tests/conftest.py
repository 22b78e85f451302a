"""What every part of the tree shares; kept light, because each folder that needs more has a conftest of its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

# A test that wants the background process says so; all others open the store themselves.
os.environ["MEMORY_MCP_SERVER__DAEMON"] = "false"
# Likewise for the indexes, which a server builds in the background: most tests are about what works without them.
os.environ["MEMORY_MCP_TELEPORT__ENABLED"] = "false"

from tests.fakes import FakeClock

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.storage.base import Storage

pytest.register_assert_rewrite("tests.storage.suite", "tests.indexes.helpers")

# The same examples in every run: a failure on one machine is a failure on all. `--slow` looks further.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("short", derandomize=True, max_examples=40, **_COMMON)
hypothesis.settings.register_profile("long", max_examples=400, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the long forms, with random examples")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("long" if config.getoption("--slow", default=False) else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow", default=False) or "slow" in (config.getoption("markexpr", default="") or ""):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="a long form: run with --slow"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(clock: FakeClock) -> "Iterator[Storage]":
    from memory_mcp.storage.duckdb import open_storage

    opened = open_storage(None, "Europe/Berlin", clock)
    yield opened
    opened.close()


@pytest.fixture
def app(clock: FakeClock) -> "Iterator[App]":
    from memory_mcp.app import App
    from memory_mcp.config import Settings, StorageSettings

    opened = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), clock, in_memory=True)
    yield opened
    opened.close()
