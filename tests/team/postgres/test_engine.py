"""The suite of every engine over PostgreSQL."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.registry import get_engine
from tests.storage.suite import *  # noqa: F403
from tests.team.postgres.bound import unbound

ENGINE = get_engine("postgres")


@pytest.fixture
def opening(request: pytest.FixtureRequest, database_url: str) -> OpenOptions:
    """A memory that nobody has opened yet."""
    return replace(OpenOptions(None, "Europe/Berlin"), url=database_url, tenant=request.node.name)


@pytest.fixture(autouse=True)
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every statement that a test of the suite runs says whose rows it is about."""
    loose: set[str] = set()

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: object, query: object, *given: Any, **named: Any) -> Any:
            text = " ".join(query.split()) if isinstance(query, str) else ""
            loose.update([text] if unbound(text) and not text.startswith("VACUUM") else [])
            return run(self, query, *given, **named)

        return noted

    for kind in (psycopg.Cursor, psycopg.ServerCursor):
        monkeypatch.setattr(kind, "execute", noting(kind.execute))
    monkeypatch.setattr(psycopg.Cursor, "copy", noting(psycopg.Cursor.copy))
    yield
    assert loose == set()


@pytest.fixture
def store(opening: OpenOptions) -> Iterator[Storage]:
    opened = ENGINE.open(opening)
    yield opened
    opened.close()


@pytest.fixture
def opened(opening: OpenOptions, tmp_path: Path) -> Callable[[], Storage]:
    return lambda: ENGINE.open(replace(opening, directory=tmp_path / "data"))
