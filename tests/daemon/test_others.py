"""Other users of the machine: who may write into the data directory, and who listens in the daemon's place, gets nothing."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.place import Place
from memory_mcp.base import machine, ownership
from memory_mcp.service.client import door, handing, link
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import DAEMON, needs_proc
from tests.waiting import PATIENCE

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform == "win32", reason="files have no mode there")]

NOBODY = 65534
#: Listens on a socket as another user, and prints what it is sent.
SPY = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen(9); print("up", flush=True)
while True:
    c, _ = s.accept(); c.settimeout(1)
    try:
        while d := c.recv(65536): print(d, flush=True)
    except OSError: pass
    c.close()
"""
PROMPT = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "zebra", "cwd": "/home/u"})


@pytest.fixture
def spied(tmp_path: Path) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Starts another user's process that listens in a directory."""
    if os.getuid() != 0:
        pytest.skip("another user's process is started by root alone")
    temporary = Path(tempfile.gettempdir())
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and temporary in folder.parents:
            folder.chmod(0o755)
    started: list[subprocess.Popen[str]] = []

    def start(directory: Path) -> subprocess.Popen[str]:
        directory.mkdir(parents=True, exist_ok=True)
        directory.parent.chmod(0o755)
        directory.chmod(0o777)
        words = [sys.executable, "-c", SPY, str(directory / "daemon.sock")]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str]) -> str:
    process.kill()
    return process.communicate(timeout=PATIENCE)[0]


def test_nothing_is_said_or_written_where_others_may_write(
    tmp_path: Path, spied: Callable[[Path], subprocess.Popen[str]]
) -> None:
    place = Place(tmp_path / "place", more=DAEMON)
    spy = spied(place.directory)
    hook = place.run("hook", "claude-code", stdin=PROMPT)
    assert (hook.returncode, "chmod go-w" in hook.stderr) == (0, True)
    for words in (("ingest", "-"), ("daemon", "start"), ("query", "events", "--all"), ("sync", str(tmp_path / "shared"))):
        done = place.run(*words, stdin='{"session_id":"s","role":"user","text":"zebra"}')
        assert (done.returncode != 0, "chmod go-w" in done.stderr, "Traceback" in done.stderr) == (True, True, False)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    place.run("serve", stdin=request + "\n")
    assert heard(spy) == ""
    assert {path.name for path in place.directory.iterdir()} <= {"daemon.sock"}


def test_a_foreign_listener_left_in_a_directory_that_was_closed_gets_nothing_and_is_replaced(
    tmp_path: Path, spied: Callable[[Path], subprocess.Popen[str]]
) -> None:
    with Place(tmp_path / "place", more=DAEMON) as place:
        spy = spied(place.directory)
        place.directory.chmod(0o700)
        assert not handing.hand_payload(str(place.directory), "name", b"zebra", {})
        with pytest.raises(ConnectionRefusedError):
            door.connect(str(place.directory))
        with pytest.raises(OSError, match="not this user's"):
            link.call_method(str(place.directory), "daemon/status", {}, 5)
        assert place.run("hook", "claude-code", stdin=PROMPT).returncode == 0
        place.ok("ingest", "-", stdin='{"session_id":"s","timestamp":1790000000000,"role":"user","text":"walnut"}\n')
        assert "walnut" in place.ok("query", "events", "--all")
        assert heard(spy) == ""


@pytest.mark.parametrize("run", ["ingest", "doctor"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, run: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives a directory away")
    place = Inside(tmp_path, more=BARE)
    place.directory.mkdir(parents=True, exist_ok=True)
    os.chown(place.directory, NOBODY, NOBODY)
    done = place.run(*((run, "-") if run == "ingest" else (run,)), stdin='{"session_id":"s","role":"user","text":"walnut"}')
    assert done.returncode != 0
    assert "belongs to another user" in done.stdout + done.stderr


GROUP = SimpleNamespace(gr_name="sam", gr_mem=[])


@pytest.mark.parametrize(
    ("group", "user", "is_refused"),
    [
        (GROUP, "sam", False),
        (SimpleNamespace(gr_name="sam", gr_mem=["sam"]), "sam", False),
        (SimpleNamespace(gr_name="sam", gr_mem=["eve"]), "sam", True),
        (SimpleNamespace(gr_name="users", gr_mem=[]), "sam", True),
    ],
)
def test_a_group_of_this_user_alone_is_shut_out_and_any_other_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: SimpleNamespace, user: str, is_refused: bool
) -> None:
    monkeypatch.setattr("grp.getgrgid", lambda gid: group)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_name=user, pw_gid=os.getgid()))
    tmp_path.chmod(0o775)
    assert bool(ownership.open_to_others(str(tmp_path))) == is_refused
    assert stat.S_IMODE(tmp_path.stat().st_mode) == (0o775 if is_refused else 0o755)


def test_what_is_missing_or_closed_is_nobody_elses(tmp_path: Path) -> None:
    assert ownership.open_to_others(str(tmp_path / "missing")) == ""
    for mode in range(0o700, 0o1000):
        tmp_path.chmod(mode)
        is_open = mode & 0o002 or (mode & 0o020 and ownership.open_to_others(str(tmp_path)))
        assert bool(ownership.open_to_others(str(tmp_path))) == bool(is_open)


def test_the_peer_of_ones_own_socket_is_this_user(tmp_path: Path) -> None:
    listener, _ = door.listen(str(tmp_path))
    with listener, door.connect(str(tmp_path)) as sock:
        assert machine.peer(sock) in (os.getuid(), None)
        assert not machine.is_foreign_peer(sock)
