"""Codex: tables [mcp_servers.NAME] in config.toml, hooks in hooks.json beside it.

A project's own files count where the user trusts the project, and hooks run only once the user has looked at them.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from memory_mcp.install import capture
from memory_mcp.install.base import Client, Edit, Format, Level, Order, Place, local
from memory_mcp.install.command import Server


class Codex(Client):
    """OpenAI's command line client, and its extension for editors."""

    name = "codex"
    title = "Codex"
    commands = ("codex",)
    format = Format.TOML
    keys = ("mcp_servers",)
    hook_client = "codex"
    then = "start a new session, and there /hooks to review and trust the hooks: until then nothing is recorded"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return CODEX_HOME, else ~/.codex."""
        return [place.named("CODEX_HOME", ".codex")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one config.toml: the user's in CODEX_HOME or ~/.codex, a project's in .codex of the working directory."""
        home = place.named("CODEX_HOME", ".codex") if level is Level.USER else place.in_project(".codex")
        return [home / "config.toml"]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return a command as `local` writes it, or the address with its headers under http_headers, as Codex calls them."""
        del level
        return {"url": server.url, "http_headers": server.headers} if server.url else local(server)

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edits that add a hook for each event of `capture.CODEX` to hooks.json, beside config.toml of the level."""
        file = self.configs(order.place, order.level)[0].with_name("hooks.json")
        return capture.hooks(self, order, file, capture.CODEX)
