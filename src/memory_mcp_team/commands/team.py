"""`admin team`: administer tenants, spaces, members, grants and keys of a shared memory, in the database of storage.url."""

import argparse
import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import extensions
from memory_mcp.base.errors import ConfigError, InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, print_result, settings_of

if TYPE_CHECKING:
    from memory_mcp.config import Settings
    from memory_mcp_team.access.administration import Administration
    from memory_mcp_team.access.directory import Member

_TENANT = "which tenant (setting storage.tenant)"
_ROLES = ("reader", "writer", "curator", "admin")
_DAYS = 90


def add(parsers: Subparsers, about: str) -> None:
    """Add `admin team` with its subcommands."""
    inner = family(parsers, "team", about)
    _add_tenants(inner)
    _add_members(inner)
    _add_keys(inner)
    tombstones = family(
        inner, "tombstones", "keep what was forgotten separate from the database, for the restore of an older backup"
    )
    copy = leaf(tombstones, "export", run_export, "add to a file what was forgotten in any space, without a word of it")
    copy.add_argument("file", metavar="FILE", help="made if there is none; lines are only added")
    apply = leaf(
        tombstones, "apply", run_apply, "forget again, in a restored database, what files say", "No server may run meanwhile."
    )
    apply.add_argument("places", metavar="FILE", nargs="+", help="files, or folders of files such as team.tombstones_dir")
    acts = _add_leaf(inner, "audit", run_audit, "list the administrative acts over a tenant, newest first")
    acts.add_argument("--limit", type=int, default=20, metavar="N", help="how many (20)")


def _add_tenants(inner: Subparsers) -> None:
    tenants = family(inner, "tenant", "add and list tenants: organizations that share nothing with each other")
    new = leaf(tenants, "add", run_tenant_add, "add a tenant, or change its class")
    new.add_argument("name", metavar="NAME", help="as tokens name it, where a claim of theirs does")
    new.add_argument("--class", dest="tenant_class", default="", metavar="CLASS", help="small, standard or large: its limits")
    leaf(tenants, "list", run_tenant_list, "list the tenants")
    spaces = family(inner, "space", "add and list spaces: memories that members may see together")
    space = _add_leaf(spaces, "add", run_space_add, "add a space")
    space.add_argument("name", metavar="NAME", help="letters, digits, dots, dashes and underscores")
    space.add_argument("--kind", default="team", metavar="KIND", help="team, project or private (team)")
    space.add_argument("--owner", default="", metavar="MEMBER", help="becomes the space's admin; a private space needs one")
    space.add_argument("--timezone", default="UTC", metavar="ZONE", help="of its days, such as Europe/Berlin (UTC)")
    _add_leaf(spaces, "list", run_space_list, "list the spaces")


def _add_members(inner: Subparsers) -> None:
    members = family(inner, "member", "add, list and remove members")
    new = _add_leaf(members, "add", run_member_add, "add a member, or change one", "Without --sub the member has API keys alone.")
    new.add_argument("name", metavar="NAME", help="what people call the member")
    new.add_argument("--sub", default="", metavar="SUBJECT", help="the claim sub of the member's tokens")
    new.add_argument("--issuer", default="", metavar="URL", help="the OpenID provider (setting team.issuer)")
    new.add_argument("--admin", action="store_true", help="may administer the tenant")
    _add_leaf(members, "list", run_member_list, "list the members with their roles in spaces")
    gone = _add_leaf(members, "remove", run_member_remove, "take a member's grants and keys away; what was recorded stays")
    gone.add_argument("name", metavar="NAME", help="the member's name or subject")
    grant = _add_leaf(inner, "grant", run_grant, "give a member a role in a space, in place of the one before")
    revoke = _add_leaf(inner, "revoke", run_revoke, "take a member's role in a space away")
    for parser in (grant, revoke):
        parser.add_argument("member", metavar="MEMBER", help="the member's name or subject")
        parser.add_argument("space", metavar="SPACE", help="the space's name")
    grant.add_argument("role", metavar="ROLE", choices=_ROLES, help="reader, writer, curator or admin")


def _add_keys(inner: Subparsers) -> None:
    keys = family(inner, "key", "make, list and revoke API keys, for hooks and CI")
    make = _add_leaf(keys, "make", run_key_make, "make a key that acts as a member; its text is shown once")
    make.add_argument("name", metavar="NAME", help="what the key is for")
    make.add_argument("--member", required=True, metavar="MEMBER", help="as whom it acts: name or subject")
    text = "memory:read, memory:write, memory:curate or memory:admin (read)"
    make.add_argument("--scope", action="append", default=[], metavar="SCOPE", help=text)
    make.add_argument("--space", action="append", default=[], metavar="SPACE", help="in this space alone; may be repeated")
    make.add_argument("--days", type=int, default=_DAYS, metavar="N", help=f"until it expires ({_DAYS}); 0: never")
    _add_leaf(keys, "list", run_key_list, "list the keys, without their texts")
    gone = _add_leaf(keys, "revoke", run_key_revoke, "end a key, from the next call")
    gone.add_argument("key_id", metavar="KEY", help="the key's id")


