"""Hints at calls of tools, through the real hook command and the real daemon: rarely, once, from other sessions, never late."""

import binascii
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp import __version__
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.hint import Hint, HintKind
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import CLOSE, OPEN
from memory_mcp.server.hinting import _is_there
from memory_mcp.service.client.handing import _second_line
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, NO_INDEXES, needs_proc
from tests.waiting import until

pytestmark = needs_proc

_NUMBERS = itertools.count()
HERE, DEMAND = "/home/u/shop", "Never edit db/schema.sql by hand, always generate it."
MISSING: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": f"{HERE}/.golangci.yml"}}
FOUND: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": f"{HERE}/.golangci.yaml"}}
UNKNOWN: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "git show --no-stat HEAD"}}
PLAIN: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "git show HEAD"}}
BUILD: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "npm run build"}}
INSTALL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "npm install"}}
LACKING = "Error: Cannot find module 'left-pad'"
WRITE: dict[str, Any] = {
    "tool_name": "Write",
    "tool_input": {"file_path": f"{HERE}/db/schema.sql", "content": "CREATE TABLE x();"},
}


def hook(place: Place, event: str, session: str, client: str = "claude-code", **fields: Any) -> str:
    """What the hook prints for an event; always exit 0, silent on stderr."""
    payload = {"hook_event_name": event, "session_id": session, "cwd": HERE, **fields}
    done = place.run("hook", client, stdin=json.dumps(payload))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def read_hint(printed: str, event: str) -> str:
    """The words of a hint, in its fence, for an event; at most 400 bytes."""
    output = json.loads(printed)["hookSpecificOutput"]
    assert list(output) == ["hookEventName", "additionalContext"], "a hint decides nothing"
    context: str = output["additionalContext"]
    assert output["hookEventName"] == event
    assert context.startswith(OPEN)
    assert context.endswith(CLOSE)
    assert len(context.encode()) <= 400
    return context


