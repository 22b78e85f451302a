"""Many clients, hooks and an import on one data directory at once, while the daemon and clients may be killed.

Counts at the end what was acknowledged, and says what does not hold: errors, lost or doubled events, more than one owner
of the store, memory that grows, processes left behind.

    python -m bench.load --clients 16 --calls 200 --hooks 500 --import-events 20000 [--kill 60] [--json]
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench import traffic
from bench.place import Place, anonymous, end, quantile, wait_for
from bench.traffic import ERAS, Account, Talker
from memory_mcp.base import machine

#: The store has this much in it before the clients come.
_BEFORE = 400
#: Seconds between two looks at the processes.
_LOOK = 0.4
#: Beyond the idle time: a start, a last roll-up, a checkpoint, on a machine that is busy with something else as well.
_GRACE = 180.0
#: Memory is flat when its last quarter is within this share and these bytes of its second.
_FLAT, _FLAT_BYTES = 1.15, 20_000_000
#: So many looks, a minute, and so many calls make quarters that can be compared: in a shorter run, however long a busy machine
#: takes for it, engines are still being loaded in the last.
_QUARTERED, _MANY = 150, 1000
#: Resident at most, whatever the length of the run: the 300 MB promised, and pages of files that any process may take back.
_MOST_BYTES = 450_000_000
#: The share of calls that may be given up when each daemon lives for seconds: slow ones see one after another die.
_GIVEN_UP = 0.01
_SHOWN = 12
_ENTRY = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:)", re.M)


@dataclass
class Options:
    """What a run is made of."""

    clients: int = 16
    calls: int = 200
    hooks: int = 500
    import_events: int = 20_000
    #: Seconds under load with the daemon killed again and again; 0: it is left alone.
    kill: float = 0.0
    #: How often it is killed at least, however long that takes.
    kills: int = 0
    #: What is under way at the end may take so long (seconds).
    grace: float = _GRACE
    #: A daemon lives this long after it first answered.
    kill_after: float = 3.0
    #: Clients that are killed with what they have under way, one after another.
    victims: int = 6
    idle: int = 5

    @property
    def deadly(self) -> bool:
        """Whether the daemon is killed at all."""
        return bool(self.kill or self.kills)


@dataclass
class Report:
    """What was seen."""

    seconds: float = 0.0
    calls: int = 0
    tried: int = 0
    acknowledged: int = 0
    stored: int = 0
    errors: list[str] = field(default_factory=list)
    #: Calls that saw one daemon after another die and were given back as retryable.
    given_up: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    #: Every process that ever owned the store, in order.
    owners: list[int] = field(default_factory=list)
    most_owners: int = 0
    kills: int = 0
    victims: int = 0
    #: Relays of killed clients that stayed, and clients the daemon still counted after they were killed.
    stayed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds_to_empty: float = 0.0
    spooled: int = 0
    #: The files of the spool at the end.
    spool: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    import_seconds: float = 0.0
    check: str = ""
    #: What the daemon wrote down as an error, each with the lines after it.
    logged: list[str] = field(default_factory=list)
    #: p50, p99 and maximum of each kind of call, in milliseconds.
    latency: dict[str, tuple[float, float, float]] = field(default_factory=dict)


class Load:
    """One run."""

    def __init__(self, place: Place, options: Options) -> None:
        self.place = place
        self.options = options
        self.report = Report()
        self.account = Account()
        self._busy = True
        self._began = time.monotonic()

    def run(self) -> Report:
        """Everything, from the first client to the count."""
        traffic.write_history(self.place.root / "before.jsonl", _BEFORE, "before", 3)
        self.place.ok("import", "jsonl", str(self.place.root / "before.jsonl"))
        self.place.stop()
        self._began = time.monotonic()
        anyio.run(self._all)
        report = self.report
        if self.options.deadly:
            # The last daemon may have died with work left to do, and nobody there to start another.
            self.place.ok("daemon", "start")
            wait_for(self._settled, self.options.grace)
        report.seconds_to_empty, left = self.place.wait_until_empty(self.options.idle + self.options.grace)
        report.left = [f"{seen.pid} {seen.command}" for seen in left]
        if left:
            told = self.place.status()
            report.left += [f"{name}: {told.get(name)}" for name in ("idle_exit_s", "clients", "commands", "stays_for")]
        report.spooled = self.place.spooled()
        report.spool = sorted(path for path, _ in machine.iter_files(self.place.directory / "spool"))
        for seen in left:
            end(seen.pid)
        self._count()
        report.logged = _complaints(self.place.directory / "daemon.log")
        done = self.place.run("admin", "check", patience=_GRACE + self.options.grace)
        report.check = "" if done.returncode == 0 else f"{done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}"
        self.place.stop()
        return report

    def _settled(self) -> bool:
        told = self.place.status()
        return not told.get("deriving", True) and not told["queues"]["events_to_file"]

    async def _all(self) -> None:
        talkers = [Talker(self.place, f"c{n:02d}", ERAS[n % 2], bearable=self.bearable) for n in range(self.options.clients)]
        leave = anyio.Event()
        async with anyio.create_task_group() as clients, anyio.create_task_group() as watching:
            watching.start_soon(self._sample)
            for talker in talkers:
                clients.start_soon(talker.talk, self.going_on, leave)
            async with anyio.create_task_group() as beside:
                self.beside(beside)
            while not all(t.rests for t in talkers):
                await anyio.sleep(0.05)
            self.report.seconds = time.monotonic() - self._began
            await anyio.to_thread.run_sync(wait_for, lambda: self.place.spooled() == 0, _GRACE)
            await anyio.to_thread.run_sync(self._strangers)
            self._busy = False
            leave.set()
        for talker in talkers:
            self.account.add(talker.account)
            self.report.calls += talker.done

    def beside(self, tasks: TaskGroup) -> None:
        """What else happens while the clients talk; they stay until it has ended."""
        tasks.start_soon(traffic.hooks, self.place, self.options.hooks, 2, self.account)
        tasks.start_soon(self._import)
        tasks.start_soon(self._victims)
        if self.options.deadly:
            tasks.start_soon(anyio.to_thread.run_sync, self._kill)

    def going_on(self, done: int, /) -> bool:
        """A client goes on for its calls, and as long as the daemon is killed."""
        return done < self.options.calls or self._killing()

    def bearable(self, _said: str, /) -> bool:
        """Whether an error is what a client has to be told at this moment."""
        return False

    def _killing(self) -> bool:
        return self.report.kills < self.options.kills or time.monotonic() - self._began < self.options.kill

    async def _sample(self) -> None:
        while self._busy:
            await anyio.to_thread.run_sync(self._look)
            await anyio.sleep(_LOOK)

    def _look(self) -> None:
        owners = self.place.owners()
        if len(owners) > 1:
            # One may have been on its way out while the other was seen.
            time.sleep(_LOOK / 8)
            owners &= self.place.owners()
        self.report.most_owners = max(self.report.most_owners, len(owners))
        self.report.owners += sorted(owners - set(self.report.owners))
        if len(owners) == 1:
            self.report.resident.append(anonymous(next(iter(owners))))

    async def _import(self) -> None:
        if not self.options.import_events:
            return
        source = self.place.root / "beside.jsonl"
        self.account.tried |= traffic.write_history(source, self.options.import_events, "beside", 5)
        began = time.monotonic()
        command = [*self.place.command, "import", "jsonl", str(source)]
        done = await anyio.run_process(command, env=self.place.environment(), cwd=self.place.home, check=False)
        self.report.import_seconds = time.monotonic() - began
        if done.returncode == 0:
            self.account.acknowledged |= {f"mark-import-beside-{n:06d}" for n in range(self.options.import_events)}
        else:
            self.account.errors.append(f"the import ended with {done.returncode}: {done.stderr.decode()[-500:]}")

    def _kill(self) -> None:
        """Kill the daemon some seconds after it first answered, again and again."""
        killed = 0
        while self._killing():
            told = self.place.status()
            pid = int(told.get("pid", 0)) if told.get("running") else 0
            if not pid or pid == killed:
                time.sleep(0.1)
                continue
            time.sleep(self.options.kill_after)
            end(pid)
            killed = pid
            self.report.kills += 1

    async def _victims(self) -> None:
        for number in range(self.options.victims):
            await anyio.to_thread.run_sync(self._victim, number)

    def _victim(self, number: int) -> None:
        """A client in a process of its own; it or its relay is killed in the middle of its work."""
        # It may be the one that starts the next daemon, which is to end as soon as any.
        which = ["--place", str(self.place.root), f"--idle={self.options.idle}"]
        command = [sys.executable, "-m", "bench.load", "--be-client", f"v{number:02d}", *which]
        with subprocess.Popen(
            command, env=self.place.environment(), cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            wanted = 4 + 3 * (number % 3)
            heard = [victim.stdout.readline() for _ in range(wanted)]
            relays = [pid for pid, seen in self.place.processes().items() if seen.parent == victim.pid]
            if not relays:
                self.account.errors.append(f"victim {number} never got as far as a relay")
            for pid in relays if number % 2 else [victim.pid]:
                end(pid)
            heard += victim.stdout.read().splitlines()
        for verb, _, mark in (line.strip().partition(" ") for line in heard if line.strip()):
            (self.account.tried if verb == "tries" else self.account.acknowledged).add(mark)
        if not wait_for(lambda: not set(relays) & set(self.place.processes()), _GRACE):
            self.report.stayed.append(f"the relay of victim {number}: {relays}")
        self.report.victims += 1

    def _strangers(self) -> None:
        """Clients that the daemon counts although their process is gone, and calls that still run for nobody."""
        strangers: list[str] = []

        def none() -> bool:
            here, told = self.place.processes(), self.place.status()
            strangers[:] = [f"counted as a client: {c}" for c in told.get("clients", ()) if c["pid"] not in here]
            if calls := told.get("queues", {}).get("calls"):
                strangers.append(f"{calls} calls for nobody")
            return not strangers

        if not wait_for(none, _GRACE):
            self.report.stayed += strangers

    def _count(self) -> None:
        found = traffic.counted(self.place.directory)
        before = {mark for mark in found if mark.startswith("mark-import-before-")}
        account, report = self.account, self.report
        report.errors, report.given_up = account.errors, account.given_up
        report.tried, report.acknowledged, report.stored = len(account.tried), len(account.acknowledged), found.total()
        report.missing = sorted(account.acknowledged - set(found))
        report.doubled = sorted(mark for mark, times in found.items() if times > 1)
        report.unknown = sorted(set(found) - account.tried - before)
        report.latency = {
            name: (1000 * statistics.median(t), 1000 * quantile(t, 0.99), 1000 * max(t)) for name, t in account.seconds.items()
        }


def failures(report: Report, options: Options) -> list[str]:
    """What does not hold, in words."""
    found = [f"{len(report.errors)} errors, such as: {e}" for e in report.errors[:_SHOWN]]
    for name in ("missing", "doubled", "unknown", "stayed", "left"):
        told: list[str] = getattr(report, name)
        if told:
            found.append(f"{len(told)} {name}: {told[:_SHOWN]}")
    if len(report.given_up) > (max(_GIVEN_UP * report.calls, options.kills) if options.deadly else 0):
        found.append(f"{len(report.given_up)} of {report.calls} calls were given up: {report.given_up[:_SHOWN]}")
    if report.most_owners != 1:
        found.append(f"{report.most_owners} processes had the store open at once")
    if not options.deadly and len(report.owners) != 1:
        found.append(f"the store changed hands: {report.owners}")
    if options.kill and report.kills < options.kill / (options.kill_after + 10):
        found.append(f"only {report.kills} kills in {options.kill:.0f} s")
    if report.spooled:
        found.append(f"{report.spooled} payloads were never drained: {report.spool[:_SHOWN]}")
    if report.check:
        found.append(f"admin check: {report.check}")
    if not options.deadly and report.calls >= _MANY:
        found += _grown(report.resident)
    most = max(report.resident, default=0)
    if most > _MOST_BYTES:
        found.append(f"the daemon took {most / 1e6:.0f} MB")
    return found


def _grown(resident_bytes: list[int]) -> list[str]:
    if len(resident_bytes) < _QUARTERED:
        return []
    quarter = len(resident_bytes) // 4
    second = statistics.median(resident_bytes[quarter : 2 * quarter])
    last = statistics.median(resident_bytes[-quarter:])
    if last <= second * _FLAT + _FLAT_BYTES:
        return []
    return [f"memory grew from {second / 1e6:.0f} MB in the second quarter to {last / 1e6:.0f} MB in the last"]


def lines(report: Report) -> list[str]:
    """The report for people."""
    memory = [b / 1e6 for b in report.resident] or [0.0]
    told = [
        f"{report.calls} calls in {report.seconds:.1f} s ({report.calls / max(report.seconds, 0.001):.0f}/s)",
        f"import beside them in {report.import_seconds:.1f} s",
        f"{report.acknowledged} of {report.tried} writes acknowledged, {len(report.missing)} lost, {len(report.doubled)} doubled",
        f"{report.kills} daemons and {report.victims} clients killed, {len(report.given_up)} calls given up as retryable",
        f"{len(report.owners)} owners of the store one after another, at most {report.most_owners} at once",
        f"anonymous memory of the daemon by quarters {_quarters(memory)} MB, at most {max(memory):.0f} MB",
        f"nothing left {report.seconds_to_empty:.1f} s after the clients went",
        "",
        f"{'call':<12}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}",
    ]
    return told + [f"{name:<12}{a:>10.1f}{b:>10.1f}{c:>10.1f}" for name, (a, b, c) in sorted(report.latency.items())]


def _complaints(log: Path) -> list[str]:
    """The first errors of a log, each with its traceback."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [part[:3000] for part in _ENTRY.split(text) if " ERROR " in part[:120]][:5]


