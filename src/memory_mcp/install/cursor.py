"""Cursor: mcp.json in ~/.cursor or a project's .cursor; its command line client reads the same."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install.base import Client, Level, Place, local
from memory_mcp.install.command import Server


class Cursor(Client):
    """The editor, and its command line client."""

    name = "cursor"
    title = "Cursor"
    commands = ("cursor", "cursor-agent")
    then = "restart it; the server is listed in its settings under MCP"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Its own folder, and that of the application."""
        return [place.at_home(".cursor"), place.app_folder("Cursor")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """One file for each level."""
        return [place.at_home(".cursor", "mcp.json") if level is Level.USER else place.in_project(".cursor", "mcp.json")]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Which transport it is, it reads from the keys."""
        del level
        return {"url": server.url, "headers": server.headers} if server.url else local(server)
