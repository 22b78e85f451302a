"""Cursor: mcp.json in ~/.cursor or a project's .cursor; its command line client reads the same."""

from collections.abc import Sequence
from pathlib import PurePath

from memory_mcp.install.base import Client, Level, Place


class Cursor(Client):
    """The editor, and its command line client."""

    name = "cursor"
    title = "Cursor"
    commands = ("cursor", "cursor-agent")
    then = "restart it; the server is listed in its settings under MCP"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return ~/.cursor and the application's configuration folder."""
        return [place.at_home(".cursor"), place.app_folder("Cursor")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one mcp.json: the user's, or the project's in .cursor."""
        return [place.at_home(".cursor", "mcp.json") if level is Level.USER else place.in_project(".cursor", "mcp.json")]
