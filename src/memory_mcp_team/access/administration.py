"""Administrative acts over a tenant, each in one transaction with its line in the audit.

Acts may be repeated: adding what is there and removing what is gone changes nothing, and is not audited.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.model.calendar import Calendar
from memory_mcp_team.access import keys
from memory_mcp_team.access.directory import Directory, Member, PooledConnection, Space, Tenant
from memory_mcp_team.access.keys import KeyText
from memory_mcp_team.access.permissions import SCOPES, Role
from memory_mcp_team.postgres.database import Binding, Database, translate_errors
from memory_mcp_team.postgres.memories import PRIVATE, PROJECT, TEAM, get_or_make_space, get_or_make_tenant
from memory_mcp_team.settings import CLASSES

KINDS = (TEAM, PROJECT, PRIVATE)
#: Names of spaces are in addresses and headers.
_IS_PRIVATE = "SELECT 1 FROM space WHERE tenant = %s AND space = %s AND kind = %s"
_SPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_MAX_NAME_CHARS = 200
_DAY_MS = 86_400_000

_AUDIT = "INSERT INTO team_audit (tenant, at_ms, what, author, subject, detail) VALUES (%s, %s, %s, %s, %s, %s)"
_NEW_MEMBER = """INSERT INTO member (tenant, member, subject, name, role, at_ms)
  SELECT %s, coalesce(max(member), 0) + 1, %s, %s, %s, %s FROM member WHERE tenant = %s RETURNING member"""
_GRANT = """INSERT INTO space_grant (tenant, space, member, role) VALUES (%s, %s, %s, %s)
  ON CONFLICT (tenant, member, space) DO UPDATE SET role = excluded.role WHERE space_grant.role <> excluded.role"""
_KEY = """INSERT INTO api_key (tenant, key_id, hash, name, member, scopes, spaces, at_ms, made_by, expires_ms)
  VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""


