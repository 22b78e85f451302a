"""One small memory for all reading tests, and a way to run the command line as a user does."""

import datetime as dt
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.cli.commands.base import SESSION, Session
from memory_mcp.cli.main import main
from memory_mcp.config import load
from memory_mcp.model.sentinel import CLOSE, OPEN
from memory_mcp.tree.derive import workers
from tests.templates import share_template
from tests.waiting import UNHURRIED

#: Enough segments in one month that a walk goes down level by level.
FILLERS = 57
EVENTS, SESSIONS = 2 * FILLERS + 5, FILLERS + 2
#: Words that no other session of the filler holds.
TOPICS = "anchors buoys compasses dinghies ensigns fenders galleys halyards".split()


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """The answer without the fence that marks recalled text."""
        lines = self.out.splitlines()
        inside = lines[1:-1] if lines and lines[0] == OPEN and lines[-1] == CLOSE else lines
        return "\n".join(inside)

    @property
    def data(self) -> dict[str, Any]:
        """The answer as JSON."""
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded


Cli = Callable[..., Outcome]
Told = Callable[[Iterable[Mapping[str, object]]], Cli]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a working directory of the test's own, and no settings from outside."""
    # Who works in the home directory works on no project in particular.
    isolate(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name in list(os.environ):
        if name.startswith(("MEMORY_MCP_", "XDG_", "CLAUDE_")):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.setenv("MEMORY_MCP_STORAGE__TIMEZONE", "Europe/Berlin")
    patch.setenv("MEMORY_MCP_SERVER__DAEMON", "false")
    patch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "false")
    for name, value in UNHURRIED.items():
        patch.setenv(name, value)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*argv: str) -> Outcome:
        capsys.readouterr()
        status = main(list(argv))
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


def on_a_terminal(patch: pytest.MonkeyPatch, *argv: str, no_color: str = "", encoding: str = "utf-8") -> str:
    """What a command draws on a terminal of a hundred columns."""
    raw = io.BytesIO()
    terminal = type("Terminal", (io.TextIOWrapper,), {"isatty": lambda self: True})(raw, encoding, errors="replace")
    with patch.context() as inner:
        inner.setattr(sys, "stdout", terminal)
        for name, value in (("TERM", "xterm"), ("COLUMNS", "100"), ("NO_COLOR", no_color)):
            inner.setenv(name, value)
        assert main([*argv]) == 0
        terminal.flush()
    return raw.getvalue().decode(encoding)


@pytest.fixture
def told(cli: Cli, tmp_path: Path) -> Told:
    """Makes a memory of events; the command line on it."""

    def tell(lines: Iterable[Mapping[str, object]]) -> Cli:
        (tmp_path / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        place = ("--data-dir", str(tmp_path / "data"))
        assert cli("ingest", str(tmp_path / "e.jsonl"), *place).status == 0
        return lambda *argv: cli(*argv, *place)

    return tell


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a memory that tests copy."""
    place = tmp_path_factory.mktemp("memory")
    source = place / "events.jsonl"
    source.write_text("\n".join(json.dumps(e) for e in events()) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, place / "home")
        # So many segments would be derived by a child.
        patch.setattr(workers, "_MIN_BATCH", 1000)
        assert main(["ingest", str(source), "--data-dir", str(place / "data"), "--json"]) == 0
    return share_template(place / "data")


@contextmanager
def held(source: Path, place: Path, **flags: object) -> Iterator[App]:
    """A copy of a memory that stays open, as in the daemon: to open it costs more than most commands."""
    shutil.copytree(source, place / "data")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, place / "home")
        app = App(load(flags={"storage.data_dir": str(place / "data"), **flags}))
    with closing(app):
        yield app


def on(app: App, cli: Cli) -> Cli:
    """The command line on a memory that is open."""

    def run(*argv: str) -> Outcome:
        session = SESSION.set(Session(app, str(Path.cwd()), os.environ, lambda: None))
        try:
            return cli(*argv)
        finally:
            SESSION.reset(session)

    return run


@pytest.fixture(scope="module")
def small(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with held(built, tmp_path_factory.mktemp("small")) as app:
        yield app


@pytest.fixture
def memory(small: App, cli: Cli) -> Cli:
    """The command line on the small memory."""
    return on(small, cli)


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    """A copy of the small memory that may be changed."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def events() -> Iterator[dict[str, str]]:
    """A filler of one session a day, one session that matters, and one of long ago in another project."""
    start = dt.datetime(2025, 11, 1, 9, 0, tzinfo=dt.UTC)
    for day in range(FILLERS):
        topic = TOPICS[day % len(TOPICS)]
        at = start + dt.timedelta(days=day)
        yield said(f"filler-{day}", at, "user", f"Please count the {topic} in harbour number {day}.")
        yield said(f"filler-{day}", at + dt.timedelta(minutes=2), "assistant", f"There are {day + 3} {topic} in harbour {day}.")
    at = dt.datetime(2026, 1, 30, 13, 0, tzinfo=dt.UTC)
    yield said("jwt", at, "user", "Debugging the JWT token expiration issue: tokens expire one hour early.")
    yield said("jwt", at + dt.timedelta(minutes=3), "assistant", "The cause is the clock offset in verify_token().")
    yield said("jwt", at + dt.timedelta(minutes=6), "user", "We decided to fix the refresh token rotation logic and keep HS256.")
    yield said("jwt", at + dt.timedelta(minutes=9), "assistant", "Fixed: the JWT expiry bug is gone and 14 tests pass.")
    at = dt.datetime(2024, 5, 14, 8, 0, tzinfo=dt.UTC)
    yield said("old", at, "user", "Kerberos tickets for the printer were renewed by hand.", project="github.com/acme/printer")


def said(session: str, at: dt.datetime, role: str, text: str, project: str = "github.com/acme/harbour") -> dict[str, str]:
    return {"session_id": session, "timestamp": at.isoformat(), "role": role, "text": text, "project": project, "agent": "tests"}
