"""`serve --http` of a team: its server in this process."""

import argparse
from dataclasses import replace

from memory_mcp.base import extensions
from memory_mcp.cli import render
from memory_mcp.config import Settings
from memory_mcp_team.settings import team_settings


def serve(args: argparse.Namespace, settings: Settings) -> int | None:
    """Serve a team in this process until it is stopped, at --host and --port or those of the settings; print its address.

    None if the setting team.auth is empty. Ends the process with status 0 when stopped; raises what starting it raises.
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
