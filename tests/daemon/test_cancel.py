"""A search that nobody waits for any more stops, however it ended: it reads a part of what it would have read."""

import asyncio
import json
import random
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench import corpus
from bench.place import Place
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import copied, look, needs_proc
from tests.daemon.test_pump import call, talk
from tests.fakes import FakeClock
from tests.indexes.helpers import opened
from tests.waiting import until_async

pytestmark = needs_proc

SETTINGS = {**SERVED, "MEMORY_MCP_SERVER__SCOPE": "all"}
#: How many events, of so many bytes, in the short form and in the long one.
SHORT, LONG = (800, 800), (2000, 1500)
WIDE = {"max_nodes_visited": 1_000_000, "max_rpc_calls": 1_000_000, "timeout_ms": 600_000, "min_confidence": 0}
VISITED = "agentic_nodes_visited_total "


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Events of ten projects, filed."""
    events, size = LONG if request.config.getoption("--slow") else SHORT
    directory = tmp_path_factory.mktemp("origin") / "data"
    source = directory.parent / "history.jsonl"
    corpus.write(source, events, mean_bytes=size)
    app = opened(directory, FakeClock())
    app.run_import("jsonl", source)
    app.derivation.run()
    app.close()
    return directory


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, origin: Path) -> Iterator[Place]:
    with copied(origin, tmp_path_factory.mktemp("place"), SETTINGS, kind=Beside) as made:
        yield made


def hard_question(seed: int, count: int = 350) -> dict[str, Any]:
    """Hundreds of words, some of which every segment holds: each has to be read, which takes a second or more."""
    words = sorted({w for e in corpus.events(150, seed=seed) for w in str(e["text"]).split() if w.isalpha()})
    random.Random(seed).shuffle(words)
    return {"query": " ".join(words[:count])[:3900], "limit": 100, "bounds": WIDE}


@pytest.fixture(scope="module")
def whole(place: Place) -> int:
    """Nodes that such a question visits when it is let go to its end."""

    async def work(client: Client) -> int:
        before = await visited(client, place)
        told = await call(client, "intelligent_search", **hard_question(0), detail="full")
        assert "timeout_ms" not in told["explanation"]["bounds_hit"]
        return await visited(client, place) - before

    nodes = int(talk(place, work))
    assert nodes > 40
    return nodes


async def visited(client: Client, place: Place) -> int:
    """Nodes that were visited since counting began, once everything is filed and nothing is at work."""

    async def idle() -> bool:
        lag = (await call(client, "get_retrieval_status"))["lag"]["events"]
        return not lag and not any(await at_work(place))

    await until_async(idle)
    text = await asyncio.to_thread(place.ok, "admin", "stats", "--prometheus")
    (line,) = (line for line in text.splitlines() if line.startswith(VISITED))
    return int(float(line.removeprefix(VISITED)))


async def at_work(place: Place) -> tuple[int, int]:
    """Calls being answered, and threads that search, also for somebody who has gone."""
    queues = (await asyncio.to_thread(look, place))["queues"]
    return queues["calls"], queues["searches"]


async def is_searched(place: Place, answer: "asyncio.Future[Any]") -> bool:
    """Wait until a question is searched for; False for one that was answered before anyone has seen that."""
    searches = 0

    async def is_seen() -> bool:
        nonlocal searches
        searches = (await at_work(place))[1]
        return bool(searches) or answer.done()

    await until_async(is_seen)
    return bool(searches) and not answer.done()


async def visited_by_any(whole: int, give_up: Callable[[int], Awaitable[int]]) -> int:
    """Nodes that a question has visited which was given up before its end: on a busy machine not each is in time."""
    nodes = whole
    for seed in range(1, 11):
        nodes = min(nodes, await give_up(seed))
        if nodes < whole:
            break
    return nodes


def test_a_request_that_is_cancelled_stops(place: Place, whole: int) -> None:
    async def work(client: Client) -> int:
        async def give_up(seed: int) -> int:
            before = await visited(client, place)
            asking = asyncio.create_task(client.call_tool("intelligent_search", hard_question(seed)))
            if not await is_searched(place, asking):
                return whole
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return await visited(client, place) - before

        return await visited_by_any(whole, give_up)

    assert talk(place, work) < whole


# In the short form, whose memory is small, a fast machine may need no longer than the last.
@pytest.mark.parametrize("timeout_ms", [20, 50, pytest.param(200, marks=pytest.mark.slow)])
def test_a_search_whose_time_is_up_is_answered_and_stops(place: Place, whole: int, timeout_ms: int) -> None:
    async def work(client: Client) -> int:
        before = await visited(client, place)
        asked = {**hard_question(timeout_ms), "bounds": {**WIDE, "timeout_ms": timeout_ms}}
        told = await call(client, "intelligent_search", **asked, detail="full")
        assert "timeout_ms" in told["explanation"]["bounds_hit"]
        assert told["explanation"]["nodes_visited"] < whole
        return await visited(client, place) - before

    assert talk(place, work) < whole


def test_a_client_that_goes_away_takes_its_search_with_it(place: Place, whole: int) -> None:
    """The client is killed: nobody says that the request is cancelled."""

    async def work(client: Client) -> int:
        async def give_up(seed: int) -> int:
            before = await visited(client, place)
            other = subprocess.Popen(place.command, env=place.environment(), cwd=place.home, stdin=-1, stdout=-1, stderr=-3)
            assert other.stdin is not None
            assert other.stdout is not None
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}
            other.stdin.write(_line(1, "initialize", hello))
            other.stdin.flush()
            await asyncio.to_thread(other.stdout.readline)
            asked = {"name": "intelligent_search", "arguments": hard_question(100 + seed)}
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n"
            other.stdin.write(note + _line(2, "tools/call", asked))
            other.stdin.flush()
            answer = asyncio.ensure_future(asyncio.to_thread(other.stdout.readline))
            is_in_time = await is_searched(place, answer)
            other.kill()
            await asyncio.to_thread(other.wait)
            await answer
            other.stdin.close()
            other.stdout.close()
            return await visited(client, place) - before if is_in_time else whole

        return await visited_by_any(whole, give_up)

    assert talk(place, work) < whole


def _line(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


#: Of a call that is let go to its end, what one with a time limit may take beyond that limit.
LATE = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [20, 50, 200])
def test_a_deadline_is_kept_within_a_tenth_of_what_the_whole_takes(place: Place, whole: int, timeout_ms: int) -> None:
    async def timed(client: Client, bounds: dict[str, Any]) -> float:
        began = time.monotonic()
        await call(client, "intelligent_search", **{**hard_question(0), "bounds": bounds})
        return time.monotonic() - began

    async def work(client: Client) -> None:
        await visited(client, place)
        took = await timed(client, WIDE)
        waited = sorted([await timed(client, {**WIDE, "timeout_ms": timeout_ms}) for _ in range(9)])
        assert waited[4] - timeout_ms / 1000 < LATE * took, (waited, took)

    talk(place, work)
