"""How soon what is stored can be found through the keyword index, and what keeping the index costs.

A store is filled by an import; then events arrive in small batches while one client searches. Each event holds a word of
its own. Of some it is measured, from the acknowledgement on, when `teleport_search` returns them and when their segment
is in the index itself (only documents of the index are asked for then). At the end 300 are asked for once more.

    python -m bench.lag [--events 100000] [--seconds 60] [--rate 50] [--json]
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from bench import corpus
from bench.place import PROC, VISIBLE, Place, quantile

#: Events of a batch, and how many batches pass between two that are followed.
_BATCH, _FOLLOWED = 5, 4
#: Events that are asked for once more at the end.
_ASKED = 300
#: How often it is asked for an event that is not there yet (seconds).
_AGAIN = 0.02
#: Sessions that events arrive in.
_SESSIONS = 8
#: Longest wait for one event, and for the store to come to rest (seconds).
_PATIENCE, _REST = 30.0, 1200.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Options:
    """What a run is made of."""

    events: int = 100_000
    seconds: int = 60
    #: Events and searches a second.
    rate: int = 50
    searches: int = 5
    #: Searches before memory is looked at.
    queries: int = 1000


@dataclass
class Figures:
    """Seconds, but where another unit is said."""

    documents: int = 0
    import_seconds: float = 0.0
    #: Until the index held everything after the import had ended.
    index_seconds: float = 0.0
    readable: list[float] = field(default_factory=list)
    indexed: list[float] = field(default_factory=list)
    stored: int = 0
    #: In which they were sent.
    seconds: float = 0.0
    #: Words of their own that no search found in the end.
    missing: list[str] = field(default_factory=list)
    acknowledged: list[float] = field(default_factory=list)
    #: As the client sees it: before events come, and while they do.
    idle: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    #: By upper bound of the bucket: commits while events came, and searches inside the daemon.
    commits: dict[str, int] = field(default_factory=dict)
    inside: dict[str, int] = field(default_factory=dict)
    #: Processor seconds and bytes written, daemon and children, while events came; searches and polls are in it.
    worked: float = 0.0
    written: int = 0
    #: Bytes that the database's log grew by meanwhile; what a checkpoint empties is counted again from 0.
    logged: int = 0
    #: The same of searches alone, per second.
    idle_worked: float = 0.0
    #: Proportional anonymous memory in bytes, daemon and children.
    memory: int = 0
    #: Of each process, and what it is.
    processes: list[str] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise."""

    name: str
    value: float
    most: float
    unit: str

    @property
    def kept(self) -> bool:
        """Whether it holds."""
        return self.value <= self.most


def bars(found: Figures) -> list[Bar]:
    """Every promise with what was measured."""
    told = [
        Bar("acknowledged until found, p95", quantile(found.readable, 0.95), 2.0, "s"),
        Bar("index commit beside searches, p99 (bucket)", 1000 * bucket(found.commits, 0.99), 500, "ms"),
        Bar("events never found", len(found.missing), 0, ""),
    ]
    if found.stored:
        told.append(Bar("processor per event", found.worked / found.stored, 0.2, "s"))
        told.append(Bar("written per event", found.written / found.stored / 1e6, 5.0, "MB"))
        told.append(Bar("database log per event", found.logged / found.stored / 1e3, 10.0, "kB"))
    if found.memory:
        told.append(Bar("anonymous memory after the searches", found.memory / 1e6, 300, "MB"))
    return told


def bucket(counts: dict[str, int], share: float) -> float:
    """The upper bound of the bucket in which a quantile lies, of a histogram that counts up; 0 of nothing."""
    total = max(counts.values(), default=0)
    return min((float(bound) for bound, n in counts.items() if total and n >= share * total), default=0.0)


def histogram(text: str, name: str) -> dict[str, int]:
    """The buckets of one histogram by upper bound."""
    found = {}
    for line in text.splitlines():
        if line.startswith(f"{name}_bucket{{le="):
            bound, _, count = line.removeprefix(f'{name}_bucket{{le="').partition('"}')
            found[bound.replace("+Inf", "inf")] = int(float(count))
    return found


