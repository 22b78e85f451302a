"""Our plugin in opencode, run by node as opencode runs it: what it hands over, what it tells the model, that it harms nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.capture.hooks.base import Envelope
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.install.base import Level, Order, PlaceFile
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.state import digest
from memory_mcp.install.status import statuses
from tests.install.conftest import Machine

NODE = shutil.which("node") or ""
SESSION, CHILD, LOST = "ses_1", "ses_2", "ses_3"
#: Keeps what it is told beside itself, and answers the start of a session as the hook does.
RECORDER = """
import json, pathlib, sys, time
told = sys.stdin.read()
if json.loads(told)["hook_event_name"] == "PreToolUse":
    time.sleep(3)
    sys.exit()
with pathlib.Path(__file__).with_name("told.jsonl").open("a") as kept:
    kept.write(told + chr(10))
event = json.loads(told)["hook_event_name"]
if event in ("SessionStart", "UserPromptSubmit"):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": "told at " + event}}))
"""
#: The interfaces of opencode 1 and 2, as far as the plugin uses them.
DRIVERS = {
    1: """
import plugin, * as module from "./plugin.mjs"
import { readFileSync } from "node:fs"
const get = async ({ path }) => ({ data: { parentID: path.id === "ses_3" ? "ses_1" : undefined } })
if (Object.keys(module).join() !== "default") throw Error("opencode 1 takes every export for a plugin")
const hooks = await plugin.server({ client: { session: { get } }, directory: "/home/dev/shop" })
for (const [name, ...inputs] of JSON.parse(readFileSync("steps.json"))) {
  const started = Date.now()
  await hooks[name](...inputs)
  if (name === "tool.execute.before" && Date.now() - started > 2000) throw Error("a call waited for a hint")
  if (name.startsWith("experimental")) console.log(JSON.stringify(inputs[1].system))
}
await hooks.dispose()
""",
    2: """
