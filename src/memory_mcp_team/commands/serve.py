"""`serve --http` of a team: its server in this process."""

import argparse
from dataclasses import replace

from memory_mcp.base import extensions
from memory_mcp.cli import render
from memory_mcp.config import Settings
from memory_mcp_team.settings import team_settings


def serve(args: argparse.Namespace, settings: Settings) -> int | None:
    """Serve a team, or return None if team.auth is empty.

    It ends the process with status 0 when it is stopped.
    """
    if not team_settings(settings.extensions).auth:
        return None
    try:
        from memory_mcp_team.server import run
    except ModuleNotFoundError as error:
        raise extensions.lacking(error) from None

    host, port = args.host or settings.server.http_host, settings.server.http_port if args.port is None else args.port
    served_settings = replace(settings, server=replace(settings.server, http_host=host, http_port=port))

    def tell(url: str) -> None:
        lines = [f"Streamable HTTP: {url}/mcp", "Every request needs an API key or a token: Authorization: Bearer ..."]
        render.emit(bool(getattr(args, "json", False)), {"url": url}, lines)
        render.flush()

    return run.serve_team(served_settings, tell)
