"""The plugin's manifests, the pages and the example configuration agree; the real client accepts the plugin."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from bench.clients import PACKAGES, Node
from bench.skills import PLUGIN, PREFIX, SERVER, copy_plugin
from memory_mcp import __version__
from memory_mcp.capture.hooks.claude_code import RECORDED_EVENTS
from tests.skills.documents import COMMANDS, FOLDER, PREFIXES, ROOT, SKILLS

MANIFEST = json.loads((FOLDER / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
MARKET = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOOKS = json.loads((FOLDER / "hooks/hooks.json").read_text(encoding="utf-8"))
NODE = os.environ.get("CLIENTS_NODE", "")


def test_the_plugin_is_the_programs_in_name_version_and_licence() -> None:
    assert MANIFEST["name"] == PLUGIN
    assert MANIFEST["version"] == __version__
    assert MANIFEST["author"]["name"] == PROJECT["project"]["authors"][0]["name"]
    assert MANIFEST["license"] == "MIT"


def test_the_marketplace_of_the_repository_offers_the_plugins_folder_which_holds_no_source() -> None:
    assert MARKET["name"] in PROJECT["project"]["scripts"]
    [offered] = MARKET["plugins"]
    assert (offered["name"], ROOT / offered["source"]) == (PLUGIN, FOLDER)
    assert {p.suffix for p in FOLDER.rglob("*") if p.is_file()} == {".md", ".json"}


def test_the_server_is_the_one_of_the_example_configuration_so_that_both_count_as_one() -> None:
    example = json.loads((ROOT / "mcp.json.example").read_text(encoding="utf-8"))
    assert MANIFEST["mcpServers"] == example["mcpServers"]
    assert list(MANIFEST["mcpServers"]) == [SERVER]
    assert PREFIXES[0] == PREFIX


def test_no_configuration_at_the_root_starts_the_server_a_second_time() -> None:
    assert not [folder for folder in (ROOT, FOLDER) if (folder / ".mcp.json").exists()]


def test_the_page_of_skills_names_the_plugin_its_commands_and_its_skills_as_they_are() -> None:
    part = (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
    assert f"plugin install {PLUGIN}@{MARKET['name']}" in part
    commands = {Path(d.name).stem for d in COMMANDS}
    assert set(re.findall(rf"/{PLUGIN}:([a-z-]+)", part)) == commands
    assert [d.meta["name"] for d in SKILLS if f"`{d.meta['name']}`" not in part] == []


def test_the_plugin_takes_every_event_that_is_read_or_hinted_at_and_no_other() -> None:
    assert set(HOOKS["hooks"]) == {*RECORDED_EVENTS, "PreToolUse"}


@pytest.mark.usefixtures("processes")
def test_a_hook_of_the_plugin_without_the_program_is_silent_and_harmless(tmp_path: Path) -> None:
    commands = {h["command"] for groups in HOOKS["hooks"].values() for group in groups for h in group["hooks"]}
    for shell in filter(None, map(shutil.which, ("sh", "bash", "dash"))):
        for command in commands:
            nothing = {"PATH": str(tmp_path)}
            done = subprocess.run([shell, "-c", command], env=nothing, input=b"{}", capture_output=True, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), shell


def test_the_skills_are_at_the_root_and_the_plugin_links_to_them() -> None:
    assert (FOLDER / "skills").readlink() == Path("../skills")
    assert [d.name for d in SKILLS] == sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("skills/*/SKILL.md"))


@pytest.mark.skipif(not NODE, reason="CLIENTS_NODE names no directory with npm packages")
def test_the_real_client_finds_nothing_wrong_with_the_plugin(tmp_path: Path) -> None:
    node = Node(Path(NODE))
    if not node.has(PACKAGES["claude"]):
        pytest.skip(f"{PACKAGES['claude']} is not installed in {NODE}")
    market = node.run("claude", "plugin", "validate", "--strict", str(ROOT), home=tmp_path)
    assert market.returncode == 0, market.stdout + market.stderr
    done = node.run("claude", "plugin", "validate", "--strict", str(copy_plugin(tmp_path)), home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(re.findall(rf"{PLUGIN}:([a-z0-9-]+)", done.stdout))
    assert {d.meta["name"] for d in SKILLS} | {Path(d.name).stem for d in COMMANDS} <= found
