"""Real agents, driven by scripted models: a turn that searches the memory and opens a quotation while hooks record it.

What the model was shown is read from the scripted model's own record of the last request. A turn is judged by what an
agent needs: the answers are lean, dated and cited, and the session itself is found afterwards.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.place import Place, wait_for

#: Every event of an agent that carries content.
EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure Stop SubagentStart SubagentStop "
    "PreCompact PostCompact SessionEnd"
).split()
#: What was said before the agent comes: a question, its answer, and something else.
SAID = (
    ("2026-01-21T10:00:00Z", "user", "How should the refresh token rotate? The JWT expires after 15 minutes."),
    ("2026-01-21T10:02:00Z", "assistant", "We decided on single-use refresh tokens with a 30 second grace window."),
    ("2026-01-21T10:05:00Z", "user", "Good. Never log the refresh token, and keep the grace window configurable."),
    ("2026-02-24T15:00:00Z", "user", "The release train leaves on Thursday; freeze the payment module before it."),
)
QUERY = "refresh token rotation"
#: What the person asks in each session, and the other words in which the agent then searches; the answer is the decision, never
#: a recorded question.
ASKED = "What did the quokka meeting decide about refresh tokens?"
ASKED_AGAIN = "Remind me how we rotate refresh tokens"
SEARCHED_AGAIN = "which rotation of refresh tokens was chosen"
#: Calls that failed in an earlier session, why, and the calls that worked in their place: of one of them a model is told when it
#: makes the call. Of three, since a hook on a busy machine is silent rather than late.
FAILED = (
    ("git show --no-stat HEAD", "fatal: unrecognized argument: --no-stat", "git show HEAD"),
    ("git log --onelin HEAD", "fatal: unrecognized argument: --onelin", "git log --oneline HEAD"),
    ("git diff --stats HEAD", "error: invalid option: --stats", "git diff --stat HEAD"),
)
#: Longest an agent may take for a turn, in seconds.
TURN = 120.0
#: A lean answer to a search with its explanation, and one quotation with what surrounds it (bytes).
LEAN = {"intelligent_search": 3_600, "expand_grip": 2_400}
#: What a new session may be told, in bytes; its client wraps it.
BRIEF = 3_000
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d")
_CAPTURED = 20.0
_NAME = "memory"
#: What a hint may take, in bytes, with its fence.
MOST_HINT = 400


@dataclass
class Turn:
    """One agent's turn: what the model saw, and what was kept of it."""

    agent: str
    version: str = ""
    connected: str = ""
    exit_status: int = 0
    #: Each tool's answer as the model saw it, in order.
    seen: dict[str, str] = field(default_factory=dict)
    #: What a new session is told before its first prompt.
    briefing: str = ""
    request_bytes: int = 0
    #: Words of the session itself that the memory finds afterwards, and those that it does not.
    found: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    #: Events stored of that session by role.
    captured: dict[str, int] = field(default_factory=dict)
    said: str = ""
    #: What the model of a second session was shown by a search in other words.
    second_answer: str = ""
    #: What that model was told at calls that had failed before.
    hints: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """What an agent would miss."""
        wrong = [f"{self.agent} ended with {self.exit_status}: {self.said[-400:]}"] if self.exit_status else []
        if "onnected" not in self.connected and self.agent in ("claude", "opencode"):
            wrong.append(f"not connected: {self.connected}")
        for tool, most in LEAN.items():
            text = self.seen.get(tool, "")
            if "grip:" not in text or not _DATE.search(text):
                wrong.append(f"{tool} showed the model nothing dated and cited: {text[:300]!r}")
            if len(text.encode()) > most:
                wrong.append(f"{tool} showed the model {len(text.encode())} bytes, more than {most}")
        if SAID[1][2] not in self.seen.get("expand_grip", ""):
            wrong.append("expand_grip did not show the exact words around the quotation")
        if not self.briefing or len(self.briefing.encode()) > BRIEF:
            wrong.append(f"a later session was told {len(self.briefing.encode())} bytes, not 1 to {BRIEF}")
        wrong += [f"not found afterwards: {words}" for words in self.lost]
        if not self.hints:
            wrong.append("no hint reached the model at a call that had failed before")
        wrong += [f"a hint of {len(hint.encode())} bytes" for hint in self.hints if len(hint.encode()) > MOST_HINT]
        return wrong + self._second_failures()

    def _second_failures(self) -> list[str]:
        """What is wrong with the second session's answer: no decision in it, or a recorded question before the decision."""
        decision_at = self.second_answer.find(SAID[1][2][:40])
        if decision_at < 0:
            return [f"a second session was not shown the decision: {self.second_answer[:300]!r}"]
        questions = (self.second_answer.find(text) for text in (ASKED, ASKED_AGAIN))
        return ["a second session was shown a recorded question first"] if any(0 <= at < decision_at for at in questions) else []

    def lines(self) -> list[str]:
        """A summary for people."""
        told = [f"{self.agent} {self.version}: {self.connected or 'ran'}; request of {self.request_bytes} bytes"]
        for tool, text in self.seen.items():
            dated, cited = len(_DATE.findall(text)), text.count("grip:")
            told.append(f"  {tool}: {len(text.encode())} bytes, {dated} dates, {cited} grips: {' '.join(text.split())[:150]}…")
        told.append(f"  briefing of a later session: {len(self.briefing.encode())} bytes: {self.briefing[:300]!r}")
        told.append(f"  second session, other words: {' '.join(self.second_answer.split())[:300]!r}")
        told += [f"  hint: {hint!r}" for hint in self.hints]
        told.append(f"  captured: {self.captured}; found afterwards: {self.found}; not found: {self.lost}")
        return told


