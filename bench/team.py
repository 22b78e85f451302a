"""Many tenants on one PostgreSQL, and agents that work all day, replayed over HTTP against 1, 2 and 4 servers.

    python -m bench.team --tenants 1000 --events 10000 --agents 500 --servers 1,2,4 [--data DIR] [--url URL --superuser URL]

Without --url a PostgreSQL is started on a socket of its own, with what a server of the machine's size would have. Tenants are
filled by the storage engine (COPY) and by copies in the database (`team_fill`); what is replayed goes through the servers' own
doors: events by hooks, one a call, questions by `intelligent_search`. Everything is measured from the callers' side.
--table prints the rows of the sizing guide of docs/team-operations.md from the JSON of earlier runs.
"""

import argparse
import itertools
import json
import os
import queue
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from bench import team_fill
from bench.place import quantile, wait_for
from bench.team_servers import Caller, Refused, Server, cpu_of_database

#: Callers at a time: as many agents share them in turn.
_CALLERS = 16
#: Words of a question.
_WORDS = 3
#: How long a probe is looked for at most, and how often (seconds).
_PROBE, _LOOK = 30.0, 0.05
#: A server that joined has so long to make its indexes whole (seconds).
_WHOLE = 900.0
#: Of a machine's memory: what PostgreSQL takes for itself.
_SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=15min", "maintenance_work_mem=256MB")


@dataclass
class Options:
    """What a run is made of."""

    tenants: int = 1000
    #: Events that each tenant has before the day begins.
    events: int = 10_000
    agents: int = 500
    #: Events that each agent adds: a day's.
    day: int = 300
    #: Seconds of a round at most; the day is broken off then.
    seconds: float = 120.0
    searchers: int = 2
    #: Tenants whose people ask.
    asking: int = 20
    probes: int = 40
    servers: str = "1,2,4"
    templates: int = 4
    callers: int = _CALLERS


@dataclass
class Round:
    """What was seen with so many servers."""

    servers: int = 0
    #: How long the servers took to index the tenants whose people ask, before the day (seconds).
    warmed_s: float = 0.0
    events: int = 0
    seconds: float = 0.0
    events_per_second: float = 0.0
    errors: list[str] = field(default_factory=list)
    append_p50_ms: float = 0.0
    append_p99_ms: float = 0.0
    searches: int = 0
    search_p50_ms: float = 0.0
    search_p99_ms: float = 0.0
    #: The median and the worst of the tenants' own p99.
    tenant_p99_median_ms: float = 0.0
    tenant_p99_worst_ms: float = 0.0
    freshness_p50_s: float = 0.0
    freshness_p95_s: float = 0.0
    #: Probes that were not found in time.
    unseen: int = 0
    memory_mb: list[float] = field(default_factory=list)
    share_mb: list[float] = field(default_factory=list)
    server_cpu_s_per_1000: float = 0.0
    database_cpu_s_per_1000: float = 0.0


@dataclass
class Joining:
    """What a server costs that joins: seconds."""

    started: float = 0.0
    first_answer: float = 0.0
    whole: float = 0.0
    documents: int = 0


@dataclass
class Report:
    """A run."""

    options: dict[str, Any]
    filled: dict[str, Any] = field(default_factory=dict)
    database_bytes_per_event: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    joining: Joining | None = None


