"""Real clients against the real server: the Inspector, the conformance suite, Claude Code, Codex and opencode.

`--node` names a directory with these npm packages (with node on PATH, in it or beside it under bin/):
@modelcontextprotocol/conformance, @modelcontextprotocol/inspector, @anthropic-ai/claude-code, @openai/codex, opencode-ai.
`--tools` names a directory with the scripted models mock_messages_api.py and mock_responses_api.py.
What is not there is skipped, and said.

    python -m bench.clients --node DIR [--tools DIR] [--only inspector,conformance,claude,codex,opencode] [--json]
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import agents, traffic
from bench.agents import free_port
from bench.place import Place, wait_for

#: What a server can pass without test fixtures, by revision.
CORE = {
    "2025-11-25": (
        "server-initialize server-session-lifecycle ping completion-complete tools-list tools-call-simple-text "
        "tools-call-error server-sse-multiple-streams resources-list prompts-list dns-rebinding-protection"
    ).split(),
    "2026-07-28": (
        "completion-complete tools-list tools-call-simple-text tools-call-error server-sse-multiple-streams resources-list "
        "prompts-list sep-2164-resource-not-found dns-rebinding-protection caching http-header-validation "
        "input-required-result-missing-input-response input-required-result-unsupported-methods "
        "input-required-result-ignore-extra-params input-required-result-validate-input"
    ).split(),
}
ERAS = ("legacy", "modern")
#: Calls of the Inspector's load mode, and how many at once.
_LOAD, _AT_ONCE = 400, 10
_PATIENCE = 400.0
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a client did: "ok", "failed" or "skipped", and what there is to say."""

    name: str
    outcome: str
    said: str = ""


class Node:
    """Programs of npm packages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    def has(self, package: str) -> bool:
        """Whether a package is installed."""
        return (self.directory / "node_modules" / package / "package.json").exists()

    def run(self, program: str, *words: str, home: Path) -> "subprocess.CompletedProcess[str]":
        """One program to its end."""
        path = os.pathsep.join((str(self.directory.parent / "bin"), str(self.directory / "bin"), os.environ.get("PATH", "")))
        return subprocess.run(
            [str(self.directory / "node_modules/.bin" / program), *words],
            env={"PATH": path, "HOME": str(home)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )


def inspector(node: Node) -> Iterator[Check]:
    """Lint and load mode of the Inspector, on a pipe and over HTTP, in both eras."""
    port = free_port()
    more = {"MEMORY_MCP_SERVER__HTTP": "true", "MEMORY_MCP_SERVER__HTTP_PORT": str(port)}
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), more=more) as place:
        traffic.write_history(place.root / "before.jsonl", 300, "before", 3)
        place.ok("import", "jsonl", str(place.root / "before.jsonl"))
        place.ok("daemon", "start")
        token = place.directory / "token"
        wait_for(token.exists, 10.0)
        pipe = [*place.command]
        for name, value in place.environment().items():
            if name.startswith("MEMORY_MCP_"):
                pipe += ["-e", f"{name}={value}"]
        header = ["--header", f"Authorization: Bearer {token.read_text().strip() if token.exists() else ''}"]
        doors = {
            "stdio": pipe,
            "http": [f"http://127.0.0.1:{port}/mcp", "--transport", "http", *header],
            "sse": [f"http://127.0.0.1:{port}/sse", "--transport", "sse", *header],
        }
        for door, target in doors.items():
            for era in ERAS if door != "sse" else ERAS[:1]:
                yield _lint(node, place.home, target, f"inspector, {door}, {era}", era)
                yield from _load(node, place.home, target, f"inspector, {door}, {era}", era)
        place.stop()


def _lint(node: Node, home: Path, target: list[str], name: str, era: str) -> Check:
    words = ["--method", "tools/list", "--strict", "--protocol-era", era, "--format", "json"]
    done = node.run("mcp-inspector", "--cli", *target, *words, home=home)
    if done.returncode != 0:
        return Check(f"{name}, strict lint", "failed", f"exit {done.returncode}: {done.stderr[-600:]}")
    count = len(json.loads(done.stdout)["result"]["tools"])
    return Check(f"{name}, strict lint", "ok", f"{count} tools; {' '.join(done.stderr.split())[-200:]}")


def _load(node: Node, home: Path, target: list[str], name: str, era: str) -> Iterator[Check]:
    calls = {"get_retrieval_status": "{}", "intelligent_search": json.dumps({"query": "deploy the cache", "scope": "all"})}
    for tool, arguments in calls.items():
        words = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments, "--protocol-era", era]
        load = ["--load", "--load-requests", str(_LOAD), "--load-concurrency", str(_AT_ONCE), "--format", "json", "-q"]
        done = node.run("mcp-inspector", "--cli", *target, *words, *load, home=home)
        named = f"{name}, load {tool}"
        try:
            told = json.loads(done.stdout)["result"]
        except ValueError:
            yield Check(named, "failed", f"exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-600:]}")
            continue
        bad = done.returncode != 0 or told["errors"] or told["toolErrors"] or told["ok"] != _LOAD
        shown = f"{told['ok']} of {_LOAD} ok, {told['throughput']:.0f}/s, p50 {told['latencyMs']['p50']:.1f} ms, "
        shown += f"p99 {told['latencyMs']['p99']:.1f} ms {told['errorMessages'] or ''}"
        yield Check(named, "failed" if bad else "ok", shown)


@contextlib.contextmanager
def serving(*words: str) -> Iterator[str]:
    """The test-only server of the tests on a free port; its address."""
    port = free_port()
    command = [sys.executable, "-m", "tests.daemon.fixtures_app", *words, "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            if not wait_for(lambda: agents.answers(port) or server.poll() is not None, 20.0) or server.poll() is not None:
                raise RuntimeError(f"the server of the fixtures did not come up: {server.communicate()[1][-800:]}")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


def conformance(node: Node) -> Iterator[Check]:
    """The required set of both revisions with fixtures, and the core set without."""
    with tempfile.TemporaryDirectory() as scratch:
        with serving() as url:
            for revision in CORE:
                out = Path(scratch) / revision
                words = ["server", "--url", url, "--requirements", revision, "-o", str(out)]
                done = node.run("conformance", *words, home=Path(scratch))
                outcome = "ok" if done.returncode == 0 else "failed"
                yield Check(f"conformance {revision}, required, with fixtures", outcome, _summary(done.stdout + done.stderr))
        with serving("--plain") as url:
            for revision, scenarios in CORE.items():
                failed = {}
                for scenario in scenarios:
                    words = ["server", "--url", url, "--scenario", scenario, "--spec-version", revision]
                    done = node.run("conformance", *words, home=Path(scratch))
                    if done.returncode != 0:
                        failed[scenario] = _summary(done.stdout + done.stderr)
                said = f"{len(scenarios) - len(failed)} of {len(scenarios)} scenarios"
                yield Check(f"conformance {revision}, core, plain", "failed" if failed else "ok", f"{said} {failed or ''}")


def _summary(text: str) -> str:
    """What was counted, and what did not pass and counts."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    counts = [line for line in lines if line.startswith(("Total:", "Not scored", "Passed:"))]
    return " | ".join(counts or lines[-8:])[:900]


