"""Gemini CLI: mcpServers and hooks in settings.json, which may hold comments."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import capture
from memory_mcp.install.base import Client, Edit, Level, Order, Place, local
from memory_mcp.install.command import Server


class Gemini(Client):
    """Google's command line client."""

    name = "gemini"
    title = "Gemini CLI"
    commands = ("gemini",)
    hook_client = "gemini"
    then = "start a new session, in a folder that you trust: in others it starts no server"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return the folder of the user's settings: .gemini in GEMINI_CLI_HOME, else in the home directory."""
        return [_home(place)]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one settings.json: the user's, or that in .gemini of the working directory."""
        return [(_home(place) if level is Level.USER else place.in_project(".gemini")) / "settings.json"]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return what `gemini mcp add` writes: the address with type http and headers, or a command as `local` writes it."""
        del level
        return {"url": server.url, "type": "http", "headers": server.headers} if server.url else local(server)

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edits that add a hook for each event of `capture.GEMINI` to the settings file of the level."""
        return capture.hooks(self, order, self.configs(order.place, order.level)[0], capture.GEMINI)


def _home(place: Place) -> PurePath:
    return place.named("GEMINI_CLI_HOME") / ".gemini"
