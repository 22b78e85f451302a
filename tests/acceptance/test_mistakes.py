"""The mistakes a newcomer is likeliest to make, each with what was wrong and what to do next.

None of them ends in a traceback, suggests deleting anything, or leaves a file behind.
"""

import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from tests.acceptance.conftest import SAMPLES, Command, Done
from tests.daemon.inside import ALONE, BARE, as_installed, run_inside
from tests.daemon.places import DAEMON
from tests.files import iter_entries
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Mistake:
    """What is typed, and what the answer must say: the mistake, then the next step."""

    typed: str
    named: str
    next_step: str
    status: int = 2
    environ: Mapping[str, str] = field(default_factory=dict)


DEVNULL = subprocess.DEVNULL

#: By what a newcomer does. Files named here are made by `home_of_mistakes`.
MISTAKES = {
    "a source that there is not": Mistake("import codexx", "unknown source: 'codexx'", "Did you mean codex? Known: auto, "),
    "a client that keeps nothing readable": Mistake(
        "import windsurf", "unknown source: 'windsurf'", "encrypts its conversations"
    ),
    "a command misspelt": Mistake("timelin", "unknown command: 'timelin'", "Did you mean timeline ("),
    "a command that was removed": Mistake("browse", "memory-mcp browse was removed", "memory-mcp open shows the memory"),
    "a command as other programs call it": Mistake("list", "unknown command: 'list'", "Did you mean timeline (show days"),
    "adding as other programs call it": Mistake("add something", "unknown command: 'add'", "Did you mean ingest ("),
    "an option misspelt": Mistake("timeline --dayz 3", "unknown option: '--dayz'", "Did you mean --days?"),
    "an option misspelt before a command": Mistake(
        "--datadir x ask y", "unknown option: '--datadir'", "Did you mean --data-dir?"
    ),
    "an option misspelt before a word": Mistake("import --newst 5 codex", "unknown option: '--newst'", "Did you mean --newest?"),
    "an option without its dashes' number": Mistake("timeline -days 3", "unknown option: '-days'", "Did you mean --days?"),
    "two words left out": Mistake("projects alias", "A and B are missing", "Write: memory-mcp projects alias A B."),
    "the second of two words left out": Mistake("projects alias a", "B is missing", "Write: memory-mcp projects alias A B."),
    "a text without quotes": Mistake("correct g no longer", "unknown word: 'longer'", "Put TEXT in quotes"),
    "a word where an option belongs": Mistake("today x", "unknown word: 'x'", "It takes options alone: --project, --limit"),
    "two options that exclude each other": Mistake(
        "try --own --sample", "--own and --sample do not go together", "Leave one out"
    ),
    "a source by its beginning": Mistake("import claude", "unknown source: 'claude'", "Did you mean claude-code?"),
    "a source in other letters": Mistake("import Claude_Code", "unknown source", "Did you mean claude-code?"),
    "a source by a longer name": Mistake("import codex-cli", "unknown source", "Did you mean codex?"),
    "a client by its beginning": Mistake("install claude", "unknown client: 'claude'", "Did you mean claude-code?"),
    "a client by its command": Mistake("uninstall code", "unknown client: 'code'", "Did you mean vscode?"),
    "a followed client by its beginning": Mistake("watch on claude", "'claude' cannot be followed", "Did you mean claude-code?"),
    "no history at all": Mistake("import", "nothing to import was found here", "memory-mcp try --sample"),
    "a word of another command": Mistake("backup status", "backup has no word 'status'", "write ./status"),
    "a word where a folder belongs": Mistake("sync now", "sync has no word 'now'", "write ./now"),
    "a list of what is restored": Mistake("restore list", "restore has no word 'list'", "write ./list"),
    "an export into a folder that is not there": Mistake("export --html no/a.html", "there is no folder", "Make it first"),
    "lines into a folder that is not there": Mistake("export no/a.jsonl", "there is no folder", "Make it first"),
    "a backup into a folder that is not there": Mistake("backup no/a", "there is no folder", "Make it first"),
    "a word where a number belongs": Mistake("timeline --days many", "--days must be a whole number, not 'many'", "--help"),
    "a search for nothing": Mistake("search", "the query is empty", "Give at least one word"),
    "a family within one, without its third word": Mistake("admin team", "COMMAND is missing", "one of tenant, "),
    "a path that is not there": Mistake("import claude-code nowhere", "there is no file or folder nowhere", "Name an existing"),
    "an import where the client keeps nothing": Mistake(
        "import claude-code", "claude-code keeps nothing in its usual place", "memory-mcp import claude-code PATH"
    ),
    "an empty folder": Mistake(
        "import claude-code empty", "no conversations and no events were found in empty", "Name another file or folder"
    ),
    "a PDF": Mistake("import jsonl paper.pdf", "paper.pdf is a PDF document, not a transcript", "memory-mcp ingest --help"),
    "a picture": Mistake("import auto shot.png", "shot.png is a picture, not a transcript", "memory-mcp ingest --help"),
    "a file of something else": Mistake(
        "import claude-code notes.txt", "is a claude-code transcript", "memory-mcp import auto PATH"
    ),
    "a folder of something else for the data": Mistake(
        "ask anything --data-dir project", "project holds other things (README.md, main.py)", "Name a new or an empty folder"
    ),
    "the same by the variable": Mistake(
        "ask anything", "holds other things", "--data-dir DIR", environ={"MEMORY_MCP_DATA_DIR": "project"}
    ),
    "a file for the data": Mistake("ask anything --data-dir paper.pdf", "it is a file, not a folder", "--data-dir DIR", 1),
    "a place where nothing can be written": Mistake(
        "ask anything --data-dir /dev/null/memory", "cannot be used: Not a directory", "Choose another: --data-dir DIR", 1
    ),
    "a settings file that is not there": Mistake(
        "ask x --config no.toml", "there is no settings file no.toml", "leave --config out"
    ),
    "a key that there is not": Mistake(
        "ask x --config key.toml", "unknown setting: toc.gap_minute", "Did you mean toc.gap_minutes?"
    ),
    "a value that cannot be": Mistake(
        "ask x --config value.toml", "toc.gap_minutes must be a whole number, not 'ten'", "It means: "
    ),
    "a settings file that is not TOML": Mistake("ask x --config no-toml.toml", "no-toml.toml cannot be read", "config check"),
    "a variable misspelt": Mistake(
        "ask x", "unknown variable: MEMORY_MCP_DATADIR", "Did you mean MEMORY_MCP_DATA_DIR?", environ={"MEMORY_MCP_DATADIR": "x"}
    ),
    "one underscore for two": Mistake(
        *("ask x", "unknown variable: MEMORY_MCP_STORAGE_DATA_DIR", "Did you mean MEMORY_MCP_STORAGE__DATA_DIR?"),
        environ={"MEMORY_MCP_STORAGE_DATA_DIR": "x"},
    ),
    "a zone that there is not": Mistake(
        *("ask x", "unknown time zone: 'Europa/Berlin'", "Did you mean Europe/Berlin?"),
        environ={"MEMORY_MCP_STORAGE__TIMEZONE": "Europa/Berlin"},
    ),
    "an id that nothing has": Mistake("show nonsense", "nothing has the id 'nonsense'", "Ids stand in square brackets"),
    "a port without HTTP": Mistake("serve --port 8000", "belong to the HTTP door", "Add --http"),
}


