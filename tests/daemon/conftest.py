"""A data directory, of a test or of a module, whose clients and commands share one background process.

A module says by `PLACES` what else its places get in their environment, and by `KIND` of what kind they are.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import DAEMON


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind = getattr(request.module, "KIND", Place)
    with kind(tmp_path, more=DAEMON | getattr(request.module, "PLACES", {})) as made:
        yield made


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Place]:
    """As `place`, with commands in this process and without indexes."""
    with Beside(tmp_path, more=SERVED) as made:
        yield made


@pytest.fixture(scope="module")
def lasting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests of a module that leave its background process as they found it."""
    more = DAEMON | getattr(request.module, "PLACES", {})
    with getattr(request.module, "KIND", Place)(tmp_path_factory.mktemp("lasting"), more=more) as made:
        made.ok("daemon", "start")
        yield made
