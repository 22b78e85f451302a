"""What an import costs: the real command on a real-shaped history, through the daemon, with searches beside it.

Counts the CPU of every process (the command, the daemon, their children), events and bytes a second, seconds by stage, the
time of searches meanwhile, memory, parts of the indexes and bytes on disk.

    python -m bench.import_ HISTORY
    python -m bench.import_ --data DIR --events 48000

HISTORY is a folder of Claude Code transcripts, such as `bench.histories` makes; with --data one is made first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import histories
from bench.place import PROC, VISIBLE, Place, quantile
from memory_mcp.base import machine
from memory_mcp.service.client import link

_TICKS = os.sysconf("SC_CLK_TCK") if VISIBLE else 100
#: Between two looks at the processes, and between two searches (seconds).
_LOOK, _PAUSE = 0.2, 0.25
_DAEMON = {"MEMORY_MCP_SERVER__DAEMON": "true"}
_QUESTIONS = ("why did the test fail", "where is the configuration read", "what did we decide about the database")


@dataclass
class Figures:
    """What was seen."""

    #: CPU seconds by process: the command, its children, the daemon, its children.
    cpu: dict[str, float] = field(default_factory=dict)
    #: Most anonymous memory of the command and of the daemon, MB.
    memory: dict[str, float] = field(default_factory=dict)
    #: Milliseconds of each search that was asked meanwhile.
    searches: list[float] = field(default_factory=list)
    seconds: float = 0.0
    said: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    disk: dict[str, float] = field(default_factory=dict)


def main() -> int:
    """Make the history if it is to be made, import it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", nargs="?", type=Path)
    parser.add_argument("--data", type=Path, help="raw sessions to make a history of")
    parser.add_argument("--events", type=int, default=48_000)
    parser.add_argument("--no-searches", action="store_true", help="nothing beside the import")
    arguments = parser.parse_args()
    if not VISIBLE or (arguments.history is None and arguments.data is None):
        print("skipped: needs /proc, and a HISTORY or --data")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        source = arguments.history
        if source is None:
            source = Path(scratch) / "history"
            histories.write(source, arguments.data, arguments.events, 7)
        with Place(Path(scratch) / "place", idle=600, more=_DAEMON) as place:
            _show(measured(place, source, not arguments.no_searches))
    return 0


def measured(place: Place, source: Path, searching: bool) -> Figures:
    """Import a folder into a new memory."""
    found = Figures()
    place.ok("daemon", "start")
    daemon = int(place.status()["pid"])
    before = _used(daemon)
    began = time.monotonic()
    command = subprocess.Popen(
        [*place.command, "import", "claude-code", str(source), "--json"],
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    beside = [threading.Thread(target=_watch, args=(command, daemon, found))]
    if searching:
        beside.append(threading.Thread(target=_search, args=(place, command, found)))
    for thread in beside:
        thread.start()
    out, _ = command.communicate()
    found.seconds = time.monotonic() - began
    for thread in beside:
        thread.join()
    found.said = json.loads(out)
    own, children = (now - then for now, then in zip(_used(daemon), before, strict=True))
    found.cpu |= {"daemon": own, "its children": children}
    for name in ("bm25", "vector"):
        home = place.directory / "indexes" / name
        manifest = json.loads((home / f"{(home / 'CURRENT').read_text().strip()}.json").read_text())
        found.parts[name] = len(manifest["manifest"]["parts"])
    found.disk["database"] = sum(map(machine.size_of, place.directory.glob("memory.duckdb*"))) / 1e6
    place.stop()
    found.disk["database after stop"] = sum(map(machine.size_of, place.directory.glob("memory.duckdb*"))) / 1e6
    found.disk["indexes"] = machine.size_of(place.directory / "indexes") / 1e6
    return found


def _used(pid: int) -> tuple[float, float]:
    """CPU seconds of a process, and of its children that have ended."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    user, system, child_user, child_system = (int(f) / _TICKS for f in fields[11:15])
    return user + system, child_user + child_system


def _anonymous(pid: int) -> float:
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("RssAnon")), 0.0)


def _watch(command: "subprocess.Popen[str]", daemon: int, found: Figures) -> None:
    """Look at the processes until the command ends; of what ends unseen, the last look counts."""
    while command.poll() is None:
        try:
            own, children = _used(command.pid)
            found.cpu |= {"the command": own, "its readers": children}
            for name, pid in (("command", command.pid), ("daemon", daemon)):
                found.memory[name] = max(found.memory.get(name, 0.0), _anonymous(pid))
        except (OSError, ValueError, IndexError):
            pass
        time.sleep(_LOOK)


def _search(place: Place, command: "subprocess.Popen[str]", found: Figures) -> None:
    """Ask again and again, through a connection of its own, as commands do."""
    line = link.reach_daemon(link.Wanted(str(place.directory)), "rpc")
    number = 0
    while command.poll() is None:
        argv = ["teleport", "hybrid", _QUESTIONS[number % len(_QUESTIONS)], "--json", "--all"]
        began = time.perf_counter()
        try:
            link.call_on_line(line, "cli/run", {"argv": argv, "encoding": "utf-8"}, lambda _: None)
            found.searches.append((time.perf_counter() - began) * 1000)
        except link.Refused:
            pass
        number += 1
        time.sleep(_PAUSE)
    line.close()


def _show(found: Figures) -> None:
    said, total = found.said, sum(found.cpu.values())
    print(f"{said['new']:,} events of {said['bytes'] / 1e6:,.0f} MB in {found.seconds:.1f} s of wall time: ", end="")
    print(f"{said['new'] / found.seconds:,.0f} events/s, {said['bytes'] / 1e6 / found.seconds:.1f} MB/s, indexes complete")
    print(f"CPU {total:.1f} s ({1000 * total / max(said['new'], 1):.2f} ms an event): ", end="")
    print(", ".join(f"{name} {seconds:.1f}" for name, seconds in found.cpu.items()))
    print("stages, of all processes that have a part in them: ", end="")
    print(", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in said["seconds"].items()))
    if found.searches:
        asked = sorted(found.searches)
        few = ", ".join(f"p{q * 100:.0f} {quantile(asked, q):.0f}" for q in (0.5, 0.95, 0.99))
        print(f"{len(asked)} searches meanwhile: {few} ms")
    print("anonymous memory at most: " + ", ".join(f"{name} {most:.0f} MB" for name, most in found.memory.items()))
    print("parts: " + ", ".join(f"{name} {count}" for name, count in found.parts.items()), end="; ")
    print("on disk: " + ", ".join(f"{name} {size:.0f} MB" for name, size in found.disk.items()))


if __name__ == "__main__":
    sys.exit(main())
