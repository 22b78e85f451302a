"""Zed: context_servers in settings.json, which holds comments and trailing commas as a rule."""

from collections.abc import Sequence
from pathlib import PurePath

from memory_mcp.install.base import Client, Level, Place


class Zed(Client):
    """The editor."""

    name = "zed"
    title = "Zed"
    commands = ("zed", "zeditor", "zedit")
    keys = ("context_servers",)
    then = "open the settings of its agent panel: the server is listed there"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return the folder of its settings."""
        return [_home(place)]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one settings.json: the user's, or the project's in .zed."""
        return [(_home(place) if level is Level.USER else place.in_project(".zed")) / "settings.json"]


def _home(place: Place) -> PurePath:
    """Return the settings' folder."""
    if place.platform == "win32":
        return place.named("APPDATA", "AppData", "Roaming") / "Zed"
    return place.named("XDG_CONFIG_HOME", ".config") / "zed" if place.platform == "linux" else place.at_home(".config", "zed")
