"""VS Code: servers in mcp.json of the user's folder (of the default profile) or of a project's .vscode."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install.base import Client, Level, Place, local
from memory_mcp.install.command import Server

_EDITIONS = ("Code", "Code - Insiders", "VSCodium")


class VSCode(Client):
    """Microsoft's editor, for Copilot's agent mode."""

    name = "vscode"
    title = "VS Code"
    commands = ("code", "code-insiders", "codium")
    keys = ("servers",)
    then = "reload its window, then start the server from the list MCP: List Servers"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return the application folders of its editions."""
        return [place.app_folder(edition) for edition in _EDITIONS]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return a project's .vscode/mcp.json, or each edition's User/mcp.json."""
        if level is Level.PROJECT:
            return [place.in_project(".vscode", "mcp.json")]
        return [place.app_folder(edition) / "User" / "mcp.json" for edition in _EDITIONS]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return its entry, which names the server's type."""
        del level
        return {"type": "http", "url": server.url, "headers": server.headers} if server.url else local(server, type="stdio")
