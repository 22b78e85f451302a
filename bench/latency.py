"""How long clients wait, from outside: handshakes, calls, commands and hooks, alone and beside an import.

Things compared are measured alternately in one run, because machines change their mind. The store is made-up history,
the same for the same arguments.

    python -m bench.latency [--base 20000] [--events 100000] [--repeats 30] [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from bench import corpus, traffic
from bench.place import Place, copy_store, proportional, quantile, resident
from bench.traffic import ERAS

#: A server that does nothing, as the library's own first page shows it.
EMPTY = "from mcp.server import MCPServer; MCPServer('empty').run('stdio')"
#: Pause between two searches, in seconds: one client that thinks a little.
_PACE = 0.02
#: Beside an import a new client says hello before every so many searches.
_ROUND = 30
#: Terms of the store that occur in one event each; asking for one is the kind of question a bar stands for.
_PLANTED = 300
_SPECIFIC = "one term"
_CALLS = ("get_retrieval_status", "browse_toc", "expand_grip")
_GIVE_UP = 60.0
_TAIL_SAMPLES = 100


@dataclass
class Options:
    """What a run is made of."""

    base: int = 20_000
    events: int = 100_000
    repeats: int = 30
    calls: int = 300
    searches: int = 400


@dataclass
class Figures:
    """Milliseconds and bytes; every list is one sample per repeat."""

    warm: dict[str, list[float]] = field(default_factory=dict)
    cold: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    #: Per tool: through the relay and socket, and the function itself.
    over: dict[str, tuple[float, float]] = field(default_factory=dict)
    relay_resident: int = 0
    relay_proportional: int = 0
    daemon_resident: int = 0
    search_command: list[float] = field(default_factory=list)
    hook: list[float] = field(default_factory=list)
    nothing: list[float] = field(default_factory=list)
    #: By kind of question.
    idle_before: dict[str, list[float]] = field(default_factory=dict)
    during: dict[str, list[float]] = field(default_factory=dict)
    idle_after: dict[str, list[float]] = field(default_factory=dict)
    warm_during: list[float] = field(default_factory=list)
    #: How busy the machine was with other things as well: the load average of a minute, at the start and at the end.
    busy: list[float] = field(default_factory=list)
    import_seconds: float = 0.0
    import_status: int = 0
    import_said: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: what was measured, and what it must not exceed."""

    name: str
    value: float
    most: float
    unit: str = "ms"

    @property
    def kept(self) -> bool:
        """Whether it holds."""
        return self.value <= self.most


def bars(found: Figures) -> list[Bar]:
    """Every promise with what was measured."""
    told = [Bar(f"warm handshake to tools/list, {era}", statistics.median(t), 150) for era, t in found.warm.items()]
    if found.cold:
        ratio = statistics.median(found.cold) / statistics.median(found.empty)
        told.append(Bar("cold handshake over an empty server's", ratio, 1.5, "x"))
    told += [Bar(f"{tool} over the function itself", wire - own, 2) for tool, (wire, own) in found.over.items()]
    if found.relay_resident:
        told.append(Bar("the relay's resident memory", found.relay_resident / 1e6, 15, "MB"))
    if found.search_command:
        told.append(Bar("memory-mcp search, warm", statistics.median(found.search_command), 120))
    if found.hook:
        told.append(Bar("a hook", statistics.median(found.hook), 60))
        told.append(Bar("a hook over python -c pass", statistics.median(found.hook) / statistics.median(found.nothing), 3, "x"))
    if found.during:
        share = _tail(len(found.during[_SPECIFIC]))
        during, idle = (quantile(t[_SPECIFIC], share) for t in (found.during, found.idle_after))
        told.append(Bar(f"search p{100 * share:.0f} during an import (3x idle)", during, max(3 * idle, 30.0)))
        told.append(Bar(f"search p{100 * share:.0f} during an import", during, 100))
        told.append(Bar("handshake during an import", statistics.median(found.warm_during), 150))
    return told


def _tail(samples: int) -> float:
    """The quantile that so many samples can tell: of fewer than a hundred, the 99th would be whatever came last."""
    return 0.99 if samples >= _TAIL_SAMPLES else 0.9


async def handshake(server: StdioServerParameters, era: str, log: Path) -> float:
    """Milliseconds from nothing to the list of tools, as a client's own process sees it."""
    with log.open("a", encoding="utf-8") as errors, anyio.fail_after(_GIVE_UP):
        began = time.perf_counter()
        async with Client(stdio_client(server, errlog=errors), mode=era) as client:
            listed = await client.list_tools()
            took = 1000 * (time.perf_counter() - began)
            assert listed is not None
        return took


async def warm(place: Place, repeats: int, found: Figures) -> None:
    """New clients of a daemon that runs."""
    place.ok("daemon", "start")
    for _ in range(repeats):
        for era in ERAS:
            found.warm.setdefault(era, []).append(await handshake(place.server(), era, place.root / "warm.err"))