@contextlib.contextmanager
def scripted(tools: Path, name: str, script: Sequence[object], out: Path) -> Iterator[str]:
    """A scripted model on a free port of this machine; its address."""
    out.mkdir(parents=True, exist_ok=True)
    written = out / "script.json"
    written.write_text(json.dumps(script), encoding="utf-8")
    port = free_port()
    with subprocess.Popen([sys.executable, str(tools / name), str(port), str(written), str(out)]) as model:
        try:
            if not wait_for(lambda: answers(port), 15.0):
                raise RuntimeError(f"{name} did not come up")
            yield f"http://127.0.0.1:{port}"
        finally:
            model.kill()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


def seed(place: Place, project: Path) -> str:
    """Store what was said before; the grip that answers the question."""
    project.mkdir(parents=True, exist_ok=True)
    source = place.root / "said.jsonl"
    common = {"session_id": "auth", "agent": "earlier", "project": str(project.resolve())}
    told = [common | {"id": str(n), "timestamp": at, "role": role, "text": text} for n, (at, role, text) in enumerate(SAID)]
    source.write_text("".join(json.dumps(t) + "\n" for t in told), encoding="utf-8")
    place.ok("import", "jsonl", str(source))
    for number, (failed, error, worked) in enumerate(FAILED):
        call = {"session_id": "earlier", "cwd": str(project.resolve()), "tool_name": "Bash"}
        failure = {"hook_event_name": "PostToolUseFailure", "error": error, "tool_use_id": f"f{number}"}
        success = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "done"}, "tool_use_id": f"w{number}"}
        for outcome, line in ((failure, failed), (success, worked)):
            place.ok("hook", "claude-code", stdin=json.dumps(call | outcome | {"tool_input": {"command": line}}))
    found = json.loads(place.ok("search", *QUERY.split(), "--all", "--json"))
    return next(str(g) for r in found["results"] for m in r["matches"] for g in m.get("grip_ids", ()))