class Administration:
    """Acts of one administrator over tenants. Safe in any thread."""

    def __init__(self, database: Database, author: str, clock: Clock | None = None) -> None:
        self.database, self._author = database, author
        self._clock = clock or SystemClock()
        self.directory = Directory(database, self._clock)

    @contextmanager
    def _begin_transaction(self, tenant: int) -> Iterator[PooledConnection]:
        """Begin a transaction of a tenant; others wait."""
        with self.database.lend_connection(Binding(tenant)) as raw, translate_errors(), raw.transaction():
            raw.execute("SELECT tenant FROM tenant WHERE tenant = %s FOR UPDATE", [tenant])
            yield raw

    def _record_act(self, raw: PooledConnection, tenant: int, what: str, subject: str, **detail: Any) -> None:
        row = [tenant, self._clock.now_ms(), what, self._author, subject, json.dumps(detail)]
        raw.execute(_AUDIT, row)

    # tenants and spaces

    def add_tenant(self, name: str, tenant_class: str = "") -> Tenant:
        """Return the tenant of that name, made if missing.

        `tenant_class` moves it to that class. Raises InvalidQuery for an unknown class or an unfit name.
        """
        _check_name("tenant", name)
        if tenant_class and tenant_class not in CLASSES:
            raise InvalidQuery(f"unknown class of tenants: {tenant_class!r}", f"Classes are {', '.join(CLASSES)}.")
        with self.database.lend_connection(None) as raw, translate_errors(), raw.transaction():
            number, is_new = get_or_make_tenant(raw, name)
            # For this transaction alone: what follows are rows of the new tenant.
            bind = "SELECT set_config('memory.tenant', %s, true), set_config('memory.member', '0', true)"
            raw.execute(bind, [str(number)])
            if is_new:
                self._record_act(raw, number, "tenant add", name)
            if tenant_class:
                change = "UPDATE tenant SET class = %s WHERE tenant = %s AND class <> %s"
                if raw.execute(change, [tenant_class, number, tenant_class]).rowcount:
                    self._record_act(raw, number, "tenant class", name, to=tenant_class)
        return self.get_tenant(name)

    def get_tenant(self, name: str) -> Tenant:
        """Return the tenant of that name, or raise NotFound."""
        tenant = self.directory.find_tenant(name)
        if tenant is None:
            raise NotFound(f"there is no tenant {name!r}", "Make it: memory-mcp admin team tenant add NAME")
        return tenant

    def add_space(self, tenant: int, name: str, kind: str = TEAM, timezone: str = "UTC", owner: str = "") -> Space:
        """Return the space of that name, made if missing.

        `owner` gets the role admin in it. An existing space keeps its kind and zone. Raises InvalidQuery for an unfit
        name, kind or zone, a private space without an owner, or an owner for an existing private space; NotFound for an
        unknown owner.
        """
        if not _SPACE_NAME.fullmatch(name):
            hint = "Use letters, digits, dots, dashes and underscores: at most 63."
            raise InvalidQuery(f"a space cannot be called {name!r}", hint)
        if kind not in KINDS:
            raise InvalidQuery(f"unknown kind of space: {kind!r}", f"Kinds are {', '.join(KINDS)}.")
        if kind == PRIVATE and not owner:
            raise InvalidQuery("a private space needs its owner", "Name the member: --owner MEMBER")
        Calendar(timezone).day_of(0)
        owning_member = self.get_member(tenant, owner) if owner else None
        with self._begin_transaction(tenant) as raw:
            memory, is_new = get_or_make_space(raw, tenant, name, kind, timezone)
            if is_new:
                self._record_act(raw, tenant, "space add", name, kind=kind, timezone=timezone)
            elif owning_member is not None and raw.execute(_IS_PRIVATE, [tenant, memory.space, PRIVATE]).fetchone():
                raise InvalidQuery(f"there is a private space {name!r} already", "Choose another name.")
            if owning_member is not None:
                self._put_grant(raw, tenant, owning_member, memory.space, name, Role.ADMIN)
        return self.get_space(tenant, name)

    def get_space(self, tenant: int, name: str) -> Space:
        """Return the space of that name, or raise NotFound."""
        for space in self.directory.list_spaces(tenant):
            if space.name == name:
                return space
        raise NotFound(f"there is no space {name!r}", "List them: memory-mcp admin team space list")

    # members

    def add_member(self, tenant: int, name: str, subject: str, role: str = "member") -> Member:
        """Return the member with that subject, made if missing.

        An existing one gets this name and role; a removed one returns, without its former grants and keys. Raises
        InvalidQuery for an unfit name.
        """
        _check_name("member", name)
        with self._begin_transaction(tenant) as raw:
            find = "SELECT member, name, role, removed_ms FROM member WHERE tenant = %s AND subject = %s"
            stored_row = raw.execute(find, [tenant, subject]).fetchone()
            if stored_row is None:
                self._new_member(raw, tenant, name, subject, role)
                self._record_act(raw, tenant, "member add", name, identity=subject, role=role)
            elif stored_row[1:] != (name, role, None):
                change = "UPDATE member SET name = %s, role = %s, removed_ms = NULL WHERE tenant = %s AND member = %s"
                raw.execute(change, [name, role, tenant, stored_row[0]])
                self._record_act(raw, tenant, "member change", name, identity=subject, role=role)
        return next(member for member in self.directory.list_members(tenant) if member.subject == subject)

    def join_member(self, tenant: int, name: str, subject: str, spaces: Sequence[tuple[str, Role]]) -> None:
        """Make a member of a subject that the provider vouches for.

        Does nothing if there is such a member, even a removed one. Unknown spaces are skipped; a long name is cut.
        """
        with self._begin_transaction(tenant) as raw:
            if raw.execute("SELECT 1 FROM member WHERE tenant = %s AND subject = %s", [tenant, subject]).fetchone():
                return
            number = self._new_member(raw, tenant, name[:_MAX_NAME_CHARS], subject, "member")
            self._record_act(raw, tenant, "member join", name[:_MAX_NAME_CHARS], identity=subject)
            member = Member(number, name[:_MAX_NAME_CHARS], subject, "member", 0, None)
            for space, role in spaces:
                space_row = raw.execute("SELECT space FROM space WHERE tenant = %s AND name = %s", [tenant, space]).fetchone()
                if space_row is not None:
                    self._put_grant(raw, tenant, member, space_row[0], space, role)

    def _new_member(self, raw: PooledConnection, tenant: int, name: str, subject: str, role: str) -> int:
        number_row = raw.execute(_NEW_MEMBER, [tenant, subject, name, role, self._clock.now_ms(), tenant]).fetchone()
        assert number_row is not None
        return int(number_row[0])

    def get_member(self, tenant: int, name: str) -> Member:
        """Return the present member with that subject, else with that name.

        Raises NotFound, or InvalidQuery if several have the name.
        """
        present_members = [member for member in self.directory.list_members(tenant) if member.removed_ms is None]
        matching = [m for m in present_members if m.subject == name] or [m for m in present_members if m.name == name]
        if not matching:
            raise NotFound(f"there is no member {name!r}", "List them: memory-mcp admin team member list")
        if len(matching) > 1:
            subjects = ", ".join(member.subject for member in matching)
            raise InvalidQuery(f"several members are called {name!r}", f"Name one by its subject: {subjects}")
        return matching[0]

    def remove_member(self, tenant: int, name: str) -> Member:
        """Remove a member's grants and keys; return the member.

        What the member recorded stays. Raises what `get_member` raises.
        """
        member = self.get_member(tenant, name)
        now = self._clock.now_ms()
        with self._begin_transaction(tenant) as raw:
            member_key = [tenant, member.member]
            raw.execute("UPDATE member SET removed_ms = %s WHERE tenant = %s AND member = %s", [now, *member_key])
            raw.execute("DELETE FROM space_grant WHERE tenant = %s AND member = %s", member_key)
            revoke = "UPDATE api_key SET revoked_ms = %s WHERE tenant = %s AND member = %s AND revoked_ms IS NULL"
            revoked = raw.execute(revoke, [now, *member_key]).rowcount
            self._record_act(raw, tenant, "member remove", member.name, identity=member.subject, keys_revoked=revoked)
        return member

    # grants

    def grant_role(self, tenant: int, member: str, space: str, role: Role) -> bool:
        """Give a member a role; return whether that changed anything.

        Raises what `get_member` and `get_space` raise.
        """
        who, where = self.get_member(tenant, member), self.get_space(tenant, space)
        with self._begin_transaction(tenant) as raw:
            return self._put_grant(raw, tenant, who, where.space, where.name, role)

    def _put_grant(self, raw: PooledConnection, tenant: int, who: Member, space: int, name: str, role: Role) -> bool:
        changed = raw.execute(_GRANT, [tenant, space, who.member, role.value]).rowcount > 0
        if changed:
            self._record_act(raw, tenant, "grant", who.name, identity=who.subject, space=name, role=role.value)
        return changed

    def revoke_role(self, tenant: int, member: str, space: str) -> bool:
        """Remove a member's role; return whether there was one.

        Raises what `get_member` and `get_space` raise.
        """
        who, where = self.get_member(tenant, member), self.get_space(tenant, space)
        with self._begin_transaction(tenant) as raw:
            statement = "DELETE FROM space_grant WHERE tenant = %s AND member = %s AND space = %s"
            changed = raw.execute(statement, [tenant, who.member, where.space]).rowcount > 0
            if changed:
                self._record_act(raw, tenant, "revoke", who.name, identity=who.subject, space=where.name)
        return changed

    # keys

    def make_key(
        self, tenant: int, name: str, member: str, scopes: Sequence[str], spaces: Sequence[str] = (), days: int | None = 90
    ) -> KeyText:
        """Make a key that acts as a member.

        It is for `spaces` alone, if any are named, and expires after 1 to 3650 days, or never for None. Raises
        InvalidQuery for an unfit name, scope or number of days; NotFound for an unknown member or space.
        """
        _check_name("key", name)
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise InvalidQuery(f"unknown scope: {unknown[0]!r}", f"Scopes are {', '.join(SCOPES)}.")
        if not scopes:
            raise InvalidQuery("a key needs a scope", f"Scopes are {', '.join(SCOPES)}.")
        if days is not None and not 1 <= days <= 3650:
            raise InvalidQuery(f"a key cannot expire in {days} days", "Name 1 to 3650 days.")
        who = self.get_member(tenant, member)
        numbers = [self.get_space(tenant, space).space for space in spaces] or None
        key, now = keys.make_key(tenant), self._clock.now_ms()
        expires = None if days is None else now + days * _DAY_MS
        with self._begin_transaction(tenant) as raw:
            row = [tenant, key.key_id, key.hash, name, who.member, list(scopes), numbers, now, self._author, expires]
            raw.execute(_KEY, row)
            detail = {"name": name, "member": who.name, "scopes": list(scopes), "spaces": list(spaces), "days": days}
            self._record_act(raw, tenant, "key make", key.key_id, **detail)
        return key

    def revoke_key(self, tenant: int, key_id: str) -> bool:
        """Revoke a key, or raise NotFound; return whether it counted."""
        with self._begin_transaction(tenant) as raw:
            key_row = raw.execute("SELECT revoked_ms FROM api_key WHERE tenant = %s AND key_id = %s", [tenant, key_id]).fetchone()
            if key_row is None:
                raise NotFound(f"there is no key {key_id!r}", "List them: memory-mcp admin team key list")
            if key_row[0] is not None:
                return False
            change = "UPDATE api_key SET revoked_ms = %s WHERE tenant = %s AND key_id = %s"
            raw.execute(change, [self._clock.now_ms(), tenant, key_id])
            self._record_act(raw, tenant, "key revoke", key_id)
        return True


def _check_name(kind: str, name: str) -> None:
    if not name.strip() or len(name) > _MAX_NAME_CHARS or not name.isprintable():
        raise InvalidQuery(f"a {kind} cannot be called {name[:50]!r}", f"Use 1 to {_MAX_NAME_CHARS} printable characters.")
