"""What one event costs that arrives alone, and no event at all: rows of `bench.speed`.

Processor time and bytes are those of the daemon and its children, from the
moment an event is sent until nothing that follows from it can still be due: deriving, terms, periods, indexes, briefings.

What the same time costs without an event is taken off: the median of windows of the same length, one before the first events
and one after each round of them. A window counts as idle only if little went on in it, so work in the background that happens
to fall into one is waited out; work that falls into an event's window is left to the median of several events. What
is not above an idle window is reported as 0, beside how far idle windows differ. Bytes are what the kernel counts as written
to disk (`write_bytes`), so whole pages; beside them what was handed to `write` (`wchar`), answers to clients included.
"""

import json
import os
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from bench import corpus
from bench.lag import family
from bench.place import PROC, Place
from bench.speed.seen import clock

#: Longest wait for the store to come to rest (seconds).
_REST = 1200.0
#: A store is at rest when its processes use less than this share of a core for so many seconds.
_STILL_SHARE, _STILL_SECONDS = 0.05, 5.0
#: An idle window uses less than this share of a core, or than so many processor seconds where it is short; windows tried.
_IDLE_SHARE, _IDLE_SECONDS, _IDLE_WINDOWS = 0.002, 0.02, 4
#: How an event can arrive.
WAYS = ("remember", "ingest_events", "hook")


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

    def scaled(self, factor: float) -> "Cost":
        """Return the cost of `factor` times the time."""
        return Cost(self.worked * factor, round(self.written * factor), round(self.handed * factor), round(self.sleeps * factor))

    def above(self, idle: "Cost") -> "Cost":
        """Return what is beyond another cost; 0 where nothing is."""
        extra = self - idle
        return Cost(max(0.0, extra.worked), max(0, extra.written), max(0, extra.handed), max(0, extra.sleeps))


@dataclass(frozen=True, slots=True)
class Window:
    """Some seconds, and what was used up in them."""

    seconds: float
    cost: Cost


def median_cost(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure by itself; 0 of nothing."""
    if not costs:
        return Cost()
    return Cost(
        statistics.median(cost.worked for cost in costs),
        round(statistics.median(cost.written for cost in costs)),
        round(statistics.median(cost.handed for cost in costs)),
        round(statistics.median(cost.sleeps for cost in costs)),
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

    #: Seconds of a window.
    rest: float = 0.0
    #: Idle windows; how many were left out because something else went on; whether there was nothing but such.
    idle_windows: list[Window] = field(default_factory=list)
    busy_windows: int = 0
    is_noisy: bool = False
    #: Windows of one event, by the way it came; what idle time costs is in them.
    event_windows: dict[str, list[Window]] = field(default_factory=dict)

    @property
    def idle(self) -> Cost:
        """The cost of `rest` seconds in which nothing happens: the median of the idle windows."""
        return median_cost([window.cost.scaled(self.rest / window.seconds) for window in self.idle_windows])

    @property
    def alone(self) -> dict[str, Cost]:
        """One event's cost by the way it came: the median of its windows, without the idle time in it."""
        idle = self.idle
        return {
            way: median_cost([window.cost.above(idle.scaled(window.seconds / self.rest)) for window in windows])
            for way, windows in self.event_windows.items()
        }

    @property
    def noise(self) -> float:
        """Processor seconds by which idle windows differ."""
        worked = [window.cost.worked for window in self.idle_windows]
        return max(worked) - min(worked) if worked else 0.0


class Run:
    """One run over one store."""

    def __init__(self, place: Place, rest: float, times: int) -> None:
        self.place = place
        self._times = times
        self.figures = Figures(rest=rest)
        self._rng = random.Random(11)
        self._words = corpus.Vocabulary(random.Random(7), 5000)
        self._named = 0

    async def measure(self) -> None:
        """Everything, through one client on a pipe."""
        with (self.place.root / "alone.err").open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(self.place.server(), errlog=errors)) as client:
                self._client = client
                await self._at_rest()
                await self._idle()
                for _ in range(self._times):
                    for way in WAYS:
                        window = await self._window(way)
                        self.figures.event_windows.setdefault(way, []).append(window)
                    await self._idle()

    async def _spent(self, seconds: float) -> Cost:
        before = cost(family(self.place))
        await anyio.sleep(seconds)
        return cost(family(self.place)) - before

    async def _window(self, way: str = "") -> Window:
        """What happens for `rest` seconds that begin with an event, or with nothing."""
        before, began = cost(family(self.place)), time.monotonic()
        if way:
            await self._send(way)
        await anyio.sleep(self.figures.rest)
        spent = cost(family(self.place)) - before
        return Window(time.monotonic() - began, spent)

    async def _idle(self) -> None:
        """Add a window in which little goes on; the least busy one if there is none."""
        most = max(_IDLE_SECONDS, _IDLE_SHARE * self.figures.rest)
        windows: list[Window] = []
        while not windows or (windows[-1].cost.worked > most and len(windows) < _IDLE_WINDOWS):
            windows.append(await self._window())
        least = min(windows, key=lambda window: window.cost.worked)
        self.figures.idle_windows.append(least)
        self.figures.busy_windows += len(windows) - 1
        self.figures.is_noisy |= least.cost.worked > most

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

    async def _call(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = await self._client.call_tool(tool, arguments)
        if not isinstance(answer, CallToolResult) or answer.is_error:
            raise RuntimeError(f"{tool}: {answer!r}"[:500])
        return dict(answer.structured_content or {})

    async def _at_rest(self) -> None:
        """Wait until the tree and the indexes hold everything and nobody has worked for a while."""
        with anyio.fail_after(_REST):
            while (await self._call("get_retrieval_status"))["lag"]["events"]:
                await anyio.sleep(0.2)
            seconds = min(_STILL_SECONDS, self.figures.rest)
            while (await self._spent(seconds)).worked > _STILL_SHARE * seconds:
                continue


def noise(found: Figures) -> str:
    """How far figures of one event may be wrong, in words."""
    events = max(map(len, found.event_windows.values()), default=0)
    words = f"median of {events}, {len(found.idle_windows)} idle windows that differ by {1e3 * found.noise:.1f} ms"
    if found.busy_windows:
        words += f", {found.busy_windows} with other work left out"
    return words + (", the store never came to rest" if found.is_noisy else "")