def claude(node: Path, tools: Path, place: Place) -> Turn:
    """Claude Code: `mcp add`, `mcp list`, a turn with hooks, and the start of a second session."""
    project = place.root / "project"
    grip = seed(place, project)
    command = [str(node / "node_modules/.bin/claude")]
    more = {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    _hook_file(place, place.home / ".claude/settings.json", "claude-code")
    turn = Turn("claude", said(place, node, [*command, "--version"], project, more).stdout.strip())
    said(place, node, [*command, "mcp", "add", "-s", "user", _NAME, "--", *place.command], project, more)
    turn.connected = _line_with(said(place, node, [*command, "mcp", "list"], project, more).stdout, f"{_NAME}:")
    prefix = f"mcp__{_NAME}__"
    script = [
        {"type": "tool_use", "name": prefix + "intelligent_search", "input": {"query": QUERY}},
        {"type": "tool_use", "name": prefix + "expand_grip", "input": {"grip_id": grip}},
        {"type": "text", "text": "The zebrafish ledger says: single-use refresh tokens."},
    ]
    allowed = ["--allowedTools", prefix + "intelligent_search", prefix + "expand_grip"]
    form = ["--output-format", "stream-json", "--verbose", "--include-hook-events", "--model", "claude-sonnet-4-5"]
    with scripted(tools, "mock_messages_api.py", script, place.root / "claude") as address:
        model = {**more, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "any"}
        done = said(place, node, [*command, "-p", ASKED, *form, *allowed], project, model)
        turn.exit_status, turn.said = done.returncode, done.stdout + done.stderr
        request = json.loads((place.root / "claude/last_request.json").read_text(encoding="utf-8"))
        turn.request_bytes = len(json.dumps(request))
        turn.seen = _claude_saw(request, prefix)
        _captured(turn, place, ["quokka meeting decide", "zebrafish ledger says"])
        place.ok("scheduler", "run", "render_briefings")
        said(place, node, [*command, "-p", "Where were we?", *form], project, model)
        later = json.loads((place.root / "claude/last_request.json").read_text(encoding="utf-8"))
    turn.briefing = _briefing(str(b.get("text", "")) for m in later["messages"] for b in blocks(m["content"]))
    script = [
        {"type": "tool_use", "name": prefix + "intelligent_search", "input": {"query": SEARCHED_AGAIN}},
        *({"type": "tool_use", "name": "Bash", "input": {"command": failed, "description": "look"}} for failed, *_ in FAILED),
        {"type": "text", "text": "Single use, thirty seconds."},
    ]
    allowed.append("Bash")
    # What hints are made from is read again after five seconds.
    time.sleep(6)
    with scripted(tools, "mock_messages_api.py", script, place.root / "claude-again") as address:
        model |= {"ANTHROPIC_BASE_URL": address}
        said(place, node, [*command, "-p", ASKED_AGAIN, *form, *allowed], project, model)
        request = json.loads((place.root / "claude-again/last_request.json").read_text(encoding="utf-8"))
    turn.second_answer = _claude_saw(request, prefix).get("intelligent_search", "")
    turn.hints = hints_in(json.dumps(request))
    return turn


def hints_in(request: str) -> list[str]:
    """Return what a model was told at calls that had failed before, by the request as it was sent."""
    fenced = re.findall(r"<recalled-by-memory-mcp>.*?</recalled-by-memory-mcp>", request.replace("\\n", "\n"), re.S)
    return list(dict.fromkeys(text for text in fenced if "` failed here on " in text))


def _claude_saw(request: dict[str, Any], prefix: str) -> dict[str, str]:
    names, seen = dict[str, str](), dict[str, str]()
    for message in request["messages"]:
        for block in blocks(message["content"]):
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"].removeprefix(prefix)
            elif block["type"] == "tool_result":
                seen[names[block["tool_use_id"]]] = "".join(str(b.get("text", "")) for b in blocks(block["content"]))
    return seen


def opencode(node: Path, tools: Path, place: Place) -> Turn:
    """Run opencode with our server and plugin as `install` places them: a turn, the start of a second session, other words."""
    project = place.root / "project"
    grip = seed(place, project)
    program = str(node / "node_modules/.bin/opencode")
    # It takes the directory from PWD, and asks nobody for models or a newer version.
    more = {"PWD": str(project), "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    place.ok("install", "opencode")
    settings = place.home / ".config/opencode/opencode.json"
    entry = json.loads(settings.read_text(encoding="utf-8"))
    [server] = entry["mcp"]
    turn = Turn("opencode", said(place, node, [program, "--version"], project, more).stdout.strip())

    def run(prompt: str, out: Path, *blocks_to_say: dict[str, Any]) -> "tuple[subprocess.CompletedProcess[str], dict[str, Any]]":
        """A session with one prompt; the run, and the last request to the model."""
        with scripted(tools, "mock_messages_api.py", blocks_to_say, out) as address:
            options = {"baseURL": f"{address}/v1", "apiKey": "any"}
            model = {"npm": "@ai-sdk/anthropic", "options": options, "models": {"scripted": {"name": "scripted"}}}
            choice = {"provider": {"scripted": model}, "model": "scripted/scripted", "small_model": "scripted/scripted"}
            settings.write_text(json.dumps(entry | choice), encoding="utf-8")
            done = said(place, node, [program, "run", "--format", "json", prompt], project, more)
        return done, json.loads((out / "last_request.json").read_text(encoding="utf-8"))

    def use(name: str, **arguments: str) -> dict[str, Any]:
        return {"type": "tool_use", "name": f"{server}_{name}", "input": arguments}

    answer = {"type": "text", "text": "The zebrafish ledger says: single-use refresh tokens."}
    search = use("intelligent_search", query=QUERY)
    done, request = run(ASKED, place.root / "opencode", search, use("expand_grip", grip_id=grip), answer)
    turn.exit_status, turn.said = done.returncode, done.stdout + done.stderr
    turn.connected = "Connected" if any(tool["name"].startswith(f"{server}_") for tool in request["tools"]) else ""
    turn.request_bytes, turn.seen = len(json.dumps(request)), _claude_saw(request, f"{server}_")
    _captured(turn, place, ["quokka meeting decide", "zebrafish ledger says"])
    place.ok("scheduler", "run", "render_briefings")
    _, later = run("Where were we?", place.root / "opencode-later")
    turn.briefing = _briefing(str(part.get("text", "")) for part in blocks(later["system"]))
    calls = [{"type": "tool_use", "name": "bash", "input": {"command": failed, "description": "look"}} for failed, *_ in FAILED]
    search = use("intelligent_search", query=SEARCHED_AGAIN)
    _, request = run(ASKED_AGAIN, place.root / "opencode-again", search, *calls, answer)
    turn.second_answer = _claude_saw(request, f"{server}_").get("intelligent_search", "")
    turn.hints = hints_in(json.dumps(request))
    return turn


def codex(node: Path, tools: Path, place: Place) -> Turn:
    """Codex: a turn with hooks, and the start of a second session."""
    project = place.root / "project"
    grip = seed(place, project)
    command = [str(node / "node_modules/.bin/codex")]
    home = place.home / ".codex"
    home.mkdir(parents=True, exist_ok=True)
    _hook_file(place, home / "hooks.json", "codex")
    more = {"CODEX_HOME": str(home)}
    turn = Turn("codex", said(place, node, [*command, "--version"], project, more).stdout.strip())
    call = {"type": "function_call", "namespace": f"mcp__{_NAME}"}
    script = [
        call | {"name": "intelligent_search", "arguments": json.dumps({"query": QUERY})},
        call | {"name": "expand_grip", "arguments": json.dumps({"grip_id": grip})},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "The zebrafish ledger says so."}]},
    ]
    run = ["exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-hook-trust"]
    with scripted(tools, "mock_responses_api.py", script, place.root / "codex") as address:
        (home / "config.toml").write_text(_codex_settings(place, address), encoding="utf-8")
        done = said(place, node, [*command, *run, ASKED], project, more)
        turn.exit_status, turn.said = done.returncode, done.stdout + done.stderr
        turn.connected = "Connected" if '"server":"memory"' in done.stdout else ""
        request = json.loads((place.root / "codex/last_request.json").read_text(encoding="utf-8"))
        turn.request_bytes = len(json.dumps(request))
        turn.seen = _codex_saw(request)
        _captured(turn, place, ["quokka meeting decide", "zebrafish ledger says"])
        place.ok("scheduler", "run", "render_briefings")
        said(place, node, [*command, *run, "Where were we?"], project, more)
        later = json.loads((place.root / "codex/last_request.json").read_text(encoding="utf-8"))
    turn.briefing = _briefing(str(b.get("text", "")) for m in later["input"] for b in blocks(m.get("content", "")))
    script = [
        call | {"name": "intelligent_search", "arguments": json.dumps({"query": SEARCHED_AGAIN})},
        *({"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": failed})} for failed, *_ in FAILED),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Single use, thirty seconds."}]},
    ]
    # What hints are made from is read again after five seconds.
    time.sleep(6)
    with scripted(tools, "mock_responses_api.py", script, place.root / "codex-again") as address:
        (home / "config.toml").write_text(_codex_settings(place, address), encoding="utf-8")
        said(place, node, [*command, *run, ASKED_AGAIN], project, more)
        request = json.loads((place.root / "codex-again/last_request.json").read_text(encoding="utf-8"))
    turn.second_answer = _codex_saw(request).get("intelligent_search", "")
    turn.hints = hints_in(json.dumps(request))
    return turn