def ask(place: Place, event: str, **fields: Any) -> tuple[str, str]:
    """What the hook prints in a new session, and the session.

    As soon as the daemon has read what it knows, and is quick enough on a busy machine.
    """
    printed: list[tuple[str, str]] = []

    def answered() -> bool:
        session = f"new-{next(_NUMBERS)}"
        printed.append((hook(place, event, session, **fields), session))
        return bool(printed[-1][0])

    until(answered, f"a hint at {fields}")
    return printed[-1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One session of a project, in which calls failed and others worked, and a person demanded something."""
    with Beside(tmp_path_factory.mktemp("hints"), more=DAEMON | NO_INDEXES) as place:
        place.ok("daemon", "start")
        hook(place, "UserPromptSubmit", "first", prompt=DEMAND)
        hook(
            place,
            "PostToolUseFailure",
            "first",
            tool_use_id="1",
            error="File does not exist. Did you mean .golangci.yaml?",
            **MISSING,
        )
        hook(place, "PostToolUse", "first", tool_use_id="2", tool_response="linters: []", **FOUND)
        hook(place, "PostToolUseFailure", "first", tool_use_id="3", error="fatal: unrecognized argument: --no-stat", **UNKNOWN)
        hook(place, "PostToolUse", "first", tool_use_id="4", tool_response="commit 1", **PLAIN)
        hook(place, "PostToolUseFailure", "first", tool_use_id="5", error=LACKING, **BUILD)
        hook(place, "PostToolUse", "first", tool_use_id="6", tool_response="added 1 package", **INSTALL)
        hook(place, "PostToolUse", "first", tool_use_id="7", tool_response="built", **BUILD)
        until(lambda: "works" in place.run("how", "npm run build", "--all").stdout, "the calls to be filed")
        yield place


def test_a_call_that_failed_before_is_told_once_a_session_what_worked(shop: Place) -> None:
    printed, session = ask(shop, "PreToolUse", **MISSING)
    fields = read_hint(printed, "PreToolUse")
    assert "`Read .golangci.yml` failed here" in fields
    assert "`Read .golangci.yaml` worked [grip:" in fields
    assert hook(shop, "PreToolUse", session, **MISSING) == "", "each once a session"
    assert hook(shop, "PreToolUse", "first", **MISSING) == "", "never what the session did itself"
    assert hook(shop, "PreToolUse", session, **FOUND) == ""
    elsewhere = {"hook_event_name": "PreToolUse", "session_id": "other", "cwd": "/home/u/elsewhere", **MISSING}
    assert shop.run("hook", "claude-code", stdin=json.dumps(elsewhere)).stdout == "", "not in another project"
    printed, _ = ask(shop, "PreToolUse", tool_name="Bash", tool_input={"command": "git show --no-stat v2"})
    assert "`git show HEAD` worked" in read_hint(printed, "PreToolUse")


def test_an_error_is_told_what_ended_it_and_a_file_what_a_person_demanded(shop: Place) -> None:
    printed, _ = ask(shop, "PostToolUseFailure", tool_use_id="x", error=LACKING, **BUILD)
    assert "`npm install` worked" in read_hint(printed, "PostToolUseFailure")
    printed, session = ask(shop, "PreToolUse", **WRITE)
    assert f"“{DEMAND}”" in read_hint(printed, "PreToolUse")
    reading: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": f"{HERE}/db/schema.sql"}}
    assert hook(shop, "PreToolUse", f"{session}-reads", **reading) == "", "reading is not writing"


def test_each_client_is_told_where_it_listens(shop: Place) -> None:
    codex: dict[str, Any] = {"client": "codex", "turn_id": "t", "transcript_path": None}
    assert "`git show HEAD` worked" in read_hint(ask(shop, "PreToolUse", **codex, **UNKNOWN)[0], "PreToolUse")
    patch = "*** Begin Patch\n*** Update File: db/schema.sql\n@@\n-a\n+b\n*** End Patch"
    patching: dict[str, Any] = {"tool_name": "apply_patch", "tool_input": {"command": patch}}
    assert DEMAND in read_hint(ask(shop, "PreToolUse", **codex, **patching)[0], "PreToolUse")
    writing: dict[str, Any] = {
        "tool_name": "write_file",
        "tool_input": WRITE["tool_input"],
        "tool_response": {"llmContent": "written"},
    }
    assert DEMAND in read_hint(ask(shop, "AfterTool", client="gemini", **writing)[0], "AfterTool")
    editing: dict[str, Any] = {"tool_name": "edit", "tool_input": {"filePath": f"{HERE}/db/schema.sql", "newString": "x"}}
    assert DEMAND in read_hint(ask(shop, "PreToolUse", client="opencode", **editing)[0], "PreToolUse")


@pytest.mark.parametrize("waits", [False, True])
def test_a_hook_that_gave_up_was_told_nothing(shop: Place, waits: bool) -> None:
    session = f"gave-up-{waits}"
    ask(shop, "PreToolUse", **UNKNOWN)
    fields = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": HERE, **UNKNOWN}
    payload = binascii.b2a_base64(json.dumps(fields).encode(), newline=False).decode()
    hello = {"memory-mcp": __version__, "kind": "rpc", "pid": os.getpid(), "cwd": HERE}
    request = {"id": 1, "method": "hook/hint", "params": {"client": "claude-code", "told": {}, "payload": payload}}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(shop.directory / "daemon.sock"))
        sock.sendall(f"{json.dumps(hello)}\n{json.dumps(request)}\n".encode())
        if waits:
            until(lambda: sock.recv(1 << 16, socket.MSG_PEEK).count(b"\n") > 1, "the answer, which is not read")
    numbers = itertools.count()

    def is_told() -> bool:
        command = f"git show --no-stat v{next(numbers)}"
        return bool(hook(shop, "PreToolUse", session, tool_name="Bash", tool_input={"command": command}))

    until(is_told, "the hint to be given to a hook that waits")
    until(lambda: f"session {session}" in shop.ok("hints"), "the hint to be noted")
    records = [hint for hint in json.loads(shop.ok("hints", "--json"))["hints"] if hint["session"] == session]
    assert [hint["subject"] == UNKNOWN["tool_input"]["command"] for hint in records] == [False]


def test_what_was_taken_from_the_socket_is_told_however_late() -> None:
    """Else the daemon believes that a hook has read what it never printed."""
    daemon, asking = socket.socketpair()
    with daemon, asking:
        daemon.sendall(b"{}\nthe answer\n")
        assert _second_line(asking, time.monotonic() - 1) == b"the answer"
        with pytest.raises(TimeoutError):
            _second_line(asking, time.monotonic() - 1)


def test_the_setting_is_read_by_the_hook_and_by_the_daemon(shop: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _, session = ask(shop, "PreToolUse", **UNKNOWN)
    until(lambda: f"session {session}" in shop.ok("hints"), "the hint to be noted")
    monkeypatch.setitem(shop.settings, "MEMORY_MCP_HOOKS__HINTS", "false")
    count = json.loads(shop.ok("hints", "--json"))["total"]
    for number in range(3):
        assert hook(shop, "PreToolUse", f"off-{number}", **UNKNOWN) == ""
        assert hook(shop, "PostToolUseFailure", f"off-{number}", tool_use_id="x", error=LACKING, **BUILD) == ""
    monkeypatch.delitem(shop.settings, "MEMORY_MCP_HOOKS__HINTS")
    (shop.home / "config.toml").write_text("[hooks]\nhints = false\n", encoding="utf-8")
    assert hook(shop, "PreToolUse", "off-by-file", **UNKNOWN) == ""
    (shop.home / "config.toml").unlink()
    assert json.loads(shop.ok("hints", "--json"))["total"] == count, "the daemon was not asked"
    assert ask(shop, "PreToolUse", **UNKNOWN)[0]


def test_hints_are_shown_rejected_and_forgotten(shop: Place) -> None:
    _, session = ask(shop, "PreToolUse", **MISSING)
    until(lambda: f"session {session}" in shop.ok("hints"), "the hint to be noted")
    [records] = [hint for hint in json.loads(shop.ok("hints", "--json"))["hints"] if hint["session"] == session]
    assert (records["kind"], records["subject"], records["outcome"]) == ("command", "Read .golangci.yml", "open")
    assert records["grip"] in records["text"]
    shop.ok("hints", "reject", str(records["hint_id"]))
    assert shop.run("hints", "reject", "999999").returncode == 2
    assert hook(shop, "PreToolUse", "sixth", **MISSING) == "", "what a person rejected is not given again"
    assert ask(shop, "PreToolUse", **UNKNOWN)[0], "others are"
    shop.ok("forget", "--session", "first", "--yes")
    assert json.loads(shop.ok("hints", "--json"))["hints"] == []
    assert hook(shop, "PreToolUse", "seventh", **UNKNOWN) == ""


def test_without_a_daemon_nothing_is_said_kept_or_started(shop: Place, tmp_path: Path) -> None:
    with Beside(tmp_path, more=DAEMON | NO_INDEXES) as place:
        assert hook(place, "PreToolUse", "s", **MISSING) == ""
        assert not place.directory.exists(), "nothing is kept of a call before it ran"
    shop.stop()
    assert hook(shop, "PreToolUse", "s", **UNKNOWN) == ""
    assert not (shop.directory / "daemon.sock").exists()


def test_only_a_payloads_own_event_says_that_nothing_of_it_is_kept(tmp_path: Path) -> None:
    with Beside(tmp_path, more=DAEMON | NO_INDEXES) as place:
        quoting: dict[str, Any] = {"tool_name": "Write", "tool_input": {"hook_event_name": "PreToolUse"}}
        named_last = {**quoting, "session_id": "s", "cwd": HERE, "hook_event_name": "PreToolUse"}
        assert place.run("hook", "claude-code", stdin=json.dumps(named_last)).returncode == 0
        assert not place.directory.exists()
        hook(place, "PostToolUse", "s", tool_use_id="1", tool_response={"hook_event_name": "PreToolUse"}, **quoting)
        hook(place, "PostToolUse", "s", tool_use_id="2", tool_response="{", **quoting)
        assert len(list((place.directory / "spool" / "new").iterdir())) == 2


def test_a_file_that_is_there_now_is_no_failure_of_before(tmp_path: Path) -> None:
    facts = {"cwd": str(tmp_path), "tool": "Read", "files": "a.yml"}
    call = EventDraft("s", Role.ASSISTANT, EventType.TOOL_CALL, "Read: a.yml", None, metadata=facts)
    hint = Hint(kind=HintKind.COMMAND, subject="", text="", grip_id="", evidence=(EventId("x"),), topic=1)
    assert not _is_there(call, hint)
    (tmp_path / "a.yml").touch()
    assert _is_there(call, hint)
    assert not _is_there(call, replace(hint, kind=HintKind.FILE))
