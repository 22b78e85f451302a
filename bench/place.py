"""A data directory of its own, the processes that serve it as real ones, and what can be seen of them from outside.

Processes are found by /proc: everything whose command line or environment names the data directory belongs to it, so
whatever the program starts, and however deep, is seen. Elsewhere than on Linux that view is empty.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from mcp import StdioServerParameters

from memory_mcp.base import machine

PROC = Path("/proc")
#: Whether processes can be seen at all.
VISIBLE = (PROC / "self" / "environ").exists()
#: How long a command may take, in seconds.
PATIENCE = 240.0
_TICK = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """One process that belongs to a place."""

    pid: int
    parent: int
    command: str


class Place:
    """One data directory with a home beside it; leaving it ends every process that belongs to it."""

    def __init__(self, root: Path, idle: int = 600, profile: str = "full", more: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.directory = root / "data"
        self.home = root / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        script = Path(sys.executable).with_name("memory-mcp")
        #: The installed command as a user's client starts it.
        self.command = [str(script)] if script.exists() else [sys.executable, "-m", "memory_mcp"]
        #: What the commands of this place get in their environment; it can be changed between two of them.
        self.settings = {
            "MEMORY_MCP_STORAGE__DATA_DIR": str(self.directory),
            "MEMORY_MCP_STORAGE__TIMEZONE": "UTC",
            "MEMORY_MCP_SERVER__IDLE_EXIT_SECS": str(idle),
            "MEMORY_MCP_SERVER__PROFILE": profile,
            "MEMORY_MCP_CONFIG": str(self.home / "config.toml"),
            "HOME": str(self.home),
            **(more or {}),
        }

    def environment(self) -> dict[str, str]:
        """What a shell would pass on, and the settings of this place."""
        foreign = ("MEMORY_MCP_", "CLAUDE", "XDG_")
        return {k: v for k, v in os.environ.items() if not k.startswith(foreign)} | self.settings

    def server(self, *words: str) -> StdioServerParameters:
        """How an MCP client starts the server on a pipe."""
        [command, *arguments] = [*self.command, *words]
        return StdioServerParameters(command=command, args=arguments, env=self.environment(), cwd=self.home)

    def run(self, *words: str, stdin: str = "", patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """One command to its end."""
        return subprocess.run(
            [*self.command, *words],
            env=self.environment(),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )

    def ok(self, *words: str, stdin: str = "") -> str:
        """What a command that succeeds prints; RuntimeError for one that does not."""
        done = self.run(*words, stdin=stdin)
        if done.returncode != 0:
            raise RuntimeError(f"memory-mcp {' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself; {"running": False} where there is none or it does not answer."""
        done = self.run("daemon", "status", "--json")
        try:
            told = json.loads(done.stdout)
        except ValueError:
            return {"running": False}
        return dict(told)

    def processes(self) -> dict[int, Seen]:
        """Every process that belongs here, this one left out."""
        found = {}
        for entry in PROC.iterdir() if VISIBLE else ():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and (seen := self._look(entry)):
                found[seen.pid] = seen
        return found

    def owners(self) -> set[int]:
        """Processes that hold the database open. A child between fork and exec holds what its parent does; it is not counted."""
        store = str(self.directory / "memory.duckdb")
        holding = {pid: seen for pid, seen in self.processes().items() if store in _open_files(pid)}
        return {pid for pid, seen in holding.items() if seen.parent not in holding}

    def wait_until_empty(self, patience: float) -> tuple[float, list[Seen]]:
        """Seconds until no process was left, and those still there when patience ended."""
        began = time.monotonic()
        wait_for(lambda: not self.processes(), patience)
        return time.monotonic() - began, list(self.processes().values())

    def spooled(self) -> int:
        """Payloads of hooks that nobody drained yet."""
        return sum(1 for _ in machine.iter_files(self.directory / "spool"))

    def stop(self) -> None:
        """Stop the daemon; return when it has gone, however long after the command that takes."""
        before = self.owners()
        self.run("daemon", "stop")
        wait_for(lambda: before.isdisjoint(self.processes()), PATIENCE)

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # What one of them started meanwhile is met by the next look; one that has ended is seen no more.
        def is_empty() -> bool:
            for pid in self.processes():
                end(pid)
            return not self.processes()

        wait_for(is_empty, PATIENCE)

    def _look(self, entry: Path) -> Seen | None:
        sought = os.fsencode(self.directory)
        try:
            command = (entry / "cmdline").read_bytes()
            if sought not in command and sought not in (entry / "environ").read_bytes():
                return None
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            return None
        # A process that has ended and only waits to be collected has no command line.
        return Seen(int(entry.name), parent, command.replace(b"\0", b" ").decode(errors="replace").strip()) if command else None


def end(pid: int) -> None:
    """Kill one process, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for(done: Callable[[], bool], patience: float) -> bool:
    """Whether something came true before patience ended."""
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_TICK)
    return True


def resident(pid: int) -> int:
    """Resident memory of a process in bytes; 0 when it is gone."""
    return _kilobytes(PROC / str(pid) / "status", "VmRSS:") * 1024


def anonymous(pid: int) -> int:
    """Return the memory of a process in bytes without mapped files, which the system may drop; 0 when it is gone."""
    return _kilobytes(PROC / str(pid) / "status", "RssAnon:") * 1024


def proportional(pid: int) -> int:
    """Its fair share of memory in bytes: pages shared with others count in parts; 0 when it is gone."""
    return _kilobytes(PROC / str(pid) / "smaps_rollup", "Pss:") * 1024


def _kilobytes(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for link in (PROC / str(pid) / "fd").iterdir():
            found.add(str(link.readlink()))
    except OSError:
        return found
    return found


def quantile(values: list[float], share: float) -> float:
    """A quantile by rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