def _codex_settings(place: Place, address: str) -> str:
    """Codex's settings; strings and lists of JSON are the same in TOML."""
    env = ", ".join(f"{k} = {json.dumps(v)}" for k, v in place.environment().items() if k.startswith("MEMORY_MCP_"))
    [program, *arguments] = place.command
    return "\n".join(
        (
            'model = "scripted"',
            'model_provider = "scripted"',
            "[model_providers.scripted]",
            'name = "scripted"',
            f"base_url = {json.dumps(address + '/v1')}",
            'wire_api = "responses"',
            f"[mcp_servers.{_NAME}]",
            # Without it a turn may begin before the server has answered.
            "required = true",
            f"command = {json.dumps(program)}",
            f"args = {json.dumps(arguments)}",
            f"env = {{ {env} }}",
            "",
        )
    )


def _codex_saw(request: dict[str, Any]) -> dict[str, str]:
    names, seen = dict[str, str](), dict[str, str]()
    for item in request["input"]:
        if item["type"] == "function_call":
            names[item["call_id"]] = item["name"]
        elif item["type"] == "function_call_output":
            output = item["output"]
            seen[names[item["call_id"]]] = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return seen


def _hook_file(place: Place, path: Path, source: str) -> None:
    """Our hook on every event."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hook = {"type": "command", "command": f"{' '.join(place.command)} hook {source}", "timeout": 10}
    path.write_text(json.dumps({"hooks": {e: [{"matcher": "", "hooks": [hook]}] for e in EVENTS}}), encoding="utf-8")


def _captured(turn: Turn, place: Place, sought: list[str]) -> None:
    """Wait until the session's own words are found; what of it was stored."""
    for words in sought:
        began = time.monotonic()
        hit = wait_for(lambda w=words: _finds(place, w), _CAPTURED)  # type: ignore[misc]
        (turn.found if hit else turn.lost).append(f"{words} ({time.monotonic() - began:.1f} s)")
    told = json.loads(place.ok("query", "events", "--all", "--limit", "100", "--token-budget", "200000", "--json"))
    for event in told["events"]:
        if event.get("session_id") != "auth":
            turn.captured[event["role"]] = turn.captured.get(event["role"], 0) + 1


def _finds(place: Place, words: str) -> bool:
    found = place.run("search", *words.split(), "--all", "--json").stdout
    return all(word in found.partition('"results"')[2] for word in words.split()[:1])


def said(
    place: Place, node: Path, command: Sequence[str], directory: Path, more: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """A client's command to its end, with `more` in its environment."""
    usual = more.get("PATH", os.environ.get("PATH", ""))
    path = os.pathsep.join((str(node.parent / "bin"), str(node / "bin"), usual))
    return subprocess.run(
        command,
        env=place.environment() | more | {"PATH": path},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TURN,
        check=False,
    )


def blocks(content: object) -> list[dict[str, Any]]:
    """What a message consists of, whichever of the two forms it has."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)  # type: ignore[call-overload]


def _briefing(texts: Iterator[str]) -> str:
    return next((t for t in texts if "recalled-by-memory-mcp" in t), "")


def _line_with(text: str, start: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.startswith(start)), text.strip()[-200:])
