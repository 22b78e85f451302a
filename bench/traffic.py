"""What clients, hooks and an import do all day, each piece of it marked, so that it can be counted afterwards.

A mark is one word that occurs in exactly one stored text, such as `mark-remember-c03-0017`.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import duckdb
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Implementation, TextContent

from bench import corpus
from bench.place import Place

MARK = re.compile(r"\bmark-[a-z]+-[a-z0-9]+-\d+\b")
ERAS = ("auto", "legacy")
#: No call may take longer, in seconds: the time a client of ours would give up after.
SLOWEST = 60.0
#: How often each call is made, of twenty.
_MIX = {"search": 5, "remember": 4, "expand": 3, "browse": 2, "children": 2, "ingest": 2, "status": 2}
_BATCH = 3
_GIVEN_UP = re.compile(r"UNAVAILABLE: .* A retry may help")
#: How long a process that ended may keep its locks (seconds).
_LET_GO = 60.0


@dataclass
class Account:
    """What was tried, what was acknowledged, what went wrong, and how long each kind of call took."""

    tried: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    #: Calls that the relay gave up, saying that they may be made again.
    given_up: list[str] = field(default_factory=list)
    #: Calls that were refused with a reason that held at that moment, such as a full disk.
    refused: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, other: "Account") -> None:
        """Take in another's."""
        self.tried |= other.tried
        self.acknowledged |= other.acknowledged
        self.errors += other.errors
        self.given_up += other.given_up
        self.refused += other.refused
        for name, times in other.seconds.items():
            self.seconds.setdefault(name, []).extend(times)


