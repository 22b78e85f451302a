"""Serves the local socket: one line of hello each way, then MCP or the private methods until either side disconnects.

Invariants
1. Only processes of the same user are answered, known by the socket's credentials or by the secret.
2. When a client disconnects, its requests are cancelled; writes that have begun are finished.
"""

import json
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.abc

from memory_mcp import __version__
from memory_mcp.base import lines, machine, paths
from memory_mcp.base.scope import caller_project
from memory_mcp.server.caller import CALLER, Caller
from memory_mcp.service.client.door import demand_proof
from memory_mcp.service.daemon.clients import Client, Clients
from memory_mcp.service.daemon.rpc import Conversation, Lines

log = logging.getLogger(__name__)

#: Above the longest line of a client, for what its relay adds to it (bytes).
_ADDED = 1 << 17
#: How long a caller may take for its hello (seconds).
_HELLO_PATIENCE = 10.0
#: What a stream raises once either side has gone.
CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

Serve = Callable[[Conversation], Awaitable[None]]
#: Compares the settings with those of a caller's hello; its result goes into the reply.
Answer = Callable[[Mapping[str, Any]], dict[str, str]]
#: Speaks MCP on a connection until its client goes.
Speak = Callable[[anyio.abc.SocketStream, Lines, Client], Awaitable[None]]


class SocketDoor:
    """Accepts local connections and serves them."""

    def __init__(self, speak: Speak, clients: Clients, private: Serve, answer: Answer, project: str, secret: str = "") -> None:
        """Serve connections by `speak` (MCP) and `private` (methods).

        `answer` adds to a hello's reply what differs in settings. `project` is for callers that name none; `secret` must be
        proved by callers, unless it is "".
        """
        self._speak = speak
        self._clients = clients
        self._private = private
        self._answer = answer
        #: The project of callers that name none.
        self._project = project
        #: The secret that callers must prove where the system reports no credentials; "" where it does.
        self.secret = secret

    async def serve(self, listener: socket.socket) -> None:
        """Accept and serve connections until cancelled."""
        async with await anyio.abc.SocketListener.from_socket(listener) as door:
            await door.serve(self._accept_connection)

    async def _accept_connection(self, stream: anyio.abc.SocketStream) -> None:
        """Check who connects, exchange hellos, and serve the connection.

        The hellos within `_HELLO_PATIENCE` seconds. A caller that is refused is not answered; nothing is raised.
        """
        try:
            async with stream:
                if not _is_ours(stream):
                    log.warning("refused a connection of another user")
                    return
                client_lines = _Lines(stream)
                with anyio.fail_after(_HELLO_PATIENCE):
                    if self.secret and not await demand_proof(client_lines.read_object, stream.send, self.secret):
                        log.warning("refused a connection that does not know the secret of %s", paths.door_file("."))
                        return
                    hello = await client_lines.hello()
                    if hello is None:
                        return
                    greeting = {"memory-mcp": __version__, "pid": os.getpid(), **self._answer(hello)}
                    await stream.send(json.dumps(greeting, separators=(",", ":")).encode() + b"\n")
                await self._serve_connection(stream, client_lines, hello)
        except (*CLOSED, TimeoutError, OSError):
            return
        except Exception:
            log.exception("a connection ended with a defect")

    async def _serve_connection(self, stream: anyio.abc.SocketStream, client_lines: "_Lines", hello: Mapping[str, Any]) -> None:
        environ = {str(k): str(v) for k, v in dict(hello.get("environ") or {}).items()}
        cwd = str(hello.get("cwd", ""))
        kind = "rpc" if hello.get("kind") == "rpc" else "mcp"
        above = tuple(pid for pid in hello.get("above") or () if isinstance(pid, int))
        sessions = frozenset(map(str, hello.get("sessions") or ()))
        with self._clients.count_client(
            Client(kind, pid=int(hello.get("pid", 0)), cwd=cwd, above=above, sessions=sessions)
        ) as client:
            if kind == "rpc":
                await self._private(Conversation(stream, client_lines, cwd, environ, client.connection))
                return
            project = caller_project(environ, cwd, configured=self._project)
            CALLER.set(Caller(project, relayed=True, locked=hello.get("locked") is True, connection=lambda: client.connection))
            await self._speak(stream, client_lines, client)


class _Lines(Lines):
    """Whole lines of a connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._splitter = lines.Splitter(lines.LONGEST + _ADDED)
        self._ended: deque[bytes | lines.Cut] = deque()

    async def hello(self) -> dict[str, Any] | None:
        """Return the next line's object."""
        message = await self.read_object()
        return message if "memory-mcp" in message else None

    async def read_object(self) -> dict[str, Any]:
        """Return the next line's JSON object."""
        try:
            line = await self.__anext__()
            message = json.loads(line) if isinstance(line, bytes) else None
        except (StopAsyncIteration, ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}

    async def __anext__(self) -> bytes | lines.Cut:
        """Return the next line without its end; Cut if too long.

        Raises StopAsyncIteration once either side has gone; what came of a last line is dropped.
        """
        while not self._ended:
            try:
                self._ended.extend(self._splitter.feed(await self._stream.receive(1 << 18)))
            except CLOSED as error:
                # A socket that is closed with bytes unread resets the connection.
                self.is_reset = isinstance(error, anyio.BrokenResourceError)
                raise StopAsyncIteration from None
        return self._ended.popleft()


def _is_ours(stream: anyio.abc.SocketStream) -> bool:
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    if not hasattr(socket, "AF_UNIX") or raw.family != socket.AF_UNIX:
        return True
    return machine.peer(raw) in (None, os.getuid(), 0)
