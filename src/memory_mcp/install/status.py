"""The status of every client: whether it is installed, what its configuration starts, whether its hooks are on. Read-only."""

import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import AddItem, Client, Edit, Environment, Format, Level, Order, PlaceFile, Plugin, SetKey
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.command import Server, command_of, find_executable, runs_our_hook, starts_us
from memory_mcp.install.edit import files, splice, toml
from memory_mcp.install.edit.jsonc import Broken
from memory_mcp.install.plugins import covering
from memory_mcp.install.state import State

#: The level of what a plugin brings.
PLUGIN_LEVEL = "plugin"
#: What every file of ours contains.
_MARKS = (b"memory-mcp", b"export default")


@dataclass(frozen=True, slots=True)
class Configured:
    """Our server in a configuration, or hooks at a level."""

    #: user, project, plugin, or folder where the user's file has it for this folder alone.
    level: str
    path: str
    name: str
    #: The command that is started, or the address of the server.
    command: str
    #: Whether the command exists and may be run; an address is not tried.
    runs: bool


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """The status of one client."""

    client: str
    title: str
    found: bool
    servers: Sequence[Configured]
    #: By level: how many of our hooks are on, and how many there are.
    hooks: Mapping[str, tuple[int, int]]
    #: Files that could not be read, with the reason.
    unreadable: Sequence[str]
    #: By level: hooks that are written, and that the client does not run until its user trusts them.
    untrusted: Mapping[str, int] = field(default_factory=dict)
    #: What of ours a plugin and the client's own configuration both start, with the step that ends it; "" for nothing.
    doubled: str = ""

    @property
    def configured(self) -> bool:
        """Whether any configuration that was read starts this memory."""
        return bool(self.servers)

    @property
    def recording(self) -> bool:
        """Whether a hook or plugin file of ours is on."""
        return any(on > self.untrusted.get(level, 0) for level, (on, _) in self.hooks.items())

    @property
    def undoubling_command(self) -> str:
        """The command that takes out what is on twice."""
        is_plugin = any(server.level == PLUGIN_LEVEL for server in self.servers) or PLUGIN_LEVEL in self.hooks
        return f"memory-mcp uninstall {self.client}" + ("" if is_plugin else " --project")

    @property
    def meanwhile(self) -> str:
        """What to do about hooks that wait for trust."""
        return f"type {CLIENTS[self.client].trust} in a session of {self.title}; until then: memory-mcp watch on {self.client}"

    def repair(self, server: Configured) -> str:
        """Return what to do about a server without its command."""
        if server.level == PLUGIN_LEVEL:
            return f"put {server.command} on the PATH, or take the plugin out and run memory-mcp install {self.client}"
        return f"memory-mcp install {self.client}"

    def hook_lines(self) -> list[str]:
        """Return a line for each level that has hooks."""
        lines = []
        for level, (on, of) in self.hooks.items():
            untrusted = self.untrusted.get(level, 0)
            state = f"{on - untrusted} of {of} hooks on" if untrusted < on else ""
            trust = f"{untrusted} hooks written, not yet trusted ({CLIENTS[self.client].trust})" if untrusted else ""
            lines.append(f"{level}: {'; '.join(filter(None, (state, trust)))}")
        return lines


def is_here(client: Client, environment: Environment) -> bool:
    """Whether a client is installed: by its folders or commands."""
    return any(Path(folder).exists() for folder in client.list_folders(environment)) or any(
        shutil.which(name, path=environment.environ.get("PATH")) for name in client.commands
    )


def statuses(environment: Environment, state: State | None = None) -> list[ClientStatus]:
    """Return the status of every client, in their order.

    Raises InstallRefused if the records cannot be read.
    """
    records = state or State()
    return [_status(client, environment, records) for client in CLIENTS.values()]


def trusting(status: ClientStatus, hook_clients: Container[str]) -> ClientStatus:
    """Return a status whose hooks count as trusted by their events."""
    has_events = CLIENTS[status.client].hook_client in hook_clients
    return replace(status, untrusted={}) if has_events and status.untrusted else status


