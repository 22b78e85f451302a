"""The tables of a database: made when it is empty, brought up to date step by step, and refused when a newer program made them.

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

from psycopg import Connection as Raw
from psycopg.conninfo import conninfo_to_dict

from memory_mcp.base.errors import SchemaTooNew
from memory_mcp_team.postgres.database import Database, sql, translate_errors

log = logging.getLogger(__name__)

#: Whoever waits for a database is told so after so long (seconds).
_SILENT = 2.0
#: Statements that lead to each version from the one before it. Never edited once released.
STEPS: dict[int, str] = {}
CURRENT = 1
#: The advisory lock of whoever makes or changes tables; any number that nobody else takes.
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
    """Return the text of one SQL file of this package, by its path in it."""
    return resources.files("memory_mcp_team.postgres").joinpath(name).read_text(encoding="utf-8")


def read_version(raw: "Raw[Any]") -> int:
    """Return the version of the tables; 0 for an empty database."""
    if raw.execute("SELECT to_regclass('schema_version')").fetchone() == (None,):
        return 0
    row = raw.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(row[0] or 0) if row else 0


def list_tables() -> list[str]:
    """Return the tables that hold rows of memories, by name, in the order of the schema; read from schema.sql."""
    return [name for name in _CREATED.findall(read_sql("schema.sql")) if name not in DIRECTORY | APART]


@contextmanager
def log_long_wait(database: Database) -> Iterator[None]:
    """Log once, as a warning, that the database is waited for, should the block take more than two seconds.

    The address is named without user and password. The block itself is not bounded.
    """
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
    """Make the tables, or bring them up to date, in one transaction; does nothing where they are.

    Raises SchemaTooNew when a newer program made them, StorageAway when the database does not answer. Waits for
    another process that does the same. `partitions` counts when they are made: 0 for none.
    """
    with database.connect_alone() as raw, translate_errors():
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
                _create_tables(raw, partitions)
            for step in range(max(have, 1) + 1, CURRENT + 1):
                raw.execute(sql(read_sql(f"steps/{STEPS[step]}")))
            if have < CURRENT:
                raw.execute("DELETE FROM schema_version")
                raw.execute("INSERT INTO schema_version VALUES (%s)", [CURRENT])


def _create_tables(raw: "Raw[Any]", partitions: int) -> None:
    """Make all tables of today's schema with their partitions and row-level security, in the caller's transaction."""
    text = read_sql("schema.sql")
    raw.execute(sql(text.replace("{partitions}", "PARTITION BY HASH (tenant)" if partitions else "")))
    secured = list_tables()
    for table in _PARTITIONED.findall(text) if partitions else ():
        for number in range(partitions):
            bound = f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
            raw.execute(sql(f"CREATE TABLE {table}_{number} PARTITION OF {table} {bound}"))
            # The policies of a partitioned table bind those who name it, not those who name a partition.
            secured.append(f"{table}_{number}")
    for table in secured:
        raw.execute(sql(read_sql("policies.sql").format(table=table)))
    for table in sorted(DIRECTORY):
        raw.execute(sql(read_sql("directory_policies.sql").format(table=table)))
    raw.execute(sql(read_sql("tenant_policies.sql")))
