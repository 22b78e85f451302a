"""The role that a database knows the program as, and whether row-level security binds it."""

from dataclasses import dataclass

import psycopg

from memory_mcp.base.errors import ConfigError
from memory_mcp_team.postgres.database import Database, check_address, translate_errors

#: How long a check waits for a connection (seconds).
_PATIENCE = 5
_ROLE = """SELECT current_user, rolsuper OR rolbypassrls, current_setting('server_version') FROM pg_roles
  WHERE rolname = current_user"""
#: What to do about a role that row-level security does not bind.
ANOTHER = "Name another role in storage.url: one that is neither superuser nor has BYPASSRLS, and owns the tables."


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """A role, and the version of the server that was asked."""

    name: str
    is_bound: bool
    version: str


def read_role(url: str) -> DatabaseRole:
    """Return the role that an address logs in as: its name, whether row-level security binds it, and the server's version.

    On a connection of its own. Raises StorageAway when nothing answers there within five seconds, ConfigError for no
    address.
    """
    check_address(url)
    with translate_errors(), psycopg.connect(url, connect_timeout=_PATIENCE, application_name="memory-mcp") as raw:
        name, is_free, version = raw.execute(_ROLE).fetchone() or ("", True, "")
    return DatabaseRole(str(name), not is_free, str(version))


def require_bound(database: Database) -> None:
    """Raise ConfigError when row-level security does not bind the database's role (superuser or BYPASSRLS)."""
    with database.connection(None) as raw:
        name, is_free, _ = raw.execute(_ROLE).fetchone() or ("", True, "")
    if is_free:
        raise ConfigError(f"row-level security does not bind the role {name}, and it keeps members apart", ANOTHER)
