"""The plugin in the real Claude Code, driven by a scripted model: the skill, the status, the search, an answer that cites.

What the model was shown is read from the scripted model's record of the last request, the order of calls from the log of
the memory's own process. The tools need no permission of their own: the skill that was let run allows its reading tools.
Once with every layer there is, once with every index switched off.

    python -m bench.skills --node DIR --tools DIR [--json]
"""

import argparse
import ast
import json
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import agents, traffic
from bench.place import Place, wait_for

#: The Claude Code plugin.
FOLDER = Path(__file__).parents[1] / "plugin"
PLUGIN, SERVER, SKILL = "memory", "memory", "memory-query"
#: As the client names the tools of a plugin's server.
PREFIX = f"mcp__plugin_{PLUGIN}_{SERVER}__"
ASKED = "What did we decide about refresh tokens?"
#: What the model may be shown in all for an answer from memory: the skill, the status, the search (tokens).
MOST = 1_200
#: The calls in their order.
ORDER = ["get_retrieval_status", "intelligent_search"]
QUIET = {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
_CALL = re.compile(r" memory_mcp\.server\.calls INFO (\w+) \S+ [\d.]+ ms$", re.MULTILINE)
_LOGGED = 10.0
#: Other events of the same project, so that the search has enough to fill its budget with.
_OTHERS = 300
#: Settings of the process by what they leave the memory with.
STATES: dict[str, dict[str, str]] = {
    "indexes on": {},
    "indexes off": {f"MEMORY_MCP_{x}__ENABLED": "false" for x in ("TELEPORT__BM25", "TELEPORT__VECTOR", "TOPICS")},
}
#: The client adds its own count of what is left to every answer of a tool.
_ADDED = re.compile(r"\s*<system-reminder>.*", re.DOTALL)


def tokens(text: str) -> int:
    """The memory's own estimate: four bytes each, rounded up."""
    return -(-len(text.encode()) // 4)


def calls_in(log: str) -> list[str]:
    """The tools that were called, in order, as the log of the background process tells."""
    return _CALL.findall(log)


def recommended(skill: str, tool: str) -> dict[str, Any]:
    """The arguments with which a skill's first call of a tool is written; LookupError for none."""
    found = re.search(rf"`({tool}\([^`]*\))`", skill)
    if found is None:
        raise LookupError(f"the skill shows no call of {tool}")
    calls = [n for n in ast.walk(ast.parse(found[1], mode="eval")) if isinstance(n, ast.Call)]
    return {str(k.arg): ast.literal_eval(k.value) for k in calls[0].keywords}


@dataclass
class Answered:
    """One answer from memory through the plugin."""

    version: str = ""
    #: What `plugin validate --strict` said when it failed.
    invalid: str = ""
    connected: str = ""
    exit_status: int = 0
    said: str = ""
    #: Tools of the plugin's server that the session began with.
    offered: list[str] = field(default_factory=list)
    #: Calls as the memory's own process logged them.
    logged: list[str] = field(default_factory=list)
    #: What the model saw of the skill and of each tool.
    seen: dict[str, str] = field(default_factory=dict)
    cited: str = ""
    #: What the plugin adds to every session: names and descriptions of skills, commands and the agent.
    standing: str = ""

    @property
    def cost(self) -> dict[str, int]:
        """Tokens of each part that the model saw."""
        return {name: tokens(self.seen.get(name, "")) for name in (SKILL, *ORDER)}

    def failures(self) -> list[str]:
        """What a user would miss."""
        wrong = [f"not valid: {self.invalid}"] if self.invalid else []
        if "onnected" not in self.connected:
            wrong.append(f"not connected: {self.connected}")
        if self.exit_status:
            wrong.append(f"ended with {self.exit_status}: {self.said[-400:]}")
        wrong += [f"not offered: {name}" for name in ORDER if name not in self.offered]
        if self.logged != ORDER:
            wrong.append(f"called {self.logged}, not {ORDER}")
        wrong += [f"the model saw nothing of {name}" for name, cost in self.cost.items() if not cost]
        # An answer shows a grip without its time.
        if not self.cited or self.cited.rpartition(":")[2] not in self.seen.get(ORDER[1], ""):
            wrong.append(f"the answer cites {self.cited!r}, which the search did not show")
        if (total := sum(self.cost.values())) > MOST:
            wrong.append(f"the model saw {total} tokens, more than {MOST}: {self.cost}")
        return wrong

    def lines(self) -> list[str]:
        """A summary for people."""
        parts = ", ".join(f"{name} {cost}" for name, cost in self.cost.items())
        return [
            f"  {self.connected}",
            f"  tokens the model saw: {parts}; together {sum(self.cost.values())} of at most {MOST}",
            f"  calls in the log: {self.logged}; cited {self.cited}",
            f"  in every session: {tokens(self.standing)} tokens of names and descriptions",
        ]


def answered(node: Path, tools: Path, state: str) -> Answered:
    """One answer from a memory of its own in one of the states."""
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="default", more=STATES[state]) as place:
        found = ask(node, tools, place)
        place.stop()
    return found


def ask(node: Path, tools: Path, place: Place) -> Answered:
    """Validate the plugin, load it, ask, and see what came of it."""
    project = place.root / "project"
    grip = agents.seed(place, project)
    _crowd(place, project)
    found = Answered()
    command = [str(node / "node_modules/.bin/claude")]
    more = QUIET | {"PATH": f"{_program(place)}:{place.environment().get('PATH', '')}"}

    def run(*words: str, model: dict[str, str] | None = None) -> Any:
        return agents.said(place, node, [*command, *words], project, more | (model or {}))

    found.version = run("--version").stdout.strip()
    checked = run("plugin", "validate", "--strict", str(copy_plugin(place.root)))
    found.invalid = (checked.stdout + checked.stderr)[-1500:] if checked.returncode else ""
    loaded = ["--plugin-dir", str(FOLDER)]
    listed = run(*loaded, "mcp", "list").stdout
    found.connected = next((line.strip() for line in listed.splitlines() if line.startswith("plugin:")), listed[-200:].strip())
    form = ["--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"]
    with agents.scripted(tools, "mock_messages_api.py", _script(grip), place.root / "claude") as address:
        model = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "any"}
        done = run(*loaded, "-p", ASKED, *form, "--allowedTools", f"Skill({PLUGIN}:{SKILL})", model=model)
        found.exit_status, found.said = done.returncode, done.stdout + done.stderr
        request = json.loads((place.root / "claude/last_request.json").read_text(encoding="utf-8"))
    _read(found, request)
    _hear(found, done.stdout)
    log = place.directory / "daemon.log"
    wait_for(lambda: len(calls_in(log.read_text(encoding="utf-8"))) >= len(ORDER), _LOGGED)
    found.logged = calls_in(log.read_text(encoding="utf-8"))
    return found