def _add_leaf(parsers: Subparsers, name: str, run: Any, text: str, aside: str = "") -> argparse.ArgumentParser:
    parser = leaf(parsers, name, run, text, aside)
    parser.add_argument("--tenant", default="", metavar="TENANT", help=_TENANT)
    return parser


@contextmanager
def _open_administration(args: argparse.Namespace) -> Iterator[tuple["Administration", "Settings"]]:
    """Yield the administration of the database of storage.url, and the settings.

    Its tables are made or brought up to date first. Raises ConfigError if no database is set, or a library is missing.
    """
    settings = settings_of(args)
    if not settings.storage.url:
        raise ConfigError("storage.url is not set", "Name the database: postgresql://USER@HOST/NAME")
    try:
        from memory_mcp_team.access.administration import Administration
        from memory_mcp_team.postgres import migrations
        from memory_mcp_team.postgres.database import Database
    except ModuleNotFoundError as error:
        raise extensions.make_missing_error(error) from None
    database = Database(settings.storage.url, 2)
    try:
        migrations.migrate_schema(database)
        try:
            user = getpass.getuser()
        except (OSError, KeyError):
            user = "unknown"
        yield Administration(database, f"{user}@{socket.gethostname()}"), settings
    finally:
        database.close()


@contextmanager
def _open_tenant(args: argparse.Namespace) -> Iterator[tuple["Administration", int]]:
    """Yield the administration and the number of --tenant, else storage.tenant."""
    with _open_administration(args) as (acts, settings):
        yield acts, acts.get_tenant(args.tenant or settings.storage.tenant).tenant


def run_tenant_add(args: argparse.Namespace) -> int:
    with _open_administration(args) as (acts, _):
        tenant = acts.add_tenant(args.name, args.tenant_class)
    return print_result(args, asdict(tenant), [f"tenant {tenant.name} (class {tenant.tenant_class})"])


def run_tenant_list(args: argparse.Namespace) -> int:
    with _open_administration(args) as (acts, _):
        tenants = acts.directory.list_tenants()
    lines = [f"{_format_day(tenant.at_ms)}  {tenant.tenant_class:<9} {tenant.name}" for tenant in tenants]
    return print_result(args, {"tenants": [asdict(tenant) for tenant in tenants]}, lines or ["there are no tenants yet"])


def run_space_add(args: argparse.Namespace) -> int:
    """Add a space; one that exists keeps its kind and zone."""
    with _open_tenant(args) as (acts, tenant):
        space = acts.add_space(tenant, args.name, args.kind, args.timezone, args.owner)
    owned = f"; {args.owner} is its admin" if args.owner else ""
    return print_result(args, asdict(space), [f"space {space.name} ({space.kind}, days of {space.timezone}){owned}"])


def run_space_list(args: argparse.Namespace) -> int:
    with _open_tenant(args) as (acts, tenant):
        spaces = acts.directory.list_spaces(tenant)
    lines = [f"{_format_day(space.at_ms)}  {space.kind:<8} {space.name:<24} {space.events:>12,} events" for space in spaces]
    return print_result(args, {"spaces": [asdict(space) for space in spaces]}, lines or ["there are no spaces yet"])


def run_member_add(args: argparse.Namespace) -> int:
    with _open_administration(args) as (acts, settings):
        from memory_mcp_team.settings import team_settings

        issuer = args.issuer or team_settings(settings.extensions).issuer
        if args.sub and not issuer:
            raise InvalidQuery("a subject belongs to a provider", "Name it: --issuer URL, or the setting team.issuer.")
        # An issuer is an address: no subject of one begins so.
        subject = f"{issuer}|{args.sub}" if args.sub else f"keys|{args.name}"
        tenant = acts.get_tenant(args.tenant or settings.storage.tenant).tenant
        member = acts.add_member(tenant, args.name, subject, "admin" if args.admin else "member")
    return print_result(args, asdict(member), [_member_line(member)])


def run_member_list(args: argparse.Namespace) -> int:
    with _open_tenant(args) as (acts, tenant):
        members = acts.directory.list_members(tenant)
    lines = [_member_line(member) for member in members]
    return print_result(args, {"members": [asdict(member) for member in members]}, lines or ["there are no members yet"])


def _member_line(member: "Member") -> str:
    grants = ", ".join(f"{space}: {role}" for space, role in member.grants) or "no space"
    state = f"removed {_format_day(member.removed_ms)}" if member.removed_ms is not None else grants
    admin = " (tenant admin)" if member.role == "admin" else ""
    return f"{member.member:>4}  {render.one_line(member.name)}{admin}  {state}  [{render.one_line(member.subject)}]"


