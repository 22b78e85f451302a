"""What one event costs that arrives alone, a slow storm of them, many written one after the other, and no event at all.

A copy of a store is served by a real daemon. Processor time and bytes are those of the daemon and its children, from the
moment an event is sent until nothing that follows from it can still be due: deriving, terms, periods, indexes, briefings.
What the same time costs without an event is measured first and taken off. Bytes are what the kernel counts as written to
disk (`write_bytes`), so whole pages; beside them what was handed to `write` (`wchar`), answers to clients included.

    python -m bench.alone STORE [--rest 75] [--times 3] [--storm 60] [--writes 500] [--json]
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from bench import corpus
from bench.lag import family
from bench.place import PROC, VISIBLE, Place
from bench.speed.seen import clock

#: Longest wait for the store to come to rest (seconds).
_REST = 1200.0
#: Hook payloads a minute in a storm.
_A_MINUTE = 50


@dataclass(frozen=True, slots=True)
class Cost:
    """What some processes have used up."""

    #: Processor seconds.
    worked: float = 0.0
    #: Bytes, in pages; and bytes handed over.
    written: int = 0
    handed: int = 0
    #: Times they went to sleep.
    sleeps: int = 0

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.worked - other.worked, self.written - other.written, self.handed - other.handed, self.sleeps - other.sleeps
        )

    def less(self, rate: "Cost", share: float) -> "Cost":
        """Without `share` of what `rate` says."""
        return Cost(
            self.worked - rate.worked * share,
            round(self.written - rate.written * share),
            round(self.handed - rate.handed * share),
            round(self.sleeps - rate.sleeps * share),
        )


def cost(pids: Iterable[int]) -> Cost:
    """Used up by some processes since they began; ended children's processor time is their parent's."""
    worked, written, handed, sleeps = 0.0, 0, 0, 0
    for pid in pids:
        try:
            io = dict(line.split(": ") for line in (PROC / str(pid) / "io").read_text().splitlines())
            ticks = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            slept = sum(_sleeps(task) for task in (PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
        worked += clock(pid) + sum(map(int, ticks[13:15])) / os.sysconf("SC_CLK_TCK")
        written += int(io["write_bytes"])
        handed += int(io["wchar"])
        sleeps += slept
    return Cost(worked, written, handed, sleeps)


def _sleeps(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@dataclass
class Figures:
    """What was measured; costs without those of the same time at rest."""

    events: int = 0
    #: Of `rest` seconds.
    rest: float = 0.0
    idle: Cost = field(default_factory=Cost)
    #: By the way an event came.
    alone: dict[str, list[Cost]] = field(default_factory=dict)
    #: Payloads of the storm, and seconds of it.
    stormed: int = 0
    storm_seconds: float = 0.0
    storm: Cost = field(default_factory=Cost)
    #: Events written one after the other, the seconds that took, and its cost until the last was followed by nothing more.
    writes: int = 0
    write_seconds: float = 0.0
    during: Cost = field(default_factory=Cost)
    after: Cost = field(default_factory=Cost)


class Run:
    """One run over one store."""

    def __init__(self, place: Place, options: argparse.Namespace) -> None:
        self.place = place
        self.options = options
        self.figures = Figures(rest=options.rest)
        self._rng = random.Random(11)
        self._words = corpus.Vocabulary(random.Random(7), 5000)
        self._named = 0

    async def measure(self) -> None:
        """Everything, through one client on a pipe."""
        with (self.place.root / "alone.err").open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(self.place.server(), errlog=errors)) as client:
                self._client = client
                self.figures.events = await self._at_rest()
                self.figures.idle = await self._spent(self.options.rest)
                for way in ("remember", "ingest_events", "hook"):
                    self.figures.alone[way] = [await self._alone(way) for _ in range(self.options.times)]
                if self.options.storm:
                    await self._storm()
                if self.options.writes:
                    await self._writes()

    async def _spent(self, seconds: float) -> Cost:
        before = cost(family(self.place))
        await anyio.sleep(seconds)
        return cost(family(self.place)) - before

    async def _alone(self, way: str) -> Cost:
        before, began = cost(family(self.place)), time.monotonic()
        await self._send(way)
        await anyio.sleep(self.options.rest)
        spent = cost(family(self.place)) - before
        return spent.less(self.figures.idle, (time.monotonic() - began) / self.options.rest)

    async def _send(self, way: str) -> None:
        text = " ".join(self._words.word() for _ in range(80))
        self._named += 1
        if way == "remember":
            await self._call("remember", text=f"{text} {self._named}", project="/home/user/alone")
        elif way == "ingest_events":
            event = {"session_id": "alone-1", "timestamp": time.time(), "role": "user", "project": "/home/user/alone"}
            await self._call("ingest_events", events=[{**event, "text": f"{text} {self._named}"}])
        else:
            payload = {"hook_event_name": "UserPromptSubmit", "session_id": "alone-2", "cwd": "/home/user/alone", "prompt": text}
            await anyio.to_thread.run_sync(lambda: self.place.run("hook", "claude-code", stdin=json.dumps(payload)))

    async def _storm(self) -> None:
        found, seconds = self.figures, float(self.options.storm)
        before, began = cost(family(self.place)), time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            await self._send("hook")
            found.stormed += 1
            await anyio.sleep(max(0.0, found.stormed * 60 / _A_MINUTE - (time.monotonic() - began)))
        found.storm_seconds = passed
        await anyio.sleep(self.options.rest)
        spent = cost(family(self.place)) - before
        found.storm = spent.less(found.idle, (time.monotonic() - began) / self.options.rest)

    async def _writes(self) -> None:
        found = self.figures
        before, began = cost(family(self.place)), time.monotonic()
        for _ in range(self.options.writes):
            await self._send("ingest_events")
        found.writes, found.write_seconds = self.options.writes, time.monotonic() - began
        found.during = cost(family(self.place)) - before
        await self._at_rest()
        await anyio.sleep(self.options.rest)
        found.after = cost(family(self.place)) - before

    async def _call(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = await self._client.call_tool(tool, arguments)
        if not isinstance(answer, CallToolResult) or answer.is_error:
            raise RuntimeError(f"{tool}: {answer!r}"[:500])
        return dict(answer.structured_content or {})

    async def _at_rest(self) -> int:
        """Wait until the tree and the indexes hold everything and nobody has worked for a while; events in the store."""
        with anyio.fail_after(_REST):
            while (await self._call("get_retrieval_status"))["lag"]["events"]:
                await anyio.sleep(0.2)
            while (await self._spent(5.0)).worked > 0.25:
                continue
        return int((await self._call("get_retrieval_status"))["store"]["events"])


def lines(found: Figures) -> list[str]:
    """The table for people, in markdown."""
    told = [f"{found.events:,} events in the store.", "", "| what | CPU ms | kB written | kB handed over |", "|---|---|---|---|"]
    for way, costs in found.alone.items():
        middle = sorted(costs, key=lambda c: c.worked)[len(costs) // 2]
        written, handed = (
            statistics.median(values) / 1e3 for values in zip(*((c.written, c.handed) for c in costs), strict=True)
        )
        told.append(f"| one event by {way} | {1e3 * middle.worked:.1f} | {written:.0f} | {handed:.0f} |")
    idle, rest = found.idle, found.rest
    told += ["", f"Idle for {rest:.0f} s: {100 * idle.worked / rest:.3f} % of a core, {idle.sleeps / rest:.2f} sleeps a second, "]
    told[-1] += f"{idle.written / 1e3:.0f} kB written, {idle.handed / 1e3:.0f} kB handed over."
    if found.stormed:
        per_core, minutes = 100 * found.storm.worked / found.storm_seconds, found.storm_seconds / 60
        told.append(f"Storm, {found.stormed} hooks in {found.storm_seconds:.0f} s: {per_core:.2f} % of a core, ")
        told[-1] += f"{found.storm.written / 1e6:.2f} MB written ({found.storm.written / 1e6 / minutes * 10:.2f} in ten minutes)."
    if found.writes:
        each = 1e3 / found.writes
        told.append(f"{found.writes} writes, one at a time: {found.writes / found.write_seconds:.0f} a second, ")
        told[-1] += f"{each * found.during.worked:.1f} ms of CPU each, {each * found.after.worked:.1f} with all that follows; "
        told[-1] += f"{found.after.written / found.writes / 1e3:.1f} kB written each."
    return told


def main() -> int:
    """Copy, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="a data directory; it is copied")
    parser.add_argument("--rest", type=float, default=75.0, help="seconds in which everything that follows an event happens")
    parser.add_argument("--times", type=int, default=3, help="events of each way")
    parser.add_argument("--storm", type=int, default=60, help="seconds of 50 hooks a minute")
    parser.add_argument("--writes", type=int, default=500, help="events written one after the other")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not VISIBLE:
        sys.stderr.write("this program looks into /proc\n")
        return 2
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="full") as place:
        shutil.copytree(options.store, place.directory)
        run = Run(place, options)
        anyio.run(run.measure)
        place.stop()
    if options.json:
        sys.stdout.write(json.dumps(asdict(run.figures)) + "\n")
    else:
        sys.stdout.write("\n".join(lines(run.figures)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
