"""The program without the package for teams: nothing of it is missed, and what needs it names the extra."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from tests.acceptance.conftest import SAMPLES
from tests.daemon.inside import BARE
from tests.daemon.places import DAEMON
from tests.waiting import PATIENCE

HIDE = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "memory_mcp_team":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hidden())
"""
#: Found before the installed one, it has no entry points.
METADATA = "Metadata-Version: 2.1\nName: memory-mcp-tree\nVersion: 0\n"
HOOK = {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "cwd": "/work/harbour", "prompt": "we keep the lighthouse"}


@pytest.fixture(params=["not importable", "without entry points"])
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Commands whose processes cannot import the package, and in one case do not find its entry points either."""
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDE)
    if request.param == "without entry points":
        (folder / "memory_mcp_tree-0.dist-info").mkdir()
        (folder / "memory_mcp_tree-0.dist-info" / "METADATA").write_text(METADATA)
    with Place(tmp_path, more={**BARE, **DAEMON, "PYTHONPATH": str(folder)}) as place:
        yield place


def test_it_imports_records_serves_and_answers(alone: Place) -> None:
    assert json.loads(alone.ok("import", "claude-code", str(SAMPLES), "--json"))["built"]["segments"] >= 1
    assert alone.run("hook", "claude-code", stdin=json.dumps(HOOK)).returncode == 0
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        [*alone.command, "serve"], env=alone.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        for message in messages:
            served.stdin.write(json.dumps(message) + "\n")
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in range(2)]
        served.stdin.close()
        served.wait(PATIENCE)
    assert {"expand_grip", "browse_toc"} <= {tool["name"] for tool in answers[1]["result"]["tools"]}
    assert "lighthouse" in alone.ok("search", "lighthouse", "--all", "--json")
    assert "share" not in {job["name"] for job in json.loads(alone.ok("scheduler", "status", "--json"))["jobs"]}
    assert alone.run("doctor").returncode == 0
    assert "\n  share " not in alone.ok("--help", "--all")
    assert json.loads(alone.ok("admin", "stats", "--json"))["rows"]["event"] >= 2
    assert "team." not in alone.ok("config", "show")
    assert json.loads(alone.ok("admin", "overview", "--json"))["outgoing"] == []


def test_what_needs_the_package_names_the_extra(alone: Place) -> None:
    alone.settings["MEMORY_MCP_TEAM__AUTH"] = "keys"
    done = alone.run("config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "unknown variable: MEMORY_MCP_TEAM__AUTH. Install memory-mcp-tree[team].\n"
    del alone.settings["MEMORY_MCP_TEAM__AUTH"]
    file = alone.home / "config.toml"
    file.write_text('[team]\nauth = "keys"\n')
    assert alone.run("config", "check").stderr == "unknown setting: team. Install memory-mcp-tree[team].\n"
    file.write_text('[storage]\nengine = "postgres"\nurl = "postgresql://memory@db.example/memory"\n')
    for words in (("config", "check"), ("search", "x"), ("serve", "--http")):
        assert "Install memory-mcp-tree[team]." in alone.run(*words).stderr, words
    file.unlink()
    assert "unknown command: 'share'. Install memory-mcp-tree[team]." in alone.run("share", "status").stderr
