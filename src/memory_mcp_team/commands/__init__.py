"""The commands of a team: `share`, `admin team` and `admin migrate-to`; `serve --http`, and a check of `doctor`."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base import extensions
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.cli.commands.registry import Command

if TYPE_CHECKING:
    from memory_mcp.config import Settings

SHARE = Command(
    "publish chosen projects to a space of a team's server, and pull what others published there",
    "memory_mcp_team.commands.share",
    state_command="share status",
    is_forwarded=True,
)
TEAM = Command("say who may use a memory that many people share; every act is kept in its audit", "memory_mcp_team.commands.team")
MIGRATE = Command(
    "copy the whole memory into another engine's store, and check the copy; this one is not changed",
    "memory_mcp_team.commands.migrate",
    is_forwarded=True,
)


def serve(args: argparse.Namespace, settings: "Settings") -> int | None:
    """Serve a team, or return None if team.auth is empty.

    It ends the process with status 0 when it is stopped.
    """
    from memory_mcp_team.settings import team_settings

    if not team_settings(settings.extensions).auth:
        return None
    try:
        from memory_mcp_team.server import run
    except ModuleNotFoundError as error:
        raise extensions.make_missing_error(error) from None

    host, port = args.host or settings.server.http_host, settings.server.http_port if args.port is None else args.port
    served_settings = replace(settings, server=replace(settings.server, http_host=host, http_port=port))

    def print_address(url: str) -> None:
        lines = [f"Streamable HTTP: {url}/mcp", "Every request needs an API key or a token: Authorization: Bearer ..."]
        render.emit(bool(getattr(args, "json", False)), {"url": url}, lines)
        render.flush()

    return run.serve_team(served_settings, print_address)


def check_database(look: Look) -> Iterator[Check]:
    """Yield one line on the database of storage.url.

    FAIL if it does not answer, WARN if row-level security does not bind its role; nothing for another engine.
    """
    if look.settings is None or look.settings.storage.engine != "postgres":
        return
    from memory_mcp_team.postgres import migrations

    storage = look.settings.storage
    try:
        role = migrations.read_role(storage.url)
    except MemoryMcpError as error:
        yield Check(FAIL, "database", error.message, error.hint)
        return
    where = f"PostgreSQL {role.version} answers as {role.name}; tenant {storage.tenant}, space {storage.space}"
    if role.is_bound:
        yield Check(OK, "database", where)
    else:
        yield Check(WARN, "database", f"{where}; row-level security does not bind this role", migrations.ROLE_HINT)
