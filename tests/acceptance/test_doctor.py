"""`doctor` answers, and changes nothing by looking: no store, folder, file or process is made, and none is written to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import SAMPLES, Command, Done
from tests.waiting import until

Tree = dict[str, tuple[int, int, int]]
#: Long enough that no daemon ends by itself within a test.
STAYS = {"MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "600", "MEMORY_MCP_TELEPORT__ENABLED": "false"}
_LOOKS = 100


def tree(place: Path) -> Tree:
    """Size, time of the last change and mode of everything below a folder, and of itself."""
    found = {}
    for path in (place, *place.rglob("*")):
        told = path.lstat()
        found[str(path)] = (told.st_size, told.st_mtime_ns, told.st_mode)
    return found


def looked(command: Command, home: Path, **more: str) -> Done:
    """Doctor's report, after which everything below the home is as it was before."""
    before = tree(home)
    done = command("doctor", "--json", env=more)
    assert tree(home) == before
    assert "Traceback" not in done.stderr
    return done


def states(done: Done) -> dict[str, str]:
    return {c["name"]: c["state"] for c in json.loads(done.stdout)["checks"]}


@pytest.fixture
def filled(command: Command, home: Path) -> Path:
    """A store with something in it, and nobody who has it open."""
    done = command("import", "claude-code", str(SAMPLES), env={"MEMORY_MCP_SERVER__DAEMON": "false"})
    assert done.returncode == 0, done.stderr
    return home / ".local" / "share" / "memory-mcp"


def test_an_empty_home_stays_empty(command: Command, home: Path) -> None:
    done = looked(command, home)
    assert (done.returncode, list(home.iterdir())) == (0, [])
    assert "does not exist yet" in done.stdout


def test_a_store_that_nobody_has_open_is_read_and_left_as_it_was(command: Command, home: Path, filled: Path) -> None:
    found = states(looked(command, home))
    assert (found["store"], found["tree"], found["lock"], found["daemon"]) == ("ok", "ok", "ok", "ok")
    assert not (filled / "daemon.sock").exists()


def test_a_store_with_a_log_of_a_crash_is_read_and_left_as_it_was(command: Command, home: Path, filled: Path) -> None:
    """The log is not taken into the file by looking."""
    store = filled / "memory.duckdb"
    insert = "c.execute(\"INSERT INTO meta VALUES ('x', 'y')\")"
    words = f"import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); {insert}; os._exit(0)"
    subprocess.run([sys.executable, "-c", words, str(store)], check=True)
    assert store.with_name("memory.duckdb.wal").stat().st_size
    assert states(looked(command, home))["tree"] == "ok"


def test_a_store_that_a_daemon_has_open_is_told_about_by_it(command: Command, home: Path, filled: Path) -> None:
    started = json.loads(command("daemon", "start", "--json", env=STAYS).stdout)
    try:
        # What the daemon does by itself after a start has to be over before its files can be compared.
        _settled(home)
        found = states(looked(command, home, **STAYS))
        assert (found["store"], found["tree"], found["lock"], found["daemon"]) == ("ok", "ok", "ok", "ok")
        assert json.loads(command("daemon", "status", "--json").stdout)["pid"] == started["pid"]
    finally:
        command("daemon", "stop")


def _settled(place: Path) -> None:
    """Wait until so many looks in a row have found nothing changed."""
    seen: list[Tree] = []

    def is_still() -> bool:
        now = tree(place)
        if seen and seen[-1] != now:
            seen.clear()
        seen.append(now)
        return len(seen) >= _LOOKS

    until(is_still, "for a daemon at rest")


def test_a_read_only_directory_is_told_and_nothing_is_opened_in_it(command: Command, home: Path, filled: Path) -> None:
    filled.chmod(0o500)
    try:
        done = looked(command, home)
    finally:
        filled.chmod(0o700)
    # Whoever may write everywhere is not kept out by a mode.
    assert states(done)["writable"] == ("ok" if os.access(filled, os.W_OK) and os.geteuid() == 0 else "fail")
