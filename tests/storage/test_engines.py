"""The suite over every registered engine."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import Opening
from memory_mcp.storage.registry import ENGINES
from tests.storage.suite import *  # noqa: F403


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening(engine: str, request: pytest.FixtureRequest) -> Opening:
    """A memory that nobody has opened yet."""
    plain = Opening(None, "Europe/Berlin")
    if engine != "postgres":
        return plain
    return replace(plain, url=request.getfixturevalue("database"), tenant=request.node.name)


@pytest.fixture
def store(engine: str, opening: Opening) -> Iterator[Storage]:
    opened = ENGINES[engine](opening)
    yield opened
    opened.close()


@pytest.fixture
def opened(engine: str, opening: Opening, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: ENGINES[engine](replace(opening, directory=tmp_path / "data"))
