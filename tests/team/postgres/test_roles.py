"""Which role a database knows the program as, asked of a real server."""

from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.base.errors import ConfigError
from memory_mcp.cli.checks.base import Check, Look
from memory_mcp.config import Settings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp_team.commands import check_database
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.postgres.migrations import read_role, require_bound_role
from tests.postgres import ROLE, Cluster


@pytest.fixture(params=["superuser", "bypassrls"])
def unbound(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """The address of a role that row-level security does not bind."""
    if request.param == "superuser":
        return cluster.url("postgres", "postgres")
    cluster.execute("CREATE ROLE passing LOGIN BYPASSRLS")
    return cluster.url("postgres", "passing")


def looked(url: str, tmp_path: Path) -> Check:
    settings = replace(Settings(), storage=StorageSettings(engine="postgres", url=url, tenant="acme", space="team"))
    [found] = check_database(Look("", tmp_path, settings, {}, tmp_path))
    return found


def test_a_bound_role_is_named_with_tenant_and_space(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.url("postgres")
    assert read_role(url).is_bound
    found = looked(url, tmp_path)
    assert found.state == "ok"
    assert f"as {ROLE}; tenant acme, space team" in found.text


def test_a_role_that_is_not_bound_is_warned_of_and_serves_no_team(unbound: str, tmp_path: Path) -> None:
    found = looked(unbound, tmp_path)
    assert found.state == "warn"
    assert "BYPASSRLS" in found.next_step
    opened = Database(unbound, 1)
    try:
        with pytest.raises(ConfigError, match="row-level security does not bind"):
            require_bound_role(opened)
    finally:
        opened.close()
