"""`doctor` answers, and changes nothing by looking: no store, folder, file or process is made, and none is written to."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import SAMPLES, Command, Done
from tests.daemon.inside import ALONE, BARE, run_inside
from tests.daemon.places import DAEMON
from tests.files import iter_entries, iter_files
from tests.waiting import until

Tree = dict[str, tuple[int, int, int]]
#: Long enough that no daemon ends by itself within a test.
STAYS = {"MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "600"}
_LOOKS = 100


def tree(place: Path) -> Tree:
    """Size, time of the last change and mode of everything below a folder, and of itself."""
    entries = ((place, place.lstat()), *iter_entries(place))
    return {str(path): (state.st_size, state.st_mtime_ns, state.st_mode) for path, state in entries}


@pytest.fixture
def inside(environment: dict[str, str], tmp_path: Path) -> Command:
    """Run `memory-mcp` in this process."""

    def run(*argv: str, env: dict[str, str] | None = None) -> Done:
        return run_inside(argv, environment | (env or {}), tmp_path)

    return run


def looked(command: Command, home: Path, **more: str) -> Done:
    """Doctor's report, after which everything below the home is as it was before."""
    before = tree(home)
    done = command("doctor", "--json", env=more)
    assert tree(home) == before
    assert "Traceback" not in done.stderr
    return done


