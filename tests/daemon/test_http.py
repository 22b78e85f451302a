"""The HTTP door through real clients: both transports, both eras, streams that end, calls that are given up."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from memory_mcp.app import App
from memory_mcp.base.errors import DeadlineExceeded
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from tests.daemon.door import WAYS, Door, opened
from tests.daemon.test_lines import ODD_IDS
from tests.server.test_host import run_endless
from tests.waiting import PATIENCE

CLIENT = {"name": "raw", "version": "1"}
MODERN: dict[str, Any] = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, "clientInfo": CLIENT}
ended = threading.Event()
seen: list[Exception] = []
begun = threading.Event()


def add_slow_tools(server: MemoryServer, host: Host) -> None:
    @server.tool()
    async def endless() -> str:
        def work(app: App) -> str:
            run_endless(app, ended, seen, begun)
            return "never"

        return await host.read(work)

    @server.tool()
    async def steps(ctx: Context) -> str:
        for done in range(3):
            await ctx.report_progress(done + 1, 3, f"step {done + 1}")
        return "done"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with opened(tmp_path_factory.mktemp("http") / "data", add_slow_tools) as found:
        yield found


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param  # type: ignore[no-any-return]


async def ok(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    found = await client.call_tool(name, arguments)
    assert isinstance(found, CallToolResult)
    assert not found.is_error, found.content
    assert isinstance(found.structured_content, dict)
    return found.structured_content


def test_a_client_of_either_era_lists_writes_and_finds_over_either_transport(door: Door, way: tuple[str, str]) -> None:
    words = f"The {'-'.join(way)} heron nests in the old mill."

    async def work(client: Client) -> list[Any]:
        offered = [tool.name for tool in (await client.list_tools()).tools]
        made = await ok(client, "remember", text=words)
        grip = await ok(client, "expand_grip", grip_id=made["grip_id"])
        found = await ok(client, "intelligent_search", query=f"{'-'.join(way)} heron", scope="all")
        return [len(offered) - 2, grip["grip"]["quote"], words in [r["quote"] for r in found["results"]]]

    assert door.run(work, way) == [11, words, True]


def test_two_clients_on_streams_share_the_one_open_store(door: Door) -> None:
    """A server's lifespan begins anew with every SSE stream; the store does not."""

    async def main() -> list[int]:
        counts = []
        with anyio.fail_after(PATIENCE):
            async with door.client(("sse", "legacy")) as first, door.client(("sse", "auto")) as second:
                for client in (first, second, first):
                    await ok(client, "remember", text="Herons stand on one leg.")
                    counts.append((await ok(client, "get_retrieval_status"))["store"]["events"])
        return counts

    before = door.app.storage.events.last_seq()
    assert anyio.run(main) == [before + 1, before + 2, before + 3]


def test_a_header_says_which_project_the_caller_works_on(door: Door, way: tuple[str, str]) -> None:
    async def work(client: Client) -> str:
        await ok(client, "remember", text=f"Otters are counted on Mondays, says {way}.")
        return str((await ok(client, "get_retrieval_status")).get("project", ""))

    assert door.run(work, way, Memory_Project="github.com/acme/otters") == "github.com/acme/otters"
    assert door.run(work, way) == ""
    assert door.app.storage.events.list_events(scope_of("github.com/acme/otters"))[-1].project == "github.com/acme/otters"


def scope_of(project: str) -> Any:
    from memory_mcp.storage.values import Scope

    return Scope(project)


def test_a_project_that_is_too_long_is_refused(door: Door) -> None:
    status, _, body = door.request("GET", "/health", {"Memory-Project": "x" * 501})
    assert (status, json.loads(body)["error"]["code"]) == (400, "INVALID_ARGUMENT")


def test_over_http_only_the_callers_own_key_makes_a_write_count_once(door: Door, way: tuple[str, str]) -> None:
    async def work(client: Client) -> tuple[int, int]:
        relayed: Any = {"memory-mcp/key": "pump-1/17"}
        ids = [
            (await client.call_tool("remember", {"text": "Said twice."}, meta=relayed)).structured_content["event_id"]
            for _ in range(2)
        ]
        kept = [(await ok(client, "remember", text="Said twice.", idempotency_key=f"k-{way}"))["event_id"] for _ in range(2)]
        return len(set(ids)), len(set(kept))

    assert door.run(work, way) == (2, 1)