@pytest.fixture
def home_of_mistakes(tmp_path: Path) -> Path:
    """What the mistakes above name."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "project").mkdir()
    for name in ("main.py", "README.md"):
        (tmp_path / "project" / name).write_text("somebody's own\n")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    (tmp_path / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (tmp_path / "notes.txt").write_text("Buy milk.\nCall the printer.\n")
    (tmp_path / "key.toml").write_text("[toc]\ngap_minute = 5\n")
    (tmp_path / "value.toml").write_text("[toc]\ngap_minutes = 'ten'\n")
    (tmp_path / "no-toml.toml").write_text("toc: {gap_minutes: 5}\n")
    return tmp_path


def said_well(done: Done, status: int) -> str:
    """What a mistake was answered with, which is never a traceback and never a suggestion to delete."""
    assert done.returncode == status, done.stderr or done.stdout
    for word in ("Traceback", "defect of memory-mcp", "delete", "remove ", "rm -"):
        assert word not in done.stderr
    return done.stderr


def modes_of(folder: Path) -> dict[Path, int]:
    return {path: state.st_mode for path, state in ((folder, folder.stat()), *iter_entries(folder))}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_the_next_step(name: str, environment: dict[str, str], home_of_mistakes: Path) -> None:
    mistake = MISTAKES[name]
    modes = modes_of(home_of_mistakes / "project")
    done = run_inside(mistake.typed.split(), environment | ALONE | dict(mistake.environ), home_of_mistakes)
    said = said_well(done, mistake.status)
    assert mistake.named in said
    assert mistake.next_step in said
    assert not re.search(r"^([A-Z]+_[A-Z_]+|LOCKED|UNAVAILABLE|INTERNAL): ", said, re.M), "codes are for programs"
    assert modes_of(home_of_mistakes / "project") == modes


#: Mistakes that meet a daemon on their way, or would start one, and one that ends before.
WITH_DAEMON = (
    "a command misspelt",
    "a file for the data",
    "a folder of something else for the data",
    "the same by the variable",
    "a place where nothing can be written",
    "a settings file that is not there",
    "a key that there is not",
    "a variable misspelt",
    "TZ misspelt",
)


@pytest.mark.parametrize("name", WITH_DAEMON)
@pytest.mark.few(2)
def test_a_mistake_is_answered_the_same_where_a_daemon_is_used(name: str, command: Command, home_of_mistakes: Path) -> None:
    mistake = MISTAKES[name]
    assert mistake.named in said_well(command(*mistake.typed.split(), env=dict(mistake.environ)), mistake.status)
    assert sorted(p.name for p in (home_of_mistakes / "project").iterdir()) == ["README.md", "main.py"]


def test_an_empty_memory_says_how_to_fill_it(environment: dict[str, str], tmp_path: Path) -> None:
    for words in (
        ("ask", "anything"),
        ("timeline",),
        ("search", "anything"),
        ("today",),
        ("topics", "top"),
        ("query",),
    ):
        done = run_inside(words, environment | ALONE, tmp_path)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("The memory is empty. Fill it with: memory-mcp import")
        assert len(done.stderr.splitlines()) == 1


def test_a_program_is_told_the_code(environment: dict[str, str], tmp_path: Path) -> None:
    done = run_inside(("show", "x", "--json"), environment | ALONE, tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1].startswith("NOT_FOUND: nothing has the id 'x'")) == (2, True)


def test_where_nothing_is_to_import_each_client_is_named_on_a_line(environment: dict[str, str], tmp_path: Path) -> None:
    lines = run_inside(("import",), environment | ALONE, tmp_path).stderr.splitlines()
    assert ["Claude", "Code", "~/.claude/projects"] in [line.split() for line in lines]
    assert max(map(len, lines[:-1])) < 100


def test_a_backup_lists_by_the_word_too(environment: dict[str, str], tmp_path: Path) -> None:
    for words in (("backup", "list"), ("backup", "--list")):
        assert run_inside(words, environment | ALONE, tmp_path).stdout.startswith("0 backups in ")
    assert not (tmp_path / "list").exists()


def fed(
    environment: dict[str, str], place: Path, *words: str, stdin: int = subprocess.DEVNULL, payload: str | None = None
) -> Done:
    """A command with a payload on its standard input, or with another standard input than none."""
    given = {"input": payload} if payload is not None else {"stdin": stdin}
    argv = [sys.executable, "-m", "memory_mcp", *words]
    return subprocess.run(
        argv, env=environment, cwd=place, capture_output=True, text=True, timeout=PATIENCE, check=False, **given
    )


def test_every_door_refuses_a_folder_of_something_else(
    command: Command, home_of_mistakes: Path, home: Path, environment: dict[str, str]
) -> None:
    project = home_of_mistakes / "project"
    project.chmod(0o755)
    config = home / ".config" / "memory-mcp" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[storage]\ndata_dir = {json.dumps(str(project))}\n")
    asked = (
        run_inside(words, environment, home_of_mistakes, begin=as_installed) for words in (["ask", "x"], ["daemon", "start"])
    )
    for done in (*asked, command("daemon", "run")):
        assert "holds other things" in said_well(done, done.returncode)
        assert done.returncode
    for typed in (("import", "claude-code", str(SAMPLES)), ("try", "--sample", "--keep", str(project))):
        assert "holds other things" in said_well(run_inside(typed, environment | ALONE, home_of_mistakes), 2)
    done = fed(environment, home_of_mistakes, "hook", "json", payload='{"session_id": "s"}')
    usual = home / ".local" / "share" / "memory-mcp"
    assert (done.returncode, f"kept in {usual}: " in done.stderr, "holds other things" in done.stderr) == (0, True, True)
    assert "holds other things" in fed(environment, home_of_mistakes, "serve", payload="").stderr
    assert sorted(p.name for p in project.iterdir()) == ["README.md", "main.py"]
    assert project.stat().st_mode & 0o777 == 0o755


@pytest.fixture
def terminal() -> Iterator[int]:
    """Something that looks like a person's terminal."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def test_the_server_typed_in_a_terminal_says_who_starts_it(environment: dict[str, str], tmp_path: Path, terminal: int) -> None:
    done = fed(environment, tmp_path, "serve", stdin=terminal)
    assert "a client starts this and talks to it on a pipe" in said_well(done, 2)
    assert "memory-mcp try" in done.stderr


