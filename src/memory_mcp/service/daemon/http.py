"""Serves HTTP for the daemon: binds the address, checks and routes requests, and ends in time.

Invariants
1. Another address than loopback is bound only with a token and hosts that somebody wrote down.
2. Signals stay with the daemon; `stop` ends everything within `GRACE` and a few ticks, open streams at once.
"""

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from anyio.abc import TaskStatus
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from memory_mcp import __version__
from memory_mcp.base import metrics as counts
from memory_mcp.base.errors import AddressInUse, ConfigError
from memory_mcp.config import ServerSettings
from memory_mcp.service.daemon.routes import Asked, Connection, TakeHook, route_of, routes
from memory_mcp.service.daemon.security import LOOPBACK, Guard, Rules
from memory_mcp.service.daemon.token import token_of

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from memory_mcp.web.asking import Memory
    from memory_mcp.web.visits import Visits

log = logging.getLogger(__name__)

#: Largest request body (bytes): far more than any tool call, far less than memory.
MAX_BODY = 4 * 1024 * 1024
#: The head of a request is whole after so long, its body after so long more, or the connection is closed (seconds): ten times
#: what a call of the largest size takes through a tunnel of 5 Mbit/s.
HEAD_PATIENCE, BODY_PATIENCE = 10.0, 60.0
#: How long calls under way may still take when the door closes (seconds).
GRACE = 1


class HttpDoor:
    """The HTTP door: `serve` it in a task group, then `stop`."""

    def __init__(
        self,
        server: MCPServer[Any],
        settings: ServerSettings,
        data_dir: Path,
        health: Callable[[], dict[str, Any]] = dict,
        metrics: Callable[[], str] = str,
        take_hook: TakeHook = lambda client, payload: None,  # noqa: ARG005
        max_body: int = MAX_BODY,
        pages: "tuple[Memory, Visits] | None" = None,
    ) -> None:
        """Make the HTTP door of an MCP server.

        `serve` binds its address. The token is in `data_dir` unless the settings have one. `health` returns what `/health` says
        besides version, process and uptime, `metrics` the text of `/metrics`; `max_body` is the largest request body (bytes).
        `pages` are the memory and the visits of the explorer; None: no pages. Raises ConfigError for an address that must not be
        bound or an unusable token.
        """
        check_address(settings)
        self._settings, self._server = settings, server
        counts.start()
        token, token_file = token_of(settings.http_token, data_dir)
        self._pages = pages
        self._rules = Rules(token, token_file, max_body, hosts_of(settings), pages[1] if pages else None)
        self._health = health
        self._asked = Asked(self._report_health, metrics, take_hook)
        self._began = time.monotonic()
        self._uvicorn: Uvicorn | None = None
        self._connection: Connection | None = None
        #: Host and port once it is bound.
        self.address: tuple[str, int] = (settings.http_host, settings.http_port)

    @property
    def url(self) -> str:
        """The URL of streamable HTTP, /mcp."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"

    @property
    def is_closing(self) -> bool:
        """Whether it has stopped accepting requests; False before it is served."""
        return self._uvicorn is not None and self._uvicorn.should_exit

    @property
    def connections(self) -> int:
        """Number of open connections, idle ones included."""
        return len(self._uvicorn.server_state.connections) if self._uvicorn else 0

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Bind the address and serve until `stop` or cancellation.

        `task_status` is started once requests are answered. Raises AddressInUse where another program uses the port, ConfigError
        where the host is no address of this machine.
        """
        listener = bind(self._settings.http_host, self._settings.http_port)
        self.address = listener.getsockname()[:2]
        pages: list[BaseRoute] = []
        if self._pages is not None:
            from memory_mcp.web.site import list_routes as page_routes

            pages = page_routes(*self._pages)
        app = routes(self._server, self._asked, self._rules.max_body, pages)
        self._connection = Connection(app, self._settings.scope_lock)
        server = Uvicorn(Guard(self._connection, self._rules, route_of), task_status)
        self._uvicorn = server
        try:
            await server.serve([listener])
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                self.stop()
                await server.shut([listener])
            raise
        finally:
            listener.close()

    def stop(self) -> None:
        """Refuse requests and end calls after `GRACE` seconds.

        Streams end at once; then `serve` returns. Call it in the event loop's thread; a second call does nothing.
        """
        if self._uvicorn is None or self._connection is None or self._uvicorn.should_exit:
            return
        self._uvicorn.end()
        self._connection.end_streams()
        asyncio.get_running_loop().call_later(GRACE, self._connection.end_calls)

    def _report_health(self) -> dict[str, Any]:
        """Return `/health` as JSON values.

        status ("ok"), version, pid, uptime_seconds (one decimal), and the keys that `health` adds.
        """
        uptime = round(time.monotonic() - self._began, 1)
        return {"status": "ok", "version": __version__, "pid": os.getpid(), "uptime_seconds": uptime, **self._health()}


