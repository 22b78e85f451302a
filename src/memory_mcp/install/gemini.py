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
        """Return the folder of the user's settings."""
        return [_home(place)]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one settings.json: the user's, or the project's in .gemini."""
        return [(_home(place) if level is Level.USER else place.in_project(".gemini")) / "settings.json"]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return what `gemini mcp add` writes."""
        del level
        return {"url": server.url, "type": "http", "headers": server.headers} if server.url else local(server)

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edits that add our hooks to the level's settings."""
        return capture.hooks(self, order, self.configs(order.place, order.level)[0], capture.GEMINI)


def _home(place: Place) -> PurePath:
    return place.named("GEMINI_CLI_HOME") / ".gemini"
