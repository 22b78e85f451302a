"""Links that somebody put into the data directory: never followed, neither for reading nor for writing, and named."""

import json
import os
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.base import paths
from tests.daemon.inside import BARE, SERVED, Beside, Inside
from tests.daemon.places import DAEMON, look, needs_proc
from tests.daemon.test_capture import BEFORE, hook
from tests.waiting import until

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")]

PLANTED = (
    *("memory.duckdb", "memory.duckdb.wal", "owner.json", "lock", "start.lock", "high-water.json", "daemon.log", "token"),
    *("daemon.sock", "pauses.json", "spool", "spool/new", "spool/bad", "spool/import", "spool/tmp", "briefings", "models"),
    *("indexes", "indexes/bm25", "indexes/bm25/CURRENT", "indexes/bm25/parts", "briefings/x.txt", "backups"),
    *("indexes/bm25/MANIFEST-1.json", "backups/new.backup", "backups/old/x.backup", "models/m/model.safetensors"),
    "damaged/x",
)
#: Those of them that are folders.
FOLDERS = (
    *("spool", "spool/new", "spool/bad", "spool/import", "spool/tmp", "briefings", "models"),
    *("indexes", "indexes/bm25", "indexes/bm25/parts", "backups"),
)
#: What a pipe may stand for, first what hooks write to.
PIPES = (
    *("spool/new", "daemon.log"),
    *(name for name in PLANTED if name not in (*FOLDERS, "daemon.sock", "daemon.log")),
    *("backups", "briefings"),
)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Place]:
    """The place of a test, with commands in this process that look for its daemon all the same."""
    with Inside(tmp_path, more=DAEMON) as made:
        yield made


@pytest.fixture
def place(beside: Place) -> Place:
    return beside


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One with a daemon; its data directory is a link itself, and has names that a killed restore left."""
    with Beside(tmp_path_factory.mktemp("running"), more=SERVED) as made:
        (made.root / "real").mkdir(mode=0o700)
        made.directory.symlink_to(made.root / "real")
        Inside(made.root, more=BARE).ok("ingest", "-", stdin=BEFORE)
        kept = made.directory / "before-restore-20260101T000000-000"
        kept.mkdir(mode=0o700)
        for name in ("memory.duckdb", "high-water.json"):
            (kept / name).hardlink_to(made.directory / name)
        made.ok("daemon", "start")
        yield made


@pytest.mark.parametrize("name", PLANTED)
def test_a_link_in_the_data_directory_is_named_and_not_followed(inside: Place, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    folder = name in FOLDERS
    if folder:
        outside.mkdir()
    else:
        outside.write_text("somebody else's words\n")
    before = (outside.stat().st_mtime_ns, outside.read_text() if outside.is_file() else "")
    link = inside.directory / name
    link.parent.mkdir(parents=True, exist_ok=True)
    (inside.directory / "start.lock").touch()
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    done = inside.run("ingest", "-", stdin=BEFORE)
    assert done.returncode != 0
    assert f"{link} is a link" in done.stderr
    assert "somebody else" not in done.stderr + done.stdout
    assert (outside.stat().st_mtime_ns, outside.read_text() if outside.is_file() else "") == before
    assert not folder or list(outside.iterdir()) == []


@pytest.mark.parametrize("name", PIPES)
@pytest.mark.few(4)
def test_a_pipe_in_the_data_directory_keeps_nobody(place: Place, inside: Place, name: str) -> None:
    """Neither a command nor a hook waits for its other end."""
    pipe = place.directory / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    (place.directory / "start.lock").touch()
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hello", "cwd": "/home/u"}
    assert place.run("hook", "claude-code", stdin=json.dumps(prompt)).returncode == 0
    done = inside.run("ingest", "-", stdin=BEFORE)
    assert done.returncode != 0
    assert f"{pipe} is a pipe" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["memory.duckdb.wal", "memory.duckdb", "daemon.log", "high-water.json", "tombstones.jsonl"])
@pytest.mark.few(1)
def test_a_file_that_has_a_name_elsewhere_is_named_and_not_written(place: Place, tmp_path: Path, name: str) -> None:
    """What is written to it would change somebody else's file; what to do about it is told, and helps."""
    place.directory.mkdir(mode=0o700)
    (place.directory / "start.lock").touch()
    outside, file = tmp_path / "outside", place.directory / name
    outside.write_bytes(b"")
    before = outside.stat().st_mtime_ns
    file.hardlink_to(outside)
    done = place.run("ingest", "-", stdin=BEFORE)
    assert done.returncode != 0
    assert f"{file} is a hard link to a file elsewhere" in done.stderr
    assert (outside.stat().st_mtime_ns, outside.read_bytes()) == (before, b"")
    shutil.copy2(file, file.with_name(f"{name}.own"))
    file.with_name(f"{name}.own").rename(file)
    assert f"mv {file}.own {file}" in done.stderr
    place.run("ingest", "-", stdin=BEFORE)
    assert (outside.stat().st_mtime_ns, outside.read_bytes()) == (before, b"")
    if name in ("daemon.log", "memory.duckdb.wal"):
        assert "before" in place.ok("query", "events", "--all")


