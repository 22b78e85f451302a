"""Everything at once, for an hour: clients, hooks and imports go on while somebody attacks what they work with.

The attacks, in an order drawn by lot: the daemon is killed, a child of it is killed, it is halted for some seconds, the disk
is full (also while the daemon is killed), files that it keeps are deleted or overwritten with noise, links are planted in
their places, clients send bytes that are no messages. After each, a write by the command has to succeed. Counted at the end:
acknowledged writes that are lost or doubled, calls that nobody answered, processes left behind.

    python -m bench.storm --minutes 60 [--clients 6] [--disk-mb 2000] [--only kill,full,links] [--json]

With `--disk-mb` the data directory is a file system of its own (root only), which is filled to its last byte; without it the
size of the daemon's files is limited.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench import traffic
from bench.load import Load, Options, Report, failures, lines
from bench.place import Place, end, wait_for
from memory_mcp.base import machine

#: How long after an attack a write may still be refused, in seconds, on a machine that is busy with all of this.
_HEALS = 90.0
#: Commands end when what they stored is filed, which takes as long as the machine is busy: after so long they hang (seconds).
_FILED = 900.0
#: How long a disk is full, links stand, a process is halted (seconds).
_HELD = (2.0, 8.0)
_PAUSE = (1.0, 6.0)
#: Refusals that name a reason a person can do something about.
_REASONS = (
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "UNAVAILABLE",
    "LOCKED",
    "is a link",
    "PERMISSION",
    "No space left",
    "the disk that holds",
)
_NOISE = ("indexes/bm25/CURRENT", "indexes/vector/CURRENT", "owner.json", "pauses.json", "daemon.log")
_DELETED = (
    "daemon.sock",
    "owner.json",
    "high-water.json",
    "briefings",
    "indexes",
    "start.lock",
    "daemon.log",
    "indexes/bm25/CURRENT",
)
_PLANTED = ("daemon.log", "owner.json", "high-water.json", "pauses.json", "daemon.sock", "token", "indexes/bm25/CURRENT")
#: Messages of a hostile client; {n} is the id under which an answer has to come.
_HOSTILE = (
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search_children","arguments":{"query":"\\ud83d"}}}',
    '{"jsonrpc":"2.0","id":%d,"method":"\\udc00/\\ud83d","params":{}}',
    '{"jsonrpc":"2.0","id":%d,"method":"ping","params":' + '{"a":' * 900 + "1" + "}" * 900 + "}",
    '{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"' + "y" * 3_000_000 + '"}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_events","arguments":{"event_ids":["\\u0000"]}}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":7,"arguments":[]}}',
)
_HELLO = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"storm","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


@dataclass
class Storms:
    """What the attacks did, and what they left."""

    attacks: dict[str, int] = field(default_factory=dict)
    #: Seconds until a write succeeded, by attack: the longest.
    healed: dict[str, float] = field(default_factory=dict)
    unhealed: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    hostile: int = 0
    written_through: list[str] = field(default_factory=list)
    refused: int = 0
    #: What clients were told when they were refused, and how often.
    reasons: dict[str, int] = field(default_factory=dict)


class Storm(Load):
    """A run under attack."""

    def __init__(self, place: Place, options: Options, seconds: float, only: list[str], each_once: bool, mounted: bool) -> None:
        super().__init__(place, options)
        self.storms = Storms()
        self._seconds = seconds
        self._only = only
        self._each_once = each_once
        self._mounted = mounted
        self._rng = random.Random("storm")
        self._over = False
        #: Until when refusals may be told.
        self._bearable_until = 0.0
        self._probes = 0
        self._last = ""

    def going_on(self, _done: int, /) -> bool:
        """Clients go on until the last attack is over."""
        return not self._over

    def bearable(self, said: str, /) -> bool:
        """Whether a refusal names a reason that holds, or held a moment ago."""
        return time.monotonic() < self._bearable_until and any(reason in said for reason in _REASONS)

    def beside(self, tasks: TaskGroup) -> None:
        """Hooks and imports without end, and the attacks."""
        tasks.start_soon(self._hooks)
        tasks.start_soon(self._imports)
        tasks.start_soon(anyio.to_thread.run_sync, self._attack)

    async def _hooks(self) -> None:
        first = 0
        while not self._over:
            await traffic.hooks(self.place, 10, 2, self.account, first, self.bearable)
            first += 10

    async def _imports(self) -> None:
        number = 0
        while not self._over:
            name = f"beside{number}"
            source = self.place.root / f"{name}.jsonl"
            marks = traffic.write_history(source, self.options.import_events, name, 5 + number)
            self.account.tried |= marks
            if await anyio.to_thread.run_sync(self._imported, source):
                self.account.acknowledged |= marks
            number += 1

    def _imported(self, source: Path) -> bool:
        """One file, tried again as a person would while what stood in the way may last."""
        for _ in range(20):
            try:
                done = self.place.run("import", "jsonl", str(source), patience=_FILED)
            except subprocess.TimeoutExpired:
                self.storms.unanswered.append(f"an import of {source.name} behind {self._last}")
                return False
            if done.returncode == 0:
                return True
            said = f"import: {done.returncode} {done.stderr[-400:]}"
            (self.account.refused if self.bearable(said) else self.account.errors).append(said)
            time.sleep(3)
        return False

    def _attack(self) -> None:
        kinds = self._only or list(self.kinds())
        ends = time.monotonic() + self._seconds
        try:
            while not self._over:
                for kind in self._rng.sample(kinds, len(kinds)):
                    if not self._each_once and time.monotonic() > ends:
                        return
                    self._one(kind)
                    if not self._each_once:
                        time.sleep(self._rng.uniform(*_PAUSE))
                if self._each_once:
                    return
        finally:
            self._over = True

    def kinds(self) -> dict[str, Callable[[], None]]:
        """The attacks by name."""
        return {
            "kill": self._kill_daemon,
            "kill-child": self._kill_child,
            "halt": self._halt,
            "full": self._full,
            "full-kill": self._full_and_killed,
            "delete": self._delete,
            "noise": self._noise,
            "links": self._links,
            "messages": self._messages,
        }

    def _one(self, kind: str) -> None:
        self._bearable_until = float("inf")
        self._last = kind
        try:
            self.kinds()[kind]()
        finally:
            began = time.monotonic()
            self._bearable_until = began + _HEALS
        self.storms.attacks[kind] = self.storms.attacks.get(kind, 0) + 1
        said: list[str] = []
        if not wait_for(lambda: self._writes(said), _HEALS):
            self.storms.unhealed.append(f"{self._last}: {said[-1]}")
            print(f"{self._last}: no write succeeded", file=sys.stderr, flush=True)
            return
        print(f"{self._last}: a write succeeded after {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        self.storms.healed[kind] = max(self.storms.healed.get(kind, 0.0), time.monotonic() - began)

    def _writes(self, said: list[str]) -> bool:
        mark = f"mark-probe-p-{self._probes:06d}"
        self._probes += 1
        self.account.tried.add(mark)
        event = {"session_id": "probe", "timestamp": "2026-03-01T10:00:00Z", "role": "user", "text": f"Still there, {mark}."}
        try:
            done = self.place.run("ingest", "-", stdin=json.dumps(event) + "\n", patience=_FILED)
        except subprocess.TimeoutExpired:
            said.append("ingest did not end")
            self.storms.unanswered.append(f"a command behind {self._last}")
            return False
        if done.returncode == 0:
            self.account.acknowledged.add(mark)
        said.append(f"{done.returncode}: {done.stderr[-400:]}")
        return done.returncode == 0

    # the attacks

    def _pid(self) -> int:
        told = self.place.status()
        return int(told.get("pid", 0)) if told.get("running") else 0

    def _chosen(self, kind: str, names: tuple[str, ...]) -> Path:
        name = self._rng.choice(names)
        self._last = f"{kind} {name}"
        return self.place.directory / name

    def _held(self) -> None:
        time.sleep(self._rng.uniform(*_HELD))

    def _kill_daemon(self) -> None:
        if pid := self._pid():
            end(pid)
            self.report.kills += 1

    def _kill_child(self) -> None:
        pid = self._pid()
        for child in [seen.pid for seen in self.place.processes().values() if seen.parent == pid]:
            os.kill(child, self._rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))

    def _halt(self) -> None:
        if pid := self._pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._held()
                os.kill(pid, signal.SIGCONT)

    def _full(self) -> None:
        with self._filled():
            self._held()

    def _full_and_killed(self) -> None:
        with self._filled():
            self._kill_daemon()
            self._held()

    @contextlib.contextmanager
    def _filled(self) -> Iterator[None]:
        if not self._mounted:
            with _limited(self._pid()):
                yield
            return
        ballast = self.place.directory / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as out:
            while out.write(bytes(1 << 16)):
                pass
        try:
            yield
        finally:
            ballast.unlink()

    def _delete(self) -> None:
        path = self._chosen("delete", _DELETED)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _noise(self) -> None:
        path = self._chosen("noise", _NOISE)
        if path.parent.exists() and not path.is_symlink():
            path.write_bytes(self._rng.randbytes(300))
        spool = self.place.directory / "spool" / "new"
        spool.mkdir(parents=True, exist_ok=True)
        (spool / f"00000000-{self._rng.randrange(10**8):08d}-claude-code").write_bytes(self._rng.randbytes(5000))

    def _links(self) -> None:
        outside = self.place.root / "outside"
        outside.write_text("somebody else's\n")
        path = self._chosen("links", _PLANTED)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(outside)
        self._held()
        if outside.read_text() != "somebody else's\n":
            self.storms.written_through.append(str(path))
        if path.is_symlink():
            path.unlink()

    def _messages(self) -> None:
        count = len(_HOSTILE)
        sent = _HELLO + "".join(f"{line % (n + 1)}\n" for n, line in enumerate(_HOSTILE)) + "no json\n\n"
        ends = f'{{"jsonrpc":"2.0","id":{count + 1},"method":"ping"}}\n'
        with subprocess.Popen(
            self.place.command,
            env=self.place.environment(),
            cwd=self.place.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as raw:
            try:
                said, _ = raw.communicate((sent + ends).encode("utf-8", "surrogatepass"), timeout=traffic.SLOWEST)
            except subprocess.TimeoutExpired:
                raw.kill()
                said = raw.communicate()[0]
        answered = {json.loads(line).get("id") for line in said.splitlines() if line.strip()}
        self.storms.hostile += count + 2
        self.storms.unanswered += [f"hostile message {n}" for n in range(count + 2) if n not in answered]

    def judge(self) -> list[str]:
        """What does not hold, in words."""
        storms, account = self.storms, self.account
        storms.refused = len(account.refused)
        storms.reasons = dict(Counter(next((r for r in _REASONS if r in said), "") for said in account.refused))
        storms.unanswered += [said for said in account.errors if "TimeoutError" in said]
        # What was planted there as noise is set aside, and stays for whoever wants to look at it.
        bad = self.place.directory / "spool" / "bad"
        self.report.spooled -= sum(1 for _ in machine.iter_files(bad))
        found = failures(self.report, self.options)
        for name in ("unhealed", "unanswered", "written_through"):
            told: list[str] = getattr(storms, name)
            if told:
                found.append(f"{len(told)} {name}: {told[:12]}")
        return found


@contextlib.contextmanager
def _limited(pid: int) -> Iterator[None]:
    """No file of the process grows while the block runs."""
    if not pid:
        yield
        return
    import resource

    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def _disk(directory: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own below the data directory."""
    if not megabytes:
        yield
        return
    directory.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def _shape(said: str) -> str:
    """An error without what differs from one to the next."""
    return re.sub(r"/\S+", "/", re.sub(r"\d+", "#", said))[:400]


