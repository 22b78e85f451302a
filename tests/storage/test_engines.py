"""The suite over the engine of this package."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.registry import ENGINES
from tests.storage.suite import *  # noqa: F403


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening() -> OpenOptions:
    """A memory that nobody has opened yet."""
    return OpenOptions(None, "Europe/Berlin")


@pytest.fixture
def store(engine: str, opening: OpenOptions) -> Iterator[Storage]:
    opened = ENGINES[engine].open(opening)
    yield opened
    opened.close()


@pytest.fixture
def opened(engine: str, opening: OpenOptions, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: ENGINES[engine].open(replace(opening, directory=tmp_path / "data"))