def _quarters(memory: list[float]) -> str:
    size = max(len(memory) // 4, 1)
    return ", ".join(f"{statistics.median(memory[i : i + size]):.0f}" for i in range(0, min(4 * size, len(memory)), size))


def measure(options: Options, more: dict[str, str] | None = None) -> Report:
    """One run in a directory of its own."""
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), options.idle, more=more) as place:
        return Load(place, options).run()


def be_client(root: Path, idle: int, name: str) -> None:
    """The client that is going to be killed: says on stdout what it tries and what it was promised."""

    def heard(line: str) -> None:
        print(line, flush=True)

    async def talk() -> None:
        talker = Talker(Place(root, idle), name, ERAS[int(name[1:]) // 2 % 2], heard)
        await talker.talk(lambda _: not talker.account.errors)

    anyio.run(talk)


def main() -> int:
    """Run, print; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Options()
    for name, value in asdict(usual).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--be-client", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be_client:
        be_client(arguments.place, arguments.idle, arguments.be_client)
        return 0
    options = Options(**{name: getattr(arguments, name) for name in asdict(usual)})
    report = measure(options)
    wrong = failures(report, options)
    if arguments.json:
        print(json.dumps(asdict(report) | {"failures": wrong}))
    else:
        print("\n".join([*lines(report), "", *(f"NOT SO: {w}" for w in wrong), *report.logged] if wrong else lines(report)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
