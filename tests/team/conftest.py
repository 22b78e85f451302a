"""What the tests of this folder have in PostgreSQL: empty databases, one with two tenants, and a whole team of servers."""

from collections.abc import Iterator

import pytest

from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.permissions import Role
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from tests.fakes import FakeClock
from tests.postgres import Cluster
from tests.team.provider import Provider, signer
from tests.team.servers import Team


def _with_tables(cluster: Cluster) -> str:
    """The address of a database with empty tables."""
    made = Database(cluster.create(), 1)
    migrations.migrate_schema(made, partitions=2)
    made.close()
    return made.url


@pytest.fixture(scope="session")
def used(cluster: Cluster) -> str:
    return _with_tables(cluster)


@pytest.fixture
def url(cluster: Cluster, used: str) -> str:
    """Of a database without rows, one for all tests: taking rows out is quicker than making tables or copying them."""
    tables = (*migrations.list_tables(), *migrations.DIRECTORY, *migrations.APART)
    cluster.execute(";".join(f"DELETE FROM {table}" for table in tables), used.partition("dbname=")[2].split()[0])
    return used


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(url, 4)
    yield made
    made.close()


@pytest.fixture
def acts(database: Database, clock: FakeClock) -> Administration:
    return Administration(database, "root@here", clock)


@pytest.fixture
def acme(acts: Administration) -> int:
    """A tenant with the space team, and Ada who may write there."""
    tenant = acts.add_tenant("acme").tenant
    acts.add_space(tenant, "team")
    acts.add_member(tenant, "Ada", "keys|Ada")
    acts.grant_role(tenant, "Ada", "team", Role.WRITER)
    return tenant


@pytest.fixture
def other(acts: Administration) -> int:
    """Another tenant with a space and a member of the same names."""
    tenant = acts.add_tenant("other", "small").tenant
    acts.add_space(tenant, "team")
    acts.add_space(tenant, "secret-plans")
    acts.add_member(tenant, "Ada", "keys|Ada")
    return tenant


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider of identities, with one key."""
    made = Provider(signer("rsa-1"))
    yield made
    made.stop()


@pytest.fixture
def team(url: str) -> Iterator[Team]:
    made = Team(url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def company(cluster: Cluster) -> Iterator[Team]:
    """As `team`, for the tests of a module, each with tenants of its own."""
    made = Team(_with_tables(cluster))
    yield made
    made.close()
