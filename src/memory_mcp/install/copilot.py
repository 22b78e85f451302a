"""Copilot CLI: mcp-config.json in ~/.copilot; a project's servers stand in its .mcp.json, which Claude Code reads, too."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import plugins
from memory_mcp.install.base import Client, Level, Place, Plugin, local
from memory_mcp.install.command import Server

_TOOLS = ["*"]


class Copilot(Client):
    """GitHub's command line client."""

    name = "copilot"
    title = "Copilot CLI"
    commands = ("copilot",)
    then = "start a new session"
    plugin_removal = "copilot plugin uninstall"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return COPILOT_HOME, else ~/.copilot."""
        return [place.named("COPILOT_HOME", ".copilot")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return the user's mcp-config.json or the project's .mcp.json."""
        home = place.named("COPILOT_HOME", ".copilot")
        return [home / "mcp-config.json"] if level is Level.USER else [place.in_project(".mcp.json")]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return what `copilot mcp add` writes, with all tools allowed.

        At a project's level always a command of type stdio, which Claude Code can read too, even where the server
        has an address.
        """
        if level is Level.PROJECT:
            return local(server, type="stdio")
        if server.url:
            return {"tools": _TOOLS, "type": "http", "url": server.url, "headers": server.headers}
        return local(server, tools=_TOOLS, type="local")

    def plugins(self, place: Place) -> Sequence[Plugin]:
        """Return our unpacked plugins that its settings leave on."""
        home = place.named("COPILOT_HOME", ".copilot")
        return plugins.find_unpacked_plugins(home / "installed-plugins", home / "settings.json")