def test_neither_second_names_that_a_killed_restore_left_nor_a_data_directory_that_is_a_link_stop_anybody(running: Place) -> None:
    assert "before" in running.ok("query", "events", "--all")
    assert look(running)["pid"] in running.processes()


@pytest.mark.parametrize("kind", ["socket", "device"])
@pytest.mark.parametrize("name", ["memory.duckdb", "daemon.log", "high-water.json", "spool/new", "pauses.json", "loss.json"])
@pytest.mark.few(2)
def test_neither_a_socket_nor_a_device_keeps_anybody(inside: Place, place: Place, name: str, kind: str) -> None:
    odd = place.directory / name
    odd.parent.mkdir(parents=True, exist_ok=True)
    (place.directory / "start.lock").touch()
    if kind == "device":
        try:
            # /dev/zero, which gives without end.
            os.mknod(odd, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        except OSError:
            pytest.skip("no device can be made here")
    else:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(odd))
        made.close()
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hello", "cwd": "/home/u"}
    for event in ("UserPromptSubmit", "SessionStart"):
        payload = json.dumps({**prompt, "hook_event_name": event, "source": "startup"})
        assert place.run("hook", "claude-code", stdin=payload).returncode == 0
    done = inside.run("ingest", "-", stdin=BEFORE)
    assert done.returncode != 0
    assert f"{odd} is a {kind}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_payload_that_is_a_pipe_is_set_aside(running: Place) -> None:
    payload = running.directory / "spool" / "new" / "00000002-00000000-claude-code"
    payload.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(payload)
    until(lambda: not payload.exists())
    assert "before" in running.ok("query", "events", "--all")


@pytest.mark.parametrize("name", ["pauses.json", "briefings"])
def test_a_pipe_that_comes_while_the_daemon_runs_keeps_no_hook(running: Place, name: str) -> None:
    pipe = running.directory / name
    if name == "briefings":
        pipe = Path(paths.briefing_file(str(running.directory), "/home/u"))
        pipe.parent.mkdir(exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    start = {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup", "cwd": "/home/u"}
    assert running.run("hook", "claude-code", stdin=json.dumps(start)).returncode == 0
    assert running.run("hook", "claude-code", stdin=json.dumps({**start, "hook_event_name": "SessionEnd"})).returncode == 0
    assert "before" in running.ok("query", "events", "--all")
    pipe.unlink(missing_ok=True)


def test_a_hook_writes_through_no_link(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.directory / "spool").mkdir(parents=True)
    (place.directory / "spool" / "new").symlink_to(outside)
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hello", "cwd": "/home/u"}
    done = place.run("hook", "claude-code", stdin=json.dumps(prompt))
    assert (done.returncode, list(outside.iterdir())) == (0, [])
    assert "is a link" in done.stderr


def test_a_payload_that_is_a_link_is_set_aside_unread_while_the_daemon_runs(running: Place, tmp_path: Path) -> None:
    hook(running, "UserPromptSubmit", prompt="before")
    header = json.dumps({"v": 1, "client": "claude-code", "at_ns": 1_767_225_600_000_000_000})
    told = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "turtledove", "cwd": "/home/u"})
    (tmp_path / "payload").write_text(f"{header}\n{told}")
    (running.directory / "spool" / "new" / "00000001-00000000-claude-code").symlink_to(tmp_path / "payload")
    until(lambda: not any((running.directory / "spool" / "new").iterdir()))
    aside = running.directory / "spool" / "bad" / "00000001-00000000-claude-code"
    assert not aside.is_symlink()
    assert "turtledove" not in aside.read_text()
    assert "turtledove" in (tmp_path / "payload").read_text()
    assert "turtledove" not in running.ok("query", "events", "--all", "--json")
