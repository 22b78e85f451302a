"""The browser through the background process: requests by name, and the installed command at a terminal with real keys."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.client import link
from memory_mcp.requests.registry import REQUESTS, WRITING
from tests.daemon.places import NO_INDEXES, needs_proc, said
from tests.interaction.test_tool_list import SNAPSHOT, WRITES
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES = NO_INDEXES

DECIDED = "We decided to keep the retry queue in Postgres."


@pytest.fixture(scope="module")
def stored(lasting: Place) -> Place:
    text = said("shop", "How should the retry queue store its jobs?", 9)
    answer = {"session_id": "shop", "timestamp": "2026-01-05T09:01:00Z", "role": "assistant", "text": DECIDED, "project": "shop"}
    lasting.ok("ingest", "-", stdin=text + json.dumps(answer) + "\n" + said("site", "The banner is too wide.", 10))
    return lasting


@pytest.fixture
def filled(stored: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    # Who asks from here asks as the commands do.
    monkeypatch.chdir(stored.home)
    monkeypatch.setenv("HOME", str(stored.home))
    return stored


def asked(place: Place, name: str, **arguments: Any) -> dict[str, Any]:
    return link.call(str(place.directory), "request/ask", {"name": name, "arguments": arguments}, PATIENCE)


def test_a_reading_request_is_answered_by_its_name_as_its_command_answers_it(filled: Place) -> None:
    root = asked(filled, "get_node")
    assert root == json.loads(filled.ok("query", "root", "--json"))
    found = asked(filled, "intelligent_search", query="retry queue", limit=2, detail="full")
    assert DECIDED in [r["quote"] for r in found["results"]]
    grip = found["results"][0]["grip_ids"][0]
    assert asked(filled, "expand_grip", grip_id=grip) == json.loads(filled.ok("query", "expand-grip", grip, "--json"))


#: What is asked, the code of the error, and its hint where that is ours alone to say.
_SAME = "Both sides must be of the same version."
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("expand_grip", {"grip_id": "grip:1:0000000000000000"}, "NOT_FOUND", ""),
    ("browse_toc", {"limit": 0}, "INVALID_ARGUMENT", ""),
    ("browse_toc", {"limit": "many"}, "INVALID_ARGUMENT", ""),
    ("browse_toc", {"colour": "red"}, "INVALID_ARGUMENT", "Its arguments are node_id, limit, cursor, project, scope."),
    ("intelligent_search", {"query": "x", "bounds": {"colour": 1}}, "INVALID_ARGUMENT", ""),
    ("expand_grip", {}, "INVALID_ARGUMENT", ""),
    ("nothing", {}, "INVALID_ARGUMENT", _SAME),
    *((name, {}, "INVALID_ARGUMENT", _SAME) for name in ("forget", "retract", "pin")),
]


def test_what_cannot_be_asked_is_an_error_of_ours(filled: Place) -> None:
    for name, arguments, code, hint in REFUSED:
        with pytest.raises(link.Refused) as refused:
            asked(filled, name, **arguments)
        assert (refused.value.code, refused.value.status) == (code, 2), name
        assert str(refused.value).startswith(f"{code}: ")
        assert str(refused.value).endswith(refused.value.hint)
        assert refused.value.hint == hint or not hint


def test_requests_that_write_are_those_whose_tools_say_so() -> None:
    tools = set(json.loads(SNAPSHOT.read_text(encoding="utf-8")))
    assert WRITES & set(REQUESTS) == WRITING & tools


class Terminal:
    """A terminal of 80 columns and 24 lines with the command on it."""

    def __init__(self, place: Place, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = place.environment() | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            [*place.command, *words],
            env=environ,
            cwd=place.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._written = bytearray()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._ours, 65536)
            except OSError:
                return
            self._written += data

    @property
    def text(self) -> str:
        """Everything that was drawn since the last key, without what steers the terminal."""
        return re.sub(r"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-_]", "", self._written.decode("utf-8", "replace"))

    def press(self, keys: str, *wanted: str) -> None:
        """Press keys, and wait until that was drawn."""
        self._written.clear()
        os.write(self._ours, keys.encode())
        self.shows(*wanted)

    def shows(self, *wanted: str) -> None:
        until(lambda: all(text in self.text for text in wanted), f"for {wanted} in {self.text[-3000:]}")

    def close(self) -> None:
        self._ended.set()
        self._reader.join()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def terminal(place: Place, *words: str) -> Iterator[Terminal]:
    made = Terminal(place, *words)
    try:
        yield made
    finally:
        made.close()


def test_a_person_finds_a_decision_by_keys_in_a_terminal(filled: Place) -> None:
    with terminal(filled, "browse") as screen:
        screen.shows("Time", "2026", "January", "January 2026")
        screen.press("l", "W02 (5 to 11 Jan)")
        screen.press("jl", "Mon 5 Jan")
        screen.press("jl", "09:00")
        screen.press("j", "the whole conversation")
        screen.press("\r", "━Conversation", "user", DECIDED[:30])
        screen.press("\x1b", "━Time")
        screen.press("/queue postgres", "Results: ", "We decided to keep the retry")
        screen.press("\r", "━Results")
        screen.press("\r", "━Evidence", "these words are stored exactly so", "The quoted words")
        # No second process has the store open.
        assert len(filled.owners()) == 1
        screen.press("q")
        until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 0


def test_on_a_pipe_and_as_json_it_answers_while_the_daemon_has_the_store(filled: Place) -> None:
    printed = filled.ok("browse")
    assert "toc:month:2026-01" in printed
    assert "memory-mcp query browse ID" in printed
    assert json.loads(filled.ok("browse", "--json")) == json.loads(filled.ok("query", "root", "--json"))
    done = filled.run("browse", "--project", "nothing-like-it")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no project is called 'nothing-like-it'")
