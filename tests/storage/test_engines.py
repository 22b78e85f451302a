"""The suite over the engine of this package."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.registry import ENGINES
from tests.storage.suite import *  # noqa: F403

#: The engines, and one whose rows are copied from the first on: every commit is followed there.
COPIED = "copied"


@pytest.fixture(params=[*sorted(ENGINES), COPIED])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening() -> OpenOptions:
    """A memory that nobody has opened yet."""
    return OpenOptions(None, "Europe/Berlin")


def open_engine(name: str, options: OpenOptions) -> Storage:
    """Open a memory; with its rows copied where that is the engine."""
    storage = ENGINES["duckdb" if name == COPIED else name].open(options)
    if name == COPIED:
        storage.copy_rows(lambda: False)
    return storage


@pytest.fixture
def store(engine: str, opening: OpenOptions, tmp_path: Path) -> Iterator[Storage]:
    opened = open_engine(engine, replace(opening, directory=tmp_path / "copied") if engine == COPIED else opening)
    yield opened
    opened.close()


@pytest.fixture
def opened(engine: str, opening: OpenOptions, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: open_engine(engine, replace(opening, directory=tmp_path / "data"))