def test_the_hook_typed_in_a_terminal_says_who_runs_it(environment: dict[str, str], tmp_path: Path, terminal: int) -> None:
    done = fed(environment, tmp_path, "hook", "claude-code", stdin=terminal)
    assert "a client runs this at each event" in said_well(done, 0)
    assert "usage: memory-mcp hook" in done.stderr


def test_a_hook_of_a_client_that_is_not_known_names_those_that_are(environment: dict[str, str], tmp_path: Path) -> None:
    done = fed(environment, tmp_path, "hook", "notepad", payload="{}")
    assert "unknown client 'notepad'" in said_well(done, 0)
    assert "claude-code" in done.stderr


def test_a_hook_with_a_misspelt_variable_says_so_and_keeps_what_it_was_told(
    environment: dict[str, str], tmp_path: Path, home: Path
) -> None:
    done = fed(environment | {"MEMORY_MCP_DATADIR": "x"}, tmp_path, "hook", "json", payload='{"session_id": "s"}')
    assert "unknown variable MEMORY_MCP_DATADIR" in said_well(done, 0)
    assert "memory-mcp doctor" in done.stderr
    assert len(list((home / ".local" / "share" / "memory-mcp" / "spool" / "new").iterdir())) == 1


def test_a_port_that_another_program_has_is_said(command: Command) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = command("serve", "--http", "--port", str(other.getsockname()[1]), env=BARE | DAEMON)
    assert "is in use by another program" in said_well(done, 3)
    assert "--port" in done.stderr


