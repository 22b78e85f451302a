"""Rows about writes: one at a time, one alone, and a whole history, beside searches and by itself."""

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from bench import import_
from bench.alone import Run as Alone
from bench.alone import cost, noise
from bench.lag import anonymous, family
from bench.place import Place, quantile
from bench.speed import fts5
from bench.speed.run import Options, Run, Tool, in_turns, stopped
from bench.speed.seen import Disk, Texts
from bench.speed.table import Row

#: Every id of a transcript: sessions, records and calls.
_ID = re.compile(r"\b([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")
#: Seconds between two searches of a client that thinks a little, and searches before an import begins.
_PACE, _BEFORE = 0.02, 60


async def writes(run: Run) -> list[Row]:
    """One event after the other, acknowledged each: by `ingest_events`, by `remember`, and by the FTS5 server."""
    ours, theirs = run.texts(2 * run.options.writes + 2), run.texts(run.options.writes)
    file = run.root / "fts5.sqlite"
    if not file.exists():
        fts5.fill(file, run.said)
    async with run.client() as line, run.other("-m", "bench.speed.fts5", str(file)) as other:
        await line.at_rest(run.options.still)

        async def ingest(text: str) -> None:
            event = {"session_id": "written", "timestamp": time.time(), "role": "user", "project": "/home/user/written"}
            await line.call("ingest_events", events=[{**event, "text": text}])

        async def remember(text: str) -> None:
            await line.call("remember", text=text)

        async def add(text: str) -> None:
            await other.call("add", session="written", text=text)

        beside = await _rate(add, theirs, other.pids)
        # The first after a start pays for what is loaded then: of 200 that came first it was half of what each cost.
        before = cost(line.pids).worked
        await ingest(ours.pop())
        await remember(ours.pop())
        await line.at_rest(run.options.still)
        started = cost(line.pids).worked - before
        rows = [Row("the first two writes after a start, with what follows", "ms", {"": 1000 * started})]
        for name, work, texts in (("ingest_events", ingest, ours[::2]), ("remember", remember, ours[1::2])):
            before = cost(line.pids).worked
            rate, worked = await _rate(work, texts, line.pids)
            await line.at_rest(run.options.still)
            followed = cost(line.pids).worked - before
            others = {"FTS5 server": beside[0]}
            rows.append(Row(f"writes one at a time, {name}", "per second", {"": rate}, {"": 250.0}, True, others))
            each = {"acknowledged": worked, "with what follows": 1000 * followed / len(texts)}
            rows.append(Row(f"… CPU of a write, {name}", "ms", each, beside={"FTS5 server": beside[1]}))
    return rows


async def _rate(work: Callable[[str], Any], texts: Sequence[str], pids: set[int]) -> tuple[float, float]:
    """How often a second, and milliseconds of the processor each."""
    before, began = cost(pids).worked, time.perf_counter()
    for text in texts:
        await work(text)
    took, worked = time.perf_counter() - began, cost(pids).worked - before
    return len(texts) / took, 1000 * worked / len(texts)


async def alone(run: Run) -> list[Row]:
    """One event, and all that follows from it, as `bench.alone` measures it."""
    one = Alone(run.place, run.options.rest, run.options.times)
    await one.measure()
    rows, note = [], noise(one.figures)
    for way, spent in one.figures.alone.items():
        rows.append(Row(f"one event alone, {way}, CPU", "ms", {"": 1000 * spent.worked}, {"": 20.0}, note=note))
        rows.append(Row(f"… written, {way}", "kB", {"": spent.written / 1000}, {"": 100.0}))
    return rows


async def imported(run: Run) -> list[Row]:
    """A whole history by the command and the daemon, into a store of its own."""
    with Place(run.root / "import", profile="full") as place:
        return await bring_in(run.history, place, run.options.still)