def run_member_remove(args: argparse.Namespace) -> int:
    """Remove a member's grants and keys; what was recorded stays."""
    with _open_tenant(args) as (acts, tenant):
        gone = acts.remove_member(tenant, args.name)
    return print_result(args, {"removed": gone.name, "subject": gone.subject}, [f"removed {gone.name}"])


def run_grant(args: argparse.Namespace) -> int:
    from memory_mcp_team.access.permissions import Role

    with _open_tenant(args) as (acts, tenant):
        changed = acts.grant_role(tenant, args.member, args.space, Role(args.role))
    line = f"{args.member} is {args.role} of {args.space}" + ("" if changed else " already")
    data = {"member": args.member, "space": args.space, "role": args.role, "changed": changed}
    return print_result(args, data, [line])


def run_revoke(args: argparse.Namespace) -> int:
    with _open_tenant(args) as (acts, tenant):
        changed = acts.revoke_role(tenant, args.member, args.space)
    line = f"{args.member} has no role in {args.space}" + (" any longer" if changed else "; nothing changed")
    return print_result(args, {"member": args.member, "space": args.space, "changed": changed}, [line])


def run_key_make(args: argparse.Namespace) -> int:
    scopes, days = args.scope or ["memory:read"], args.days or None
    with _open_tenant(args) as (acts, tenant):
        key = acts.make_key(tenant, args.name, args.member, scopes, args.space, days)
    render.err("Keep it now: only its hash is stored, and it is not shown again.")
    data = {"key": str(key), "key_id": key.key_id, "scopes": scopes, "days": days}
    return print_result(args, data, [str(key)])


def run_key_list(args: argparse.Namespace) -> int:
    with _open_tenant(args) as (acts, tenant):
        keys = acts.directory.list_keys(tenant)
    lines = []
    for key in keys:
        until = "never expires" if key.expires_ms is None else f"until {_format_day(key.expires_ms)}"
        state = f"revoked {_format_day(key.revoked_ms)}" if key.revoked_ms is not None else until
        used = "never used" if key.used_ms is None else f"used {_format_day(key.used_ms)}"
        spaces = "" if key.spaces is None else f" in {', '.join(key.spaces)}"
        scopes = " ".join(key.scopes)
        lines.append(f"{key.key_id}  {render.one_line(key.name)}  as {key.member}: {scopes}{spaces}  {state}, {used}")
    return print_result(args, {"keys": [asdict(key) for key in keys]}, lines or ["there are no keys yet"])


def run_key_revoke(args: argparse.Namespace) -> int:
    with _open_tenant(args) as (acts, tenant):
        changed = acts.revoke_key(tenant, args.key_id)
    line = f"key {args.key_id} no longer counts" + ("" if changed else "; it was revoked before")
    return print_result(args, {"key_id": args.key_id, "changed": changed}, [line])


def run_audit(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise InvalidQuery(f"--limit must be at least 1, not {args.limit}")
    with _open_tenant(args) as (acts, tenant):
        audit_acts = acts.directory.list_acts(tenant, args.limit)
    lines = []
    for act in audit_acts:
        what = f"{act.what:<14} {render.one_line(act.author)}  {render.one_line(act.subject)}"
        detail = ", ".join(f"{name} {value}" for name, value in act.detail.items())
        lines.append(f"{_format_moment(act.at_ms)}  {what}  {detail}".rstrip())
    return print_result(args, {"acts": [asdict(act) for act in audit_acts]}, lines or ["nothing was done yet"])


def run_export(args: argparse.Namespace) -> int:
    from memory_mcp_team.server import tombstones

    with _open_administration(args) as (acts, _):
        added = tombstones.export_tombstones(acts.database, Path(args.file))
    return print_result(args, {"added": added, "file": args.file}, [f"{render.plural(added, 'tombstone')} added to {args.file}"])


def run_apply(args: argparse.Namespace) -> int:
    from memory_mcp_team.server import tombstones
    from memory_mcp_team.server.tombstone_files import list_files

    paths = [Path(path) for path in args.places]
    for path in paths:
        if not list_files([path]):
            render.err(f"{path} holds no tombstones: nothing was forgotten, or it is another folder")
    with _open_administration(args) as (acts, settings):
        done = tombstones.apply_tombstones(acts.database, settings, paths)
    lines = [
        f"{render.plural(done.tombstones, 'tombstone')} applied that the database did not have",
        f"{render.plural(done.events, 'event')} forgotten again in {render.plural(done.memories, 'space')}",
    ]
    if done.unknown:
        lines.append(f"{render.plural(done.unknown, 'space')} of the files are not in this database: made after the backup")
    return print_result(args, asdict(done), lines)


def _format_moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%MZ")


def _format_day(ms: int) -> str:
    return _format_moment(ms)[:10]
