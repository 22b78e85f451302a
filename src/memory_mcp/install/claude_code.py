"""Claude Code: servers in ~/.claude.json or a project's .mcp.json, hooks in settings.json beside its other settings."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import capture
from memory_mcp.install.base import Client, Edit, Level, Order, Place, local
from memory_mcp.install.command import Server


class ClaudeCode(Client):
    """Anthropic's command line client."""

    name = "claude-code"
    title = "Claude Code"
    commands = ("claude",)
    hook_client = "claude-code"
    then = "start a new session"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Its settings' folder, and the file of its state."""
        return (_home(place), *self.configs(place, Level.USER))

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """With CLAUDE_CONFIG_DIR the file of its state lies in there, not beside."""
        if level is Level.PROJECT:
            return [place.in_project(".mcp.json")]
        inside = place.environ.get("CLAUDE_CONFIG_DIR")
        return [_home(place) / ".claude.json" if inside else place.at_home(".claude.json")]

    def server_keys(self, place: Place) -> Sequence[tuple[str, ...]]:
        """What `claude mcp add` writes without a scope is for one folder, and stands in the user's file."""
        return [self.keys, ("projects", place.cwd, *self.keys)]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """As `claude mcp add` writes it."""
        del level
        if server.url:
            return {"type": "http", "url": server.url, "headers": server.headers}
        return local(server, type="stdio")

    def hooks(self, order: Order) -> Sequence[Edit]:
        """One of each event; for one project in the file that is not shared with others, since the command is this machine's."""
        inside = order.place.in_project(".claude", "settings.local.json")
        file = _home(order.place) / "settings.json" if order.level is Level.USER else inside
        return capture.hooks(self, order, file, capture.CLAUDE_CODE)


def _home(place: Place) -> PurePath:
    return place.named("CLAUDE_CONFIG_DIR", ".claude")
