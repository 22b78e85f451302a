"""Whatever a configuration looks like: install adds an entry and nothing else, and uninstall gives the bytes back."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import json5
import pytest

from memory_mcp.install.base import AddItem, Client, Format, Level
from memory_mcp.install.clients import CLIENTS
from tests.install.conftest import Machine
from tests.install.samples import BOM, hook_samples, json_samples, toml_samples

ALL = list(CLIENTS.values())
#: One client for each way in which entries stand in a file, whatever they are called there.
SHAPES = {(client.format, len(client.keys)): client for client in ALL}
#: Clients whose hooks stand in a file beside those of others; opencode has a plugin instead.
HOOKED = [client for client in ALL if client.hook_client and client.name != "opencode"]


def in_turn(
    clients: list[Client], whole: list[Client], each: int, samples: Callable[[Client], dict[str, bytes]]
) -> pytest.MarkDecorator:
    """Clients with samples; in the short form all that some of them have, and of the others' by turns some."""
    rows = [
        pytest.param(one, data, id=f"{one.name}: {name}", marks=[pytest.mark.slow] * (one not in whole and (turn + n) % each > 0))
        for turn, one in enumerate(clients)
        for n, (name, data) in enumerate(samples(one).items())
    ]
    return pytest.mark.parametrize(("client", "data"), rows)


SAMPLES = in_turn(ALL, [*SHAPES.values()], 8, lambda one: toml_samples() if one.format is Format.TOML else json_samples(one.keys))
HOOKS = in_turn(HOOKED, HOOKED[:1], 3, lambda _: hook_samples())


def read(data: bytes, form: Format = Format.JSON) -> Any:
    """By parsers that are not ours."""
    text = data.decode("utf-8-sig")
    if form is Format.TOML:
        return tomllib.loads(text)
    try:
        return json.loads(text) if text.strip() else {}
    except json.JSONDecodeError:
        return json5.loads(text)


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def without(values: dict[str, Any], keys: tuple[str, ...], prune: bool) -> dict[str, Any]:
    """The values without our entry and, where the object around it was made for it, without that."""
    inner = values[keys[0]]
    left = without(inner, keys[1:], prune) if len(keys) > 1 else None
    return (
        {k: v for k, v in values.items() if k != keys[0]} if left is None or (prune and not left) else {**values, keys[0]: left}
    )


@pytest.mark.parametrize("form", Format)
def test_there_are_samples_enough(form: Format) -> None:
    assert len(toml_samples() if form is Format.TOML else json_samples(("mcpServers",))) >= 20


@SAMPLES
def test_the_entry_is_added_and_nothing_else_and_the_bytes_come_back(machine: Machine, client: Client, data: bytes) -> None:
    path = machine.config_of(client)
    put(path, data)
    before = machine.tree()
    machine.install(client, hooks=False)
    installed = path.read_bytes()
    keys = (*client.keys, "memory")
    found, was = read(installed, client.format), read(data, client.format)
    entry = found
    for key in keys:
        entry = entry[key]
    assert entry == client.make_entry(machine.order.server, Level.USER)
    assert was in (without(found, keys, prune=True), without(found, keys, prune=False))
    assert installed.startswith(BOM) == data.startswith(BOM)
    if b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n"):
        assert installed.count(b"\n") == installed.count(b"\r\n")
    rest = iter(installed)
    assert all(byte in rest for byte in data), "something was not only added"
    machine.uninstall(client)
    assert machine.tree() == before


@SAMPLES
def test_taken_out_by_itself_the_entry_leaves_what_was_there(machine: Machine, client: Client, data: bytes) -> None:
    """As after an edit by somebody else, when the copy of before cannot be put back."""
    path = machine.config_of(client)
    put(path, data)
    machine.install(client, hooks=False)
    added = b"\n# theirs\n" if client.format is Format.TOML else b"\n// theirs\n"
    path.write_bytes(path.read_bytes() + added)
    machine.uninstall(client)
    left = path.read_bytes()
    assert left.endswith(added)
    assert read(left.removesuffix(added), client.format) == read(data, client.format)
    lines = [one.strip(b" \t\r{}") for one in data.split(b"\n")]
    assert [one for one in lines if one and one not in left] == []


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
def test_twice_changes_nothing_more_and_files_and_folders_that_were_made_go_again(machine: Machine, client: Client) -> None:
    before = machine.tree()
    machine.install(client)
    assert machine.config_of(client).stat().st_mode & 0o077 == 0
    once = machine.tree()
    assert {change.action for change in machine.install(client)} == {"unchanged"}
    assert machine.tree() == once
    assert machine.uninstall(client)
    assert machine.tree() == before


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
def test_a_link_stays_a_link_and_a_mode_stays(machine: Machine, client: Client) -> None:
    path, real = machine.config_of(client), machine.home / "dotfiles" / "file"
    put(real, b"" if client.format is Format.TOML else b'{"a": 1}\n')
    real.chmod(0o640)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(real, path.parent))
    before = machine.tree()
    machine.install(client)
    assert path.is_symlink()
    assert b"memory" in real.read_bytes()
    assert real.stat().st_mode & 0o777 == 0o640
    machine.uninstall(client)
    assert path.is_symlink()
    assert machine.tree() == before


@HOOKS
def test_hooks_stand_beside_those_of_others(machine: Machine, client: Client, data: bytes) -> None:
    wanted = [edit for edit in client.list_hook_edits(machine.order) if isinstance(edit, AddItem)]
    path = Path(wanted[0].path)
    put(path, data)
    before = machine.tree()
    machine.install(client)
    now, was = read(path.read_bytes())["hooks"], read(data)["hooks"]
    for edit in wanted:
        assert now[edit.keys[-1]] == [*was.get(edit.keys[-1], []), edit.item]
    assert {event: hooks for event, hooks in now.items() if event not in {edit.keys[-1] for edit in wanted}} == {
        event: hooks for event, hooks in was.items() if event not in {edit.keys[-1] for edit in wanted}
    }
    assert {change.action for change in machine.install(client)} == {"unchanged"}
    installed = path.read_bytes()
    machine.uninstall(client)
    assert machine.tree() == before
    put(path, data)
    machine.install(client)
    assert path.read_bytes() == installed
    path.write_bytes(installed + b"\n\n")
    machine.uninstall(client)
    assert read(path.read_bytes()) == read(data)