def _status(client: Client, environment: Environment, state: State) -> ClientStatus:
    servers: list[Configured] = []
    hooks: dict[str, tuple[int, int]] = {}
    unreadable: list[str] = []
    for level in Level:
        if level is Level.PROJECT and client.list_configs(environment, level) == client.list_configs(environment, Level.USER):
            # At home a project's files are the user's.
            continue
        for file in client.list_configs(environment, level):
            try:
                for keys in client.server_keys(environment) if level is Level.USER else [client.keys]:
                    servers += _iter_servers(client, level, Path(file), keys, state)
            except (Broken, InstallRefused) as error:
                unreadable.append(f"{file}: {error}")
        try:
            edits = client.list_hook_edits(Order(environment, Server(), level))
            on, of = sum(_is_on(edit, client) for edit in edits), len(edits)
        except (Broken, InstallRefused) as error:
            # Some clients have hooks and servers in one file, which is named already.
            unreadable += [str(error)] if not any(line.endswith(str(error)) for line in unreadable) else []
            continue
        if on:
            hooks[level] = (on, of)
    doubled = _find_doubled(client, environment, servers, hooks)
    events = {edit.keys[-1] for edit in client.list_hook_edits(Order(environment, Server())) if isinstance(edit, AddItem)}
    for plugin in client.find_plugins(environment):
        servers += (_plugin_server(plugin, name, entry) for name, entry in plugin.servers.items())
        if plugin.events & events:
            hooks[PLUGIN_LEVEL] = (len(plugin.events & events), len(events))
    untrusted = {level: count for level in hooks if (count := client.count_untrusted(environment, level))}
    return ClientStatus(client.name, client.title, is_here(client, environment), servers, hooks, unreadable, untrusted, doubled)


def _plugin_server(plugin: Plugin, name: str, entry: Mapping[str, Any]) -> Configured:
    command = command_of(dict(entry))
    return Configured(PLUGIN_LEVEL, str(plugin.path), f"{name} of {plugin.name}", command, bool(find_executable(command)))


def _find_doubled(client: Client, environment: Environment, servers: Sequence[Configured], hooks: Mapping[str, object]) -> str:
    for plugin in client.find_plugins(environment):
        parts = [f"a server ({server.path})" for server in servers if plugin.servers]
        parts += [f"hooks ({level})" for level in hooks if plugin.events]
        if parts:
            return f"the plugin {plugin.name} is on, and its configuration has {' and '.join(parts)}, too"
    order = Order(environment, Server(), Level.PROJECT)
    if len(hooks) > 1 and any(covering(client, order, edit) and _is_on(edit, client) for edit in client.list_hook_edits(order)):
        return "the same hooks are on for all projects and for this one, too"
    return ""


def _iter_servers(client: Client, level: Level, path: Path, keys: tuple[str, ...], state: State) -> Iterator[Configured]:
    entries = _value(path, client.format, keys)
    record = state.records.get(str(path))
    ours = {tuple(edit.keys) for edit in record.edits} if record else set()
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(entry, dict) or not (starts_us(entry) or (*keys, name) in ours):
            continue
        command = command_of(entry)
        address = next((str(entry[key]) for key in ("url", "httpUrl", "serverUrl") if key in entry), "")
        yield Configured(
            level if keys == client.keys else "folder",
            str(path),
            name,
            command or address,
            bool(find_executable(command)) if command else bool(address),
        )


def _is_on(edit: Edit, client: Client) -> bool:
    if isinstance(edit, PlaceFile):
        data = files.read_content(Path(edit.path)).data or b""
        return all(mark in data for mark in _MARKS)
    form = edit.format if isinstance(edit, SetKey) else Format.JSON
    value = _value(Path(edit.path), form, edit.keys)
    return runs_our_hook(value, client.hook_client) or (isinstance(edit, SetKey) and value == edit.value)


def _value(path: Path, form: Format, keys: Sequence[str]) -> Any:
    content = files.read_content(path)
    if content.data is None:
        return None
    return splice.value_at(content.text, keys) if form is Format.JSON else toml.value_at(content.text, keys)