def copy_plugin(folder: Path) -> Path:
    """The plugin as the client installs it: with the skills that its link leads to, which the validator does not follow."""
    return Path(shutil.copytree(FOLDER, folder / PLUGIN))


def _crowd(place: Place, project: Path) -> None:
    """Store what else was said on the project."""
    written = place.root / "others.jsonl"
    others = (event | {"project": str(project.resolve())} for event in traffic.history(_OTHERS, "others", 5))
    written.write_text("".join(json.dumps(event) + "\n" for event in others), encoding="utf-8")
    place.ok("import", "jsonl", str(written))


def _script(grip: str) -> list[dict[str, Any]]:
    """What the model does: as the skill says, with the arguments that it writes."""
    skill = (FOLDER / "skills" / SKILL / "SKILL.md").read_text(encoding="utf-8")
    search = recommended(skill, ORDER[1]) | {"query": ASKED}
    return [
        {"type": "tool_use", "name": "Skill", "input": {"skill": f"{PLUGIN}:{SKILL}"}},
        {"type": "tool_use", "name": PREFIX + ORDER[0], "input": recommended(skill, ORDER[0])},
        {"type": "tool_use", "name": PREFIX + ORDER[1], "input": search},
        {"type": "text", "text": f"Single-use refresh tokens [{grip}, 2026-01-21]. Searched by its best tier."},
    ]


def _program(place: Place) -> Path:
    """A folder that holds the command `memory-mcp` as the plugin starts it."""
    folder = place.root / "bin"
    folder.mkdir(exist_ok=True)
    written = folder / "memory-mcp"
    written.write_text(f'#!/bin/sh\nexec {shlex.join(place.command)} "$@"\n', encoding="utf-8")
    written.chmod(0o755)
    return folder


def _read(found: Answered, request: dict[str, Any]) -> None:
    """What the model saw of the skill and the tools, and what the plugin costs in every session."""
    names = dict[str, str]()
    for message in request["messages"]:
        for block in agents.blocks(message["content"]):
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"].removeprefix(PREFIX)
            elif block["type"] == "tool_result" and not block.get("is_error"):
                text = "".join(str(b.get("text", "")) for b in agents.blocks(block["content"]))
                found.seen[names[block["tool_use_id"]]] = _ADDED.sub("", text)
            elif block["type"] == "text" and f"skills/{SKILL}" in block["text"]:
                found.seen[SKILL] = block["text"]
            elif block["type"] == "text":
                found.standing += "".join(f"{x}\n" for x in block["text"].splitlines() if x.startswith(f"- {PLUGIN}:"))


def _hear(found: Answered, stream: str) -> None:
    """From what the client printed: the tools it began with, and the grip that its answer cites."""
    for line in stream.splitlines():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("subtype") == "init":
            found.offered = [t.removeprefix(PREFIX) for t in told["tools"] if t.startswith(PREFIX)]
        elif told.get("type") == "result":
            found.cited = next(iter(re.findall(r"grip:[0-9]+:[0-9a-z-]+", str(told.get("result", "")))), "")


def main() -> int:
    """Run, print; 1 when something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", type=Path, required=True, help="directory with the npm packages")
    parser.add_argument("--tools", type=Path, required=True, help="directory with the scripted models")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    failed = False
    for state in STATES:
        found = answered(arguments.node.resolve(), arguments.tools.resolve(), state)
        wrong = found.failures()
        failed = failed or bool(wrong)
        if arguments.json:
            told = {"state": state, "cost": found.cost, "standing": tokens(found.standing), "failures": wrong}
            print(json.dumps(told))
        else:
            print("\n".join([f"{state}: {found.version}", *found.lines(), *(f"  FAILED {w}" for w in wrong)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
