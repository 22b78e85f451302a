"""Windsurf: mcp_config.json in ~/.codeium/windsurf, for all projects."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install.base import Client, Level, Place, local
from memory_mcp.install.command import Server


class Windsurf(Client):
    """The editor, and its agent Cascade."""

    name = "windsurf"
    title = "Windsurf"
    commands = ("windsurf",)
    then = "press Refresh in the list of MCP servers of Cascade"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return ~/.codeium/windsurf and the application's configuration folder."""
        return [place.at_home(".codeium", "windsurf"), place.app_folder("Windsurf")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return its configuration file at the user's level."""
        return [place.at_home(".codeium", "windsurf", "mcp_config.json")] if level is Level.USER else []

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return its entry, an address under serverUrl."""
        del level
        return {"serverUrl": server.url, "headers": server.headers} if server.url else local(server)
