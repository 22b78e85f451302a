"""Asking a command: what it is given, what it answers, failures and patience."""

import json
import sys
import threading
from pathlib import Path

import pytest

from memory_mcp.model.sentinel import opens_own_session
from memory_mcp.tree.llm.answer import Reply, Unavailable
from memory_mcp.tree.llm.command import Command
from memory_mcp.tree.llm.material import Prompt
from tests.llm.scripted import USED, Script, Status, scripted
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("processes")

PROMPT = Prompt("Say it better.", "what was recorded")


def ask(script: Script, retries: int = 0, timeout: float = 60) -> Reply:
    return Command(script.command, timeout, None).ask(PROMPT, threading.Event(), retries)


def test_the_question_is_one_json_object_with_the_whole_prompt_and_its_parts() -> None:
    with scripted(json.dumps({"title": "hello"})) as script:
        reply = ask(script)
    assert (json.loads(reply.text)["title"], reply.tokens_in, reply.tokens_out, reply.estimated) == ("hello", *USED, False)
    [asked] = script.asked
    assert asked.body == {
        "version": 1,
        "kind": "summary",
        "prompt": PROMPT.whole,
        "task": "Say it better.",
        "data": "what was recorded",
    }


@pytest.mark.parametrize("answer", ["hello", '{"tokens_in": true, "tokens_out": 3}', '{"tokens_in": 3}'])
def test_tokens_that_nobody_tells_are_estimated_and_said_to_be(answer: str) -> None:
    with scripted(answer) as script:
        script.usage = False
        reply = ask(script)
    assert (reply.text, reply.tokens_in, reply.estimated) == (answer, PROMPT.tokens, True)


def test_what_passes_is_tried_again_as_often_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.tree.llm.command._FIRST_WAIT", 0.0)
    with scripted(Status(3), Status(3), "at last") as script:
        reply = ask(script, retries=2)
        assert (reply.text, reply.tokens_in) == ("at last", 3 * PROMPT.tokens)
        script.steps.extend([Status(3)] * 9)
        with pytest.raises(Unavailable, match="status 3") as error:
            ask(script, retries=2)
        assert (len(script.asked), error.value.tokens_in) == (6, 3 * PROMPT.tokens)


def test_waits_grow_and_end_when_nobody_wants_the_answer_any_more() -> None:
    waits: list[float] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return len(waits) == 3

    with scripted(*[Status(1)] * 9) as script, pytest.raises(Unavailable) as error:
        Command(script.command, 60, None).ask(PROMPT, Watched(), 10)
    assert waits == [1.0, 2.0, 4.0]
    assert error.value.tokens_in == 3 * PROMPT.tokens


COMMAND = """
import os, sys
sys.stderr.write("nothing of this is read")
asked = sys.stdin.read()
{then}
"""


def command(tmp_path: Path, then: str, timeout: float = 60) -> Reply:
    script = tmp_path / "model.py"
    script.write_text(COMMAND.format(then=then), encoding="utf-8")
    return Command(f"{sys.executable} '{script}'", timeout, tmp_path).ask(PROMPT, threading.Event(), 0)


def test_a_command_gets_the_marked_prompt_and_the_sign_for_hooks_and_runs_in_our_folder(tmp_path: Path) -> None:
    told = command(tmp_path, "print(os.environ['MEMORY_MCP_SUMMARIZING'], os.getcwd(), asked, sep='|')")
    sign, place, asked = told.text.split("|", 2)
    assert (sign, Path(place)) == ("1", tmp_path)
    assert opens_own_session(json.loads(asked)["prompt"])
    assert told.estimated


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("sys.exit(3)", "the command ended with status 3"),
        ("import time; time.sleep(600)", "no answer in time"),
        ("print('x' * 3_000_000, flush=True); import time; time.sleep(600)", "no answer in time"),
    ],
)
def test_a_command_that_fails_hangs_or_floods_is_left(tmp_path: Path, then: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        command(tmp_path, then, timeout=2)


def test_a_command_that_is_not_there_is_not_tried_again() -> None:
    with pytest.raises(Unavailable, match="cannot be started: No such file") as error:
        Command("no-such-command-here", 60, None).ask(PROMPT, threading.Event(), 5)
    assert not error.value.is_transient


def test_a_command_ends_with_whatever_it_started_when_its_answer_is_no_longer_wanted(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    then = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(noted)!r}, 'w').write(str(p.pid)); p.wait()"
    (tmp_path / "model.py").write_text(COMMAND.format(then=then), encoding="utf-8")
    program = Command(f"{sys.executable} '{tmp_path / 'model.py'}'", 600, None)

    class Noted(threading.Event):
        def is_set(self) -> bool:
            return noted.exists() and noted.read_text() != ""

    with pytest.raises(Unavailable, match="stopped"):
        program.ask(PROMPT, Noted(), 0)
    state = Path(f"/proc/{noted.read_text()}/stat")
    if Path("/proc/self/stat").exists():
        # Killed is not yet gone.
        until(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", "for its end")
