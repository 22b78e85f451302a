"""The tables of a database, and the role that uses them.

Tables are made when it is empty, brought up to date step by step, and refused when a newer program made them.

Several processes may start at once: an advisory lock lets one of them do it. With Citus the tables are made without
partitions, since its shards take their place.
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import psycopg
from psycopg import Connection as Raw
from psycopg.conninfo import conninfo_to_dict

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, SchemaTooNew
from memory_mcp_team.postgres.database import Database, check_address, sql, translate_errors

log = logging.getLogger(__name__)

#: A wait for the database is logged after so long (seconds).
_SILENT = 2.0
#: Statements that lead to each version from the one before it. Never edited once released.
STEPS = {2: "0002_tool_runs.sql"}
CURRENT = 2
#: The advisory lock of a process that makes or changes tables; any number that no other program takes.
LOCK = 0x6D656D6F7279
#: Hash partitions of each large table.
PARTITIONS = 16
_CREATED = re.compile(r"^CREATE TABLE (\w+) \((?: *--[^\n]*)?\n    tenant", re.MULTILINE)
_PARTITIONED = re.compile(r"^CREATE TABLE (\w+) \((?:(?!\n\)).)*\n\) \{partitions\};", re.MULTILINE | re.DOTALL)
#: Tables of who there is: bound to the tenant alone, since what a member may see is looked up in them.
DIRECTORY = frozenset({"space", "member", "space_grant", "api_key", "team_audit"})
#: Tables with policies of their own, or none: `work` is read across tenants by the program alone.
APART = frozenset({"tenant", "work"})


def read_sql(name: str) -> str:
    """Return the text of one SQL file of this package."""
    return resources.files("memory_mcp_team.postgres").joinpath(name).read_text(encoding="utf-8")


def read_version(raw: "Raw[Any]") -> int:
    """Return the version of the tables; 0 for an empty database."""
    if raw.execute("SELECT to_regclass('schema_version')").fetchone() == (None,):
        return 0
    row = raw.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(row[0] or 0) if row else 0


def list_tables(text: str = "") -> list[str]:
    """Return the tables that hold rows of memories: those that `text` makes, or all."""
    return [name for name in _CREATED.findall(text or read_sql("schema.sql")) if name not in DIRECTORY | APART]


@contextmanager
def log_long_wait(database: Database) -> Iterator[None]:
    """Warn once if the block takes over two seconds."""
    parts = conninfo_to_dict(database.url)
    # Without the user's name and password.
    address = " ".join(f"{part}={parts[part]}" for part in ("host", "hostaddr", "port", "dbname") if part in parts)
    text = "waiting for the database (%s): it does not answer yet, or another server is making its tables"
    timer = threading.Timer(_SILENT, log.warning, [text, address or "storage.url"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def migrate_schema(database: Database, partitions: int = PARTITIONS) -> None:
    """Make the tables, or bring them up to date.

    Raises SchemaTooNew if a newer program made them. Waits for another process that does the same. `partitions` counts when
    they are made: 0 for none.
    """
    with database.connect_unpooled() as raw, translate_errors():
        have = read_version(raw)
        if have == CURRENT:
            return
        with raw.transaction():
            raw.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            have = read_version(raw)
            if have > CURRENT:
                message = f"the database was made by a newer version (schema {have}, this program knows {CURRENT})"
                raise SchemaTooNew(message, "Install the newer memory-mcp; the database is untouched.")
            if have == 0:
                _create_tables(raw, read_sql("schema.sql"), partitions)
                for table in sorted(DIRECTORY):
                    raw.execute(sql(read_sql("directory_policies.sql").format(table=table)))
                raw.execute(sql(read_sql("tenant_policies.sql")))
            for step in range(have + 1, CURRENT + 1) if have else ():
                row = raw.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'event'::regclass").fetchone()
                _create_tables(raw, read_sql(f"steps/{STEPS[step]}"), int(row[0]) if row else 0)
            if have < CURRENT:
                raw.execute("DELETE FROM schema_version")
                raw.execute("INSERT INTO schema_version VALUES (%s)", [CURRENT])


def _create_tables(raw: "Raw[Any]", text: str, partitions: int) -> None:
    """Run a text that makes tables; add their partitions, and their policies."""
    raw.execute(sql(text.replace("{partitions}", "PARTITION BY HASH (tenant)" if partitions else "")))
    secured = list_tables(text)
    for table in _PARTITIONED.findall(text) if partitions else ():
        for number in range(partitions):
            bound = f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
            raw.execute(sql(f"CREATE TABLE {table}_{number} PARTITION OF {table} {bound}"))
            # The policies of a partitioned table bind those who name it, not those who name a partition.
            secured.append(f"{table}_{number}")
    for table in secured:
        raw.execute(sql(read_sql("policies.sql").format(table=table)))


#: How long a check waits for a connection (seconds).
_ROLE_PATIENCE = 5
_ROLE = """SELECT current_user, rolsuper OR rolbypassrls, current_setting('server_version') FROM pg_roles
  WHERE rolname = current_user"""
#: What to do about a role that row-level security does not bind.
ROLE_HINT = "Name another role in storage.url: one that is neither superuser nor has BYPASSRLS, and owns the tables."


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """A role, and the version of the server that was asked."""

    name: str
    is_bound: bool
    version: str


def read_role(url: str) -> DatabaseRole:
    """Return the role that an address logs in as.

    On a connection of its own. Raises StorageAway if nothing answers within five seconds.
    """
    check_address(url)
    with translate_errors(), psycopg.connect(url, connect_timeout=_ROLE_PATIENCE, application_name="memory-mcp") as raw:
        name, is_free, version = raw.execute(_ROLE).fetchone() or ("", True, "")
    return DatabaseRole(str(name), not is_free, str(version))


def require_bound_role(database: Database) -> None:
    """Raise ConfigError if row-level security does not bind the role."""
    with database.lend_connection(None) as raw:
        name, is_free, _ = raw.execute(_ROLE).fetchone() or ("", True, "")
    if is_free:
        raise ConfigError(f"row-level security does not bind the role {name}, and it separates members", ROLE_HINT)
