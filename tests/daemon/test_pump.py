"""The pump as a client starts it: real processes, real clients in both eras, daemons killed for real."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client

from bench.place import Place, resident
from bench.skills import calls_in
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.service.client import link
from memory_mcp.service.client.door import connect
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import look, needs_proc
from tests.waiting import PATIENCE, until

T = TypeVar("T")
ERAS = ("auto", "legacy")

pytestmark = needs_proc


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One whose daemon is started by whoever needs it first."""
    with Beside(tmp_path_factory.mktemp("lasting"), more=SERVED) as made:
        yield made


@pytest.fixture
def place(lasting: Place) -> Place:
    """The same one, with a daemon that has no client."""
    lasting.ok("daemon", "start")
    until(lambda: look(lasting)["clients"] == [])
    return lasting


def talk(place: Place, work: Callable[[Client], Awaitable[T]], era: str = "auto", name: str = "tester") -> T:
    from mcp.types import Implementation

    async def main() -> T:
        async with asyncio.timeout(PATIENCE):
            async with Client(place.server(), mode=era, client_info=Implementation(name=name, version="7")) as client:
                return await work(client)

    return asyncio.run(main())


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    assert isinstance(found.structured_content, dict)
    return found.structured_content


def owner(place: Place) -> int:
    return int(look(place)["pid"])


def named(place: Place) -> dict[str, Any]:
    """The daemon's state once its clients have reached it: they may have been answered before."""
    until(lambda: (clients := look(place)["clients"]) and all(client["name"] for client in clients))
    return look(place)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("era", "point"),
    [
        ("legacy", "events.committed:2"),
        ("auto", "events.committed:2"),
        ("legacy", "events.before_commit:2"),
        ("auto", "events.before_commit:2"),
    ],
)
@pytest.mark.few(1)
def test_a_write_in_flight_when_the_daemon_dies_is_applied_once(lasting: Place, era: str, point: str) -> None:
    """Killed at the second write, before or after its commit; the pump sends it again to the next daemon."""
    words = f"The blue valve opens to the left, said {era} at {point}."
    lasting.stop()
    lasting.settings[VARIABLE] = point
    lasting.ok("daemon", "start")
    del lasting.settings[VARIABLE]

    async def work(client: Client) -> None:
        await call(client, "remember", text="Nothing special.")
        before = await asyncio.to_thread(owner, lasting)
        made = await call(client, "remember", text=words)
        assert await asyncio.to_thread(owner, lasting) != before
        found = await call(client, "get_events", limit=50, scope="all")
        assert [e["event_id"] for e in found["events"] if e["text"] == words] == [made["event_id"]]

    talk(lasting, work, era)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_on_a_pipe_reaches_the_tools_and_status_names_it(place: Place, era: str) -> None:
    async def work(client: Client) -> dict[str, Any]:
        tools = await client.list_tools()
        assert "intelligent_search" in {tool.name for tool in tools.tools}
        status = await asyncio.to_thread(named, place)
        assert resident(status["clients"][0]["pid"]) <= 15_000_000, "it loads the standard library alone"
        return status

    status = talk(place, work, era)
    [seen] = status["clients"]
    assert (seen["name"], seen["version"]) == ("tester", "7")
    assert seen["era"] == ("2026-07-28" if era == "auto" else "2025-11-25")
    assert seen["pid"] in place.processes() or seen["pid"] > 0
    assert status["rss_bytes"] > 10_000_000


def test_the_pump_loads_neither_engine_nor_protocol_nor_anything_of_others(lasting: Place) -> None:
    code = (
        "import sys, atexit, json\n"
        "atexit.register(lambda: sys.stderr.write('MODULES ' + json.dumps(sorted(sys.modules)) + '\\n'))\n"
        "from memory_mcp.__main__ import main\n"
        "sys.argv = ['memory-mcp']\n"
        "sys.exit(main())"
    )
    before = json.loads(
        subprocess.check_output([sys.executable, "-c", "import sys, json; print(json.dumps(sorted(sys.modules)))"])
    )
    given: dict[str, Any] = {"env": lasting.environment(), "input": "", "text": True, "timeout": PATIENCE}
    done = subprocess.run([sys.executable, "-c", code], **given, capture_output=True, check=True)
    loaded = set(json.loads(done.stderr.rpartition("MODULES ")[2])) - set(before)
    ours = {name for name in loaded if name.split(".")[0] == "memory_mcp"}
    client = ("service", "service.client", *(f"service.client.{name}" for name in ("door", "handshake", "link", "pump", "relay")))
    base = ("base", *(f"base.{name}" for name in ("dataclass", "environment", "lines", "machine", "ownership", "paths")))
    assert ours == {"memory_mcp", *(f"memory_mcp.{name}" for name in ("__main__", *base, *client))}
    foreign = {n.split(".")[0] for n in loaded} - set(sys.stdlib_module_names) - {"memory_mcp"}
    assert {n for n in foreign if not n.startswith("_")} == set()