class _State(ServerState):
    """The state that uvicorn's connections share.

    Its date header is computed for each response, not by a timer every second.
    """

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response: the date."""
        return [(b"date", formatdate(usegmt=True).encode("ascii"))]

    @default_headers.setter
    def default_headers(self, value: list[tuple[bytes, bytes]]) -> None:
        """Ignore the headers that uvicorn sets as it starts."""


class _Bounded(H11Protocol):
    """A connection that closes when a request does not come whole.

    Uvicorn would wait for ever.
    """

    _waits: asyncio.TimerHandle | None = None
    _for = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request's head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in bytes, then start or stop the timer."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting as the connection is lost."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Close the connection if a request does not come in time.

        That is `HEAD_PATIENCE` seconds for the head and `BODY_PATIENCE` for the body; more bytes of the same part do not
        begin the time anew. Between whole requests nothing is timed.
        """
        state = str(self.conn.their_state)
        if state == self._for:
            return
        self._stop()
        patience = {"IDLE": HEAD_PATIENCE, "SEND_BODY": BODY_PATIENCE}.get(state)
        if patience is not None:
            self._for = state
            self._waits = self.loop.call_later(patience, self.transport.close)

    def _stop(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
        self._waits, self._for = None, ""


class Uvicorn(uvicorn.Server):
    """Uvicorn on a bound listener, without its signal handlers and logging."""

    def __init__(self, app: ASGIApp, task_status: TaskStatus[None], grace: float = GRACE) -> None:
        # The address of a proxy's client is not believed, and what listens says nothing about itself.
        config = uvicorn.Config(
            app,
            http=_Bounded,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # What does not end by itself when it sees its client leave is cut off.
            timeout_graceful_shutdown=round(grace) + 1,
        )
        super().__init__(config)
        self.server_state = _State()
        self._task_status = task_status
        self._shut = False
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait until `end` is called.

        Uvicorn looks ten times a second instead.
        """
        await self._ending.wait()

    def end(self) -> None:
        """End `main_loop`, so that the server shuts down.

        Call it in the event loop's thread.
        """
        self.should_exit = True
        self._ending.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: signals are the daemon's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, then set `task_status`."""
        await super().startup(sockets)
        self._task_status.started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, and note it for `shut`."""
        self._shut = True
        await super().shutdown(sockets)

    async def shut(self, sockets: list[socket.socket]) -> None:
        """Shut down, if it was started and is not shut already."""
        if self.started and not self._shut:
            await self.shutdown(sockets)


def hosts_of(settings: ServerSettings) -> tuple[str, ...]:
    """Return the setting's allowed Host headers besides loopback's."""
    return tuple(host for part in settings.http_allowed_hosts.split(",") if (host := part.strip()))


def check_address(settings: ServerSettings) -> None:
    """Raise ConfigError for a non-loopback host without token and hosts.

    With both, log a warning.
    """
    if settings.http_host in LOOPBACK:
        return
    needed = {"server.http_token": settings.http_token, "server.http_allowed_hosts": hosts_of(settings)}
    if missing := " and ".join(key for key, value in needed.items() if not value):
        hint = "Use server.http_host = 127.0.0.1, or set both; the connection is not encrypted, so keep a tunnel around it."
        raise ConfigError(f"server.http_host = {settings.http_host} is reachable from outside and needs {missing}", hint)
    log.warning("the HTTP door is open to the network on %s, unencrypted", settings.http_host)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address.

    Port 0 takes any free one. Raises AddressInUse where another program uses the port, ConfigError where it cannot be bound
    otherwise.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise ConfigError(f"server.http_host = {host} is no address: {error}", "Use 127.0.0.1.") from error
    listener = socket.socket(family, kind, number)
    try:
        if os.name == "posix":
            # Lets a daemon take its port again while connections of the last one still fade.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            hint = "Choose another one, or 0 for any: --port N, or the setting server.http_port."
            raise AddressInUse(f"port {port} of {host} is in use by another program", hint) from error
        hint = "Set server.http_host and server.http_port."
        raise ConfigError(f"{host} port {port} cannot be bound: {error.strerror}", hint) from error
    return listener