class Day:
    """One round: agents record, people ask, probes are looked for, against some servers."""

    def __init__(self, servers: Sequence[Server], keys: Sequence[str], options: Options, words: Sequence[str], seed: int) -> None:
        self._servers, self._keys, self._options, self._words = servers, keys, options, words
        self._seed, self._over = seed, threading.Event()
        self._appends: list[float] = []
        self._searches: dict[str, list[float]] = defaultdict(list)
        self._fresh: list[float] = []
        self._unseen = 0
        self._errors: list[str] = []
        self._work: queue.SimpleQueue[tuple[int, str, str]] = queue.SimpleQueue()
        self._seconds = 0.0

    def run(self, postmaster: int) -> Round:
        """Begin everything, and end it when the day is over or its time is up."""
        before = [server.cpu() for server in self._servers]
        database = cpu_of_database(postmaster)
        self._plan()
        recording = [threading.Thread(target=self._record, daemon=True) for _ in range(self._options.callers)]
        beside = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(self._options.searchers)]
        beside += [threading.Thread(target=self._probe, daemon=True)]
        began = time.monotonic()
        stop = threading.Timer(self._options.seconds, self._over.set)
        stop.start()
        for thread in (*recording, *beside):
            thread.start()
        for thread in recording:
            thread.join()
        self._seconds = time.monotonic() - began
        self._over.set()
        stop.cancel()
        for thread in beside:
            thread.join(_PROBE)
        used = sum(server.cpu() for server in self._servers) - sum(before)
        return self._round(used, cpu_of_database(postmaster) - database)

    def _plan(self) -> None:
        """The day of all agents in the order of time: each works in a session of its own."""
        told = [team_fill.drafts(self._options.day, self._seed + agent % 7, None) for agent in range(self._options.agents)]
        for turn, row in enumerate(zip(*told, strict=True)):
            for agent, draft in enumerate(row):
                self._work.put((agent, f"{self._seed}-{agent}-{turn}", draft.text))

    def _record(self) -> None:
        callers: dict[int, Caller] = {}
        while not self._over.is_set():
            try:
                agent, name, text = self._work.get_nowait()
            except queue.Empty:
                break
            tenant = agent % len(self._keys)
            caller = callers.get(tenant) or self._caller(tenant, callers)
            payload = {
                "session_id": f"day-{self._seed}-{agent}",
                "hook_event_name": "UserPromptSubmit",
                "cwd": f"/home/agent/project-{agent % 10:02d}",
                "prompt": text,
            }
            began = time.monotonic()
            try:
                caller.hook(payload, name)
                self._appends.append(time.monotonic() - began)
            except (OSError, Refused) as error:
                self._errors.append(str(error)[:300])

    def _caller(self, tenant: int, callers: dict[int, Caller]) -> Caller:
        if len(callers) > 200:
            callers.popitem()[1].close()
        callers[tenant] = Caller(self._servers[tenant % len(self._servers)].url, self._keys[tenant])
        return callers[tenant]

    def _ask(self, number: int) -> None:
        rng, callers = random.Random(self._seed + number), dict[int, Caller]()
        while not self._over.is_set():
            tenant = rng.randrange(min(self._options.asking, len(self._keys)))
            caller = callers.get(tenant) or self._caller(tenant, callers)
            question = " ".join(rng.choice(self._words) for _ in range(_WORDS))
            began = time.monotonic()
            try:
                caller.tool("intelligent_search", query=question, scope="all")
                self._searches[self._keys[tenant]].append(time.monotonic() - began)
            except (OSError, Refused) as error:
                self._errors.append(str(error)[:300])

    def _probe(self) -> None:
        """Record a word at one server and look for it at another."""
        for number in range(self._options.probes):
            tenant, at = number % min(self._options.asking, len(self._keys)), number % len(self._servers)
            word = f"probe{self._seed}x{number:04d}"
            first = Caller(self._servers[at].url, self._keys[tenant])
            other = Caller(self._servers[(at + 1) % len(self._servers)].url, self._keys[tenant])
            try:
                first.tool("remember", text=f"The word of this probe is {word}, and nothing else.")
                began = time.monotonic()
                found = wait_for(lambda word=word, other=other: _finds(other, word), _PROBE)  # type: ignore[misc]
                if found:
                    self._fresh.append(time.monotonic() - began)
                else:
                    self._unseen += 1
            except (OSError, Refused) as error:
                self._errors.append(str(error)[:300])
            first.close()
            other.close()
            if self._over.wait(_LOOK):
                return

    def _round(self, server_cpu: float, database_cpu: float) -> Round:
        every = [seconds for one in self._searches.values() for seconds in one]
        by_tenant = [1000 * quantile(one, 0.99) for one in self._searches.values()] or [0.0]
        count = len(self._appends)
        memory = [server.memory() for server in self._servers]
        return Round(
            servers=len(self._servers),
            events=count,
            seconds=self._seconds,
            events_per_second=count / max(self._seconds, 0.001),
            errors=self._errors[:20],
            append_p50_ms=1000 * quantile(self._appends, 0.5),
            append_p99_ms=1000 * quantile(self._appends, 0.99),
            searches=len(every),
            search_p50_ms=1000 * quantile(every, 0.5),
            search_p99_ms=1000 * quantile(every, 0.99),
            tenant_p99_median_ms=statistics.median(by_tenant),
            tenant_p99_worst_ms=max(by_tenant),
            freshness_p50_s=quantile(self._fresh, 0.5),
            freshness_p95_s=quantile(self._fresh, 0.95),
            unseen=self._unseen,
            memory_mb=[own / 1e6 for own, _ in memory],
            share_mb=[share / 1e6 for _, share in memory],
            server_cpu_s_per_1000=1000 * server_cpu / max(count, 1),
            database_cpu_s_per_1000=1000 * database_cpu / max(count, 1),
        )


