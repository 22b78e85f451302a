"""The plugin's manifests, the README and the example configuration agree; the real client accepts the plugin."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from bench.clients import PACKAGES, Node
from bench.skills import PLUGIN, PREFIX, SERVER
from memory_mcp import __version__
from tests.skills.documents import COMMANDS, PREFIXES, ROOT, SKILLS

MANIFEST = json.loads((ROOT / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
MARKET = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
NODE = os.environ.get("CLIENTS_NODE", "")


def test_the_plugin_is_the_programs_in_name_version_and_licence() -> None:
    assert MANIFEST["name"] == PLUGIN
    assert MANIFEST["version"] == __version__
    assert MANIFEST["author"]["name"] == PROJECT["project"]["authors"][0]["name"]
    assert MANIFEST["license"] == "MIT"


def test_the_marketplace_of_this_folder_offers_this_folder() -> None:
    assert MARKET["name"] in PROJECT["project"]["scripts"]
    [offered] = MARKET["plugins"]
    assert (offered["name"], offered["source"]) == (PLUGIN, "./")


def test_the_server_is_the_one_of_the_example_configuration_so_that_both_count_as_one() -> None:
    example = json.loads((ROOT / "mcp.json.example").read_text(encoding="utf-8"))
    assert MANIFEST["mcpServers"] == example["mcpServers"]
    assert list(MANIFEST["mcpServers"]) == [SERVER]
    assert PREFIXES[0] == PREFIX


def test_no_configuration_at_the_root_starts_the_server_a_second_time() -> None:
    assert not (ROOT / ".mcp.json").exists()


def test_the_readme_names_the_plugin_its_commands_and_its_skills_as_they_are() -> None:
    part = README.split("### Skills")[1].split("\n### ")[0]
    assert f"plugin install {PLUGIN}@{MARKET['name']}" in part
    commands = {Path(d.name).stem for d in COMMANDS}
    assert set(re.findall(rf"/{PLUGIN}:([a-z-]+)", part)) == commands
    assert [d.meta["name"] for d in SKILLS if f"`{d.meta['name']}`" not in part] == []


def test_the_source_distribution_holds_the_plugin() -> None:
    include = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {".claude-plugin", "skills", "agents", "commands"} <= set(include)


@pytest.mark.skipif(not NODE, reason="CLIENTS_NODE names no directory with npm packages")
def test_the_real_client_finds_nothing_wrong_with_the_plugin(tmp_path: Path) -> None:
    node = Node(Path(NODE))
    if not node.has(PACKAGES["claude"]):
        pytest.skip(f"{PACKAGES['claude']} is not installed in {NODE}")
    done = node.run("claude", "plugin", "validate", "--strict", str(ROOT), home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(re.findall(rf"{PLUGIN}:([a-z0-9-]+)", done.stdout))
    assert {d.meta["name"] for d in SKILLS} | {Path(d.name).stem for d in COMMANDS} <= found
