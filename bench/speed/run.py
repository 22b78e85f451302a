"""One run: a store that is served, its questions, how much is asked, and clients of it."""

import itertools
import json
import random
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from bench.alone import cost
from bench.lag import family
from bench.place import PROC, Place, wait_for
from bench.speed.seen import Texts, children, clock

#: A server that does nothing, as the SDK's own first page shows it, with one tool.
EMPTY = """
from mcp.server import MCPServer
server = MCPServer('empty')
@server.tool()
def nothing(query: str) -> dict[str, str]:
    return {}
server.run('stdio')
"""
#: What a server may still do when its answer is out, seconds; it belongs to the call.
_AFTERWARDS = 0.002
#: Longest wait for a store to come to rest (seconds), and the share of a core below which it is.
_REST, _STILL = 3600.0, 0.05
#: Written events are no longer than most messages of people.
_WRITTEN = 2000


@dataclass
class Options:
    """How much of each thing is done."""

    #: Questions of a round, and those asked before memory is looked at.
    questions: int = 240
    many: int = 1000
    #: Writes of each kind, one at a time.
    writes: int = 200
    #: Seconds of doing nothing, and those in which what follows a write is over.
    idle: float = 60.0
    rest: float = 75.0
    #: Events that come alone, of each kind.
    times: int = 3
    #: Commands and handshakes of each kind; starts of the daemon.
    repeats: int = 7
    starts: int = 4
    #: Runs of what only reads; the slower counts.
    runs: int = 2
    #: Events imported beside searches; events of the small store, where it is cut from the history.
    beside: int = 10_000
    small: int = 600
    #: Seconds over which it is looked whether nothing goes on.
    still: float = 5.0


@dataclass
class Run:
    """What rows are measured on."""

    place: Place
    #: `projects/` as Claude Code keeps them, and `questions.json`.
    history: Path
    options: Options
    #: Where LoCoMo lies, if it is there.
    data: Path | None = None
    #: Whether other engines are measured beside.
    paired: bool = True
    _written: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def root(self) -> Path:
        """Where things may be put."""
        return self.place.root

    @cached_property
    def said(self) -> list[tuple[str, str]]:
        """Session and text of the store's events. The daemon is stopped for it."""
        stopped(self.place)
        return Texts(self.place).said()

    @cached_property
    def questions(self) -> list[str]:
        """Real ones, in random order; each once."""
        found = list(dict.fromkeys(json.loads((self.history / "questions.json").read_text(encoding="utf-8"))))
        random.Random(3).shuffle(found)
        return found

    def asked(self, count: int, skip: int = 0) -> list[str]:
        """So many questions; from the first again when they end."""
        return list(itertools.islice(itertools.cycle(self.questions), skip, skip + count))

    def texts(self, count: int) -> list[str]:
        """So many texts that are not in the store, of the sizes that are."""
        plain = [text[:_WRITTEN] for _, text in self.said if len(text) < 10 * _WRITTEN]
        rng = random.Random(5)
        return [f"{rng.choice(plain)} written-{next(self._written):06d}" for _ in range(count)]

    @asynccontextmanager
    async def client(self, place: Place | None = None) -> AsyncIterator["Line"]:
        """A client of the served store."""
        where = place or self.place
        async with connected(where.server(), where.root / "client.err", lambda: family(where)) as line:
            yield line

    @asynccontextmanager
    async def other(self, *command: str) -> AsyncIterator["Line"]:
        """A client of another server."""
        server = StdioServerParameters(command=sys.executable, args=[*command], env=None, cwd=Path(__file__).parents[2])
        async with connected(server, self.root / "other.err") as line:
            yield line


