"""Hints over loopback TCP, as on Windows: one counts as given once its hook has confirmed it; what it names is here."""

import binascii
import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.base import paths
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.hint import Hint, HintKind
from memory_mcp.server.hinting import names_absent_path
from memory_mcp.service.client import door, link
from memory_mcp.service.client.handing import CONFIRMS, HINT, HINT_METHOD, ask_hint
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, NO_INDEXES, needs_proc
from tests.daemon.test_hints import HERE, ask, hook, read_hint
from tests.waiting import PATIENCE, until

pytestmark = needs_proc

PYTHON: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "python tools/make_docs.py -n 0"}}
VENV: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": ".venv/bin/python tools/make_docs.py -n 0"}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One session of a project, in which a program was not there and that of its environment was."""
    more = DAEMON | NO_INDEXES | {"MEMORY_MCP_SERVER__SOCKET": "false"}
    with Beside(tmp_path_factory.mktemp("tcp-hints"), more=more) as place:
        place.ok("daemon", "start")
        hook(place, "PostToolUseFailure", "first", tool_use_id="1", error="zsh: command not found: python", **PYTHON)
        hook(place, "PostToolUse", "first", tool_use_id="2", tool_response="made", **VENV)
        until(lambda: "works" in place.run("how", "python tools/make_docs.py -n 0", "--all").stdout, "the calls to be filed")
        yield place


def test_python_is_told_by_the_path_that_worked_here_and_by_no_other(shop: Place) -> None:
    printed, _ = ask(shop, "PreToolUse", **PYTHON)
    assert "then `.venv/bin/python tools/make_docs.py -n 0` worked [grip:" in read_hint(printed, "PreToolUse")
    elsewhere: dict[str, Any] = {"hook_event_name": "PreToolUse", "session_id": "e", "cwd": "/home/u/elsewhere", **PYTHON}
    assert shop.run("hook", "claude-code", stdin=json.dumps(elsewhere)).stdout == ""


def test_a_hint_that_was_sent_and_not_read_is_not_counted(shop: Place) -> None:
    ask(shop, "PreToolUse", **PYTHON)
    numbers = itertools.count()
    commands: list[str] = []

    def make_call() -> dict[str, Any]:
        commands.append(f"python tools/make_docs.py -n {next(numbers)}")
        return {"tool_name": "Bash", "tool_input": {"command": commands[-1]}}

    def is_sent() -> bool:
        fields = {"hook_event_name": "PreToolUse", "session_id": "gave-up", "cwd": HERE, **make_call()}
        payload = binascii.b2a_base64(json.dumps(fields).encode(), newline=False).decode()
        params = {"client": "claude-code", "told": {}, CONFIRMS: True, "payload": payload}
        return bool(link.call_method(str(shop.directory), HINT_METHOD, params, deadline=PATIENCE)[HINT])

    until(is_sent, "a hint that is sent and not confirmed")
    until(lambda: bool(hook(shop, "PreToolUse", "gave-up", **make_call())), "the hint to be given to a hook that reads it")
    until(lambda: "session gave-up" in shop.ok("hints"), "the hint to be noted")
    noted = [hint for hint in json.loads(shop.ok("hints", "--json"))["hints"] if hint["session"] == "gave-up"]
    assert [hint["subject"] for hint in noted] == [commands[-1]]


def test_what_worked_in_a_directory_of_another_machine_is_no_help_here(tmp_path: Path) -> None:
    here = str(tmp_path)
    call = EventDraft("s", Role.ASSISTANT, EventType.TOOL_CALL, "Bash: make", None, metadata={"cwd": here, "command": "make"})
    text = "`make` failed here on 2026-01-12 (No rule); then `{}` worked [grip:x]"
    hint = Hint(kind=HintKind.COMMAND, subject="", text="", grip_id="", evidence=(), topic=1)
    for form, is_absent in (
        ("cd /Users/eva/shop/docs && make", True),
        ("/Users/eva/shop/.venv/bin/python -m make", True),
        (f"cd {here} && make", False),
        ("cd docs && make", False),
        ("make > /dev/null", False),
    ):
        assert names_absent_path(call, replace(hint, text=text.format(form))) is is_absent, form
    unknown = replace(call, metadata={**call.metadata, "cwd": "/home/nobody/there"})
    assert not names_absent_path(unknown, replace(hint, text=text.format("cd /Users/eva/shop && make")))


def test_a_daemon_that_does_not_prove_itself_holds_no_call_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_PATIENCE", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = Path(paths.door_file(str(tmp_path)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"port": silent.getsockname()[1], "secret": "ab" * 32}))
        file.chmod(0o600)
        # What waits for the proof ends with the time that a test has.
        assert ask_hint(str(tmp_path), "claude-code", b"{}", {"cwd": HERE}) == b""
