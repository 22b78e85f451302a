"""The same small history, derived once for the tests that only read it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.factories import a_small_history
from tests.toc.helpers import memory

if TYPE_CHECKING:
    from memory_mcp.app import App


@pytest.fixture(scope="session")
def history() -> "Iterator[App]":
    """Four weeks of three projects over a month's end; read only."""
    app = memory(a_small_history(4))
    yield app
    app.close()
