"""Rows about a daemon that is left alone, its start, what it holds, and commands."""

import statistics
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import anyio

import memory_mcp
from bench.alone import Cost, cost
from bench.lag import anonymous, family
from bench.place import Place, proportional, resident
from bench.speed.run import EMPTY, Run, started, stopped
from bench.speed.seen import Disk, Texts, ran
from bench.speed.table import Row
from bench.speed.writes import disk_rows

_PASS = "python -c pass"
#: The distribution's name.
_PROJECT = "memory-mcp-tree"


async def memory(run: Run) -> list[Row]:
    """Anonymous memory of a fresh daemon, and after questions."""
    await started(run)
    held = {"after start": anonymous(family(run.place)) / 1e6}
    several = min(200, run.options.many)
    for count, skip in ((several, 0), (run.options.many - several, several)):
        async with run.client() as line:
            for number, text in enumerate(run.asked(count, skip)):
                await line.call(("intelligent_search", "teleport_search")[number % 2], query=text, scope="all")
        held[f"after {skip + count:,} questions"] = anonymous(family(run.place)) / 1e6
    bars = {list(held)[-1]: 250.0}
    return [Row("memory of the daemon, anonymous", "MB", held, bars)]


async def disk(run: Run) -> list[Row]:
    """What lies on disk while a daemon runs, and after it."""
    await started(run)
    running = Disk.of(run.place)
    stopped(run.place)
    return disk_rows("at rest", running, Disk.of(run.place), Texts(run.place).size()[1])


async def idle(run: Run) -> list[Row]:
    """What a daemon does that nobody asks for anything: without the HTTP door and with it."""
    rows = []
    doors = {"SERVER__HTTP": "true", "SERVER__HTTP_PORT": "0"}
    for name, more in (("HTTP off", {}), ("HTTP on", {f"MEMORY_MCP_{k}": v for k, v in doors.items()})):
        place = Place(run.root, profile="full", more=more)
        await started(Run(place, run.history, run.options))
        seconds, used = run.options.idle, await _spent(place, run.options.idle)
        rows.append(Row(f"idle daemon, {name}, CPU", "% of a core", {"": 100 * used.worked / seconds}, {"": 0.1}))
        rows.append(Row(f"… threads woken, {name}", "a second", {"": used.sleeps / seconds}))
        rows.append(Row(f"… written, {name}", "kB", {"": used.written / 1000}, {"": 0.0}, note=f"in {seconds:.0f} s"))
        rows.append(Row(f"… memory, {name}, anonymous", "MB", {"": anonymous(family(place)) / 1e6}))
        stopped(place)
    return rows


async def _spent(place: Place, seconds: float) -> Cost:
    pids = family(place)
    before = cost(pids)
    await anyio.sleep(seconds)
    return cost(pids) - before


async def commands(run: Run) -> list[Row]:
    """What commands cost their own process, the daemon running."""
    run.place.ok("daemon", "start")
    prompt = '{"session_id": "h", "cwd": "/home/user/h", "hook_event_name": "UserPromptSubmit", "prompt": "Look at it."}'
    kinds: dict[str, tuple[list[str], str, dict[str, float]]] = {
        "--help": (["--help"], "", {"CPU": 60.0}),
        "--version": (["--version"], "", {"CPU": 60.0}),
        "daemon status": (["daemon", "status"], "", {"CPU": 80.0}),
        "search": (["search", run.questions[0], "--json"], "", {"wall": 120.0}),
        "hook claude-code": (["hook", "claude-code"], prompt, {"wall": 60.0}),
    }
    nothing: list[tuple[float, float]] = []
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(run.options.repeats):
        nothing.append(_ran(run, [sys.executable, "-c", "pass"]))
        for name, (words, told, _) in kinds.items():
            took[name].append(_ran(run, [*run.place.command, *words], told))
    least = _middle(nothing)
    return [
        Row(f"memory-mcp {name}", "ms", _middle(took[name]), bars, beside={_PASS: least["CPU"]})
        for name, (_, _, bars) in kinds.items()
    ]


def _ran(run: Run, command: Sequence[str], told: str = "") -> tuple[float, float]:
    return ran(command, run.place.environment(), run.place.home, told)


def _middle(took: Sequence[tuple[float, float]]) -> dict[str, float]:
    wall, worked = ([1000 * one[n] for one in took] for n in (0, 1))
    return {"CPU": statistics.median(worked), "wall": statistics.median(wall)}


