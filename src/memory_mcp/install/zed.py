"""Zed: context_servers in settings.json, which holds comments and trailing commas as a rule."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install.base import Client, Level, Place, local
from memory_mcp.install.command import Server


class Zed(Client):
    """The editor."""

    name = "zed"
    title = "Zed"
    commands = ("zed", "zeditor", "zedit")
    keys = ("context_servers",)
    then = "open the settings of its agent panel: the server is listed there"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Its settings' folder."""
        return [_home(place)]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """One file for each level."""
        return [(_home(place) if level is Level.USER else place.in_project(".zed")) / "settings.json"]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Which transport it is, it reads from the keys."""
        del level
        return {"url": server.url, "headers": server.headers} if server.url else local(server)


def _home(place: Place) -> PurePath:
    """On macOS below ~/.config as well, whatever XDG_CONFIG_HOME says."""
    if place.platform == "win32":
        return place.named("APPDATA", "AppData", "Roaming") / "Zed"
    return place.named("XDG_CONFIG_HOME", ".config") / "zed" if place.platform == "linux" else place.at_home(".config", "zed")