def cost(pids: Iterable[int]) -> tuple[float, int]:
    """Processor seconds and bytes written by some processes and those of their children that have ended."""
    worked, written = 0.0, 0
    for pid in pids:
        try:
            told = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            io = (PROC / str(pid) / "io").read_text().splitlines()
        except OSError:
            continue
        worked += sum(map(int, told[11:15])) / _TICKS
        written += sum(int(line.split()[1]) for line in io if line.startswith("write_bytes:"))
    return worked, written


def anonymous(pids: Iterable[int]) -> int:
    """Their fair share of anonymous memory in bytes."""
    total = 0
    for pid in pids:
        try:
            lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))
    return total


def family(place: Place) -> set[int]:
    """The daemon and its children; relays and commands are left out."""
    seen = place.processes()
    found = place.owners()
    while more := {pid for pid, one in seen.items() if one.parent in found} - found:
        found |= more
    return found


class Caller:
    """A client that calls tools and keeps the times."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, times: list[float] | None = None, **arguments: object) -> dict[str, Any]:
        """What a tool answers; RuntimeError for an error."""
        began = time.perf_counter()
        answer = await self._client.call_tool(tool, arguments)
        if times is not None:
            times.append(time.perf_counter() - began)
        if not isinstance(answer, CallToolResult) or answer.is_error:
            raise RuntimeError(f"{tool}: {answer!r}"[:500])
        return dict(answer.structured_content or {})

    async def search(self, text: str, times: list[float] | None = None, **more: object) -> list[Any]:
        """What `teleport_search` finds anywhere."""
        told = await self.call("teleport_search", times, query=text, scope="all", **more)
        return list(told["results"])

    async def at_rest(self) -> int:
        """Wait until the tree and the index hold everything; documents in the index."""
        with anyio.fail_after(_REST):
            while True:
                lag = (await self.call("get_retrieval_status"))["lag"]["events"]
                status = await self.call("get_teleport_status")
                index = status["indexes"]["bm25"]
                if status["bm25_healthy"] and not lag and not index.get("behind") and index.get("building") is None:
                    return int(status["bm25_doc_count"])
                await anyio.sleep(0.1)


class Run:
    """One run."""

    def __init__(self, place: Place, options: Options) -> None:
        self.place = place
        self.options = options
        self.figures = Figures(busy=[os.getloadavg()[0]])
        self._rng = random.Random(5)
        self._words = corpus.Vocabulary(random.Random(7), max(5000, options.events // 5))
        self._tokens: list[str] = []

    def run(self) -> Figures:
        """From an empty place to the figures."""
        source = self.place.root / "events.jsonl"
        corpus.write(source, self.options.events)
        began = time.perf_counter()
        done = self.place.run("import", "jsonl", str(source), patience=_REST)
        if done.returncode != 0:
            raise RuntimeError(f"the import ended with {done.returncode}: {done.stderr[-500:]}")
        self.figures.import_seconds = time.perf_counter() - began
        self.place.ok("daemon", "start")
        anyio.run(self._measure)
        self.figures.busy.append(os.getloadavg()[0])
        return self.figures

    async def _measure(self) -> None:
        found = self.figures
        with (self.place.root / "lag.err").open("w", encoding="utf-8") as errors:

            def connected() -> Client:
                return Client(stdio_client(self.place.server(), errlog=errors))

            async with connected() as a, connected() as b, connected() as c, connected() as d:
                writer, reader, readable, indexed = map(Caller, (a, b, c, d))
                began = time.perf_counter()
                found.documents = await writer.at_rest()
                found.index_seconds = time.perf_counter() - began
                await self._idle(reader)
                await self._beside(writer, reader, readable, indexed)
                await writer.at_rest()
                for token in self._tokens[:: max(1, len(self._tokens) // _ASKED)]:
                    if not await reader.search(token, limit=1):
                        found.missing.append(token)
                for _ in range(self.options.queries):
                    await reader.search(self._question())
                self._look()

    def _look(self) -> None:
        seen = self.place.processes()
        for pid in sorted(family(self.place)):
            held = anonymous([pid])
            self.figures.memory += held
            self.figures.processes.append(f"{held / 1e6:.0f} MB: {seen[pid].command[:80] if pid in seen else 'gone'}")

    async def _idle(self, reader: Caller) -> None:
        """Searches alone, for a sixth of the time: what they cost is known then."""
        seconds = max(2.0, self.options.seconds / 6)
        for _ in range(10):
            await reader.search(self._question())
        before, _ = cost(family(self.place))
        with anyio.move_on_after(seconds):
            await self._searches(reader, self.figures.idle)
        self.figures.idle_worked = (cost(family(self.place))[0] - before) / seconds

    async def _searches(self, reader: Caller, times: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await reader.search(self._question(), times)
            await anyio.sleep(max(0.0, 1 / self.options.searches - (time.perf_counter() - began)))

    async def _beside(self, writer: Caller, reader: Caller, readable: Caller, indexed: Caller) -> None:
        found = self.figures
        before, commits, inside = cost(family(self.place)), *(await self._histograms())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._searches, reader, found.search)
            tasks.start_soon(self._watch_log)
            send_readable, take_readable = anyio.create_memory_object_stream[tuple[str, float]](10_000)
            send_indexed, take_indexed = anyio.create_memory_object_stream[tuple[str, float]](10_000)
            async with anyio.create_task_group() as measuring:
                measuring.start_soon(self._follow, readable, take_readable, found.readable, "")
                measuring.start_soon(self._follow, indexed, take_indexed, found.indexed, "toc_node")
                await self._write(writer, (send_readable, send_indexed))
            tasks.cancel_scope.cancel()
        self._commit()
        after = cost(family(self.place))
        found.worked, found.written = after[0] - before[0], after[1] - before[1]
        found.commits, found.inside = (
            {bound: n - old.get(bound, 0) for bound, n in new.items()}
            for new, old in zip(await self._histograms(), (commits, inside), strict=True)
        )

    async def _watch_log(self) -> None:
        """Sum up how the database's log grows, until cancelled."""
        log = self.place.directory / "memory.duckdb.wal"
        size = log.stat().st_size if log.exists() else 0
        while True:
            await anyio.sleep(_AGAIN)
            last, size = size, log.stat().st_size if log.exists() else 0
            self.figures.logged += size - last if size >= last else size

    async def _write(self, writer: Caller, followers: tuple[MemoryObjectSendStream[tuple[str, float]], ...]) -> None:
        """Batches at their times; some of their events are handed to those who look for them."""
        batches = self.options.seconds * self.options.rate // _BATCH
        began = time.perf_counter()
        for number in range(batches):
            await anyio.sleep(max(0.0, began + number * _BATCH / self.options.rate - time.perf_counter()))
            tokens = await self._ingest(writer, _BATCH)
            self.figures.stored += _BATCH
            if number % _FOLLOWED == 0:
                for follower in followers:
                    follower.send_nowait((tokens[-1], time.perf_counter()))
        self.figures.seconds = time.perf_counter() - began
        for follower in followers:
            follower.close()

    async def _ingest(self, writer: Caller, count: int) -> list[str]:
        tokens = [f"zqtoken{len(self._tokens) + i:06d}" for i in range(count)]
        events = [self._event(token) for token in tokens]
        await writer.call("ingest_events", self.figures.acknowledged, events=events)
        self._tokens += tokens
        return tokens

    def _event(self, token: str) -> dict[str, object]:
        session = self._rng.randrange(_SESSIONS)
        return {
            "session_id": f"live-{session}",
            "timestamp": time.time(),
            "role": self._rng.choice(("user", "assistant")),
            "project": f"project-{session % 4:02d}",
            "text": f"{self._sentence(60)} See {token}.",
        }

    async def _follow(
        self, caller: Caller, arrived: MemoryObjectReceiveStream[tuple[str, float]], times: list[float], doc_type: str
    ) -> None:
        """How long it takes until each of those that arrive is found. One at a time: those that wait have waited."""
        async for token, since in arrived:
            while not await caller.search(token, limit=1, doc_type=doc_type):
                if time.perf_counter() - since > _PATIENCE:
                    break
                await anyio.sleep(_AGAIN)
            times.append(time.perf_counter() - since)

    def _commit(self) -> None:
        self.place.ok("scheduler", "run", "commit_indexes")

    async def _histograms(self) -> tuple[dict[str, int], dict[str, int]]:
        text = await anyio.to_thread.run_sync(lambda: self.place.ok("admin", "stats", "--prometheus"))
        return histogram(text, "bm25_commit_latency_seconds"), histogram(text, "bm25_search_latency_seconds")

    def _question(self) -> str:
        return self._sentence(self._rng.randint(2, 4))

    def _sentence(self, words: int) -> str:
        return " ".join(self._words.word() for _ in range(words))


