"""Rows about questions: what they cost on the whole store and on a small one, and what the status costs."""

import json
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import histories, locomo
from bench.place import Place
from bench.speed import fts5
from bench.speed.run import EMPTY, Run, Tantivy, Times, Tool, in_turns, stopped
from bench.speed.seen import Texts
from bench.speed.table import Row, spread

TOOLS = ("intelligent_search", "teleport_search")
#: Milliseconds by the wall.
_BARS = {
    "intelligent_search": {"p50": 14.0, "p95": 30.0, "p99": 60.0},
    "teleport_search": {"p50": 7.0, "p95": 10.0, "p99": 15.0},
}
_SMALL_BARS = {"intelligent_search": {"p50": 9.0, "p99": 20.0}, "teleport_search": {"p50": 6.0, "p99": 12.0}}
#: Questions before it is counted, at most.
_WARM = 20
#: Conversations of LoCoMo that make the small store.
_CONVERSATIONS = 2


@asynccontextmanager
async def systems(run: Run, place: Place, said: Sequence[tuple[str, str]]) -> AsyncIterator[dict[str, Tool | Tantivy]]:
    """Our two tools and, where the run is paired, the yardsticks over the same texts."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(run.client(place))
        await ours.at_rest(run.options.still)
        found: dict[str, Tool | Tantivy] = {name: Tool(ours, name, scope="all") for name in TOOLS}
        if run.paired:
            file = place.root / "fts5.sqlite"
            if not file.exists():
                fts5.fill(file, said)
            other = await stack.enter_async_context(run.other("-m", "bench.speed.fts5", str(file)))
            empty = await stack.enter_async_context(run.other("-c", EMPTY))
            found |= {"FTS5 server": Tool(other, "search"), "empty server": Tool(empty, "nothing")}
            if find_spec("tantivy"):  # of no use to the program, so that whoever wants it beside installs it
                scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=place.root))
                found["tantivy, in process"] = Tantivy(Path(scratch) / "tantivy", said)
        yield found


async def questions(run: Run) -> list[Row]:
    """Both tools on the whole store."""
    said = run.said if run.paired else []
    count = run.options.questions
    async with systems(run, run.place, said) as found:
        await in_turns(run.asked(count), list(found.values()), run.asked(min(_WARM, count), count))
    return _rows(found, _BARS, "")


def _rows(found: Mapping[str, Tool | Tantivy], bars: Mapping[str, Mapping[str, float]], where: str) -> list[Row]:
    beside = {name: spread(name, "ms", system.times.wall) for name, system in found.items() if name not in TOOLS}
    worked = {name: spread(name, "ms", system.times.worked) for name, system in found.items() if name not in TOOLS}
    rows = []
    for name in TOOLS:
        times = found[name].times
        others = {n: row.values["p50"] for n, row in beside.items()}
        rows.append(spread(f"{name}{where}", "ms", times.wall, bars=bars[name], beside=others))
        others = {n: row.values["p50"] for n, row in worked.items()}
        rows.append(spread(f"{name}{where}, CPU of daemon and pump", "ms", times.worked, beside=others))
    for kind, others_told in (("", beside), (", CPU", worked)):
        rows += [Row(f"{name}{where}{kind}", "ms", row.values) for name, row in others_told.items()]
    return rows


async def small(run: Run) -> list[Row]:
    """The same on a small store: two conversations of LoCoMo, or the first sessions of the history."""
    with Place(run.root / "small", profile="full") as place:
        source = place.root / "small.jsonl"
        if run.data and (run.data / "locomo" / "units.jsonl").exists():
            asked, gold = _conversations(run.data / "locomo", source, run.options.questions)
            place.ok("import", "jsonl", str(source))
        else:
            asked, gold = run.asked(run.options.questions), []
            place.ok("import", "claude-code", str(_first_sessions(run.history, place.root / "part", run.options.small)))
        async with run.client(place) as line:
            await line.at_rest(run.options.still)
        stopped(place)
        texts = Texts(place)
        events, said = texts.size()[0], texts.said()
        async with systems(run, place, said) as found:
            await in_turns(asked, list(found.values()), asked[-_WARM:])
            for tool in (found[name] for name in TOOLS if gold):
                assert isinstance(tool, Tool)
                tool.times.sessions = [await tool.list_sessions(question) for question in asked]
        stopped(place)
    rows = _rows(found, _SMALL_BARS, f", {events} events")
    return [*rows, *(_right(name, system, gold) for name, system in found.items() if gold and name != "empty server")]


def _conversations(folder: Path, source: Path, count: int) -> tuple[list[str], list[set[str]]]:
    """Two conversations as events in a file; questions about them, and the sessions that answer each."""
    units = locomo.load(folder / "units.jsonl")
    names = sorted({unit["corpus"] for unit in units})[:_CONVERSATIONS]
    own = [[_named(unit) for unit in units if unit["corpus"] == name] for name in names]
    parts = []
    for number, one in enumerate(own):
        locomo.to_jsonl(one, source.with_name(f"{number}.jsonl"))
        parts.append(source.with_name(f"{number}.jsonl").read_text(encoding="utf-8"))
    source.write_text("".join(parts), encoding="utf-8")
    told = [q for q in locomo.load(folder / "queries.jsonl") if q["corpus"] in names and q["gold_sessions"]]
    told = [q for q in told if not q["category"].startswith("5")]
    told = random.Random(3).sample(told, min(count, len(told)))
    return [q["query"] for q in told], [{f"{q['corpus']}-{gold}" for gold in q["gold_sessions"]} for q in told]


def _named(unit: dict[str, Any]) -> dict[str, Any]:
    """Conversations number their sessions alike; in one store they need names of their own."""
    return {**unit, **{key: f"{unit['corpus']}-{unit[key]}" for key in ("session", "id")}}


def _first_sessions(history: Path, part: Path, events: int) -> Path:
    """Copy sessions until there are so many events."""
    for path in sorted((history / "projects").rglob("*.jsonl")):
        target = part / path.relative_to(history / "projects")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
        with path.open(encoding="utf-8") as lines:
            events -= sum(histories.counted(json.loads(line)) for line in lines)
        if events <= 0:
            break
    return part


def _right(name: str, system: Tool | Tantivy, gold: Sequence[set[str]]) -> Row:
    answers = list(zip(system.times.sessions, gold, strict=True))
    shares = {
        f"among {n}": 100 * sum(bool(own & set(list(dict.fromkeys(s))[:n])) for s, own in answers) / len(answers) for n in (1, 5)
    }
    return Row(f"{name}: the right session", "%", shares)


async def status(run: Run) -> list[Row]:
    """What `get_retrieval_status` costs, at rest and just after a write."""
    async with run.client() as line, run.other("-c", EMPTY) as other:
        await line.at_rest(run.options.still)
        ours, empty = Tool(line, "get_retrieval_status", takes=""), Tool(other, "nothing")
        await in_turns([""] * run.options.questions, [ours, empty])
        times, ours.times = ours.times, Times()
        for text in run.texts(max(3, run.options.questions // 10)):
            await line.call("remember", text=text)
            await ours.ask("")
    beside = {"empty server": spread("", "", empty.times.wall).values["p50"]}
    values = {"p50": spread("", "", times.wall).values["p50"], "worst": max(times.wall)}
    after = {"p50": spread("", "", ours.times.wall).values["p50"], "worst": max(ours.times.wall)}
    return [
        Row("get_retrieval_status", "ms", values, {"p50": 5.0, "worst": 20.0}, beside=beside),
        Row("get_retrieval_status just after a write", "ms", after, {"p50": 5.0, "worst": 20.0}),
        spread("get_retrieval_status, CPU of daemon and pump", "ms", times.worked),
    ]
