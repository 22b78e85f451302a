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


@pytest.fixture(scope="session")
def tables(cluster: Cluster) -> str:
    """The name of a database with empty tables, of which the others are copies."""
    made = Database(cluster.create(), 1)
    # Partitions are a matter of the storage engine, and take a second to make.
    migrations.bring_up(made, partitions=0)
    made.close()
    return made.url.partition("dbname=")[2].split()[0]


@pytest.fixture
def url(cluster: Cluster, tables: str) -> str:
    name = f"team_{uuid.uuid4().hex}"
    cluster.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {tables}")
    return cluster.url(name)


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
def team(cluster: Cluster) -> Iterator[Team]:
    made = Team(cluster.create())
    try:
        yield made
    finally:
        made.close()
