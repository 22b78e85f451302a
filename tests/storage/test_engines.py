"""The suite over every registered engine."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.registry import ENGINES
from tests.storage.bound import unbound
from tests.storage.suite import *  # noqa: F403


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening(engine: str, request: pytest.FixtureRequest) -> OpenOptions:
    """A memory that nobody has opened yet."""
    plain = OpenOptions(None, "Europe/Berlin")
    if engine != "postgres":
        return plain
    return replace(plain, url=request.getfixturevalue("database"), tenant=request.node.name)


@pytest.fixture(autouse=True)
def statements(engine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every statement that a test of the suite runs on PostgreSQL says whose rows it is about."""
    loose: set[str] = set()

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: object, query: object, *given: Any, **named: Any) -> Any:
            text = " ".join(query.split()) if isinstance(query, str) else ""
            loose.update([text] if unbound(text) and not text.startswith("VACUUM") else [])
            return run(self, query, *given, **named)

        return noted

    if engine == "postgres":
        for kind in (psycopg.Cursor, psycopg.ServerCursor):
            monkeypatch.setattr(kind, "execute", noting(kind.execute))
        monkeypatch.setattr(psycopg.Cursor, "copy", noting(psycopg.Cursor.copy))
    yield
    assert loose == set()


@pytest.fixture
def store(engine: str, opening: OpenOptions) -> Iterator[Storage]:
    opened = ENGINES[engine](opening)
    yield opened
    opened.close()


@pytest.fixture
def opened(engine: str, opening: OpenOptions, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: ENGINES[engine](replace(opening, directory=tmp_path / "data"))
