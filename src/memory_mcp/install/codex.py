"""Codex: tables [mcp_servers.NAME] in config.toml, hooks in hooks.json beside it.

A project's own files count where the user trusts the project, and hooks run only once the user has looked at them.
"""

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from memory_mcp.install import capture, plugins
from memory_mcp.install.base import AddItem, Client, Edit, Format, Level, Order, Place, Plugin, local
from memory_mcp.install.command import Server, runs_our_hook


class Codex(Client):
    """OpenAI's command line client, and its extension for editors."""

    name = "codex"
    title = "Codex"
    commands = ("codex",)
    format = Format.TOML
    keys = ("mcp_servers",)
    hook_client = "codex"
    then = (
        "start a new session, and there /hooks to review and trust the hooks: until then nothing is recorded"
        " (meanwhile: memory-mcp watch on codex)"
    )
    trust = "/hooks"
    plugin_removal = "codex plugin remove"

    def folders(self, place: Place) -> Sequence[PurePath]:
        """Return CODEX_HOME, else ~/.codex."""
        return [place.named("CODEX_HOME", ".codex")]

    def configs(self, place: Place, level: Level) -> Sequence[PurePath]:
        """Return one config.toml, the user's or the project's."""
        home = place.named("CODEX_HOME", ".codex") if level is Level.USER else place.in_project(".codex")
        return [home / "config.toml"]

    def entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return an entry as Codex writes it, headers under http_headers."""
        del level
        return {"url": server.url, "http_headers": server.headers} if server.url else local(server)

    def hooks(self, order: Order) -> Sequence[Edit]:
        """Return the edits that add our hooks to hooks.json."""
        file = self.configs(order.place, order.level)[0].with_name("hooks.json")
        return capture.hooks(self, order, file, capture.CODEX)

    def plugins(self, place: Place) -> Sequence[Plugin]:
        """Return what the [plugins] tables switch on."""
        settings = [file for level in Level for file in self.configs(place, level)]
        states = plugins.read_states(settings, ("plugins",), self.format)
        return plugins.find_cached_plugins(states, settings[0].parent / "plugins" / "cache")

    def untrusted(self, place: Place, level: str) -> int:
        """Return how many hooks of ours have no `trusted_hash`.

        Their keys there are FILE:EVENT:GROUP:HANDLER, with the event in snake case and places counted from 0; a plugin's
        hooks have its name before the file.
        """
        state = plugins.read_mapping(Path(self.configs(place, Level.USER)[0]), ("hooks", "state"), self.format)
        trusted = {_event_key(key) for key, member in state.items() if isinstance(member, dict) and member.get("trusted_hash")}
        if level in list(Level):
            keys = {f"{edit.path}:{_snake(edit.keys[-1])}" for edit in self._list_written(place, Level(level))}
        else:
            events = [
                (plugin.name, event) for plugin in self.plugins(place) for event in plugin.events.intersection(capture.CODEX)
            ]
            keys = {f"{name}:hooks/hooks.json:{_snake(event)}" for name, event in events}
        return len({_event_key(key) for key in keys} - trusted)

    def _list_written(self, place: Place, level: Level) -> list[AddItem]:
        edits = [edit for edit in self.hooks(Order(place, Server(), level)) if isinstance(edit, AddItem)]
        events = plugins.read_mapping(Path(edits[0].path), edits[0].keys[:-1])
        return [edit for edit in edits if runs_our_hook(events.get(edit.keys[-1]), self.hook_client)]


def _event_key(key: str) -> str:
    path, _, position = key.rpartition(".json:")
    plain = path if "@" in path.partition(":")[0] else os.path.realpath(path)
    return f"{plain}:{position.partition(':')[0]}"


def _snake(event: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(event))
