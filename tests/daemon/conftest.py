"""A data directory of the test's own whose clients and commands share one background process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from tests.daemon.places import DAEMON


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, idle=60, more=DAEMON) as made:
        yield made
