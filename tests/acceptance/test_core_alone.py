"""The program without the package for teams: nothing of it is missed, and what needs it names the extra."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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
#: Runs commands one after the other in a process that cannot import the package: to start one for each costs ten times as much.
COMMANDS = """
import contextlib, io, json, os, sys
from memory_mcp.__main__ import main
answers, environ = [], dict(os.environ)
for words, more in json.load(sys.stdin):
    os.environ.update(more)
    sys.argv[1:] = words
    out, errors = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main()
    for stream in (out, errors):
        stream.seek(0)
    answers.append([status, out.read(), errors.read()])
    os.environ.clear()
    os.environ.update(environ)
print(json.dumps(answers))
"""
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


def run(place: Place, *commands: tuple[str, ...], environments: Sequence[Mapping[str, str]] = ()) -> list[tuple[int, str, str]]:
    """Return exit status, output and errors of each command, all run in one process."""
    given = json.dumps(list(zip(commands, environments or [{}] * len(commands), strict=True)))
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        env=place.environment(),
        cwd=place.home,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(status, out, errors) for status, out, errors in json.loads(done.stdout)]


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
    found, jobs, doctor, usage, rows, settings, overview = run(
        alone,
        ("search", "lighthouse", "--all", "--json"),
        ("scheduler", "status", "--json"),
        ("doctor",),
        ("--help", "--all"),
        ("admin", "stats", "--json"),
        ("config", "show"),
        ("admin", "overview", "--json"),
    )
    assert {done[0] for done in (found, jobs, doctor, usage, rows, settings, overview)} == {0}
    assert "lighthouse" in found[1]
    assert "share" not in {job["name"] for job in json.loads(jobs[1])["jobs"]}
    assert "\n  share " not in usage[1]
    assert json.loads(rows[1])["rows"]["event"] >= 2
    assert "team." not in settings[1]
    assert json.loads(overview[1])["outgoing"] == []


def test_what_needs_the_package_names_the_extra(alone: Place) -> None:
    table, engine = alone.home / "table.toml", alone.home / "engine.toml"
    table.write_text('[team]\nauth = "keys"\n')
    engine.write_text('[storage]\nengine = "postgres"\nurl = "postgresql://memory@db.example/memory"\n')
    by_file = [{"MEMORY_MCP_CONFIG": str(file)} for file in (table, engine, engine, engine)]
    check = ("config", "check")
    by_variable, by_table, *by_engine, command = run(
        alone,
        *(check, check, check, ("search", "x"), ("serve", "--http"), ("share", "status")),
        environments=[{"MEMORY_MCP_TEAM__AUTH": "keys"}, *by_file, {}],
    )
    assert by_variable == (2, "", "unknown variable: MEMORY_MCP_TEAM__AUTH. Install memory-mcp-tree[team].\n")
    assert by_table[2] == "unknown setting: team. Install memory-mcp-tree[team].\n"
    assert ["Install memory-mcp-tree[team]." in errors for _, _, errors in by_engine] == [True] * 3
    assert "unknown command: 'share'. Install memory-mcp-tree[team]." in command[2]
