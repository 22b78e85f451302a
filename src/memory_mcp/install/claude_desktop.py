"""Claude Desktop: claude_desktop_config.json in its application folder, for programs that it starts itself alone."""

from collections.abc import Sequence
from pathlib import PurePath

from memory_mcp.install import plugins
from memory_mcp.install.base import Client, Level, Place, Plugin


class ClaudeDesktop(Client):
    """Anthropic's desktop client."""

    name = "claude-desktop"
    title = "Claude Desktop"
    takes_addresses = False
    then = "quit it from its menu and start it again"
    plugin_removal = "in its settings, below Extensions:"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return its one application folder, `Claude`."""
        return [place.app_folder("Claude")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return its configuration file at the user's level."""
        return [place.app_folder("Claude") / "claude_desktop_config.json"] if level is Level.USER else []

    def plugins(self, place: Place) -> Sequence[Plugin]:
        """Return the bundles of this program that are on."""
        folder = place.app_folder("Claude")
        return plugins.bundles(folder / "Claude Extensions", folder / "Claude Extensions Settings")
