"""The status of every client: whether it is installed, what its configuration starts, whether its hooks are on. Read-only."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_mcp.errors import InstallRefused
from memory_mcp.install.base import Client, Edit, Format, Level, Order, Place, PlaceFile, SetKey
from memory_mcp.install.command import Server, command_of, found, runs_our_hook, starts_us
from memory_mcp.install.edit import files, splice, toml
from memory_mcp.install.edit.jsonc import Broken
from memory_mcp.install.registry import CLIENTS
from memory_mcp.install.state import State

#: What every file of ours contains.
_MARK = b"memory-mcp"


@dataclass(frozen=True, slots=True)
class Configured:
    """One server of ours in one configuration, or the hooks at one level."""

    #: user, project, or folder where the user's file has it for this folder alone.
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

    @property
    def configured(self) -> bool:
        """Whether any configuration that was read starts this memory."""
        return bool(self.servers)

    @property
    def recording(self) -> bool:
        """Whether one of our hooks or our plugin file is on at some level; Claude Code's own plugin is not seen."""
        return any(on for on, _ in self.hooks.values())


def is_here(client: Client, place: Place) -> bool:
    """Whether a client is installed: one of its folders exists, or one of its commands is on the PATH of `place`."""
    return any(Path(one).exists() for one in client.folders(place)) or any(
        shutil.which(name, path=place.environ.get("PATH")) for name in client.commands
    )


def statuses(place: Place, state: State | None = None) -> list[ClientStatus]:
    """Return the status of every client, installed or not, in the order of the registry. Reads files only.

    Without `state` the records are read from their usual place. Raises InstallRefused where those cannot be read.
    """
    known = state or State()
    return [_status(client, place, known) for client in CLIENTS.values()]


def _status(client: Client, place: Place, state: State) -> ClientStatus:
    """Return the status of one client; files that cannot be read are named in it with the reason, and raise nothing.

    A level is among `hooks` only if at least one of its hooks is on.
    """
    servers: list[Configured] = []
    hooks: dict[str, tuple[int, int]] = {}
    unreadable: list[str] = []
    for level in Level:
        for file in client.configs(place, level):
            try:
                for keys in client.server_keys(place) if level is Level.USER else [client.keys]:
                    servers += _servers(client, level, Path(file), keys, state)
            except (Broken, InstallRefused) as error:
                unreadable.append(f"{file}: {error}")
        try:
            edits = client.hooks(Order(place, Server(), level))
            on, of = sum(_is_on(edit, client) for edit in edits), len(edits)
        except (Broken, InstallRefused) as error:
            # Some clients have hooks and servers in one file, which is named already.
            unreadable += [str(error)] if not any(one.endswith(str(error)) for one in unreadable) else []
            continue
        if on:
            hooks[level] = (on, of)
    return ClientStatus(client.name, client.title, is_here(client, place), servers, hooks, unreadable)


def _servers(client: Client, level: Level, path: Path, keys: tuple[str, ...], state: State) -> Iterator[Configured]:
    """Yield the servers at a path of keys in a file that start this program, or whose entry install wrote (as an address).

    None where the file does not exist. Raises Broken or InstallRefused where it cannot be read.
    """
    there = _value(path, client.format, keys)
    record = state.records.get(str(path))
    ours = {tuple(one.keys) for one in record.edits} if record else set()
    for name, entry in there.items() if isinstance(there, dict) else ():
        if not isinstance(entry, dict) or not (starts_us(entry) or (*keys, name) in ours):
            continue
        command = command_of(entry)
        address = next((str(entry[key]) for key in ("url", "httpUrl", "serverUrl") if key in entry), "")
        yield Configured(
            level if keys == client.keys else "folder",
            str(path),
            name,
            command or address,
            bool(found(command)) if command else bool(address),
        )


def _is_on(edit: Edit, client: Client) -> bool:
    """Whether the edit for a hook or a plugin is made already; raises Broken or InstallRefused where its file cannot be read.

    A plugin file counts if it contains "memory-mcp", an array if one of its items runs our hook.
    """
    if isinstance(edit, PlaceFile):
        return _MARK in (files.read(Path(edit.path)).data or b"")
    form = edit.format if isinstance(edit, SetKey) else Format.JSON
    there = _value(Path(edit.path), form, edit.keys)
    return runs_our_hook(there, client.hook_client) or (isinstance(edit, SetKey) and there == edit.value)


def _value(path: Path, form: Format, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys of a file; None without the file or the value. Raises Broken or InstallRefused."""
    content = files.read(path)
    if content.data is None:
        return None
    return splice.value_at(content.text, keys) if form is Format.JSON else toml.value_at(content.text, keys)
