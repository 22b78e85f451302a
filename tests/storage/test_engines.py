"""The suite over every registered engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.registry import ENGINES
from tests.storage.suite import *  # noqa: F403


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(engine: str) -> Iterator[Storage]:
    opened = ENGINES[engine](None, "Europe/Berlin", None)
    yield opened
    opened.close()


@pytest.fixture
def opened(engine: str, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: ENGINES[engine](tmp_path / "data", "Europe/Berlin", None)
