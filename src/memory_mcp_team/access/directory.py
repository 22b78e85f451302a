"""Looks up who there is in a database: tenants, spaces, members, grants and keys, for callers and for administrators.

Invariants
1. Every lookup is bound to one tenant, so that row-level security shows nothing of another; only a tenant's name is looked up
   unbound.
2. A caller is looked up for each call: a removed member, a revoked grant and a revoked key no longer count at the next one.
3. A wrong secret, a key of another tenant and a key that was never made are one answer, after the same work.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from psycopg import Connection as Raw

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.dataclass import dataclass
from memory_mcp_team.access.keys import KeyText
from memory_mcp_team.access.permissions import Grant, Principal, Role, find_highest_role
from memory_mcp_team.errors import PermissionDenied, Unauthenticated, no_such_space
from memory_mcp_team.postgres.database import Binding, Database, Statement, run_bound, sql, translate_errors
from memory_mcp_team.postgres.memories import Memory

#: A connection of the pool, as `Database.connection` lends it.
PooledConnection = Raw[tuple[Any, ...]]

_HOUR_MS = 3_600_000

_MEMBER = """SELECT m.member, m.name, m.role, t.class, m.removed_ms FROM member m JOIN tenant t ON t.tenant = m.tenant
  WHERE m.tenant = %(tenant)s AND m.subject = %(subject)s"""
_KEY = """SELECT k.hash, k.scopes, k.spaces, k.expires_ms, k.revoked_ms, k.used_ms,
    m.member, m.name, m.role, t.class, m.removed_ms
  FROM api_key k JOIN member m ON m.tenant = k.tenant AND m.member = k.member JOIN tenant t ON t.tenant = k.tenant
  WHERE k.tenant = %(tenant)s AND k.key_id = %(key)s"""
#: In an order that is the same in every database: the first of several spaces is that of a caller who names none.
_GRANTS = """SELECT g.space, s.name, s.kind, g.role FROM space_grant g JOIN space s ON s.tenant = g.tenant AND s.space = g.space
  WHERE g.tenant = %(tenant)s AND g.member = %(member)s ORDER BY s.name COLLATE "C" """
_GRANTS_OF_KEY = """SELECT g.space, s.name, s.kind, g.role
  FROM api_key k JOIN space_grant g ON g.tenant = k.tenant AND g.member = k.member
  JOIN space s ON s.tenant = g.tenant AND s.space = g.space
  WHERE k.tenant = %(tenant)s AND k.key_id = %(key)s ORDER BY s.name COLLATE "C" """
_NOTE_KEY_USE = """UPDATE api_key SET used_ms = %(hour)s WHERE tenant = %(tenant)s AND key_id = %(key)s"""
_SPACES = """SELECT s.space, s.name, s.kind, s.timezone, s.at_ms, coalesce(h.last_event, 0) FROM space s
  LEFT JOIN head h ON h.tenant = s.tenant AND h.space = s.space WHERE s.tenant = %(tenant)s ORDER BY s.name"""
_MEMBERS = """SELECT member, name, subject, role, at_ms, removed_ms FROM member WHERE tenant = %(tenant)s ORDER BY member"""
_ALL_GRANTS = """SELECT g.member, s.name, g.role FROM space_grant g JOIN space s ON s.tenant = g.tenant AND s.space = g.space
  WHERE g.tenant = %(tenant)s ORDER BY g.member, s.name"""
_KEYS = """SELECT k.key_id, k.name, m.name, k.scopes, k.spaces, k.at_ms, k.made_by, k.expires_ms, k.used_ms, k.revoked_ms
  FROM api_key k JOIN member m ON m.tenant = k.tenant AND m.member = k.member
  WHERE k.tenant = %(tenant)s ORDER BY k.at_ms, k.key_id"""
#: With what administrators do to a space itself, as its own audit has it; reasons are people's own words, and stay there.
_AUDIT = """SELECT at_ms, what, author, subject, detail, '' AS space, number FROM team_audit WHERE tenant = %(tenant)s
  UNION ALL
  SELECT a.at_ms, a.what, a.author, a.subject, a.counts, s.name, a.number
  FROM audit a JOIN space s ON s.tenant = a.tenant AND s.space = a.space
  WHERE a.tenant = %(tenant)s AND a.what = ANY(%(whats)s)
  ORDER BY at_ms DESC, space DESC, number DESC LIMIT %(limit)s"""
#: Acts upon a space that are an administrator's: what forgets, and what replaces or adds as a whole.
_AUDITED_SPACE_ACTS = ["forget", "restore", "migrate", "merge", "acknowledge", "salvage"]
_MEMORY = """SELECT space, timezone, store_id FROM space WHERE tenant = %(tenant)s AND space = %(space)s"""
_COUNT_STORED = """SELECT coalesce(sum(last_event), 0)::bigint FROM head WHERE tenant = %(tenant)s"""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant."""

    tenant: int
    name: str
    tenant_class: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Space:
    """One space, and how many events it was ever given."""

    space: int
    name: str
    kind: str
    timezone: str
    at_ms: int
    events: int


