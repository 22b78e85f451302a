"""Whether Claude Code's settings and the plugin both run our hook, as far as its files tell."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.ingest.hooks.doubled import PLUGIN, doubled
from tests.skills.documents import ROOT

USER, PROJECT, LOCAL = "home/.claude/settings.json", "shop/.claude/settings.json", "shop/.claude/settings.local.json"


def ours(command: str = "/opt/bin/memory-mcp hook claude-code", **more: Any) -> dict[str, Any]:
    return {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command, **more}]}]}}


ON, OFF = {"enabledPlugins": {PLUGIN: True}}, {"enabledPlugins": {PLUGIN: False}}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        ({USER: ON}, []),
        ({USER: ours()}, []),
        ({USER: ON | ours()}, [USER]),
        ({USER: ON | ours("memory-mcp", args=["hook", "claude-code"])}, [USER]),
        ({USER: OFF | ours()}, []),
        ({USER: ON, PROJECT: ours(), LOCAL: ours()}, [PROJECT, LOCAL]),
        ({USER: ON | ours(), LOCAL: OFF}, []),
        ({USER: ours(), PROJECT: ON}, [USER]),
        ({USER: ON | {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}}, []),
        ({USER: ON | {"permissions": {"allow": ["Bash(memory-mcp hook claude-code)"]}}}, []),
        ({USER: ON | {"hooks": [None, {"Stop": 3}]}}, []),
        ({USER: ON | {"hooks": {"Stop": [None, {"hooks": [7, {"command": 3}]}], "SessionEnd": "x"}}}, []),
        ({USER: [ON], PROJECT: ours()}, []),
    ],
)
def test_both_are_on_where_a_settings_file_names_the_hook_beside_the_plugin(
    files: dict[str, Any], found: list[str], tmp_path: Path
) -> None:
    for name, settings in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(settings), encoding="utf-8")
    assert doubled(tmp_path / "home", tmp_path / "shop") == [tmp_path / name for name in found]


def test_what_cannot_be_read_tells_of_nothing(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("{", encoding="utf-8")
    assert doubled(tmp_path) == []


def test_the_plugin_is_the_one_that_the_marketplace_offers() -> None:
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    assert f"{market['plugins'][0]['name']}@{market['name']}" == PLUGIN