def told(report: Report, storms: Storms) -> list[str]:
    """The report for people."""
    return [
        *lines(report),
        "",
        f"{sum(storms.attacks.values())} attacks, {storms.hostile} hostile messages, {storms.refused} refusals with a reason",
        f"refused: {storms.reasons}",
        *(f"{count:>6} x {said}" for said, count in Counter(_shape(e) for e in report.errors).most_common(12)),
        *(
            f"{kind:<12}{count:>5} times, a write succeeded after at most {storms.healed[kind]:.1f} s"
            for kind, count in storms.attacks.items()
        ),
    ]


def main() -> int:
    """Run, print; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--import-events", type=int, default=2000)
    parser.add_argument("--disk-mb", type=int, default=0)
    parser.add_argument("--only", default="", help="names of attacks, with commas")
    parser.add_argument("--each-once", action="store_true", help="each attack once, instead of a time")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Daemons are killed: calls may be given up as retryable, and the store changes hands.
    options = Options(clients=arguments.clients, import_events=arguments.import_events, kills=1, grace=_FILED)
    only = [name for name in arguments.only.split(",") if name]
    mounted = arguments.disk_mb
    with (
        tempfile.TemporaryDirectory() as scratch,
        _disk(Path(scratch) / "data", mounted),
        Place(Path(scratch), options.idle) as place,
    ):
        storm = Storm(place, options, 60 * arguments.minutes, only, arguments.each_once, bool(mounted))
        report = storm.run()
        wrong = storm.judge()
    if arguments.json:
        print(json.dumps(asdict(report) | {"storms": asdict(storm.storms), "failures": wrong}))
    else:
        print("\n".join([*told(report, storm.storms), "", *(f"NOT SO: {w}" for w in wrong), *(report.logged if wrong else ())]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
