"""A machine as a newcomer has it: the built wheel in an environment of its own, the client's npm package, a fresh home."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.event import Event
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope

ROOT = Path(__file__).parents[3]
#: How long one command may take (seconds).
PATIENCE = 240.0
#: A folder that holds the npm packages already, so that none is fetched.
NODE = os.environ.get("CLIENTS_NODE", "")


class Missing(Exception):
    """Something that the registries were to give is not to be had here; the text says what."""


def built(folder: Path) -> Path:
    """The program of the wheel, built from this tree and installed into an environment of its own; Missing without an index."""
    environment = folder / "venv"
    pip = [str(environment / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    _got([sys.executable, "-m", "venv", str(environment)], "an environment")
    _got([*pip, "wheel", "--no-deps", "-w", str(folder / "wheel"), str(ROOT)], "what builds the wheel")
    [wheel] = (folder / "wheel").glob("*.whl")
    _got([*pip, "install", "-c", str(ROOT / "constraints.txt"), str(wheel)], "what the wheel needs")
    return environment / "bin/memory-mcp"


def fetched(package: str, folder: Path) -> Path:
    """The folder of programs of an npm package; Missing where npm or its registry is not to be had."""
    if NODE:
        if not (Path(NODE) / "node_modules" / package).exists():
            raise Missing(f"{package} is not installed in {NODE}")
        return Path(NODE).resolve() / "node_modules/.bin"
    if shutil.which("npm") is None:
        raise Missing("npm is not installed")
    _got(["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), package], package)
    return folder / "node_modules/.bin"


def _got(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what} did not come in time") from None
    if done.returncode:
        raise Missing(f"{what} is not to be had: {(done.stderr or done.stdout).strip()[-400:]}")


@dataclass
class Machine:
    """A fresh home, with the program and one client."""

    root: Path
    program: Path
    programs: Path
    #: What the client's user has set, besides the path and the home.
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.project = self.root / "home", self.root / "home/shop"
        self.project.mkdir(parents=True)
        self.run("git", "init", "-q")

    @property
    def data(self) -> Path:
        """Where the program keeps what it remembers, unless it is told."""
        return self.home / ".local/share/memory-mcp"

    def run(self, *words: str, patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """One command in the project to its end. The program is not on the path: whoever starts it knows where it lies."""
        return subprocess.run(
            words,
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """One command that is talked to."""
        return subprocess.Popen(
            words,
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def environment(self) -> dict[str, str]:
        """What a fresh login has, and what the client's user has set."""
        node = Path(shutil.which("node") or "/").parent
        path = os.pathsep.join((str(self.programs), str(node), "/usr/local/bin", "/usr/bin", "/bin"))
        return {"PATH": path, "HOME": str(self.home), "TERM": "xterm-256color", "LANG": "C.UTF-8"} | self.environ

    def ours(self, *words: str) -> str:
        """A command of the program that is to go well; its output."""
        done = self.run(str(self.program), *words)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def filed(self) -> bool:
        """Whether everything that hooks left is stored."""
        new = self.data / "spool/new"
        return new.is_dir() and not any(new.iterdir())

    def stored(self) -> list[Event]:
        """Everything that is remembered, once nothing serves it any more."""
        self.ours("daemon", "stop")
        app = App(Settings(storage=StorageSettings(str(self.data), "UTC")))
        try:
            return app.storage.events.list_events(Scope(), limit=1000)
        finally:
            app.close()
