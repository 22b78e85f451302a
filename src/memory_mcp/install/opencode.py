"""opencode: `mcp` in opencode.json or opencode.jsonc, where the command is one list and the environment has its full name.

What it says and does is handed over by a plugin in a folder whose files it loads by itself.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import capture
from memory_mcp.install.base import Client, Edit, Level, Order, Place
from memory_mcp.install.command import Server

#: Both are read, the second last.
_FILES = ("opencode.json", "opencode.jsonc")


class OpenCode(Client):
    """The open command line client."""

    name = "opencode"
    title = "opencode"
    commands = ("opencode",)
    keys = ("mcp",)
    hook_client = "opencode"
    then = "start a new session"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return its settings folder and its data folder."""
        return [_home(place), place.named("XDG_DATA_HOME", ".local", "share") / "opencode"]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return opencode.json and opencode.jsonc of the level.

        Where none exists, the first is made, which holds no comments.
        """
        return [(_home(place) if level is Level.USER else place.path(place.cwd)) / name for name in _FILES]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return its entry, of type remote or local.

        A remote one has `oauth` off: else it would look for a way to log in when the token is refused.
        """
        del level
        if server.url:
            return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, "enabled": True}
        fields: dict[str, Any] = {"type": "local", "command": [server.command, *server.args], "enabled": True}
        return fields | ({"environment": dict(server.env)} if server.env else {})

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edit that places our plugin in `plugins`."""
        folder = _home(order.place) if order.level is Level.USER else order.place.in_project(".opencode")
        return capture.opencode_plugin(order, folder / "plugins")


def _home(place: Place) -> PurePath:
    return place.named("XDG_CONFIG_HOME", ".config") / "opencode"