@dataclass(frozen=True, slots=True)
class Member:
    """One member, as administrators see them."""

    member: int
    name: str
    subject: str
    role: str
    at_ms: int
    removed_ms: int | None
    #: Names of spaces with the role there.
    grants: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """One API key, without what proves it."""

    key_id: str
    name: str
    member: str
    scopes: tuple[str, ...]
    #: Names of spaces; None: every space of the member.
    spaces: tuple[str, ...] | None
    at_ms: int
    made_by: str
    expires_ms: int | None
    used_ms: int | None
    revoked_ms: int | None


@dataclass(frozen=True, slots=True)
class TeamAct:
    """One administrative act."""

    at_ms: int
    what: str
    author: str
    subject: str
    detail: dict[str, Any]


class Directory:
    """Lookups in one database. Safe in any thread."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    @contextmanager
    def _bind_tenant(self, tenant: int | None) -> Iterator[PooledConnection]:
        with self._database.lend_connection(None if tenant is None else Binding(tenant)) as raw, translate_errors():
            yield raw

    def _fetch_rows(self, text: str, tenant: int, **parameters: Any) -> list[tuple[Any, ...]]:
        with self._bind_tenant(tenant) as raw:
            return raw.execute(sql(text), {"tenant": tenant, **parameters}).fetchall()

    # callers

    def find_principal(self, tenant: int, subject: str, scopes: Sequence[str]) -> Principal | None:
        """Return the member with that subject and its grants, or None.

        Without a known one among `scopes` its `max_role` is None. Raises PermissionDenied for a removed member.
        """
        with self._bind_tenant(tenant) as raw:
            row = raw.execute(sql(_MEMBER), {"tenant": tenant, "subject": subject}).fetchone()
            if row is None:
                return None
            member, name, role, tenant_class, removed_ms = row
            if removed_ms is not None:
                raise PermissionDenied("this member was removed", "An administrator of the team can add the member again.")
            grants = _make_grants(raw.execute(sql(_GRANTS), {"tenant": tenant, "member": member}).fetchall())
        return Principal(tenant, tenant_class, member, name, role == "admin", grants, find_highest_role(scopes))

    def get_principal(self, key: KeyText) -> Principal:
        """Return the member as whom a key acts.

        Notes the use in the database once an hour. Raises Unauthenticated if the key is wrong, expired or revoked.
        """
        now = self._clock.now_ms()
        with self._database.lend_raw() as raw, translate_errors():
            key_parameters = {"tenant": key.tenant, "key": key.key_id}
            cursors = run_bound(
                raw, Binding(key.tenant), [Statement(_KEY, key_parameters), Statement(_GRANTS_OF_KEY, key_parameters)]
            )
            row, grant_rows = cursors[0].fetchone(), cursors[1].fetchall()
            if not key.proves(None if row is None else bytes(row[0])) or row is None:
                raise Unauthenticated("the API key is not valid", "Ask an administrator of the team for a key.")
            _, scopes, spaces, expires_ms, revoked_ms, used_ms, member, name, role, tenant_class, removed_ms = row
            if revoked_ms is not None or removed_ms is not None:
                raise Unauthenticated("the API key was revoked", "Ask an administrator of the team for a key.")
            if expires_ms is not None and expires_ms <= now:
                raise Unauthenticated("the API key has expired", "Ask an administrator of the team for a new one.")
            grants = tuple(g for g in _make_grants(grant_rows) if spaces is None or g.space in spaces)
            hour = now - now % _HOUR_MS
            if used_ms is None or used_ms < hour:
                raw.execute(sql(_NOTE_KEY_USE), {"tenant": key.tenant, "key": key.key_id, "hour": hour})
        return Principal(key.tenant, tenant_class, member, name, role == "admin", grants, find_highest_role(scopes), key.key_id)

    def get_memory(self, tenant: int, space: int) -> Memory:
        """Return a space as the engine opens it, or raise NotFound."""
        for number, timezone, store_id in self._fetch_rows(_MEMORY, tenant, space=space):
            return Memory(tenant, number, timezone, store_id)
        raise no_such_space()

    def count_stored_events(self, tenant: int) -> int:
        """Return how many events a tenant ever recorded."""
        return int(self._fetch_rows(_COUNT_STORED, tenant)[0][0])

    # administrators

    def list_tenants(self) -> list[Tenant]:
        """Return every tenant, by name."""
        with self._bind_tenant(None) as raw:
            return [Tenant(*row) for row in raw.execute("SELECT tenant, name, class, at_ms FROM tenant ORDER BY name")]

    def find_tenant(self, name: str) -> Tenant | None:
        """Return the tenant of that name, or None."""
        with self._bind_tenant(None) as raw:
            row = raw.execute("SELECT tenant, name, class, at_ms FROM tenant WHERE name = %s", [name]).fetchone()
        return Tenant(*row) if row else None

    def list_spaces(self, tenant: int) -> list[Space]:
        """Return the spaces of a tenant, by name."""
        return [Space(*row) for row in self._fetch_rows(_SPACES, tenant)]

    def list_members(self, tenant: int) -> list[Member]:
        """Return all members of a tenant, removed ones too, oldest first."""
        grants: dict[int, list[tuple[str, str]]] = {}
        for member, space, role in self._fetch_rows(_ALL_GRANTS, tenant):
            grants.setdefault(member, []).append((space, role))
        rows = self._fetch_rows(_MEMBERS, tenant)
        return [replace(Member(*row), grants=tuple(grants.get(row[0], ()))) for row in rows]

    def list_keys(self, tenant: int) -> list[Key]:
        """Return all keys of a tenant, oldest first.

        A space that is gone is named by its number.
        """
        names = {space.space: space.name for space in self.list_spaces(tenant)}
        listed_keys = []
        for key_id, name, member, scopes, spaces, *times in self._fetch_rows(_KEYS, tenant):
            space_names = None if spaces is None else tuple(names.get(space, str(space)) for space in spaces)
            listed_keys.append(Key(key_id, name, member, tuple(scopes), space_names, *times))
        return listed_keys

    def list_acts(self, tenant: int, limit: int) -> list[TeamAct]:
        """Return up to `limit` administrative acts, newest first.

        Acts in a space name it in `detail`, with counts, without the reasons that people gave.
        """
        rows = self._fetch_rows(_AUDIT, tenant, limit=limit, whats=_AUDITED_SPACE_ACTS)
        return [
            TeamAct(at_ms, what, author, subject, ({"space": space} if space else {}) | json.loads(detail))
            for at_ms, what, author, subject, detail, space, _ in rows
        ]


def _make_grants(rows: Sequence[tuple[Any, ...]]) -> tuple[Grant, ...]:
    return tuple(Grant(space, name, kind, Role(role)) for space, name, kind, role in rows)
