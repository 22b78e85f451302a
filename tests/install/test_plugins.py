"""Plugins that bring this memory count as a location of configuration: nothing is started or told twice."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.install.base import Client, Level
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.plugins import PLUGIN
from memory_mcp.install.status import ClientStatus, statuses, trusting
from tests.install.conftest import Machine
from tests.skills.documents import ROOT

CLAUDE, CODEX = CLIENTS["claude-code"], CLIENTS["codex"]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def enable_claude(file: str, name: str = PLUGIN, value: object = True, cached: bool = True) -> Callable[[Machine], None]:
    """Switch the plugin on as Claude Code does, in one of its settings files, with or without its cache."""

    def enable(machine: Machine) -> None:
        write(machine.home.parent / file, json.dumps({"enabledPlugins": {name: value}}))
        if cached:
            plugin, _, market = name.partition("@")
            cache = machine.home / ".claude" / "plugins" / "cache" / market / plugin / "0.1.0"
            shutil.copytree(ROOT / "plugin", cache)

    return enable


def enable_codex(machine: Machine) -> None:
    write(machine.home / ".codex" / "config.toml", f'[plugins."{PLUGIN}"]\nenabled = true\n')
    shutil.copytree(ROOT / "plugin", machine.home / ".codex/plugins/cache/memory-mcp/memory/0.1.0")


def enable_copilot(machine: Machine) -> None:
    shutil.copytree(ROOT / "plugin", machine.home / ".copilot/installed-plugins/memory-mcp/memory")


def enable_desktop(machine: Machine) -> None:
    folder = machine.home / ".config/Claude/Claude Extensions/local.memory"
    shutil.copytree(ROOT / "packaging" / "mcpb", folder)
    write(machine.home / ".config/Claude/Claude Extensions Settings/local.memory.json", '{"isEnabled": true}')


WAYS = {
    "the user's settings": (CLAUDE, enable_claude("home/.claude/settings.json")),
    "without its cache": (CLAUDE, enable_claude("home/.claude/settings.json", cached=False)),
    "from another marketplace": (CLAUDE, enable_claude("home/.claude/settings.json", "remembering@ours")),
    "the project's settings": (CLAUDE, enable_claude("project/.claude/settings.json")),
    "local settings": (CLAUDE, enable_claude("project/.claude/settings.local.json")),
    "Codex": (CODEX, enable_codex),
    "Copilot CLI": (CLIENTS["copilot"], enable_copilot),
    "a bundle of Claude Desktop": (CLIENTS["claude-desktop"], enable_desktop),
}
OFF = {
    "switched off": (CLAUDE, enable_claude("home/.claude/settings.json", value=False)),
    "unlike a plugin": (CLAUDE, enable_claude("home/.claude/settings.json", value="yes")),
    "of another": (CLAUDE, enable_claude("home/.claude/settings.json", "memory@elsewhere", cached=False)),
}


def status_of(machine: Machine, client: Client) -> ClientStatus:
    return next(one for one in statuses(machine.place, machine.state) if one.client == client.name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", Level)
def test_nothing_is_added_to_what_a_plugin_brings(machine: Machine, way: str, level: Level) -> None:
    client, enable = WAYS[way]
    if not client.list_configs(machine.place, level):
        return
    enable(machine)
    before, status = machine.tree(), status_of(machine, client)
    assert (status.configured, [one.level for one in status.servers], status.doubled) == (True, ["plugin"], "")
    assert set(status.hooks) == ({"plugin"} if client.hook_client else set())
    machine.install(client, level=level)
    assert machine.tree() == before
    assert status_of(machine, client) == status


@pytest.mark.parametrize("way", WAYS)
def test_a_plugin_that_came_later_is_reported_and_uninstall_ends_it(machine: Machine, way: str) -> None:
    client, enable = WAYS[way]
    machine.install(client)
    if client is CODEX:
        text = machine.config_of(client).read_text()
        enable(machine)
        write(machine.config_of(client), machine.config_of(client).read_text() + text)
    else:
        hooks = json.loads(file.read_text()) if (file := machine.home / ".claude/settings.json").exists() else {}
        enable(machine)
        if file.exists():
            write(file, json.dumps(hooks | json.loads(file.read_text())))
    status = status_of(machine, client)
    assert "the plugin" in status.doubled
    assert status.undoubling_command == f"memory-mcp uninstall {client.name}"
    machine.install(client)
    assert status_of(machine, client).doubled == status.doubled
    machine.uninstall(client)
    status = status_of(machine, client)
    assert ([one.level for one in status.servers], status.doubled) == (["plugin"], "")


@pytest.mark.parametrize("way", OFF)
def test_a_plugin_that_is_off_or_another_s_changes_nothing(machine: Machine, way: str) -> None:
    client, enable = OFF[way]
    enable(machine)
    assert not status_of(machine, client).configured
    machine.install(client)
    assert [one.level for one in status_of(machine, client).servers] == [Level.USER]


@pytest.mark.parametrize("client", [one for one in CLIENTS.values() if one.hook_client], ids=lambda one: one.name)
def test_a_project_gets_no_hooks_that_the_user_has_on(machine: Machine, client: Client) -> None:
    if client.name == "opencode":
        return
    machine.install(client)
    machine.install(client, level=Level.PROJECT)
    status = status_of(machine, client)
    assert (set(status.hooks), status.doubled) == ({Level.USER}, "")


def test_hooks_of_codex_wait_for_trust_until_its_file_or_an_event_tells_of_it(machine: Machine) -> None:
    machine.install(CODEX)
    status = status_of(machine, CODEX)
    assert not status.recording
    assert status.hook_lines() == ["user: 10 hooks written, not yet trusted (/hooks)"]
    assert "memory-mcp watch on codex" in status.meanwhile
    assert trusting(status, {"codex"}).hook_lines() == ["user: 10 of 10 hooks on"]
    assert trusting(status, {"claude-code"}) == status
    # As Codex 0.171 writes it, event by event.
    config, hooks = machine.home / ".codex/config.toml", machine.home / ".codex/hooks.json"
    for number, event in enumerate(json.loads(hooks.read_text())["hooks"], 1):
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).strip("_")
        text = f'\n[hooks.state."{hooks}:{name}:0:0"]\ntrusted_hash = "sha256:{number:064}"\n'
        write(config, config.read_text() + text)
        status = status_of(machine, CODEX)
        assert (status.recording, status.untrusted.get("user", 0)) == (True, 10 - number)
    assert status.hook_lines() == ["user: 10 of 10 hooks on"]


def test_at_home_a_projects_files_are_the_users_and_are_listed_once(machine: Machine) -> None:
    codex = CLIENTS["codex"]
    machine.install(codex)
    at_home = replace(machine.place, cwd=machine.place.home)
    [status] = [status for status in statuses(at_home, machine.state) if status.client == "codex"]
    assert ([server.level for server in status.servers], list(status.hooks)) == ([Level.USER], [Level.USER])