def agent(name: str, node: Node, tools: Path | None, show: Callable[[str], None] = lambda _: None) -> Iterator[Check]:
    """A turn of one agent."""
    if tools is None:
        yield Check(name, "skipped", "no --tools with scripted models")
        return
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="default") as place:
        take = {"claude": agents.claude, "codex": agents.codex, "opencode": agents.opencode}[name]
        turn = take(node.directory, tools.resolve(), place)
        for line in turn.lines():
            show(line)
        wrong = turn.failures()
        yield Check(name, "failed" if wrong else "ok", "; ".join(wrong) or f"{turn.version}: found {turn.found}")
        place.stop()


PACKAGES = {
    "inspector": "@modelcontextprotocol/inspector",
    "conformance": "@modelcontextprotocol/conformance",
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "opencode": "opencode-ai",
}


def checks(node: Node, tools: Path | None, only: list[str], show: Callable[[str], None] = lambda _: None) -> Iterator[Check]:
    """Everything asked for; what is not installed is said to be skipped."""
    for name in only:
        if not node.has(PACKAGES[name]):
            yield Check(name, "skipped", f"{PACKAGES[name]} is not installed in {node.directory}")
        elif name == "inspector":
            yield from inspector(node)
        elif name == "conformance":
            yield from conformance(node)
        else:
            yield from agent(name, node, tools, show)


def main() -> int:
    """Run, print; 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", type=Path, required=True, help="directory with the npm packages")
    parser.add_argument("--tools", type=Path, help="directory with the scripted models")
    parser.add_argument("--only", default=",".join(PACKAGES), help="which, separated by commas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    show = (lambda line: print(line, file=sys.stderr)) if arguments.json else print
    found = []
    for check in checks(Node(arguments.node), arguments.tools, arguments.only.split(","), show):
        found.append(check)
        if not arguments.json:
            print(f"{check.outcome:<8}{check.name:<52}{check.said}", flush=True)
    if arguments.json:
        print(json.dumps([asdict(c) for c in found]))
    return 1 if any(c.outcome == "failed" for c in found) else 0


if __name__ == "__main__":
    sys.exit(main())