async def cold(place: Place, repeats: int, found: Figures) -> None:
    """A client that finds no daemon, and one that starts an empty server; in turns, and the other one first each time."""
    nothing = StdioServerParameters(command=sys.executable, args=["-c", EMPTY], env=place.environment(), cwd=place.home)
    for number in range(repeats):
        era = ERAS[number % 2]
        place.stop()
        for server, times in ((place.server(), found.cold), (nothing, found.empty))[:: 1 if number % 4 < 2 else -1]:
            times.append(await handshake(server, era, place.root / "cold.err"))


async def over(place: Place, calls: int, found: Figures) -> None:
    """Calls through relay and socket against the tool's own function on a copy of the same store, in turns."""
    place.stop()
    copy = copy_store(place, place.root / "copy")
    own = await _functions(copy)
    with (place.root / "over.err").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(place.server(), errlog=errors)) as client:
            grip = await _some_grip(client)
            arguments = {"get_retrieval_status": {}, "browse_toc": {"scope": "all"}, "expand_grip": {"grip_id": grip}}
            wire_times = {name: list[float]() for name in _CALLS}
            own_times = {name: list[float]() for name in _CALLS}
            for name in _CALLS:
                for _ in range(calls):
                    wire_times[name].append(await _timed(lambda n=name: client.call_tool(n, arguments[n])))  # type: ignore[misc]
                    own_times[name].append(await _timed(lambda n=name: own[n](**arguments[n])))  # type: ignore[misc]
            found.over = {n: (statistics.median(wire_times[n]), statistics.median(own_times[n])) for n in _CALLS}
            relay = next(p.pid for p in place.processes().values() if " daemon " not in p.command)
            found.relay_resident, found.relay_proportional = resident(relay), proportional(relay)
            found.daemon_resident = max((resident(pid) for pid in place.owners()), default=0)


async def _functions(directory: Path) -> dict[str, Callable[..., Awaitable[object]]]:
    """The tools' own functions over an App of this process."""
    from memory_mcp.app import App
    from memory_mcp.config import load
    from memory_mcp.server.host import Host
    from memory_mcp.server.tools.evidence import Evidence
    from memory_mcp.server.tools.kit import Kit
    from memory_mcp.server.tools.navigate import Navigate
    from memory_mcp.server.tools.status import Status

    kit = Kit(Host.of(App(load({}, {"storage.data_dir": str(directory), "storage.timezone": "UTC"}))), "")
    return {
        "get_retrieval_status": Status(kit).get_retrieval_status,
        "browse_toc": Navigate(kit).browse_toc,
        "expand_grip": Evidence(kit).expand_grip,
    }


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    answer = await work()
    took = 1000 * (time.perf_counter() - began)
    assert isinstance(answer, CallToolResult)
    assert not answer.is_error, answer.content
    return took


async def _some_grip(client: Client) -> str:
    for text in _questions(50):
        answer = await client.call_tool("intelligent_search", {"query": text, "scope": "all"})
        told = answer.structured_content
        if told and told["results"]:
            return str(told["results"][0]["grip"])
    raise RuntimeError("nothing in the store answers")


def _questions(count: int) -> list[str]:
    """Two to four words each, out of what was said."""
    found = []
    for event in corpus.events(count, seed=11):
        words = str(event["text"]).replace(".", "").split()
        found.append(" ".join(words[2:5]))
    return found


def commands(place: Place, repeats: int, found: Figures) -> None:
    """Commands as a shell runs them."""
    place.ok("daemon", "start")
    for text in _questions(repeats):
        found.search_command.append(_ran([*place.command, "search", *text.split(), "--json"], place))
        payload = {"session_id": "h", "cwd": str(place.home), "hook_event_name": "UserPromptSubmit", "prompt": f"Look at {text}"}
        found.nothing.append(_ran([sys.executable, "-c", "pass"], place))
        found.hook.append(_ran([*place.command, "hook", "claude-code"], place, json.dumps(payload)))


def _ran(command: list[str], place: Place, told: str = "") -> float:
    environment = place.environment()
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=place.home, input=told, capture_output=True, text=True, check=False)
    took = 1000 * (time.perf_counter() - began)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return took