async def bring_in(history: Path, place: Place, still: float) -> list[Row]:
    """Import a history into an empty place, as `bench.import_` measures it. Its daemon is stopped at the end."""
    found = import_.measured(place, history / "projects", searching=False)
    began = time.perf_counter()
    async with Run(place, history, Options()).client() as line:
        await line.complete()
        again = time.perf_counter() - began
        await line.at_rest(still)
        held = anonymous(family(place))
    stopped(place)
    events, size, after = found.said["new"], found.said["bytes"] / 1e6, Disk.of(place)
    running = Disk(round(1e6 * found.disk["database"]), after.indexes)
    each = {"": 1000 * sum(found.cpu.values()) / events}
    shares = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.cpu.items())
    return [
        Row("import of all of it", "events/s", {"": events / found.seconds}, {"": 2000.0}, True, note=f"{events:,} events"),
        Row("… transcripts", "MB/s", {"": size / found.seconds}, {"": 14.0}, True, note=f"{size:.0f} MB"),
        Row("… CPU of all processes", "ms an event", each, note=shares),
        Row("… until a daemon started afterwards has all of it indexed", "s", {"": again}),
        Row("… memory at most, anonymous", "MB", found.memory),
        Row("… memory of that later daemon, anonymous", "MB", {"": held / 1e6}),
        *disk_rows("after the import", running, after, Texts(place).size()[1]),
    ]


def disk_rows(when: str, running: Disk, after: Disk, text: int) -> list[Row]:
    """Bytes on disk beside those of the texts."""
    sizes = {"running": running.database / 1e6, "stopped": after.database / 1e6}
    ratios = {"running": running.database / text, "stopped": after.database / text}
    return [
        Row(f"database {when}", "MB", sizes, note=f"{text / 1e6:.1f} MB of text"),
        Row(f"… over its text, {when}", "x", ratios, {"running": 2.0, "stopped": 2.0}),
        Row(f"indexes {when}", "MB", {"": after.indexes / 1e6}),
        Row(f"all files over the text, {when}", "x", {"": after.everything / text}, {"": 2.0}),
    ]


async def beside(run: Run) -> list[Row]:
    """Searches of one client while another history is imported, and new clients meanwhile."""
    source = another(run.history, run.root / "another")
    command = [*run.place.command, "import", "claude-code", str(source), "--newest", str(run.options.beside)]
    async with run.client() as line:
        await line.at_rest(run.options.still)
        idle, during = (Tool(line, "intelligent_search", scope="all") for _ in range(2))
        await in_turns(run.asked(_BEFORE), [idle], run.asked(10, _BEFORE))
        hello: list[float] = []
        with subprocess.Popen(
            command, env=run.place.environment(), cwd=run.place.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as importing:
            for number, text in enumerate(run.asked(1_000_000)):
                if importing.poll() is not None:
                    break
                if number % 30 == 0:
                    began = time.perf_counter()
                    async with run.client() as new:
                        hello.append(1000 * (time.perf_counter() - began))
                        del new
                await during.ask(text)
                await anyio.sleep(_PACE)
        if importing.returncode:
            raise RuntimeError(f"the import ended with {importing.returncode}")
        await line.at_rest(run.options.still)
    before, values = ({f"p{share:.0f}": quantile(t.times.wall, share / 100) for share in (50, 95, 99)} for t in (idle, during))
    note = f"{len(during.times.wall)} searches"
    return [
        Row("intelligent_search during an import", "ms", values, {"p99": 100.0}, beside={"idle": before["p50"]}, note=note),
        Row("… idle, p99", "ms", {"": before["p99"]}),
        Row("a new client meanwhile", "ms", {"p50": quantile(hello, 0.5), "worst": max(hello)}, {"p50": 150.0}),
    ]


def another(history: Path, folder: Path) -> Path:
    """The same history with every id changed."""
    for path in (history / "projects").rglob("*.jsonl"):
        target = folder / path.relative_to(history / "projects").with_stem(_changed(path.stem))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_changed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def _changed(text: str) -> str:
    return _ID.sub(lambda found: f"{int(found[1], 16) ^ 0x5A5A5A5A:08x}{found[2]}", text)