def measure(options: Options) -> Figures:
    """Everything, in a directory of its own; the daemon is stopped and all of it removed."""
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="full") as place:
        try:
            return Run(place, options).run()
        finally:
            place.stop()


def lines(found: Figures) -> list[str]:
    """The table for people, in markdown."""
    told = [f"{found.documents:,} documents; import {found.import_seconds:.0f} s, index {found.index_seconds:.1f} s after it", ""]
    told += ["| promise | measured | bar | |", "|---|---|---|---|"]
    for bar in bars(found):
        told.append(f"| {bar.name} | {bar.value:.3f} {bar.unit} | {bar.most:g} {bar.unit} | {'' if bar.kept else 'NOT KEPT'} |")
    told += ["", "| ms | n | p50 | p95 | p99 | max |", "|---|---|---|---|---|---|"]
    samples = {
        "acknowledged until found": found.readable,
        "acknowledged until in the index": found.indexed,
        "ingest_events, a batch": found.acknowledged,
        "teleport_search, nothing else going on": found.idle,
        "teleport_search while events come": found.search,
    }
    for name, times in samples.items():
        if times:
            ms: Callable[[float], str] = lambda v: f"{1000 * v:.1f}"  # noqa: E731 - for one line
            shown = (statistics.median(times), quantile(times, 0.95), quantile(times, 0.99), max(times))
            told.append(f"| {name} | {len(times)} | {' | '.join(map(ms, shown))} |")
    p50, p99 = (f"{1000 * bucket(found.inside, share):g}" for share in (0.5, 0.99))
    searches, commits = (max(counts.values(), default=0) for counts in (found.inside, found.commits))
    told += ["", f"Inside the daemon: {searches} searches of the index, p50 <= {p50} ms, p99 <= {p99} ms; {commits} commits."]
    told.append(f"{found.stored:,} events in {found.seconds:.0f} s: {found.worked:.1f} s of the processor, all searches included")
    told.append(f"(searches at that rate alone: {found.idle_worked:.2f} a second); {found.written / 1e6:.0f} MB written.")
    told.append(f"Memory: {'; '.join(found.processes)}.")
    told.append("Load average " + ", then ".join(f"{b:.1f}" for b in found.busy) + ".")
    return told


def main() -> int:
    """Run, print; 1 when a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Options()
    for name, value in asdict(usual).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not VISIBLE:
        print("skipped: processes are looked at through /proc")
        return 0
    found = measure(Options(**{name: getattr(arguments, name) for name in asdict(usual)}))
    told = bars(found)
    if arguments.json:
        print(json.dumps({"bars": [asdict(b) | {"kept": b.kept} for b in told], "figures": asdict(found)}))
    else:
        print("\n".join(lines(found)))
    return 0 if all(b.kept for b in told) else 1


if __name__ == "__main__":
    sys.exit(main())