async def beside_an_import(place: Place, events: int, searches: int, found: Figures) -> None:
    """One client searches at its own pace: before, while, and after a history is imported."""
    source = place.root / "more.jsonl"
    traffic.write_history(source, events, "more", 13)
    with (place.root / "beside.err").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(place.server(), errlog=errors)) as client:
            searcher = _Searcher(client)
            await searcher.search(searches // 4, {})
            await searcher.search(searches, found.idle_before)
            with subprocess.Popen(
                [*place.command, "import", "jsonl", str(source)],
                env=place.environment(),
                cwd=place.home,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as importing:
                began = time.perf_counter()
                while importing.poll() is None:
                    found.warm_during.append(await handshake(place.server(), ERAS[0], place.root / "beside2.err"))
                    await searcher.search(_ROUND, found.during, lambda: importing.poll() is None)
                found.import_seconds = time.perf_counter() - began
                found.import_status = importing.returncode
                told = importing.stderr.read() if importing.stderr else ""
                found.import_said = told[-500:] if found.import_status else ""
            await _derived(client)
            await searcher.search(searches, found.idle_after)


async def _derived(client: Client) -> None:
    """Wait until the tree has followed."""
    with anyio.fail_after(_GIVE_UP):
        while (answer := await client.call_tool("get_retrieval_status", {})).structured_content["lag"]["events"]:
            await anyio.sleep(0.1)
    assert not answer.is_error


class _Searcher:
    """Asks one question after another: for a term that one event holds, and for words that many do."""

    def __init__(self, client: Client) -> None:
        self._client = client
        specific = [f"where did {term} come up?" for term in corpus.rare_terms(_PLANTED)]
        self._questions = [q for pair in zip(specific, _questions(_PLANTED), strict=True) for q in pair]
        self._next = 0

    async def search(self, count: int, times: dict[str, list[float]], going_on: Callable[[], bool] = lambda: True) -> None:
        """So many questions at one client's pace; what each took is added to `times` by kind."""
        for _ in range(count):
            if not going_on():
                return
            kind = (_SPECIFIC, "common words")[self._next % 2]
            arguments = {"query": self._questions[self._next % len(self._questions)], "scope": "all"}
            self._next += 1
            took = await _timed(lambda a=arguments: self._client.call_tool("intelligent_search", a))  # type: ignore[misc]
            times.setdefault(kind, []).append(took)
            await anyio.sleep(_PACE)


def measure(options: Options) -> Figures:
    """Everything, in a directory of its own."""
    found = Figures(busy=[os.getloadavg()[0]])
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="default") as place:
        traffic.write_history(place.root / "base.jsonl", options.base, "base", 7, rare=_PLANTED)
        place.ok("import", "jsonl", str(place.root / "base.jsonl"))
        anyio.run(warm, place, options.repeats, found)
        anyio.run(cold, place, options.repeats, found)
        anyio.run(over, place, options.calls, found)
        commands(place, options.repeats, found)
        if options.events:
            anyio.run(beside_an_import, place, options.events, options.searches, found)
        place.stop()
    found.busy.append(os.getloadavg()[0])
    return found


def lines(found: Figures) -> list[str]:
    """The table for people."""
    told = [f"{'':<46}{'measured':>10}{'bar':>9}"]
    for bar in bars(found):
        told.append(f"{bar.name:<46}{bar.value:>10.1f}{bar.most:>9.1f} {bar.unit:<3}{'' if bar.kept else ' NOT KEPT'}")
    samples = {"warm " + era: t for era, t in found.warm.items()}
    samples |= {"cold": found.cold, "empty server, cold": found.empty, "search command": found.search_command}
    samples |= {"hook": found.hook, "python -c pass": found.nothing}
    for when, by_kind in (("idle before", found.idle_before), ("importing", found.during), ("idle after", found.idle_after)):
        samples |= {f"search, {kind}, {when}": t for kind, t in by_kind.items()}
    samples |= {"handshake beside the import": found.warm_during}
    told += ["", f"{'ms':<36}{'n':>6}{'p50':>9}{'p95':>9}{'p99':>9}{'max':>9}"]
    for name, t in samples.items():
        if t:
            shown = "".join(f"{v:>9.1f}" for v in (statistics.median(t), quantile(t, 0.95), quantile(t, 0.99), max(t)))
            told.append(f"{name:<36}{len(t):>6}{shown}")
    for tool, (wire, own) in found.over.items():
        told.append(f"{tool:<36} {wire:.2f} ms over the wire, {own:.2f} ms the function itself")
    memory = (found.relay_resident, found.relay_proportional, found.daemon_resident)
    told.append("relay {:.1f} MB resident, {:.1f} MB proportional; daemon {:.0f} MB".format(*(m / 1e6 for m in memory)))
    told.append(f"import beside the searches: {found.import_seconds:.1f} s, exit {found.import_status} {found.import_said}")
    told.append("load average " + ", then ".join(f"{b:.1f}" for b in found.busy))
    return told


def main() -> int:
    """Run, print; 1 when a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Options()
    for name, value in asdict(usual).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(Options(**{name: getattr(arguments, name) for name in asdict(usual)}))
    told = bars(found)
    if arguments.json:
        print(json.dumps({"bars": [asdict(b) | {"kept": b.kept} for b in told], "figures": asdict(found)}))
    else:
        print("\n".join(lines(found)))
    return 0 if all(b.kept for b in told) and found.import_status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
