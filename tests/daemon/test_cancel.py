"""A search that nobody waits for any more stops: the background process is idle again within a moment, however it ended."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench import corpus
from bench.place import PROC, Place
from tests.daemon.places import DAEMON, needs_proc
from tests.daemon.test_pump import call, owner, talk
from tests.fakes import FakeClock
from tests.indexes.helpers import opened

pytestmark = needs_proc

SETTINGS = {**DAEMON, "MEMORY_MCP_TELEPORT__ENABLED": "false", "MEMORY_MCP_SERVER__SCOPE": "all"}
EVENTS = 4000
#: A process that has stopped may still answer, collect garbage and look around beside others (milliseconds of its time in
#: `WATCHED`); one that goes on searching uses all of it.
IDLE, WATCHED = 250.0, 0.6
#: When it must have stopped (seconds; a loaded machine is slower than one's own).
STOPPED = float(os.environ.get("MEMORY_MCP_TEST_STOPPED", "0.3"))
#: How long a search is let work first (seconds); each of these would work for a second or more.
LET_WORK = 0.15
WIDE = {"max_nodes_visited": 1_000_000, "max_rpc_calls": 1_000_000, "timeout_ms": 60_000}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some thousand events of ten projects, filed."""
    directory = tmp_path_factory.mktemp("origin") / "data"
    source = directory.parent / "history.jsonl"
    corpus.write(source, EVENTS, mean_bytes=1500)
    app = opened(directory, FakeClock())
    app.run_import("jsonl", source)
    app.catch_up()
    app.close()
    return directory


@pytest.fixture
def place(tmp_path: Path, origin: Path) -> Iterator[Place]:
    with Place(tmp_path, idle=60, more=SETTINGS) as made:
        shutil.copytree(origin, made.directory)
        yield made


def used_ms(pid: int) -> float:
    """Processor time of a process so far."""
    told = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(told[11]) + int(told[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def hard_question(seed: int, count: int = 350) -> dict[str, Any]:
    """Hundreds of words, some of which every segment holds: each has to be read."""
    words = sorted({w for e in corpus.events(150, seed=seed) for w in str(e["text"]).split() if w.isalpha()})
    random.Random(seed).shuffle(words)
    return {"query": " ".join(words[:count])[:3900], "limit": 100, "bounds": WIDE}


async def until_idle(client: Client, pid: int) -> None:
    while (await call(client, "get_retrieval_status"))["lag"]["events"]:
        await asyncio.sleep(0.05)
    while True:
        before = used_ms(pid)
        await asyncio.sleep(WATCHED)
        if used_ms(pid) - before < IDLE:
            return


async def grown_ms(pid: int) -> float:
    """What a process uses of the processor from the moment on at which it must have stopped."""
    await asyncio.sleep(STOPPED)
    before = used_ms(pid)
    await asyncio.sleep(WATCHED)
    return used_ms(pid) - before


def test_a_request_that_is_cancelled_stops(place: Place) -> None:
    async def work(client: Client) -> None:
        pid = await asyncio.to_thread(owner, place)
        await until_idle(client, pid)
        before = used_ms(pid)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(LET_WORK):
                await client.call_tool("intelligent_search", hard_question(1))
        assert used_ms(pid) - before > LET_WORK * 1000 / 10, "it was not at work"
        assert await grown_ms(pid) < IDLE

    talk(place, work)


def test_a_search_whose_time_is_up_is_answered_and_stops(place: Place) -> None:
    async def work(client: Client) -> None:
        pid = await asyncio.to_thread(owner, place)
        await until_idle(client, pid)
        asked = hard_question(2, 60)
        began = time.monotonic()
        told = await call(client, "intelligent_search", **{**asked, "bounds": {**WIDE, "timeout_ms": 500, "min_confidence": 0}})
        assert time.monotonic() - began < 0.5 + STOPPED
        assert "timeout_ms" in told["explanation"]["bounds_hit"]
        assert await grown_ms(pid) < IDLE

    talk(place, work)


def test_a_client_that_goes_away_takes_its_search_with_it(place: Place) -> None:
    """The client is killed: nobody says that the request is cancelled."""

    async def work(client: Client) -> None:
        pid = await asyncio.to_thread(owner, place)
        await until_idle(client, pid)
        other = subprocess.Popen(place.command, env=place.environment(), cwd=place.home, stdin=-1, stdout=-1, stderr=-3)
        assert other.stdin is not None
        assert other.stdout is not None
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}
        other.stdin.write(_line(1, "initialize", hello))
        other.stdin.flush()
        await asyncio.to_thread(other.stdout.readline)
        asked = {"name": "intelligent_search", "arguments": hard_question(3)}
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n"
        before = used_ms(pid)
        other.stdin.write(note + _line(2, "tools/call", asked))
        other.stdin.flush()
        await asyncio.sleep(LET_WORK)
        other.kill()
        await asyncio.to_thread(other.wait)
        assert used_ms(pid) - before > LET_WORK * 1000 / 10, "it was not at work"
        assert await grown_ms(pid) < IDLE
        other.stdin.close()
        other.stdout.close()

    talk(place, work)


def _line(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


#: Beyond a deadline in the middle of several calls; the bar of the bench is 10 ms, on a machine of one's own (seconds).
LATE = 0.1


@pytest.mark.parametrize("timeout_ms", [20, 50, 200])
def test_a_deadline_is_kept(place: Place, timeout_ms: int) -> None:
    async def work(client: Client) -> None:
        await until_idle(client, await asyncio.to_thread(owner, place))
        waited = []
        for seed in range(9):
            query = hard_question(seed, 5)["query"]
            began = time.monotonic()
            await call(client, "intelligent_search", query=query, timeout_ms=timeout_ms)
            waited.append(time.monotonic() - began)
        assert sorted(waited)[len(waited) // 2] < timeout_ms / 1000 + LATE, waited

    talk(place, work)
