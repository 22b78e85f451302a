"""The daemon's life as the command line and other processes see it: election, status, idleness, signals, succession."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.place import Place
from memory_mcp.base import paths
from memory_mcp.service.client import link
from memory_mcp.service.client.door import connect, listen
from memory_mcp.storage.lock import find_file_system
from tests.daemon.inside import BARE, Beside, Inside
from tests.daemon.places import DAEMON, NO_INDEXES, look, needs_proc
from tests.files import iter_entries
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside


def start(place: Place) -> int:
    told: dict[str, Any] = json.loads(place.ok("daemon", "start", "--json"))
    return int(told["pid"])


def gone(pid: int) -> bool:
    """Whether a process has ended, with all its threads: a daemon that a command in this process started is its child."""
    try:
        ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return ended and len([*Path(f"/proc/{pid}/task").iterdir()]) == 1
    except OSError:
        return True


def test_start_status_and_restart_say_what_is_so_a_second_is_refused_and_what_a_killed_one_leaves_is_taken_over(
    place: Place,
) -> None:
    # A module's name in the caller's directory shadows nothing.
    for name in ("json", "duckdb", "mcp", "anyio"):
        (place.home / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    assert place.status() == {"running": False, "data_dir": str(place.directory), "missing": ""}
    assert place.ok("daemon", "stop") == "It did not run.\n"
    log = place.directory / "daemon.log"
    place.directory.mkdir(mode=0o700)
    log.touch(0o600)
    log.write_bytes(b"x" * 1_200_000 + b"\n")
    # The installed program, and a command of this process.
    pid = start(Place(place.root, more=place.settings))
    assert start(place) == pid
    # The log is rotated and never grows without end.
    assert (log.with_name("daemon.log.1").stat().st_size > 1_000_000, log.stat().st_size < 10_000) == (True, True)
    refused_a_second(place, pid)
    status = place.status()
    assert (status["running"], status["pid"], status["clients"], status["last_error"]) == (True, pid, [], "")
    assert set(status["queues"]) == {"events_to_file", "spool", "calls", "searches"}
    assert (status["idle_exit_s"], [one["pid"] > 0 for one in status["commands"]]) == (600, [True])
    assert set(status["stays_for"]) <= {"files events", "brings an index up to date", "runs a job, or is about to"}
    text = place.ok("daemon", "status")
    assert "ends 10 min after its last client" in text
    assert f"process {pid}, " in text
    assert "clients: 0" in text
    other_settings_are_noticed(place)
    again = json.loads(Place.run(place, "daemon", "restart", "--json").stdout)["pid"]
    assert again != pid
    assert gone(pid)
    done = place.run("search", "anything")
    assert (done.returncode, "other settings" in done.stderr) == (0, False)
    os.kill(again, signal.SIGKILL)
    until(lambda: gone(again))
    assert (place.directory / "daemon.sock").is_socket()
    assert place.status()["running"] is False
    last = start(place)
    assert (last != again, look(place)["pid"]) == (True, last)
    ended_by(signal.SIGTERM, place, last)
    # A child that was still loading notices the end of its parent when it has loaded.
    until(lambda: place.processes() == {}, place.processes)
    # A file in the place of the socket is somebody's.
    (place.directory / "daemon.sock").write_text("somebody's file")
    refused = place.run("daemon", "start")
    assert refused.returncode == 3
    assert "is in the way" in refused.stderr
    assert (place.directory / "daemon.sock").read_text() == "somebody's file"


def other_settings_are_noticed(place: Place) -> None:
    place.settings["MEMORY_MCP_RETRIEVAL__TOKEN_FACTOR"] = "0.7"
    done = place.run("search", "anything")
    assert done.returncode == 0
    assert "started with other settings (retrieval.token_factor)" in done.stderr
    assert "memory-mcp daemon restart" in done.stderr


def refused_a_second(place: Place, pid: int) -> None:
    # The first is told to be no daemon, so that the second does not wait for its end.
    note = place.directory / "owner.json"
    told = note.read_text()
    note.write_text(told.replace('"kind": "daemon"', '"kind": "alone"'))
    second = place.run("daemon", "run")
    note.write_text(told)
    assert second.returncode == 3
    assert second.stderr.startswith("LOCKED: the data directory ")
    assert f"(process {pid})" in second.stderr
    assert look(place)["pid"] == pid


@pytest.mark.slow  # in the short form: a daemon of an older version makes way for one that waits for its end.
def test_a_daemon_waits_for_the_one_that_is_ending(place: Place) -> None:
    first = start(place)
    second = subprocess.Popen([*place.command, "daemon", "run"], env=place.environment(), cwd=place.home, stderr=subprocess.PIPE)
    try:
        # Time to come as far as the lock, which it tries again and again; nothing of that is seen from outside.
        time.sleep(0.5)
        os.kill(first, signal.SIGTERM)
        until(lambda: _pid(place) == second.pid)
    finally:
        second.terminate()
        second.communicate(timeout=PATIENCE)


def _pid(place: Place) -> int:
    try:
        return int(look(place)["pid"])
    except (OSError, ValueError):
        return 0


@pytest.mark.slow  # in the short form: SIGTERM, in the first test.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_open_connections_and_keeps_everything(place: Place, number: signal.Signals) -> None:
    ended_by(number, place, start(place))


def ended_by(number: signal.Signals, place: Place, pid: int) -> None:
    open_ = [link.reach_daemon(link.Wanted(str(place.directory)), kind, start=False) for kind in ("mcp", "mcp", "rpc")]
    open_[0].send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    line = json.dumps({"session_id": "s", "timestamp": 1_767_225_600_000, "role": "user", "text": "Kept across the end."})
    place.ok("ingest", "-", stdin=line + "\n")
    for_this_user_alone(place)
    os.kill(pid, number)
    until(lambda: gone(pid))
    assert not (place.directory / "daemon.sock").exists()
    for one in open_:
        one.close()
    alone = Inside(place.root, more=BARE)
    assert "Kept across the end." in alone.ok("query", "events")
    assert alone.run("admin", "check").returncode == 0


def for_this_user_alone(place: Place) -> None:
    """Everything in the data directory, and the socket."""
    assert (place.directory / "memory.duckdb.wal").exists()
    assert place.directory.stat().st_mode & 0o777 == 0o700
    assert Path(paths.socket_path(str(place.directory))).stat().st_mode & 0o777 == 0o600
    entries = iter_entries(place.directory)
    loose = {p.name: oct(s.st_mode & 0o777) for p, s in entries if p.parent == place.directory and s.st_mode & 0o077}
    assert loose == {}


def test_settings_that_cannot_be_used_are_said_by_every_command(place: Place) -> None:
    (place.home / "config.toml").write_text("[server]\nprofil = 'full'\n")
    for words in (("daemon", "start"), ("search", "x"), ("daemon", "run")):
        done = place.run(*words)
        assert done.returncode == 2, done.stderr
        assert "unknown setting: server.profil" in done.stderr
        assert "server.profile" in done.stderr


def test_a_daemon_that_takes_a_connection_and_says_nothing_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Beside(tmp_path, more=DAEMON | NO_INDEXES)
    place.directory.mkdir(mode=0o700)
    listener, _ = listen(str(place.directory))
    monkeypatch.setattr(link, "reach_daemon", partial(link.reach_daemon, patience=0.1))
    with listener:
        done = place.run("daemon", "start")
    assert done.returncode == 3
    assert done.stderr.startswith("the daemon has not answered within ")
    assert str(place.directory / "daemon.log") in done.stderr


def test_a_daemon_of_an_older_version_makes_way_and_one_whose_directory_is_taken_away_ends_and_writes_nothing(
    place: Place, request: pytest.FixtureRequest
) -> None:
    older = (
        "import sys, memory_mcp\n"
        "memory_mcp.__version__ = '0.0.1'\n"
        "from memory_mcp.__main__ import main\n"
        f"sys.argv = ['memory-mcp', 'daemon', 'run', '--data-dir', {str(place.directory)!r}]\n"
        "sys.exit(main())"
    )
    first = subprocess.Popen([sys.executable, "-c", older], env=place.environment(), cwd=place.home, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _pid_unchecked(place) == first.pid)
        assert "The memory is empty" in place.run("search", "anything").stderr
        assert first.wait(PATIENCE) == 0
    finally:
        first.kill()
        first.wait()
    second = _pid(place)
    assert second not in (0, first.pid)
    place.ok("ingest", "-", stdin='{"session_id": "s", "timestamp": 1767225600000, "role": "user", "text": "Moved aside."}\n')
    aside = place.root / "aside"
    place.directory.rename(aside)
    until(lambda: gone(second))
    assert not place.directory.exists()
    assert "taken away" in (aside / "daemon.log").read_text()
    if request.config.getoption("--slow"):
        assert start(place) != second
    assert "Moved aside." in Inside(place.root, more=BARE).ok("query", "events", "--data-dir", str(aside))


def _pid_unchecked(place: Place) -> int:
    try:
        line = link.exchange_hellos(connect(str(place.directory)), "rpc", link.Wanted(str(place.directory)))
    except (OSError, ValueError):
        return 0
    line.close()
    return int(line.about["pid"])


def test_the_kind_of_file_system_is_read_from_the_mounts() -> None:
    mounts = [
        "22 1 0:20 / / rw - ext4 /dev/sda1 rw",
        "23 22 0:21 / /home rw shared:1 - nfs4 server:/home rw",
        "24 23 0:22 / /home/kim/local\\040disk rw - xfs /dev/sdb rw",
        "broken line",
    ]
    assert find_file_system(Path("/home/kim/data"), mounts) == "nfs4"
    assert find_file_system(Path("/home/kim/local disk/data"), mounts) == "xfs"
    assert find_file_system(Path("/homely"), mounts) == "ext4"
    assert find_file_system(Path("/home"), mounts) == "nfs4"


def test_a_data_directory_on_another_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.base.errors import StorageError
    from memory_mcp.storage import lock

    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(lock, "_MOUNTS", mounts)
    with pytest.raises(StorageError, match="lies on another machine"):
        lock.DirectoryLock(tmp_path / "data")


def test_it_ends_when_nobody_needs_it_and_not_before_and_gives_back_room(tmp_path: Path) -> None:
    with Beside(tmp_path, idle=1, more=DAEMON | NO_INDEXES) as place:
        file = place.directory / "memory.duckdb"
        Inside(tmp_path, more=BARE).ok("query", "root")
        with duckdb.connect(str(file)) as con:
            con.execute("CREATE TABLE gone AS SELECT md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS text FROM range(500000) r(i)")
            con.execute("CHECKPOINT")
            # Behind it, so that the file does not end where the dead room begins.
            con.execute("CREATE TABLE behind AS SELECT md5(i::VARCHAR) AS text FROM range(20000) r(i)")
            con.execute("CHECKPOINT")
            con.execute("DROP TABLE gone")
        assert file.stat().st_size > 16_000_000
        lines: list[link.Line] = []

        def is_connected() -> bool:
            # On a busy machine it may have ended before anyone connects.
            start(place)
            with suppress(OSError, ValueError):
                lines.append(link.reach_daemon(link.Wanted(str(place.directory)), "mcp", start=False))
            return bool(lines)

        until(is_connected, "for a daemon that is used in time")
        [line] = lines
        pid = line.about["pid"]
        place.ok("query", "root")
        time.sleep(2.5)
        assert not gone(pid)
        line.close()
        until(lambda: gone(pid))
        assert "idle for 1 s" in (place.directory / "daemon.log").read_text()
        assert file.stat().st_size < 8_000_000
