"""Reads the plugins of clients: which are switched on, and which of those start this memory or run its hooks.

A client that finds the same server or hook in two locations runs both. Reads files only. A file that cannot be read counts as
empty: its client cannot use it either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import CLAUDE_CODE_EVENTS, AddItem, Client, Edit, Environment, Format, Level, Order, Plugin, SetKey
from memory_mcp.install.command import NAME, hook_options, runs_our_hook, starts_us
from memory_mcp.install.edit import files, splice, toml
from memory_mcp.install.edit.jsonc import Broken

#: The plugin of this repository under the name of the marketplace that offers it.
PLUGIN = f"{NAME}@memory-mcp"
#: Where the manifest of a plugin may be in its folder.
_MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".plugin/plugin.json", "plugin.json")
#: What the bundle for desktop clients requires; other programs' packages are called memory-mcp, too.
_PACKAGE = b"memory-mcp-tree"


def read_states(settings: Sequence[PurePath], keys: Sequence[str], form: Format = Format.JSON) -> dict[str, tuple[bool, Path]]:
    """Return whether each plugin is on, and which file says so."""
    states: dict[str, tuple[bool, Path]] = {}
    for path in map(Path, settings):
        for name, state in read_mapping(path, keys, form).items():
            enabled = state.get("enabled", True) if isinstance(state, dict) else state
            states[name] = (enabled is True, path)
    return states


def find_cached_plugins(states: Mapping[str, tuple[bool, Path]], cache: PurePath) -> list[Plugin]:
    """Return our plugins among those that are on, from MARKETPLACE/PLUGIN/VERSION of `cache`.

    The plugin of this repository counts by its name alone if its folder cannot be found.
    """
    plugins = []
    for name, (enabled, path) in states.items():
        plugin, _, market = name.rpartition("@")
        versions = (
            [candidate for candidate in Path(cache, market, plugin).glob("*/") if candidate.is_dir()]
            if enabled and plugin
            else []
        )
        folder = max(versions, key=lambda candidate: candidate.stat().st_mtime, default=None)
        if enabled and (candidate := plugin_in(folder, name, path)):
            plugins.append(candidate)
    return plugins


def find_unpacked_plugins(folder: PurePath, settings: PurePath) -> list[Plugin]:
    """Return our unpacked plugins that are not switched off."""
    states = read_states([settings], ("enabledPlugins",))
    names = {f"{plugin_dir.name}@{plugin_dir.parent.name}": plugin_dir for plugin_dir in sorted(Path(folder).glob("*/*/"))}
    read = (plugin_in(plugin_dir, name, plugin_dir) for name, plugin_dir in names.items() if states.get(name, (True,))[0])
    return [plugin for plugin in read if plugin]


def plugin_in(folder: Path | None, name: str, path: Path) -> Plugin | None:
    """Return the plugin of a folder if it is ours."""
    if folder is None:
        servers_of_ours = {NAME: {"command": "memory-mcp", "args": ["serve"]}}
        return Plugin(name, path, servers_of_ours, frozenset(CLAUDE_CODE_EVENTS)) if name == PLUGIN else None
    manifest = next((content for file in _MANIFESTS if (content := read_mapping(folder / file))), {})
    servers: dict[str, Any] = {}
    for part in _parts(folder, manifest.get("mcpServers"), ".mcp.json", "mcpServers"):
        servers |= {key: entry for key, entry in part.items() if starts_us(entry)}
    hooks = list(_parts(folder, manifest.get("hooks"), "hooks/hooks.json", "hooks"))
    events = frozenset(event for part in hooks for event, groups in part.items() if runs_our_hook(groups, ""))
    return Plugin(name, path, servers, events) if servers or events else None


def bundles(extensions: PurePath, settings: PurePath) -> list[Plugin]:
    """Return our bundles that a desktop client has unpacked and on."""
    plugins = []
    for folder in sorted(Path(extensions).glob("*/")):
        entry = read_mapping(folder / "manifest.json", ("server", "mcp_config"))
        enabled = read_mapping(Path(settings, f"{folder.name}.json")).get("isEnabled", True)
        if entry and enabled is True and _PACKAGE in _bytes(folder / "pyproject.toml"):
            plugins.append(Plugin(folder.name, folder / "manifest.json", {NAME: entry}, frozenset()))
    return plugins


def read_mapping(path: Path, keys: Sequence[str] = (), form: Format = Format.JSON) -> dict[str, Any]:
    """Return the object at a path of keys of a file."""
    try:
        text = files.read_content(path).text
        value = splice.value_at(text, keys) if form is Format.JSON else toml.value_at(text, keys)
    except (Broken, InstallRefused):
        return {}
    return value if isinstance(value, dict) else {}


def _parts(folder: Path, declared: object, usual: str, key: str) -> Iterator[dict[str, Any]]:
    for declaration in [*(declared if isinstance(declared, list) else [declared]), usual]:
        part = (
            read_mapping(folder / declaration)
            if isinstance(declaration, str)
            else declaration
            if isinstance(declaration, dict)
            else {}
        )
        inner = part.get(key, part)
        if isinstance(inner, dict):
            yield inner


def _bytes(path: Path) -> bytes:
    try:
        return files.read_content(path).data or b""
    except InstallRefused:
        return b""


def covering(client: Client, order: Order, edit: Edit) -> str:
    """Return what has an edit's effect already, "" for nothing.

    A plugin, for a server of the usual name or a hook; for a project's hook also the user's.
    """
    is_server = isinstance(edit, SetKey) and edit.is_server and edit.keys[-1] == NAME
    for plugin in client.find_plugins(order.environment):
        if (is_server and plugin.servers) or (isinstance(edit, AddItem) and edit.keys[-1] in plugin.events):
            return f"the plugin {plugin.name} ({plugin.path})"
    if not isinstance(edit, AddItem) or order.level is Level.USER:
        return ""
    for other in client.list_hook_edits(replace(order, level=Level.USER)):
        if isinstance(other, AddItem) and other.keys == edit.keys and other.path != edit.path:
            try:
                items = splice.value_at(files.read_content(Path(other.path)).text, other.keys)
            except (Broken, InstallRefused):
                continue
            if hook_options(items, client.hook_client) & hook_options(edit.item, client.hook_client):
                return str(other.path)
    return ""


def plugin_notes(client: Client, environment: Environment) -> list[str]:
    """Return a line per plugin that brings this memory."""
    return [
        f"the plugin {plugin.name} ({plugin.path}) brings this memory; to take it out: {client.plugin_removal} {plugin.name}"
        for plugin in client.find_plugins(environment)
    ]
