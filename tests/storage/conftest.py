"""A PostgreSQL for the tests of that engine."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres import Cluster


@pytest.fixture(scope="session")
def cluster() -> "Iterator[Cluster]":
    from tests.postgres import Cluster, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed; Debian's package postgresql brings it")
    made = Cluster()
    yield made
    made.close()