def test_clients_that_start_at_once_start_one_daemon_whose_socket_is_elsewhere_where_the_directory_is_long(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 12 if request.config.getoption("--slow") else 3
    place = Place(tmp_path / ("deep" * 30), idle=60, more={**SERVED, "XDG_RUNTIME_DIR": str(tmp_path)})

    async def one() -> str:
        async with Client(place.server()) as client:
            return str((await call(client, "get_retrieval_status"))["name"])

    async def all_() -> list[str]:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*(one() for _ in range(count)))

    seen: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.update(place.owners())

    watcher = threading.Thread(target=watch)
    with place:
        watcher.start()
        try:
            assert len(asyncio.run(all_())) == count
        finally:
            over.set()
            watcher.join()
    assert len(seen) == 1
    log = (place.directory / "daemon.log").read_text()
    assert log.count(" listens") == 1
    assert not (place.directory / "daemon.sock").exists()
    assert [p.stat().st_mode & 0o777 for p in (tmp_path / "memory-mcp").glob("*.sock")] == [0o600]


@pytest.mark.slow  # in the short form: killed amid a call, below, and ended between two calls, test_settings.
@pytest.mark.parametrize(("era", "times"), [("legacy", 1), ("auto", 2)], ids=ERAS[::-1])
def test_a_client_goes_on_when_the_daemon_is_killed_between_its_calls(lasting: Place, era: str, times: int) -> None:
    """That of the newer era sends nothing again that it said at first."""

    async def work(client: Client) -> None:
        first = await call(client, "remember", text="The lighthouse keeper prefers oil lamps.")
        for _ in range(times):
            kill(await asyncio.to_thread(owner, lasting))
            second = await call(client, "remember", text="The lighthouse keeper prefers oil lamps.")
            assert second["event_id"] != first["event_id"]
            found = await call(client, "expand_grip", grip_id=first["grip_id"])
            assert found["verified"] is True

    talk(lasting, work, era)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "closed"])
def test_a_client_that_goes_leaves_no_process_and_no_connection(place: Place, how: signal.Signals | None) -> None:
    process = subprocess.Popen(
        place.command, env=place.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place.home
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    process.stdin.write(json.dumps(opening).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    until(lambda: len(look(place)["clients"]) == 1)
    if how is None:
        process.stdin.close()
    else:
        process.send_signal(how)
    assert process.wait(PATIENCE) == (0 if how is None else -how)
    process.stdout.close()
    until(lambda: look(place)["clients"] == [])
    # Beside the daemon there may be a child of it for a while, which builds an index.
    until(lambda: len(place.processes()) == 1, place.processes)


def test_serving_in_process_uses_the_daemon_that_runs_already(place: Place) -> None:
    async def work() -> tuple[dict[str, Any], set[int]]:
        async with asyncio.timeout(PATIENCE), Client(place.server("serve", "--in-process")) as client:
            await call(client, "browse_toc")
            return await asyncio.to_thread(look, place), await asyncio.to_thread(place.owners)

    status, owners = asyncio.run(work())
    assert owners == {status["pid"]}
    assert len(status["clients"]) == 1


def test_the_callers_directory_decides_its_scope(lasting: Place, tmp_path: Path) -> None:
    async def work(directory: Path) -> dict[str, Any]:
        server = lasting.server()
        server.cwd = directory
        async with asyncio.timeout(PATIENCE), Client(server) as client:
            await call(client, "remember", text=f"Written in {directory.name}.")
            return await call(client, "get_retrieval_status")

    places = [tmp_path / name for name in ("one", "two")]
    for directory in places:
        directory.mkdir()
    assert [asyncio.run(work(d))["project"] for d in places] == [str(d) for d in places]


def test_calls_stand_in_the_daemons_log_in_the_order_they_were_made(place: Place) -> None:
    log = place.directory / "daemon.log"
    before = log.stat().st_size

    async def both(client: Client) -> None:
        await client.call_tool("get_retrieval_status", {})
        await client.call_tool("intelligent_search", {"query": "quokka"})

    talk(place, both)
    until(lambda: len(calls_in(log.read_bytes()[before:].decode())) == 2)
    written = log.read_bytes()[before:].decode()
    assert calls_in(written) == ["get_retrieval_status", "intelligent_search"]
    assert "quokka" not in written


def test_what_a_client_asks_for_ends_with_it(place: Place) -> None:
    """A raw connection that leaves in the middle of a line, of a call, or before its hello takes nothing with it."""
    wanted = link.Wanted(str(place.directory))
    for said in (b"", b"{}\n", b'{"memory-mcp":"0","kind":"mcp"}\n{"jsonrpc"', b"\xff\xfe\n", b"x" * 100_000):
        with connect(str(place.directory)) as sock:
            sock.sendall(said)
    for kind in ("mcp", "rpc"):
        line = link.exchange_hellos(connect(str(place.directory)), kind, wanted)
        line.sock.sendall(b'{"id":1,"method":"nothing"}\n{"half')
        line.sock.shutdown(socket.SHUT_RDWR)
        line.close()
    until(lambda: look(place)["clients"] == [])
    assert look(place)["last_error"] == ""
