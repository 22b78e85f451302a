"""One PostgreSQL for the tests of a file, with databases of their own."""

from collections.abc import Iterator

import pytest

from tests import postgres
from tests.team.servers import Team


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Cluster]:
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    cluster = postgres.Cluster()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def team(cluster: postgres.Cluster) -> Iterator[Team]:
    team = Team(cluster.create())
    try:
        yield team
    finally:
        team.close()
