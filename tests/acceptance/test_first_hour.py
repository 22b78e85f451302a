"""The first ten minutes of somebody new: set up, import, an answer, and the same memory in a second client."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from bench.place import Place
from tests.daemon.inside import BARE, SERVED, Beside, Inside
from tests.daemon.places import needs_proc
from tests.ingest.suite import claude_line, codex_line, write

pytestmark = needs_proc

QUESTION = "how deep is the eastern cellar of the lantern?"
REPLY = "The eastern cellar of the lantern is nine metres deep."
SAID = {
    "type": "user",
    "uuid": "00000009-0000-4000-8000-000000000000",
    "sessionId": "s1",
    "timestamp": "2026-03-02T10:00:00.000Z",
    "cwd": "/home/dev/shop",
    "message": {"role": "user", "content": "We decided that the lantern keeps its reserve in the eastern cellar."},
}


def said(number: int, role: str, text: str) -> dict[str, Any]:
    """A message that follows the first one."""
    message = {"role": role, "content": text}
    more = {"type": role, "uuid": f"0000000a-0000-4000-8000-{number:012}", "timestamp": f"2026-03-02T10:0{number}:00.000Z"}
    return SAID | more | {"message": message}


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Place]:
    """Somebody who has used two clients for a while, and this memory never."""
    with Beside(tmp_path, more=SERVED) as place:
        sessions = place.home / ".claude" / "projects" / "-home-dev-shop"
        sessions.mkdir(parents=True)
        write(
            sessions / "a.jsonl",
            claude_line(1),
            claude_line(2),
            *map(json.dumps, (SAID, said(1, "user", QUESTION), said(2, "assistant", REPLY))),
        )
        rollouts = place.home / ".codex" / "sessions" / "2026" / "03" / "02"
        rollouts.mkdir(parents=True)
        write(rollouts / "rollout-2026-03-02T09-00-00-r1.jsonl", codex_line(1), codex_line(2))
        yield place


def asked(server: dict[str, Any], place: Place, question: str) -> str:
    """What the memory answers a client that starts it as its configuration says."""
    environment = place.environment() | dict(server.get("env", {}))
    found = StdioServerParameters(command=server["command"], args=server["args"], env=environment, cwd=place.home)

    async def ask() -> str:
        async with stdio_client(found) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            answer = await session.call_tool("intelligent_search", {"query": question, "scope": "all"})
            return json.dumps(answer.structured_content)

    return anyio.run(ask)


def test_from_nothing_to_an_answer_of_ones_own_history_in_a_second_client(newcomer: Place) -> None:
    before = newcomer.run("doctor")
    assert before.returncode == 0
    assert not newcomer.directory.exists()

    refused = newcomer.run("setup")
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr

    # The first time as the installed program, whatever else is asked of it in this process.
    done = Place.run(newcomer, "setup", "--yes")
    assert done.returncode == 0, done.stderr
    for told in ("Claude Code: set up", "Codex: set up", "1 file", "The memory now holds 7 events, 2 sessions"):
        assert told in done.stderr
    assert f'memory-mcp ask "{QUESTION}"' in done.stdout
    assert REPLY in done.stdout
    assert "[grip:" in done.stdout
    assert "about" not in done.stderr.split("Found on this machine:")[1].split("importing")[0], "nothing is estimated unmeasured"
    steps = done.stdout.splitlines()[-3:]
    assert [word in step for word, step in zip(("memory-mcp open", "memory-mcp ask", "Claude Code"), steps, strict=True)] == [
        True
    ] * 3

    again = newcomer.run("setup", "--yes")
    assert "Claude Code: uses this memory already" in again.stderr
    assert "imported already" in again.stderr

    codex = tomllib.loads((newcomer.home / ".codex" / "config.toml").read_text())["mcp_servers"]["memory"]
    assert "eastern cellar" in asked(codex, newcomer, "where does the lantern keep its reserve?")

    followed = json.loads(newcomer.ok("watch", "status", "--json"))["clients"]
    assert "claude-code" in {client["name"] for client in followed if client["followed"]}

    newcomer.ok("uninstall", "all")
    assert "memory" not in (newcomer.home / ".claude.json").read_text() if (newcomer.home / ".claude.json").exists() else True
    assert "eastern cellar" in newcomer.ok("ask", "where is the reserve of the lantern?", "--all")


def test_setup_tells_in_json_what_it_did(newcomer: Place) -> None:
    told = json.loads(Inside(newcomer.root, more=BARE).ok("setup", "--yes", "--json"))
    assert set(told["installed"]) >= {"claude-code", "codex"}
    assert told["imported"]["built"]["events"] == 7
    assert "claude-code" in told["followed"]
