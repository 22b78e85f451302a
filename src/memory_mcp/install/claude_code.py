"""Claude Code: servers in ~/.claude.json or a project's .mcp.json, hooks in settings.json beside its other settings.

A plugin brings both by itself; settings of the user, the project and this machine switch it on and off.

Change here: install into another client, or another hook or file of one.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import capture, plugins
from memory_mcp.install.base import Client, Edit, Level, Order, Place, Plugin, local
from memory_mcp.install.command import Server


class ClaudeCode(Client):
    """Anthropic's command line client."""

    name = "claude-code"
    title = "Claude Code"
    commands = ("claude",)
    hook_client = "claude-code"
    then = "start a new session"
    plugin_removal = "claude plugin uninstall"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return its settings folder (`_home`) and the user's state file .claude.json."""
        return (_home(place), *self.configs(place, Level.USER))

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return .mcp.json for a project, .claude.json for the user.

        The latter is in CLAUDE_CONFIG_DIR where that is set, else in the home directory.
        """
        if level is Level.PROJECT:
            return [place.in_project(".mcp.json")]
        inside = place.environ.get("CLAUDE_CONFIG_DIR")
        return [_home(place) / ".claude.json" if inside else place.at_home(".claude.json")]

    def server_keys(self, place: Place) -> Sequence[tuple[str, ...]]:
        """Return the key paths of the user's and this folder's servers."""
        return [self.keys, ("projects", place.cwd, *self.keys)]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return what `claude mcp add` would write."""
        del level
        if server.url:
            return {"type": "http", "url": server.url, "headers": server.headers}
        return local(server, type="stdio")

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edits that add a hook per event.

        To settings.json for the user, to settings.local.json for a project. The latter is not shared with others, since the
        command is this machine's.
        """
        inside = order.place.in_project(".claude", "settings.local.json")
        file = _home(order.place) / "settings.json" if order.level is Level.USER else inside
        return capture.hooks(self, order, file, capture.CLAUDE_CODE)

    def plugins(self, place: Place) -> Sequence[Plugin]:
        """Return what `enabledPlugins` of all settings switch on."""
        inside = [place.in_project(".claude", name) for name in ("settings.json", "settings.local.json")]
        states = plugins.read_states([_home(place) / "settings.json", *inside], ("enabledPlugins",))
        return plugins.find_cached_plugins(states, _home(place) / "plugins" / "cache")


def _home(place: Place) -> PurePath:
    return place.named("CLAUDE_CONFIG_DIR", ".claude")