def _finds(caller: Caller, word: str) -> bool:
    return word in json.dumps(caller.tool("intelligent_search", query=word, scope="all").get("results", []))


def join(root: Path, url: str, key: str, word: str) -> Joining:
    """Start a server with an empty folder, ask it, and wait until its indexes hold everything."""
    server = Server(root, url)
    try:
        told, caller = Joining(started=server.started), Caller(server.url, key)
        caller.tool("intelligent_search", query=word, scope="all")
        told.first_answer = time.monotonic() - server.began

        def whole() -> bool:
            is_whole, told.documents = _whole(caller)
            return is_whole

        is_whole = wait_for(whole, _WHOLE)
        told.whole = time.monotonic() - server.began if is_whole else -1.0
        return told
    finally:
        server.stop()


@contextmanager
def database(url: str, superuser: str) -> Iterator[tuple[str, str, int]]:
    """An address, a superuser's, and the server's process: those given, or of a PostgreSQL made for the run."""
    if url:
        with psycopg.connect(superuser, autocommit=True) as raw:
            row = raw.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
        yield url, superuser, int(str(row[0]).split("\n")[0]) if row else 0
        return
    from tests.postgres import Cluster

    cluster = Cluster(durable=True, settings=_SETTINGS)
    try:
        own = cluster.create()
        pid = int((cluster.data / "postmaster.pid").read_text().split("\n")[0])
        yield own, own.replace("user=memory", "user=postgres"), pid
    finally:
        cluster.close()


def measure(options: Options, url: str = "", superuser: str = "", data: Path | None = None) -> Report:
    """A whole run."""
    report = Report(asdict(options))
    with database(url, superuser) as (own, root, postmaster), tempfile.TemporaryDirectory() as scratch:
        filled = team_fill.fill(own, root, options.tenants, options.events, options.templates, data)
        keys = filled.keys or []
        report.filled = asdict(filled) | {"keys": len(keys)}
        report.database_bytes_per_event = (filled.bytes - filled.empty_bytes) / max(filled.events, 1)
        words = _vocabulary(options, data)
        for place, count in enumerate(map(int, options.servers.split(","))):
            servers = [Server(Path(scratch) / f"round{place}-{number}", own) for number in range(count)]
            try:
                warmed = _warm(servers, keys[: options.asking], words)
                told = Day(servers, keys, options, words, 1000 + place).run(postmaster)
                report.rounds.append(replace(told, warmed_s=warmed))
                print(json.dumps(asdict(report.rounds[-1])), file=sys.stderr, flush=True)
            finally:
                for server in servers:
                    server.stop()
        report.joining = join(Path(scratch) / "joining", own, keys[0], words[0])
    return report


def _warm(servers: Sequence[Server], keys: Sequence[str], words: Sequence[str]) -> float:
    """Ask for the tenants whose people will ask until every server's indexes of them are whole; how long that took (seconds)."""
    began = time.monotonic()
    callers = [Caller(server.url, key) for server in servers for key in keys]
    for caller in callers:
        caller.tool("intelligent_search", query=words[0], scope="all")
    wait_for(lambda: all(_whole(caller)[0] for caller in callers), _WHOLE)
    for caller in callers:
        caller.close()
    return time.monotonic() - began


