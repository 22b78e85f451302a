"""Claude Desktop: claude_desktop_config.json in its application folder, for programs that it starts itself alone."""

from collections.abc import Sequence
from pathlib import PurePath

from memory_mcp.install.base import Client, Level, Place


class ClaudeDesktop(Client):
    """Anthropic's desktop client."""

    name = "claude-desktop"
    title = "Claude Desktop"
    takes_addresses = False
    then = "quit it from its menu and start it again"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return its one application folder, `Claude`."""
        return [place.app_folder("Claude")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return its configuration file at the user's level; none at a project's."""
        return [place.app_folder("Claude") / "claude_desktop_config.json"] if level is Level.USER else []