def test_a_tool_that_reports_progress_is_heard(door: Door, way: tuple[str, str]) -> None:
    async def work(client: Client) -> list[tuple[float, float | None, str | None]]:
        heard = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        await client.call_tool("steps", {}, progress_callback=hear)
        return heard

    assert door.run(work, way) == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def test_a_call_that_its_client_gives_up_stops_its_query(door: Door, way: tuple[str, str]) -> None:
    """The newest revision closes the stream, the older one sends a word; the query ends either way."""
    ended.clear()
    begun.clear()
    seen.clear()

    async def work(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "endless", {})
            while not begun.is_set():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    door.run(work, way)
    assert ended.wait(PATIENCE)
    assert isinstance(seen[0], DeadlineExceeded)


def test_health_and_hooks_are_answered_and_everything_else_is_not_there(door: Door) -> None:
    status, headers, body = door.request("GET", "/health")
    told = json.loads(body)
    assert (status, headers["content-type"], told["status"], told["clients"]) == (200, "application/json", "ok", 3)
    assert set(told) == {"status", "version", "pid", "uptime_seconds", "clients"}
    status, headers, body = door.request("GET", "/metrics")
    assert (status, headers["content-type"], body) == (200, "text/plain; version=0.0.4; charset=utf-8", b"up 1\n")
    assert door.request("POST", "/hooks/claude-code", body=b'{"x": 1}')[::2] == (200, b"{}")
    assert door.request("POST", "/hooks/claude-code", body=b'{"answer": 1}')[::2] == (200, b'{"continue":true}')
    assert door.hooks == [("claude-code", b'{"x": 1}'), ("claude-code", b'{"answer": 1}')]


def test_a_hook_may_be_taken_by_a_coroutine(tmp_path: Path) -> None:
    async def take(client: str, payload: bytes) -> dict[str, str]:
        return {"client": client}

    with opened(tmp_path / "data", take=take) as found:
        assert found.request("POST", "/hooks/json", body=b"{}")[::2] == (200, b'{"client":"json"}')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/health/", 404),
        ("GET", "/mcp/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/hooks/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404),
        ("POST", "/hooks/..%2f..%2ftoken", 404),
        ("POST", "/hooks/Claude", 404),
        ("POST", "/health", 405),
        ("GET", "/hooks/claude-code", 405),
        ("HEAD", "/sse", 405),
        ("GET", "/messages/", 405),
        ("POST", "/messages/", 400),
    ],
)
def test_a_route_that_is_not_there_says_so_and_opens_nothing(door: Door, method: str, path: str, status: int) -> None:
    before = list(door.hooks)
    found, headers, body = door.request(method, path, {"Content-Type": "application/json"})
    assert found == status
    assert "location" not in headers
    if method != "HEAD" and path != "/messages/":
        assert json.loads(body)["error"]["hint"] == "Routes are /mcp, /sse, /health, /metrics and /hooks/CLIENT."
    assert door.hooks == before


