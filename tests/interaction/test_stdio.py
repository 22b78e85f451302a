"""The server as clients start it: a process on a pipe, in both eras, until the pipe closes or SIGTERM comes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.waiting import PATIENCE, until

SERVE = "from memory_mcp.config import load; from memory_mcp.server.build import serve_stdio; serve_stdio(load())"
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2"},
}


class Pipe:
    """One server process, spoken to line by line."""

    def __init__(self, directory: Path) -> None:
        home = directory.parent / "home"
        home.mkdir(exist_ok=True)
        own = {"MEMORY_MCP_STORAGE__DATA_DIR": str(directory), "HOME": str(home), "MEMORY_MCP_CONFIG": str(home / "none.toml")}
        env = {**os.environ, **own}
        env.pop("CLAUDE_PROJECT_DIR", None)
        pipe, command = subprocess.PIPE, [sys.executable, "-c", SERVE]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=home)
        self._next = 0
        self._meta: dict[str, Any] = {}

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdout is not None
        self._next += 1
        meta = {"_meta": self._meta} if self._meta else {}
        self.send({"id": self._next, "method": method, "params": {**params, **meta}})
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._next, answer
        assert "error" not in answer, answer
        return dict(answer["result"])

    def begin(self, era: str) -> dict[str, Any]:
        """Introduce ourselves; what the server says about itself."""
        if era == "modern":
            self._meta = MODERN
            return self.ask("server/discover")
        info = {"name": "codex", "version": "1"}
        said = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self.send({"method": "notifications/initialized"})
        return said

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=name, arguments=arguments)

    def end(self, by: str) -> tuple[int, bytes, str]:
        """Exit status, what was left on stdout, and stderr."""
        if by == "eof":
            assert self.process.stdin is not None
            self.process.stdin.close()
        else:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return status, self.process.stdout.read(), self.process.stderr.read().decode()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def start(pipes: list[Pipe], directory: Path) -> Pipe:
    pipes.append(Pipe(directory))
    return pipes[-1]


@requirement("plan:success-no-index", "plan:goal-no-index", "contract:principle-agentic-always-works")
@pytest.mark.parametrize(("era", "other"), [("modern", "legacy"), pytest.param("legacy", "modern", marks=pytest.mark.slow)])
def test_a_client_is_served_from_first_word_to_last_and_another_told_who_holds_the_store_until_it_files_what_is_left(
    pipes: list[Pipe], data_dir: Path, era: str, other: str
) -> None:
    first = start(pipes, data_dir)
    said = first.begin(era)
    assert "memory-mcp is long-term memory" in said["instructions"]
    assert len(first.ask("tools/list")["tools"]) == 11
    made = first.call("remember", text="Release notes are written in the imperative.")["structuredContent"]
    found = first.call("intelligent_search", query="release notes imperative")["structuredContent"]
    assert found["results"][0]["quote"] == "Release notes are written in the imperative."
    why = first.call("intelligent_search", query="release notes imperative", detail="full")["structuredContent"]["explanation"]
    assert why["tier_used"] == 5
    assert first.call("expand_grip", grip_id=made["grip_id"])["structuredContent"]["verified"] is True
    second = start(pipes, data_dir)
    assert "memory-mcp is long-term memory" in second.begin(other)["instructions"]
    assert len(second.ask("tools/list")["tools"]) == 11
    answer = second.call("browse_toc")
    assert answer["isError"] is True
    assert answer["content"][0]["text"].startswith("LOCKED: the data directory ")
    assert f"(process {first.process.pid})" in answer["content"][0]["text"]
    # Just before its end, so that it is left to the second one to file.
    first.call("remember", text="The quokka server hosts the staging database.")
    assert first.end("sigterm") == (0, b"", "")
    assert second.call("browse_toc")["structuredContent"]["node"]["level"] == "root"
    until(lambda: not second.call("get_retrieval_status")["structuredContent"]["lag"]["events"])
    [result] = second.call("intelligent_search", query="quokka", detail="full")["structuredContent"]["results"]
    assert (result["kind"], result["level"]) == ("grip", "segment")
    assert second.end("eof")[:2] == (0, b"")


def test_a_client_that_leaves_at_once_leaves_nothing_behind(pipes: list[Pipe], data_dir: Path) -> None:
    """While the store is being opened, or before."""
    pipe = start(pipes, data_dir)
    status, rest, _ = pipe.end("eof")
    assert (status, rest) == (0, b"")
