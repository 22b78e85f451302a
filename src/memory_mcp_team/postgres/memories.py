"""Finds and makes the tenants and spaces of a database: which memory a name means."""

import time
import uuid
from dataclasses import dataclass
from typing import Any

from psycopg import Connection as Raw

from memory_mcp.base.errors import NotFound
from memory_mcp_team.postgres.database import Bound, Database, translate_errors

#: Kinds of space: everybody's of the tenant, one project's, one person's.
TEAM, PROJECT, PRIVATE = "team", "project", "private"
_NEW_TENANT = """INSERT INTO tenant (tenant, name, at_ms) SELECT coalesce(max(tenant), 0) + 1, %s, %s FROM tenant
  RETURNING tenant"""
_SPACE = "SELECT timezone, store_id FROM space WHERE tenant = %s AND space = %s"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: a space of a tenant."""

    tenant: int
    space: int
    timezone: str
    store_id: str


def make_tenant(database: Database, name: str) -> int:
    """Return the number of the tenant of that name, made where there is none, in a transaction of its own."""
    with database.connection(None) as raw, translate_errors(), raw.transaction():
        return get_or_make_tenant(raw, name)[0]


def get_or_make_tenant(raw: "Raw[Any]", name: str) -> tuple[int, bool]:
    """Return the number of the tenant of that name and whether it was made now; in a transaction that is bound to no tenant.

    Locks the table of tenants against other makers until the transaction ends.
    """
    raw.execute("LOCK TABLE tenant IN SHARE ROW EXCLUSIVE MODE")
    stored_row = raw.execute("SELECT tenant FROM tenant WHERE name = %s", [name]).fetchone()
    row = stored_row or raw.execute(_NEW_TENANT, [name, time.time_ns() // 1_000_000]).fetchone()
    assert row is not None
    return int(row[0]), stored_row is None


def make_space(database: Database, tenant: int, name: str, kind: str, timezone: str) -> Memory:
    """Return the space of that name, made where there is none, in a transaction of its own.

    `kind` and `timezone` (of its days) are those of a new one; an existing one keeps its own.
    """
    with database.connection(Bound(tenant)) as raw, translate_errors(), raw.transaction():
        return get_or_make_space(raw, tenant, name, kind, timezone)[0]


def get_or_make_space(raw: "Raw[Any]", tenant: int, name: str, kind: str, timezone: str) -> tuple[Memory, bool]:
    """Return the space of that name and whether it was made now; in a transaction that is bound to the tenant.

    A new one has the next number of the tenant, `kind`, `timezone`, a new store id and an empty head. The tenant's
    row is locked until the transaction ends.
    """
    # One row of the tenant's is locked, so that two makers number their spaces one after the other.
    raw.execute("SELECT tenant FROM tenant WHERE tenant = %s FOR UPDATE", [tenant])
    stored_row = raw.execute("SELECT space FROM space WHERE tenant = %s AND name = %s", [tenant, name]).fetchone()
    if stored_row is not None:
        return _read_space(raw, tenant, int(stored_row[0])), False
    free = raw.execute("SELECT coalesce(max(space), 0) + 1 FROM space WHERE tenant = %s", [tenant]).fetchone()
    assert free is not None
    row = [tenant, free[0], name, kind, timezone, uuid.uuid4().hex, time.time_ns() // 1_000_000]
    raw.execute("INSERT INTO space VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
    raw.execute("INSERT INTO head (tenant, space) VALUES (%s, %s)", [tenant, free[0]])
    return _read_space(raw, tenant, int(free[0])), True


def find_space(database: Database, tenant: int, space: int) -> Memory:
    """Return a space of a tenant by its number.

    Raises NotFound where there is none.
    """
    with database.connection(Bound(tenant)) as raw:
        return _read_space(raw, tenant, space)


def _read_space(raw: "Raw[Any]", tenant: int, space: int) -> Memory:
    """Return a space by its number, read in the caller's transaction.

    Raises NotFound where there is none.
    """
    row = raw.execute(_SPACE, [tenant, space]).fetchone()
    if row is None:
        raise NotFound("no such space", "An administrator of the team knows those that there are.")
    return Memory(tenant, space, row[0], row[1])