async def start(run: Run) -> list[Row]:
    """The first answer to a client that finds no daemon, and whether it is what a warm one answers."""
    wall, worked, warm, alike = [], [], [], 0
    for text in run.asked(run.options.starts):
        stopped(run.place)
        began = time.perf_counter()
        async with run.client() as line:
            first = await line.call("intelligent_search", query=text, scope="all")
            wall.append(1000 * (time.perf_counter() - began))
            worked.append(1000 * cost(line.pids).worked)
            await line.at_rest(run.options.still)
            began = time.perf_counter()
            again = await line.call("intelligent_search", query=text, scope="all")
            warm.append(1000 * (time.perf_counter() - began))
        alike += [one["grip"] for one in first["results"]] == [one["grip"] for one in again["results"]]
    same = f"the same results as when warm: {alike} of {len(wall)}; files in the page cache"
    values = {"p50": statistics.median(wall), "worst": max(wall)}
    beside = {"warm": statistics.median(warm)}
    return [
        Row("first answer after a daemon's start", "ms", values, {"worst": 1000.0}, beside=beside, note=same),
        Row("… CPU of daemon and pump until then", "ms", {"p50": statistics.median(worked)}),
    ]


async def handshakes(run: Run) -> list[Row]:
    """From nothing to the list of tools: beside a daemon, without one, and an empty server's; what a pump holds."""
    took: dict[str, list[tuple[float, float]]] = {"empty server": [], "no daemon": [], "daemon running": []}
    held = (0, 0)
    for number in range(run.options.repeats):
        stopped(run.place)
        for name in (*(list(took)[:2][:: 1 if number % 2 else -1]), "daemon running"):
            ours, before, began = name != "empty server", _everything(run), time.perf_counter()
            async with run.client() if ours else run.other("-c", EMPTY) as line:
                await line.tools()
                wall = 1000 * (time.perf_counter() - began)
                worked = _everything(run) - before if ours else cost(line.pids).worked
                took[name].append((wall, 1000 * worked))
                if name == "daemon running":
                    [pump] = line.pids - family(run.place)
                    held = max(held, (resident(pump), proportional(pump)))
    middle = {name: [statistics.median(one[n] for one in times) for n in (0, 1)] for name, times in took.items()}
    none = middle.pop("empty server")
    bars: dict[str, dict[str, float]] = {"daemon running": {"wall": 150.0}, "no daemon": {}}
    rows = [
        Row(f"handshake to tools/list, {name}", "ms", {"wall": wall, "CPU": worked}, bars[name], beside={"empty server": none[0]})
        for name, (wall, worked) in middle.items()
    ]
    over = {"wall": middle["no daemon"][0] / none[0], "CPU": middle["no daemon"][1] / none[1]}
    return [
        *rows,
        Row("… over an empty server's", "x", over, {"wall": 1.5}),
        Row("memory of a pump", "MB", {"resident": held[0] / 1e6, "proportional": held[1] / 1e6}, {"resident": 15.0}),
    ]


def _everything(run: Run) -> float:
    """Processor seconds of all that serves the place: a daemon that has not opened its store yet as well."""
    return cost(run.place.processes()).worked


async def packages(run: Run) -> list[Row]:
    """What an installation takes: the package and all that it needs, without extras."""
    del run
    own = [path for path in Path(memory_mcp.__file__).parents[1].glob("memory_mcp*") if path.is_dir()]
    sizes = {_PROJECT: sum(p.stat().st_size for folder in own for p in folder.rglob("*") if p.is_file())}
    wanted = [_PROJECT]
    while wanted:
        for need in metadata.requires(wanted.pop()) or ():
            name = _needed(need)
            if name and name not in sizes:
                sizes[name] = _size(name)
                wanted.append(name)
    largest = sorted(sizes.items(), key=lambda one: -one[1])[:5]
    note = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest)
    return [Row("site-packages", "MB", {"": sum(sizes.values()) / 1e6}, {"": 250.0}, note=note)]


def _needed(told: str) -> str:
    """The name of a requirement that holds here; empty for one that does not."""
    from packaging.requirements import Requirement

    need = Requirement(told)
    return need.name.lower().replace("_", "-") if need.marker is None or need.marker.evaluate({"extra": ""}) else ""


def _size(name: str) -> int:
    files = metadata.distribution(name).files or ()
    return sum(path.stat().st_size for one in files if (path := Path(str(one.locate()))).is_file())