class Talker:
    """One MCP client on a pipe of its own that calls one tool after another."""

    def __init__(
        self,
        place: Place,
        name: str,
        era: str,
        heard: Callable[[str], None] = lambda _: None,
        bearable: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.account = Account()
        self.done = 0
        #: Whether it has made all its calls, or can make no more.
        self.rests = False
        self._place = place
        self._name = name
        self._era = era
        self._heard = heard
        self._bearable = bearable
        self._rng = random.Random(f"talker {name}")
        self._words = corpus.Vocabulary(random.Random(7), 5000)
        self._grips: list[str] = []
        self._nodes: list[str] = []
        self._numbers: Counter[str] = Counter()

    async def talk(self, going_on: Callable[[int], bool], leave: anyio.Event | None = None) -> None:
        """Call until `going_on` says no; then stay connected until `leave` is set. What fails is kept, never raised."""
        log = self._place.root / f"{self._name}.err"
        try:
            with log.open("a", encoding="utf-8") as errors:
                told = Implementation(name=f"load-{self._name}", version="1")
                transport = stdio_client(self._place.server(), errlog=errors)
                async with Client(transport, mode=self._era, client_info=told) as client:
                    while going_on(self.done):
                        await self._one(client)
                    self.rests = True
                    if leave is not None:
                        await leave.wait()
        except Exception as error:
            self.account.errors.append(f"{self._name}: the connection ended with {_flat(error)}")
        self.rests = True

    async def _one(self, client: Client) -> None:
        kind = self._rng.choices(list(_MIX), weights=list(_MIX.values()))[0]
        if kind == "expand" and not self._grips:
            kind = "search"
        tool, arguments, marks = self._call(kind)
        for mark in sorted(marks):
            self._heard(f"tries {mark}")
        self.account.tried |= marks
        started = time.perf_counter()
        try:
            with anyio.fail_after(SLOWEST):
                answer = await client.call_tool(tool, arguments)
        except Exception as error:
            said = f"{self._name}: {tool} raised {_flat(error)}"
            (self.account.given_up if _GIVEN_UP.search(said) else self._wrong(said)).append(said)
        else:
            self.account.seconds.setdefault(kind, []).append(time.perf_counter() - started)
            self._take(tool, answer, marks)
        self.done += 1

    def _wrong(self, said: str) -> list[str]:
        return self.account.refused if self._bearable(said) else self.account.errors

    def _call(self, kind: str) -> tuple[str, dict[str, Any], set[str]]:
        words = " ".join(self._words.word() for _ in range(self._rng.randint(1, 4)))
        if kind == "search":
            return "intelligent_search", {"query": words, "scope": "all"}, set()
        if kind == "children":
            return "search_children", {"query": words, "scope": "all", "child_level": "segment"}, set()
        if kind == "browse":
            return "browse_toc", {"node_id": self._rng.choice(["", *self._nodes]), "scope": "all"}, set()
        if kind == "expand":
            return "expand_grip", {"grip_id": self._rng.choice(self._grips)}, set()
        if kind == "status":
            return "get_retrieval_status", {}, set()
        if kind == "remember":
            mark = self._mark("remember")
            return "remember", {"text": f"We decided to keep {words} as it is, see {mark}."}, {mark}
        marks = [self._mark("ingest") for _ in range(_BATCH)]
        return "ingest_events", {"events": [self._event(mark, words) for mark in marks]}, set(marks)

    def _event(self, mark: str, words: str) -> dict[str, str]:
        at = corpus.START.replace(microsecond=self._rng.randrange(1_000_000)).isoformat()
        return {"session_id": f"live-{self._name}", "timestamp": at, "role": "user", "text": f"Look at {words}, {mark}."}

    def _mark(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"mark-{kind}-{self._name}-{self._numbers[kind]:05d}"

    def _take(self, tool: str, answer: object, marks: set[str]) -> None:
        if not isinstance(answer, CallToolResult) or answer.is_error:
            blocks = answer.content if isinstance(answer, CallToolResult) else ()
            text = " ".join(b.text for b in blocks if isinstance(b, TextContent))
            said = f"{self._name}: {tool} answered with an error: {text or answer!r}"
            self._wrong(said).append(said)
            return
        self.account.acknowledged |= marks
        for mark in sorted(marks):
            self._heard(f"has {mark}")
        told = answer.structured_content if isinstance(answer.structured_content, dict) else {}
        found = told.get("results", [])
        if tool == "intelligent_search":
            self._grips = [*self._grips, *(r["grip"] for r in found if "grip" in r)][-50:]
        self._nodes = [*self._nodes, *(r["node_id"] for r in found if "node_id" in r)][-20:]


async def hooks(
    place: Place,
    count: int,
    at_once: int,
    account: Account,
    first: int = 0,
    bearable: Callable[[str], bool] = lambda _: False,
) -> None:
    """So many hook processes, some at a time; each is given one prompt or answer with a mark, numbered from `first`.

    One that says something on standard error kept nothing, and says why.
    """
    limit = anyio.CapacityLimiter(at_once)

    async def one(number: int) -> None:
        async with limit:
            mark = f"mark-hook-h-{number:05d}"
            account.tried.add(mark)
            started = time.perf_counter()
            done = await anyio.run_process(
                [*place.command, "hook", "claude-code"],
                input=json.dumps(_payload(place, number, mark)).encode(),
                env=place.environment(),
                cwd=place.home,
                check=False,
            )
            account.seconds.setdefault("hook", []).append(time.perf_counter() - started)
            if done.returncode != 0:
                account.errors.append(f"hook {number} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
            elif done.stderr:
                said = f"hook {number}: {done.stderr.decode()[-300:]}"
                (account.refused if bearable(said) else account.errors).append(said)
            else:
                account.acknowledged.add(mark)

    async with anyio.create_task_group() as tasks:
        for number in range(first, first + count):
            tasks.start_soon(one, number)


def _payload(place: Place, number: int, mark: str) -> dict[str, str]:
    common = {
        "session_id": f"hooked-{number // 20:04d}",
        "transcript_path": str(place.home / "transcript.jsonl"),
        "cwd": str(place.home),
        "permission_mode": "default",
    }
    if number % 2:
        return {**common, "hook_event_name": "Stop", "last_assistant_message": f"The retry queue is drained, see {mark}."}
    return {**common, "hook_event_name": "UserPromptSubmit", "prompt": f"Please look at the retry queue, {mark}."}


def history(count: int, name: str, seed: int) -> Iterator[dict[str, object]]:
    """Made-up events as `corpus` makes them, each with a mark, and with ids that no other name has."""
    for number, event in enumerate(corpus.events(count, seed=seed)):
        own = {"id": f"{name}-{event['id']}", "session_id": f"{name}-{event['session_id']}"}
        yield event | own | {"text": f"{event['text']} See mark-import-{name}-{number:06d}."}


def write_history(path: Path, count: int, name: str, seed: int) -> set[str]:
    """Write them to a file; their marks."""
    with path.open("w", encoding="utf-8") as out:
        for event in history(count, name, seed):
            out.write(json.dumps(event) + "\n")
    return {f"mark-import-{name}-{number:06d}" for number in range(count)}


def counted(directory: Path) -> Counter[str]:
    """How many stored events hold each mark; nobody may have the store open, but for a process that is just ending."""
    deadline = time.monotonic() + _LET_GO
    while True:
        try:
            con = duckdb.connect(str(directory / "memory.duckdb"), read_only=True)
        except duckdb.IOException:
            # A process has no command line any more some time before the system takes its locks away.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            continue
        with con:
            return Counter(m for (text,) in con.execute("SELECT text FROM event").fetchall() for m in set(MARK.findall(text)))


def _flat(error: BaseException) -> str:
    """What went wrong, out of whatever groups it came in."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_flat(e) for e in error.exceptions)
    return f"{type(error).__name__}: {error}"