def test_a_failure_behind_a_route_is_an_answer_without_its_details(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(client: str, payload: bytes) -> None:
        raise RuntimeError("private words")

    with opened(tmp_path / "data", take=fail) as found:
        status, _, body = found.request("POST", "/hooks/claude-code", body=b"{}")
    assert (status, json.loads(body)["error"]["code"]) == (500, "INTERNAL")
    assert b"private" not in body
    assert "private words" in caplog.text


def test_stopping_ends_open_streams(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An SSE stream and the stream of a session of the older revision are open, a query runs, and a connection idles."""
    begun.clear()
    ended.clear()
    with opened(tmp_path / "data", add_slow_tools) as found:
        sse, first = found.stream("/sse")
        assert first.readline() == b"event: endpoint\r\n"
        session, second = found.stream("/mcp", Mcp_Session_Id=found.initialized())
        assert second.status == 200
        caller = threading.Thread(target=call_endless, args=(found,), daemon=True)
        caller.start()
        assert begun.wait(PATIENCE)
        found.stop()
        first.read()
        second.read()
        caller.join(PATIENCE)
        assert not caller.is_alive()
        assert ended.wait(PATIENCE)
    for connection in (sse, session):
        connection.close()
    assert [r for r in caplog.records if r.levelname == "ERROR" and not r.getMessage().startswith("endless")] == []


def test_a_call_that_does_not_end_in_time_is_told_to_come_again(tmp_path: Path) -> None:
    begun.clear()
    ended.clear()
    with opened(tmp_path / "data", add_slow_tools) as found:
        answers: list[tuple[int, dict[str, str], bytes]] = []
        caller = threading.Thread(target=lambda: answers.append(post_endless(found)), daemon=True)
        caller.start()
        assert begun.wait(PATIENCE)
        found.stop()
        caller.join(PATIENCE)
        assert ended.wait(PATIENCE)
    [(status, _, body)] = answers
    assert (status, json.loads(body)["error"]["code"]) == (503, "UNAVAILABLE")


def post_endless(found: Door) -> tuple[int, dict[str, str], bytes]:
    """A call of the newest revision as it goes over the wire."""
    prefix = "io.modelcontextprotocol"
    meta = {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": {}}
    meta[f"{prefix}/clientInfo"] = {"name": "t", "version": "1"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "endless", "arguments": {}, "_meta": meta}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Name": "endless"}
    headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    return found.request("POST", "/mcp", headers, json.dumps(message).encode())


def test_stopping_with_streams_alone_does_not_wait_for_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path / "data") as found:
        sse, first = found.stream("/sse")
        session, second = found.stream("/mcp", Mcp_Session_Id=found.initialized())
        found.stop()
        # Both end as streams should, not cut off.
        first.read()
        second.read()
    for connection in (sse, session):
        connection.close()
    assert caplog.text == ""


def call_endless(found: Door) -> None:
    async def work(client: Client) -> None:
        await client.call_tool("endless", {})

    try:
        found.run(work)
    except Exception:
        return


def test_a_door_that_is_cancelled_closes_as_one_that_is_stopped(tmp_path: Path) -> None:
    from memory_mcp.config import ServerSettings, Settings
    from memory_mcp.server.build import build_server
    from memory_mcp.service.daemon.http import HttpDoor
    from memory_mcp.storage.settings import StorageSettings

    app = App(Settings(storage=StorageSettings(str(tmp_path / "data"), "UTC")))

    async def main() -> bool:
        door = HttpDoor(build_server(app, ""), ServerSettings(http_port=0), tmp_path / "data")
        async with anyio.create_task_group() as tasks:
            await tasks.start(lambda *, task_status: door.serve(task_status=task_status))
            stream = await anyio.connect_tcp(*door.address)
            token = (tmp_path / "data" / "token").read_text().strip()
            await stream.send(f"GET /sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            await stream.receive()
            tasks.cancel_scope.cancel()
        await stream.aclose()
        return True

    try:
        assert anyio.run(main), "it closed while a stream was open"
    finally:
        app.close()


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":4}', 1.5),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":' + b"[" * 800 + b"]" * 800 + b"}}", 3),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"x":"\xff"}}', 4),
    ],
)
def test_a_message_that_cannot_be_read_is_answered_with_its_id(door: Door, body: bytes, number: float | None) -> None:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Session-Id": door.initialized(),
    }
    status, _, answer = door.request("POST", "/mcp", headers, body)
    assert (status, json.loads(answer)["id"]) == (400, number)
    asked = b'{"name":"remember","arguments":{"text":"Half \\ud83d of it"}}'
    text = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":' + asked + b"}"
    status, _, answer = door.request("POST", "/mcp", headers, text)
    assert status == 200
    assert b"grip id" in answer


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_each_id_that_json_rpc_allows_is_answered_as_it_came(door: Door, era: str) -> None:
    """Of a reply in one piece the length is right too; a stream of progress names the token that came."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    meta: dict[str, Any] = {}
    if era == "modern":
        meta = {f"io.modelcontextprotocol/{key}": value for key, value in MODERN.items()}
        headers |= {"MCP-Protocol-Version": MODERN["protocolVersion"], "Mcp-Method": "tools/call", "Mcp-Name": "steps"}
    else:
        headers["Mcp-Session-Id"] = door.initialized()
    for number in (*ODD_IDS, "true"):
        for token in ("null", "2.5"):
            params = json.dumps({"name": "steps", "arguments": {}, "_meta": meta | {"progressToken": json.loads(token)}})
            body = f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}'
            status, _, answer = door.request("POST", "/mcp", headers, body.encode())
            messages = [json.loads(line.removeprefix(b"data: ")) for line in answer.splitlines() if b'{"' in line]
            if number == "true":
                assert (status, messages[0]["id"], messages[0]["error"]["code"]) == (400, None, -32600)
                continue
            assert (status, messages[-1]["id"], "result" in messages[-1]) == (200, json.loads(number), True)
            assert {message["params"]["progressToken"] for message in messages[:-1]} == ({2.5} if token == "2.5" else set())
