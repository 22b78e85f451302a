"""Our plugin in opencode, run by node as opencode runs it: what it hands over, what it tells the model, that it harms nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.ingest.hooks.base import Envelope
from memory_mcp.ingest.hooks.registry import HOOKS
from memory_mcp.install import capture
from memory_mcp.install.base import Order, PlaceFile
from tests.install.conftest import Machine

NODE = shutil.which("node") or ""
SESSION, CHILD, LOST = "ses_1", "ses_2", "ses_3"
#: Keeps what it is told beside itself, and answers the start of a session as the hook does.
RECORDER = """
import json, pathlib, sys
told = sys.stdin.read()
with pathlib.Path(__file__).with_name("told.jsonl").open("a") as kept:
    kept.write(told + chr(10))
event = json.loads(told)["hook_event_name"]
if event in ("SessionStart", "UserPromptSubmit"):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": "told at " + event}}))
"""
DRIVER = """
import { MemoryMcp } from "./plugin.mjs"
import { readFileSync } from "node:fs"
const get = async ({ path }) => ({ data: { parentID: path.id === "ses_3" ? "ses_1" : undefined } })
const plugin = await MemoryMcp({ client: { session: { get } }, directory: "/home/dev/shop" })
for (const [name, ...given] of JSON.parse(readFileSync("steps.json"))) {
  await plugin[name](...given)
  if (name.startsWith("experimental")) console.log(JSON.stringify(given[1].system))
}
await plugin.dispose()
"""


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


STEPS = [
    happened("session.created", info={"id": SESSION, "time": {"created": 1_768_204_799_000}}),
    happened("session.created", info={"id": CHILD, "parentID": SESSION, "time": {"created": 1_768_204_799_500}}),
    asked(SESSION, 1, "Fix it."),
    ["experimental.chat.system.transform", {"sessionID": SESSION}, {"system": ["You are."]}],
    happened("message.part.updated", part=part("text", 2, text="Fix it.")),
    happened("message.part.updated", part=tool("running")),
    happened("message.part.updated", part=tool("completed", output="a.py")),
    happened("message.part.updated", part=tool("completed", output="a.py")),
    happened("message.part.updated", part=part("text", 4, text="Fixed.", time={"start": 1, "end": 2})),
    asked(CHILD, 5, "Look into it."),
    asked(LOST, 6, "Look again."),
    happened("session.idle", sessionID=SESSION),
]


def ran(machine: Machine, folder: Path, command: list[str]) -> "subprocess.CompletedProcess[str]":
    """The plugin through all steps, with `command` in the place of ours."""
    [placed] = capture.opencode_plugin(Order(machine.order.place, machine.order.server), machine.home)
    assert isinstance(placed, PlaceFile)
    lines = [f"const COMMAND = {json.dumps(command)}" if x.startswith("const COMMAND") else x for x in placed.text.splitlines()]
    (folder / "plugin.mjs").write_text("\n".join(lines), encoding="utf-8")
    (folder / "driver.mjs").write_text(DRIVER, encoding="utf-8")
    (folder / "steps.json").write_text(json.dumps(STEPS), encoding="utf-8")
    return subprocess.run([NODE, "driver.mjs"], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not NODE, reason="node is not installed")
def test_it_hands_over_each_thing_once_and_tells_what_is_answered(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "recorder.py").write_text(RECORDER, encoding="utf-8")
    done = ran(machine, tmp_path, [sys.executable, str(tmp_path / "recorder.py")])
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["You are.", "told at SessionStart", "told at UserPromptSubmit"]
    told = (tmp_path / "told.jsonl").read_text(encoding="utf-8").splitlines()
    drafts = [d for one in told for d in HOOKS["opencode"].read(one, Envelope("name", 1_768_204_800_000)).drafts]
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
def test_without_the_program_nothing_happens(machine: Machine, tmp_path: Path) -> None:
    done = ran(machine, tmp_path, [str(tmp_path / "gone"), "hook"])
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["You are."]


def test_it_names_the_command_that_is_to_be_run(machine: Machine) -> None:
    [placed] = capture.opencode_plugin(machine.order, machine.home)
    assert isinstance(placed, PlaceFile)
    [line] = [x for x in placed.text.splitlines() if x.startswith("const COMMAND")]
    assert json.loads(line.partition(" = ")[2])[-2:] == ["hook", "opencode"]
    assert Path(json.loads(line.partition(" = ")[2])[0]).is_absolute()