class Line:
    """A client on a pipe, and the processes that serve it."""

    def __init__(self, client: Client, own: set[int], more: Callable[[], set[int]]) -> None:
        self._client = client
        self._own, self._more = own, more

    @property
    def pids(self) -> set[int]:
        """The server that the client started and, once it has the store open, the daemon with its children."""
        return self._own | self._more()

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool answers; RuntimeError for an error."""
        answer = await self._client.call_tool(tool, arguments)
        if not isinstance(answer, CallToolResult) or answer.is_error:
            raise RuntimeError(f"{tool}: {answer!r}"[:500])
        return dict(answer.structured_content or {})

    async def tools(self) -> int:
        """How many tools are offered."""
        return len((await self._client.list_tools()).tools)

    async def complete(self) -> None:
        """Wait until tree and indexes hold everything."""
        with anyio.fail_after(_REST):
            while not await self._complete():
                await anyio.sleep(0.2)

    async def at_rest(self, still: float) -> None:
        """Wait for that, and until nothing has gone on for so many seconds."""
        await self.complete()
        with anyio.fail_after(_REST):
            while await self._works(still):
                continue

    async def _complete(self) -> bool:
        if (await self.call("get_retrieval_status"))["lag"]["events"]:
            return False
        status = await self.call("get_teleport_status")
        whole = all(not one.get("behind") and one.get("building") is None for one in status["indexes"].values())
        return whole and all(status[f"{name}_healthy"] or not status[f"{name}_enabled"] for name in ("bm25", "vector"))

    async def _works(self, seconds: float) -> bool:
        before = cost(self.pids).worked
        await anyio.sleep(seconds)
        return cost(self.pids).worked - before > seconds * _STILL


@asynccontextmanager
async def connected(server: StdioServerParameters, log: Path, more: Callable[[], set[int]] = set) -> AsyncIterator[Line]:
    """A client of a server; `more`: processes beside the one that the client starts."""
    before = children()
    with log.open("a", encoding="utf-8") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield Line(client, children() - before, more)


@dataclass
class Times:
    """Milliseconds of each call, by the wall and of the processor."""

    wall: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    #: Of each call, the sessions of its results.
    sessions: list[list[str]] = field(default_factory=list)


class Tool:
    """A tool as a thing that is asked questions."""

    def __init__(self, line: Line, name: str, takes: str = "query", **fixed: object) -> None:
        self.times = Times()
        self._line, self._name, self._takes, self._fixed = line, name, takes, fixed
        #: Looked up once: it takes longer than a question.
        self._pids = line.pids

    async def ask(self, text: str) -> None:
        """One question."""
        before, began = sum(map(clock, self._pids)), time.perf_counter()
        told = await self._line.call(self._name, **({self._takes: text} if self._takes else {}), **self._fixed)
        self.times.wall.append(1000 * (time.perf_counter() - began))
        await anyio.sleep(_AFTERWARDS)
        self.times.worked.append(1000 * (sum(map(clock, self._pids)) - before))
        self.times.sessions.append([one.get("session", "") for one in told.get("results", ())])

    async def list_sessions(self, text: str) -> list[str]:
        """The sessions of a whole answer, of which a short one does not tell."""
        answer = await self._line.call(self._name, **{self._takes: text}, detail="full", **self._fixed)
        return [result.get("session_id", "") for result in answer["results"]]


class Tantivy:
    """tantivy in this process, with the texts in it."""

    def __init__(self, home: Path, said: Sequence[tuple[str, str]]) -> None:
        import tantivy

        self.times = Times()
        builder = tantivy.SchemaBuilder()
        for name, how in (("text", "en_stem"), ("session", "raw")):
            builder.add_text_field(name, stored=True, tokenizer_name=how)
        home.mkdir()
        self._index = tantivy.Index(builder.build(), path=str(home))
        writer = self._index.writer(50_000_000, 1)
        for session, text in said:
            writer.add_document(tantivy.Document(text=text, session=session))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    async def ask(self, text: str) -> None:
        """One question."""
        before, began = time.thread_time(), time.perf_counter()
        query = self._index.parse_query_lenient(" ".join(re.findall(r"\w+", text)), ["text"])[0]
        found = [self._searcher.doc(at) for _, at in self._searcher.search(query, 10).hits]
        sessions = [one["session"][0] for one in found if one["text"]]
        self.times.wall.append(1000 * (time.perf_counter() - began))
        self.times.worked.append(1000 * (time.thread_time() - before))
        self.times.sessions.append(sessions)


async def in_turns(asked: Sequence[str], systems: Sequence[Tool | Tantivy], warm: Sequence[str] = ()) -> None:
    """Ask all of them each question, in an order that changes; what `warm` took is forgotten."""
    for number, text in enumerate((*warm, *asked)):
        first = number % len(systems)
        if number == len(warm):
            for system in systems:
                system.times = Times()
        for system in (*systems[first:], *systems[:first]):
            await system.ask(text)


def copied(store: Path, place: Place) -> None:
    """Put a data directory that nobody has open into a place."""
    shutil.copytree(store, place.directory, ignore=shutil.ignore_patterns("daemon.sock", "owner.json", "*.lock"))


async def started(run: Run) -> None:
    """Start the daemon anew and wait until nothing goes on any more."""
    stopped(run.place)
    run.place.ok("daemon", "start")
    async with run.client() as line:
        await line.at_rest(run.options.still)


def stopped(place: Place) -> None:
    """Stop the daemon and wait until it is gone."""
    before = family(place)
    place.run("daemon", "stop", patience=_REST)
    # One that has closed its files may still hold their locks until it is gone.
    if not wait_for(lambda: not family(place) and not any((PROC / str(pid)).exists() for pid in before), _REST):
        raise RuntimeError("the daemon does not stop")
