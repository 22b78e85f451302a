"""One PostgreSQL for the tests of this folder: empty databases, one with two tenants, and a whole team of servers."""

import uuid
from collections.abc import Iterator

import pytest

from memory_mcp.storage.postgres import migrations
from memory_mcp.storage.postgres.database import Database
from memory_mcp.team.administration import Administration
from memory_mcp.team.who import Role
from tests.fakes import FakeClock
from tests.postgres import ROLE, Cluster, programs
from tests.team.provider import Provider, signer
from tests.team.servers import Team


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed; Debian's package postgresql brings it")
    made = Cluster()
    yield made
    made.close()


def _with_tables(cluster: Cluster, partitions: int) -> str:
    """The name of a database with empty tables, of which the others are copies: making tables takes a second."""
    made = Database(cluster.create(), 1)
    migrations.bring_up(made, partitions=partitions)
    made.close()
    return made.url.partition("dbname=")[2].split()[0]


def _copied(cluster: Cluster, tables: str) -> str:
    name = f"team_{uuid.uuid4().hex}"
    cluster.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {tables}")
    return cluster.url(name)


@pytest.fixture(scope="session")
def tables(cluster: Cluster) -> str:
    """For tests of administration; partitions are a matter of the storage engine."""
    return _with_tables(cluster, 0)


@pytest.fixture(scope="session")
def parted(cluster: Cluster) -> str:
    return _with_tables(cluster, 2)


@pytest.fixture
def url(cluster: Cluster, tables: str) -> str:
    return _copied(cluster, tables)


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
    acts.grant(tenant, "Ada", "team", Role.WRITER)
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
def team(cluster: Cluster, parted: str) -> Iterator[Team]:
    made = Team(_copied(cluster, parted))
    yield made
    made.close()


@pytest.fixture(scope="module")
def company(cluster: Cluster, parted: str) -> Iterator[Team]:
    """As `team`, for the tests of a module, each with tenants of its own."""
    made = Team(_copied(cluster, parted))
    yield made
    made.close()
