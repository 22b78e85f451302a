"""Finds and makes the tenants and spaces of a database, and reads the head of each memory."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from psycopg import Connection as Raw

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp_team.postgres.database import Binding, Database, Statement, translate_errors, uuid_of

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
    """Return the number of the tenant of that name, made if missing."""
    with database.lend_connection(None) as raw, translate_errors(), raw.transaction():
        return get_or_make_tenant(raw, name)[0]


def get_or_make_tenant(raw: "Raw[Any]", name: str) -> tuple[int, bool]:
    """Return the number of a tenant and whether it was made now.

    The transaction is bound to no tenant; the table of tenants is locked until its end.
    """
    raw.execute("LOCK TABLE tenant IN SHARE ROW EXCLUSIVE MODE")
    stored_row = raw.execute("SELECT tenant FROM tenant WHERE name = %s", [name]).fetchone()
    row = stored_row or raw.execute(_NEW_TENANT, [name, time.time_ns() // 1_000_000]).fetchone()
    assert row is not None
    return int(row[0]), stored_row is None


def make_space(database: Database, tenant: int, name: str, kind: str, timezone: str) -> Memory:
    """Return the space of that name, made if missing."""
    with database.lend_connection(Binding(tenant)) as raw, translate_errors(), raw.transaction():
        return get_or_make_space(raw, tenant, name, kind, timezone)[0]


def get_or_make_space(raw: "Raw[Any]", tenant: int, name: str, kind: str, timezone: str) -> tuple[Memory, bool]:
    """Return the space of that name and whether it was made now.

    The transaction is bound to the tenant, whose row is locked until its end. An existing space keeps its kind and zone.
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
    """Return a space of a tenant by its number, or raise NotFound."""
    with database.lend_connection(Binding(tenant)) as raw:
        return _read_space(raw, tenant, space)


def _read_space(raw: "Raw[Any]", tenant: int, space: int) -> Memory:
    row = raw.execute(_SPACE, [tenant, space]).fetchone()
    if row is None:
        raise NotFound("no such space", "An administrator of the team knows those that there are.")
    return Memory(tenant, space, row[0], row[1])


#: The head of a memory.
SELECT_HEAD = """SELECT last_event, last_change, newest, derived, resets, notes FROM head
  WHERE tenant = %(tenant)s AND space = %(space)s"""
_UPDATE_HEAD = """UPDATE head SET last_event = %(event)s, last_change = %(change)s, newest = %(newest)s::uuid,
  derived = %(derived)s, resets = %(resets)s, notes = %(notes)s WHERE tenant = %(tenant)s AND space = %(space)s"""


@dataclass(slots=True)
class Head:
    """How far a memory got."""

    last_event: int = 0
    last_change: int = 0
    #: The highest event id; -1 while there is none.
    newest: int = -1
    #: How far the deriver got.
    derived: int = 0
    #: Rises when something was taken out or put back as a whole.
    resets: int = 0
    #: Rises when a rule of names, a correction, a label or the first opening was written: what does not touch the tree.
    notes: int = 0

    @property
    def notes_stamp(self) -> tuple[int, int]:
        """(resets, notes), which changes with every reset and every note."""
        return self.resets, self.notes

    @property
    def stamp(self) -> tuple[int, int]:
        """(last change, resets), which changes with every outbox entry and reset."""
        return self.last_change, self.resets


def make_head(row: Sequence[Any]) -> Head:
    """Return the head from a row of `SELECT_HEAD`."""
    return Head(row[0], row[1], -1 if row[2] is None else row[2], *row[3:])


def make_update(head: Head) -> Statement:
    """Return the statement that replaces a head."""
    newest = None if head.newest < 0 else uuid_of(head.newest)
    numbers = {"event": head.last_event, "change": head.last_change, "derived": head.derived}
    return Statement(_UPDATE_HEAD, {**numbers, "newest": newest, "resets": head.resets, "notes": head.notes})