def _whole(caller: Caller) -> tuple[bool, int]:
    """Whether a tenant's indexes hold everything, and how many documents they have."""
    status = caller.tool("get_retrieval_status", detail="full")
    layers = {layer["name"]: layer for layer in status["layers"]}
    documents = int(layers["bm25"].get("count", 0))
    return all(layers[name].get("healthy") for name in ("bm25", "vector")) and documents > 0, documents


def _vocabulary(options: Options, data: Path | None) -> list[str]:
    texts = itertools.islice(team_fill.drafts(options.events, 1, data), 2000)
    words = {word.strip(".,;:?!`\"'()") for draft in texts for word in draft.text.split()}
    return sorted(word for word in words if len(word) > 4 and word.isalpha()) or ["memory"]


def lines(report: Report) -> list[str]:
    """The report for people."""
    filled = report.filled
    by_engine = f"{filled['appended']:,} appended by the engine in {filled['append_seconds']:.0f} s (COPY)"
    derived = f"derived in {filled['derive_seconds']:.0f} s"
    copied = f"{filled['copied']:,} copied in the database in {filled['copy_seconds']:.0f} s"
    told = [
        f"{filled['tenants']:,} tenants, {filled['events']:,} events: {by_engine}, {derived}, {copied}",
        f"{filled['bytes'] / 1e9:.2f} GB on disk, {report.database_bytes_per_event:,.0f} bytes an event",
        "",
        *table([report]),
    ]
    for one in report.rounds:
        told += [f"{one.servers} servers, error: {error}" for error in one.errors[:3]]
    if report.joining is not None:
        joined = report.joining
        first = f"asked after {joined.started:.1f} s, first answer {joined.first_answer:.1f} s"
        whole = f"indexes of a tenant whole ({joined.documents:,} documents) {joined.whole:.1f} s"
        told += ["", f"a server that joins: {first}, {whole}"]
    return told


def table(reports: Sequence[Report]) -> list[str]:
    """The rows of the sizing guide."""
    head = (
        "| Servers | Events in the database | Events/s | Append p99 | Search p50 / p99 | Worst tenant's p99 | Fresh p95 "
        "| MB a server | CPU s per 1,000 events: servers / database |"
    )
    rows = [head, "|" + " --- |" * 9]
    for report in reports:
        for one in report.rounds:
            memory = statistics.mean(one.memory_mb or [0.0])
            rows.append(
                f"| {one.servers} | {report.filled['events']:,} | {one.events_per_second:.0f} | {one.append_p99_ms:.0f} ms "
                f"| {one.search_p50_ms:.0f} / {one.search_p99_ms:.0f} ms | {one.tenant_p99_worst_ms:.0f} ms "
                f"| {one.freshness_p95_s:.2f} s | {memory:.0f} "
                f"| {one.server_cpu_s_per_1000:.2f} / {one.database_cpu_s_per_1000:.2f} |"
            )
    return rows


def read(path: Path) -> Report:
    """A report as --json wrote it."""
    told = json.loads(path.read_text(encoding="utf-8"))
    rounds = [Round(**one) for one in told.pop("rounds")]
    joining = Joining(**told.pop("joining")) if told.get("joining") else None
    return Report(**{**told, "rounds": rounds, "joining": joining})


def main() -> int:
    """Run, print; 1 when calls failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in asdict(Options()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--url", default="", help="an empty database of a role that is no superuser")
    parser.add_argument("--superuser", default="", help="the same database, as a superuser")
    parser.add_argument("--data", type=Path, help="texts of real transcripts below this folder")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", type=Path, nargs="+", help="JSON of earlier runs: print the sizing guide's rows, run nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print("\n".join(table([read(path) for path in arguments.table])))
        return 0
    options = Options(**{name: getattr(arguments, name) for name in asdict(Options())})
    report = measure(options, arguments.url, arguments.superuser, arguments.data)
    print(json.dumps(asdict(report)) if arguments.json else "\n".join(lines(report)))
    return 1 if any(one.errors for one in report.rounds) else 0


if __name__ == "__main__":
    # The servers are what is measured.
    os.nice(1)
    sys.exit(main())