def test_a_store_of_a_newer_version_says_so_and_stays_as_it_is(
    command: Command, environment: dict[str, str], home: Path, tmp_path: Path
) -> None:
    def alone(*words: str) -> Done:
        return run_inside(words, environment | ALONE, tmp_path)

    assert alone("timeline").returncode == 0
    store = home / ".local" / "share" / "memory-mcp" / "memory.duckdb"
    with duckdb.connect(str(store)) as newer:
        newer.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    before = store.read_bytes()
    for door in (alone, command):
        done = door("ask", "anything")
        assert "written by a newer version (schema 99" in said_well(done, 1)
        assert "Install the newer memory-mcp; the store is untouched." in done.stderr
    assert "Install the newer memory-mcp" in alone("doctor").stdout
    assert store.read_bytes() == before


def test_two_versions_at_once_are_told_apart(environment: dict[str, str], tmp_path: Path) -> None:
    """An older command beside a newer daemon: whoever is newer stays."""
    # A daemon is started by the interpreter, which is told to be newer.
    site = tmp_path / "newer"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import memory_mcp\nmemory_mcp.__version__ = '99.0'\n")
    environment |= BARE | DAEMON
    newer = environment | {"PYTHONPATH": str(site), "MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "600"}
    try:
        assert run_inside(["daemon", "start"], newer, tmp_path).returncode == 0
        done = run_inside(["timeline"], environment, tmp_path, begin=as_installed)
        assert "the daemon is version 99.0, this program" in said_well(done, 0)
        assert "memory-mcp doctor" in done.stderr
        assert "The memory is empty. Fill it with: memory-mcp import" in done.stderr
        found = {c["name"]: c for c in json.loads(run_inside(["doctor", "--json"], environment, tmp_path).stdout)["checks"]}
        assert found["daemon"]["state"] == "warn"
        assert "use one version everywhere" in found["daemon"]["next_step"]
    finally:
        run_inside(["daemon", "stop"], environment, tmp_path)


def test_a_daemon_that_cannot_start_says_why(environment: dict[str, str], home: Path) -> None:
    # Short: where a path is too long for a socket, it lies elsewhere.
    place = home.parent / "d"
    (place / "daemon.sock").mkdir(parents=True)
    done = run_inside(["daemon", "start", "--data-dir", str(place)], environment, home)
    assert "daemon.sock is in the way: it is not a socket" in said_well(done, 3)
    assert "memory-mcp doctor" in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to this user")
def test_what_may_not_be_read_or_written_is_said(command: Command, home_of_mistakes: Path) -> None:
    closed = home_of_mistakes / "closed.jsonl"
    closed.touch(mode=0o000)
    assert "closed.jsonl cannot be read: Permission denied" in said_well(command("import", "jsonl", "closed.jsonl"), 2)
    (home_of_mistakes / "read-only").mkdir(mode=0o500)
    for environ in (ALONE, {}):
        done = command("ask", "x", "--data-dir", "read-only", env=environ)
        assert "read-only is read-only" in said_well(done, 1)
        assert "--data-dir DIR" in done.stderr