import plugin from "./plugin.mjs"
import { readFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
const created = Date.now()
const parents = { ses_2: "ses_1", ses_3: "ses_1" }
const get = async ({ sessionID }) => (
  { id: sessionID, parentID: parents[sessionID], time: { created }, location: { directory: "/home/dev/shop" } }
)
const hooks = {}, queue = []
let wake = () => {}
const domain = (name, known) => ({
  hook: async (hook, callback) => {
    if (!known.includes(hook)) throw Error(`no hook ${hook}`)
    hooks[`${name} ${hook}`] = callback
    return { dispose: async () => { delete hooks[`${name} ${hook}`] } }
  },
})
const subscribe = (...types) => {
  if (types.length) throw Error("all events are asked for")
  const next = async () => {
    while (!queue.length) await new Promise((resolve) => { wake = resolve })
    return { value: queue.shift(), done: false }
  }
  return { [Symbol.asyncIterator]: () => ({ next, return: async () => ({ done: true }) }) }
}
const session = { get, ...domain("session", ["prompt", "context"]) }
const cleanup = await plugin.setup({ session, tool: domain("tool", ["execute.after"]), event: { subscribe } })
if (typeof plugin.id !== "string") throw Error("opencode 2 needs an id")
for (const [name, input] of JSON.parse(readFileSync("steps.json"))) {
  if (name === "event") { queue.push(input); wake(); await sleep(1) } else await hooks[name](input)
  if (name.endsWith("context") && input.system.length) console.log(JSON.stringify(input.system.map((part) => part.text ?? part)))
}
await cleanup()
if (Object.keys(hooks).length) throw Error("a hook was left")
""",
}


def happened(kind: str, **properties: Any) -> list[Any]:
    return ["event", {"event": {"type": kind, "properties": properties}}]


def part(kind: str, number: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "messageID": "msg_1", "sessionID": session, "type": kind, **more}


def asked(session: str, number: int, words: str) -> list[Any]:
    message = {"id": f"msg_{number}", "role": "user", "time": {"created": 1_768_204_800_000}}
    return ["chat.message", {"sessionID": session}, {"message": message, "parts": [part("text", number, session, text=words)]}]


def tool(status: str, **state: Any) -> dict[str, Any]:
    own = {
        "status": status,
        "input": {"command": "ls"},
        "time": {"start": 1, "end": 2},
        "metadata": {"output": "x" * 999},
        **state,
    }
    return part("tool", 3, tool="bash", callID="call_1", state=own)


STEPS_1 = [
    happened("session.created", info={"id": SESSION, "time": {"created": 1_768_204_799_000}}),
    happened("session.created", info={"id": CHILD, "parentID": SESSION, "time": {"created": 1_768_204_799_500}}),
    asked(SESSION, 1, "Fix it."),
    ["experimental.chat.system.transform", {"sessionID": SESSION}, {"system": ["You are."]}],
    happened("message.part.updated", part=part("text", 2, text="Fix it.")),
    ["tool.execute.before", {"tool": "bash", "sessionID": SESSION, "callID": "call_1"}, {"args": {"command": "ls"}}],
    happened("message.part.updated", part=tool("running")),
    happened("message.part.updated", part=tool("completed", output="a.py")),
    happened("message.part.updated", part=tool("completed", output="a.py")),
    happened("message.part.updated", part=part("text", 4, text="Fixed.", time={"start": 1, "end": 2})),
    asked(CHILD, 5, "Look into it."),
    asked(LOST, 6, "Look again."),
    happened("session.idle", sessionID=SESSION),
]


def prompted(session: str, number: int, words: str) -> list[Any]:
    prompt = {"sessionID": session, "messageID": f"msg_{number}", "prompt": {"text": words}, "delivery": "queue"}
    return ["session prompt", prompt]


def streamed(kind: str, session: str = SESSION, **data: Any) -> list[Any]:
    """An event of an answer, as opencode 2 tells it to plugins of every project."""
    created = 1_768_204_800_000
    return ["event", {"type": kind, "created": created, "data": {"sessionID": session, "assistantMessageID": "msg_9", **data}}]


def executed(**outcome: Any) -> list[Any]:
    common = {"tool": "bash", "sessionID": SESSION, "messageID": "msg_9", "id": "call_1", "input": {"command": "ls"}}
    return ["tool execute.after", {**common, "status": "completed", **outcome}]


STEPS_2 = [
    prompted(SESSION, 1, "Fix it."),
    ["session context", {"sessionID": SESSION, "kind": "primary", "system": ["You are."]}],
    streamed("session.reasoning.started", ordinal=0),
    streamed("session.tool.input.started", callID="call_1", name="bash"),
    executed(result={"content": [{"type": "text", "text": "a.py"}], "metadata": {"output": "x" * 999}}),
    executed(result={"content": [{"type": "text", "text": "a.py"}]}),
    streamed("session.text.started", ordinal=0),
    streamed("session.text.delta", ordinal=0, delta="Fix"),
    streamed("session.text.ended", ordinal=0, text="Fixed."),
    streamed("session.text.ended", session="ses_of_another_project", ordinal=0, text="Elsewhere."),
    streamed("session.step.ended"),
    prompted(CHILD, 5, "Look into it."),
    prompted(LOST, 6, "Look again."),
]
STEPS = {1: STEPS_1, 2: STEPS_2}


def ran(machine: Machine, folder: Path, command: list[str], version: int) -> "subprocess.CompletedProcess[str]":
    """The plugin through all steps of a version of opencode, with `command` in the place of ours."""
    [placed] = CLIENTS["opencode"].list_hook_edits(Order(machine.order.environment, machine.order.server))
    assert isinstance(placed, PlaceFile)
    lines = [f"const COMMAND = {json.dumps(command)}" if x.startswith("const COMMAND") else x for x in placed.text.splitlines()]
    (folder / "plugin.mjs").write_text("\n".join(lines), encoding="utf-8")
    (folder / "driver.mjs").write_text(DRIVERS[version], encoding="utf-8")
    (folder / "steps.json").write_text(json.dumps(STEPS[version]), encoding="utf-8")
    return subprocess.run([NODE, "driver.mjs"], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not NODE, reason="node is not installed")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.usefixtures("processes")
def test_it_hands_over_each_thing_once_and_tells_what_is_answered(machine: Machine, tmp_path: Path, version: int) -> None:
    (tmp_path / "recorder.py").write_text(RECORDER, encoding="utf-8")
    done = ran(machine, tmp_path, [sys.executable, str(tmp_path / "recorder.py")], version)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["You are.", "told at SessionStart", "told at UserPromptSubmit"]
    told = (tmp_path / "told.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["cwd"] for line in told} == {"/home/dev/shop"}
    drafts = [d for one in told for d in HOOKS["opencode"].parse_payload(one, Envelope("name", 1_768_204_800_000)).drafts]
    # An answer's text has the id that opencode's storage gives it: a part's in 1, its place in the message in 2.
    assert {d.source_id for d in drafts if d.text == "Fixed."} == {{1: "prt_4", 2: "msg_9#2"}[version]}
    assert sorted((d.session_id, d.thread, d.role.value, d.text) for d in drafts) == sorted(
        [
            (SESSION, "", "system", "Session started (startup)"),
            (SESSION, "", "user", "Fix it."),
            (SESSION, "", "assistant", "bash: ls"),
            (SESSION, "", "tool", "a.py"),
            (SESSION, "", "assistant", "Fixed."),
            (SESSION, CHILD, "assistant", "Look into it."),
            (SESSION, LOST, "assistant", "Look again."),
            (SESSION, "", "system", "Session ended (exit)"),
        ]
    )
    assert not any("xxx" in one for one in told)


@pytest.mark.skipif(not NODE, reason="node is not installed")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.usefixtures("processes")
def test_without_the_program_nothing_happens(machine: Machine, tmp_path: Path, version: int) -> None:
    done = ran(machine, tmp_path, [str(tmp_path / "gone"), "hook"], version)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["You are."]


def test_it_names_the_command_that_is_to_be_run(machine: Machine) -> None:
    [placed] = CLIENTS["opencode"].list_hook_edits(machine.order)
    assert isinstance(placed, PlaceFile)
    [line] = [x for x in placed.text.splitlines() if x.startswith("const COMMAND")]
    assert json.loads(line.partition(" = ")[2])[-2:] == ["hook", "opencode"]
    assert Path(json.loads(line.partition(" = ")[2])[0]).is_absolute()


def test_a_plugin_of_the_form_that_opencode_1_alone_loads_counts_for_nothing_until_install_replaces_it(machine: Machine) -> None:
    client, state = CLIENTS["opencode"], machine.state
    machine.install(client)
    [path] = (machine.home / ".config/opencode/plugins").iterdir()
    placed = path.read_text(encoding="utf-8")
    older = "// Written by memory-mcp\nexport const MemoryMcp = async () => ({})\n"
    path.write_text(older, encoding="utf-8")
    # As the version that wrote it noted it.
    with state.hold_lock():
        state.records[str(path)].after = digest(older.encode())
        state.save()

    def count_hooks() -> dict[str, tuple[int, int]]:
        return next(dict(status.hooks) for status in statuses(machine.place, machine.state) if status.client == "opencode")

    assert count_hooks() == {}
    machine.install(client)
    assert (path.read_text(encoding="utf-8"), count_hooks()) == (placed, {Level.USER: (1, 1)})