def states(done: Done) -> dict[str, str]:
    return {c["name"]: c["state"] for c in json.loads(done.stdout)["checks"]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a home is after the first import; empty before."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def filled(inside: Command, home: Path, kept: Path) -> Path:
    """A store with something in it, and nobody who has it open; a copy of the first one."""
    if any(kept.iterdir()):
        shutil.copytree(kept, home, symlinks=True, dirs_exist_ok=True)
    else:
        done = inside("import", "claude-code", str(SAMPLES), env=ALONE)
        assert done.returncode == 0, done.stderr
        shutil.copytree(home, kept, symlinks=True, dirs_exist_ok=True)
    return home / ".local" / "share" / "memory-mcp"


def test_an_empty_home_stays_empty(inside: Command, home: Path) -> None:
    done = looked(inside, home)
    assert (done.returncode, list(home.iterdir())) == (0, [])
    assert "does not exist yet" in done.stdout


def test_before_there_is_a_store_it_tells_what_could_be_imported(inside: Command, home: Path) -> None:
    kept = home / ".claude" / "projects" / "-x"
    kept.mkdir(parents=True)
    (kept / "s.jsonl").write_text("{}\n")
    done = looked(inside, home)
    assert "Claude Code: 1 file, 1 not imported; it deletes them after 30 days" in done.stdout


def test_nobody_is_told_to_change_the_mode_of_a_folder_that_is_not_ours(inside: Command, home: Path) -> None:
    mine = home / "pictures"
    mine.mkdir()
    mine.chmod(0o755)
    (mine / "cat.png").write_bytes(b"x")
    done = looked(inside, home, MEMORY_MCP_DATA_DIR=str(mine))
    assert (done.returncode, states(done)["data directory"]) == (1, "fail")
    assert "chmod" not in done.stdout


def test_a_store_that_nobody_has_open_is_read_and_left_as_it_was(command: Command, home: Path, filled: Path) -> None:
    done = looked(command, home)
    found = states(done)
    assert (found["store"], found["tree"], found["lock"], found["daemon"]) == ("ok", "ok", "ok", "ok")
    assert "claude-code 20" in told(done, "events by imports")["text"]
    assert "none yet" in told(done, "events by hooks")["text"]
    assert not (filled / "daemon.sock").exists()


def test_a_store_with_a_log_of_a_crash_is_read_and_left_as_it_was(inside: Command, home: Path, filled: Path) -> None:
    """The log is not taken into the file by looking."""
    store = filled / "memory.duckdb"
    insert = "c.execute(\"INSERT INTO meta VALUES ('x', 'y')\")"
    words = f"import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); {insert}; os._exit(0)"
    subprocess.run([sys.executable, "-c", words, str(store)], check=True)
    assert store.with_name("memory.duckdb.wal").stat().st_size
    assert states(looked(inside, home))["tree"] == "ok"


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


def test_a_read_only_directory_is_told_and_nothing_is_opened_in_it(inside: Command, home: Path, filled: Path) -> None:
    filled.chmod(0o500)
    try:
        done = looked(inside, home)
    finally:
        filled.chmod(0o700)
    # Whoever may write everywhere is not kept out by a mode.
    assert states(done)["writable"] == ("ok" if os.access(filled, os.W_OK) and os.geteuid() == 0 else "fail")


def test_which_clients_use_the_memory_is_told(inside: Command, home: Path) -> None:
    (home / ".claude").mkdir()
    assert "Claude Code does not use this memory" in looked(inside, home).stdout
    installed = inside("install", "claude-code")
    assert installed.returncode == 0, installed.stderr
    done = looked(inside, home)
    assert "Claude Code uses this memory" in done.stdout
    assert "hooks on" in done.stdout
    settings = home / ".claude" / "settings.json"
    own = json.loads(settings.read_text())
    settings.write_text(json.dumps({**own, "enabledPlugins": {"memory@memory-mcp": True}}))
    assert "the plugin memory@memory-mcp is on, and its configuration has a server" in looked(inside, home).stdout
    settings.write_text(json.dumps(own))
    configured = home / ".claude.json"
    entry = json.loads(configured.read_text())
    entry["mcpServers"]["memory"]["command"] = "/nowhere/memory-mcp"
    configured.write_text(json.dumps(entry))
    broken = looked(inside, home)
    assert (broken.returncode, states(broken)["client claude-code"]) == (1, "fail")


def told(done: Done, name: str) -> dict[str, str]:
    """One check of a report."""
    found: dict[str, str] = next(c for c in json.loads(done.stdout)["checks"] if c["name"] == name)
    return found


def test_the_settings_and_variables_in_force_are_told_and_no_secret_of_them(inside: Command, home: Path) -> None:
    file = home / ".config" / "memory-mcp" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[toc]\ngap_minutes = 20\n")
    done = looked(inside, home, MEMORY_MCP_SERVER__HTTP_TOKEN="s" * 40, MEMORY_MCP_DATA_DIR=str(home / "data"))
    assert told(done, "settings")["text"] == f"read from {file}"
    assert f"MEMORY_MCP_DATA_DIR={home / 'data'}" in told(done, "environment")["text"]
    assert "s" * 40 not in done.stdout
    assert str(home / "data") in told(done, "data directory")["text"]


@pytest.mark.parametrize(
    "address", ["postgresql://memory:{}@127.0.0.1:1/memory", "host=127.0.0.1 port=1 password={} dbname=memory"]
)
def test_a_database_that_does_not_answer_is_a_failure_and_its_password_is_not_shown(
    inside: Command, home: Path, address: str
) -> None:
    word = "q7" * 12
    done = looked(inside, home, MEMORY_MCP_STORAGE__ENGINE="postgres", MEMORY_MCP_STORAGE__URL=address.format(word))
    found = told(done, "database")
    assert (done.returncode, found["state"]) == (1, "fail")
    assert "storage.url" in found["next_step"]
    assert word not in done.stdout + done.stderr
    assert "MEMORY_MCP_STORAGE__URL=" in told(done, "environment")["text"]


def test_what_cannot_be_read_as_an_address_is_not_repeated(inside: Command, home: Path) -> None:
    word = "q7" * 12
    more = {"MEMORY_MCP_STORAGE__ENGINE": "postgres", "MEMORY_MCP_STORAGE__URL": f"{word} host=127.0.0.1"}
    found = told(looked(inside, home, **more), "database")
    assert (found["state"], word in found["text"] + found["next_step"]) == ("fail", False)
    asked = inside("ask", "anything", env=more)
    assert (asked.returncode, word in asked.stdout + asked.stderr) == (2, False)
    assert "storage.url" in asked.stderr


def test_a_misspelt_variable_is_a_failure_with_the_nearest_name(inside: Command, home: Path) -> None:
    done = looked(inside, home, MEMORY_MCP_DATADIR="x")
    found = told(done, "settings")
    assert (done.returncode, found["state"]) == (1, "fail")
    assert (found["text"], found["next_step"]) == ("unknown variable: MEMORY_MCP_DATADIR", "Did you mean MEMORY_MCP_DATA_DIR?")


def test_a_zone_in_tz_that_there_is_not_is_told(inside: Command, home: Path) -> None:
    found = told(looked(inside, home, TZ="Europe/Berln"), "TZ")
    assert (found["state"], "Did you mean Europe/Berlin?" in found["next_step"]) == ("warn", True)


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"TZ": "Europe/Berln"}, ".local/share/memory-mcp"),
        ({"TZ": "CST-8"}, ".local/share/memory-mcp"),
        ({"HOME": "inner"}, "inner/.local/share/memory-mcp"),
        ({"MEMORY_MCP_DATA_DIR": "${HOME}/here"}, "here"),
        ({"MEMORY_MCP_DATA_DIR": "${NO_SUCH_NAME}/here"}, ".local/share/memory-mcp"),
    ],
)
def test_an_environment_that_cannot_be_used_keeps_no_memory_from_beginning(
    inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], directory: str
) -> None:
    """What cannot be used counts as not set, and no folder is called after a variable."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    monkeypatch.delenv("MEMORY_MCP_STORAGE__DATA_DIR", raising=False)
    environment = {"HOME": str(tmp_path), "MEMORY_MCP_SERVER__DAEMON": "false", **environ}
    done = inside("admin", "stats", env=environment)
    assert done.returncode == 0, done.stderr
    stores = [file.relative_to(tmp_path) for file in iter_files(tmp_path) if file.name == "memory.duckdb"]
    assert stores == [Path(directory, "memory.duckdb")]


def test_the_command_is_looked_for_on_the_path_of_this_shell_and_of_desktop_clients(inside: Command, home: Path) -> None:
    bin_dir = home / "bin"
    bin_dir.mkdir()
    (bin_dir / "memory-mcp").write_text("#!/bin/sh\n")
    (bin_dir / "memory-mcp").chmod(0o755)
    done = looked(inside, home, PATH=str(bin_dir))
    assert told(done, "command")["text"] == f"{bin_dir / 'memory-mcp'} is on this shell's PATH"
    assert f'"command": "{bin_dir / "memory-mcp"}"' in told(done, "command for desktop clients")["next_step"]
    assert told(looked(inside, home, PATH=str(home)), "command")["state"] == "warn"


def test_what_hooks_left_is_counted(inside: Command, home: Path, filled: Path) -> None:
    new = filled / "spool" / "new"
    new.mkdir(parents=True, exist_ok=True)
    (new / f"{1_700_000_000 * 10**9:020d}-00000000-json").write_text("{}")
    found = told(looked(inside, home), "left by hooks")
    assert (found["state"], found["next_step"]) == ("warn", "memory-mcp daemon start")


def test_a_daemon_tells_of_the_store_it_has_open_and_keeps_the_settings_of_before(
    command: Command, inside: Command, home: Path, filled: Path
) -> None:
    """Doctor is the one command that does not apply those that were changed since."""
    file = home / "config.toml"
    file.write_text("")
    own = BARE | DAEMON | STAYS | {"MEMORY_MCP_CONFIG": str(file)}
    own |= {"MEMORY_MCP_SERVER__HTTP": "true", "MEMORY_MCP_SERVER__HTTP_PORT": "0"}
    started = json.loads(inside("daemon", "start", "--json", env=own).stdout)
    try:
        # What the daemon does after a start and with its first reader has to be over before its files can be compared.
        inside("doctor", env=own)
        _settled(home)
        found = states(looked(command, home, **own))
        assert (found["store"], found["tree"], found["lock"], found["daemon"]) == ("ok", "ok", "ok", "ok")
        file.write_text("[toc]\ngap_minutes = 20\n")
        _settled(home)
        done = looked(inside, home, **own)
        assert "the settings file changed since it started (toc.gap_minutes)" in told(done, "daemon")["text"]
        assert json.loads(inside("daemon", "status", "--json", env=own).stdout)["pid"] == started["pid"]
    finally:
        inside("daemon", "stop")
