"""The HTTP door for real: uvicorn in a thread, a store of its own, clients over loopback."""

import http.client
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import httpx2
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from memory_mcp.app import App
from memory_mcp.config import RetrievalSettings, ServerSettings, Settings
from memory_mcp.search.layers.budget import StopConditions
from memory_mcp.server.build import assemble
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.service.daemon.http import HttpDoor
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.web.asking import Memory, Pulse
from memory_mcp.web.visits import Visits
from tests.waiting import PATIENCE

T = TypeVar("T")

#: How a client comes: transport and era ("auto" speaks the newest revision).
WAYS = (("http", "auto"), ("http", "legacy"), ("sse", "auto"), ("sse", "legacy"))
#: Larger than any request of a test, and than the bound of these doors.
SMALL = 65_536


@dataclass
class Door:
    """An open door, seen from outside."""

    door: HttpDoor
    app: App
    stop: Callable[[], None]
    token: str
    hooks: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def base(self) -> str:
        host, port = self.door.address
        return f"http://{host}:{port}"

    def run(self, work: Callable[[Client], Awaitable[T]], way: tuple[str, str] = WAYS[0], **headers: str) -> T:
        """Do something with a connected client."""

        async def main() -> T:
            with anyio.fail_after(PATIENCE):
                async with self.client(way, **headers) as client:
                    return await work(client)

        return anyio.run(main)

    def client(self, way: tuple[str, str], **headers: str) -> Client:
        """A client with the token; underscores in the names of headers are hyphens."""
        transport, era = way
        sent = {"Authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        if transport == "sse":
            return Client(sse_client(f"{self.base}/sse", headers=sent), mode=era)
        own = httpx2.AsyncClient(headers=sent, timeout=httpx2.Timeout(30, read=300))
        return Client(streamable_http_client(f"{self.base}/mcp", http_client=own), mode=era)

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | Iterator[bytes] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One plain request; headers given replace the usual ones, and an empty one is left out."""
        sent = {"Host": "127.0.0.1", "Authorization": f"Bearer {self.token}", **(headers or {})}
        connection = http.client.HTTPConnection(*self.door.address, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            if isinstance(body, bytes):
                connection.putheader("Content-Length", str(len(body)))
            elif body is not None:
                connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders(body, encode_chunked=body is not None and not isinstance(body, bytes))
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def stream(self, path: str, **headers: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """An open stream, its first bytes come."""
        connection = http.client.HTTPConnection(*self.door.address, timeout=PATIENCE)
        usual = {"Authorization": f"Bearer {self.token}", "Accept": "text/event-stream"}
        connection.request("GET", path, headers={**usual, **{k.replace("_", "-"): v for k, v in headers.items()}})
        return connection, connection.getresponse()

    def initialized(self) -> str:
        """A session of the older revision; its id."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        status, told, body = self.request("POST", "/mcp", headers, json.dumps(message).encode())
        assert status == 200, body
        return told["mcp-session-id"]


@contextmanager
def opened(
    directory: Path,
    add: Callable[[MemoryServer, Host], None] = lambda server, host: None,
    take: Callable[[str, bytes], Any] | None = None,
    visits: Visits | None = None,
    **settings: Any,
) -> Iterator[Door]:
    """A door on a free port, in a thread of its own, until the end of the block; with the explorer's pages where `visits` are."""
    own = ServerSettings(http_port=0, **settings)
    unhurried = RetrievalSettings(StopConditions(timeout_ms=int(1000 * PATIENCE)))
    app = App(Settings(storage=StorageSettings(str(directory), "Europe/Berlin"), server=own, retrieval=unhurried))
    host = Host.of(app)
    server = assemble(host)
    add(server, host)
    hooks: list[tuple[str, bytes]] = []

    def keep(client: str, payload: bytes) -> dict[str, Any] | None:
        hooks.append((client, payload))
        return {"continue": True} if b"answer" in payload else None

    async def process() -> dict[str, Any]:
        return {"running": True, "clients": {}, "queues": {}}

    def pulse() -> Pulse:
        return Pulse(app.storage.events.last_seq(), app.storage.toc.current_version())

    pages = (Memory(host, process, pulse), visits) if visits else None
    door = HttpDoor(server, own, directory, lambda: {"clients": 3}, lambda: "up 1\n", take or keep, SMALL, pages)
    ready, ended = threading.Event(), threading.Event()
    loop: list[Any] = []

    async def main() -> None:
        loop.append(anyio.lowlevel.current_token())
        async with anyio.create_task_group() as tasks:
            await tasks.start(lambda *, task_status: door.serve(task_status=task_status))
            ready.set()

    def run() -> None:
        try:
            anyio.run(main)
        finally:
            ended.set()
            ready.set()

    thread = threading.Thread(target=run, name="door")
    thread.start()
    assert ready.wait(PATIENCE)

    def stop() -> None:
        if not ended.is_set():
            anyio.from_thread.run_sync(door.stop, token=loop[0])
        thread.join(PATIENCE)
        assert not thread.is_alive()

    try:
        assert not ended.is_set(), "the door did not open"
        token = own.http_token or (directory / "token").read_text().strip()
        yield Door(door, app, stop, token, hooks)
    finally:
        stop()
        app.close()
