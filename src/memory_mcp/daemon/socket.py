"""The local door: one line of hello each way, then MCP in both eras or the private methods, until either side goes.

Invariants
1. Only processes of the same user are answered: the system tells whose they are, or they know the secret.
2. When a client goes, what it asked for is cancelled; writes that have begun are finished.
"""

import json
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.abc

from memory_mcp import __version__, lines, paths
from memory_mcp.daemon.clients import Client, Clients
from memory_mcp.daemon.rpc import Conversation, Lines
from memory_mcp.door import demand
from memory_mcp.scope import caller_project
from memory_mcp.server.caller import CALLER, Caller

log = logging.getLogger(__name__)

#: Above the longest line of a client, for what its relay adds to it (bytes).
_ADDED = 1 << 17
_HELLO_PATIENCE = 10.0
#: What a stream raises once either side has gone.
CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

Serve = Callable[[Conversation], Awaitable[None]]
#: What a caller is told of the settings, by its hello.
Answer = Callable[[Mapping[str, Any]], dict[str, str]]
#: Speaks MCP on a connection until its client goes.
Speak = Callable[[anyio.abc.SocketStream, Lines, Client], Awaitable[None]]


class SocketDoor:
    """Serves whoever connects."""

    def __init__(self, speak: Speak, clients: Clients, private: Serve, answer: Answer, project: str, secret: str = "") -> None:
        self._speak = speak
        self._clients = clients
        self._private = private
        self._answer = answer
        #: Of callers that tell none.
        self._project = project
        #: What callers must know where the system does not tell whose they are; "" where it does.
        self.secret = secret

    async def serve(self, listener: socket.socket) -> None:
        """Accept until cancelled."""
        async with await anyio.abc.SocketListener.from_socket(listener) as door:
            await door.serve(self._connection)

    async def _connection(self, stream: anyio.abc.SocketStream) -> None:
        try:
            async with stream:
                if not _is_ours(stream):
                    log.warning("refused a connection of another user")
                    return
                given = _Lines(stream)
                with anyio.fail_after(_HELLO_PATIENCE):
                    if self.secret and not await demand(given.told, stream.send, self.secret):
                        log.warning("refused a connection that does not know the secret of %s", paths.door_file("."))
                        return
                    hello = await given.hello()
                    if hello is None:
                        return
                    await stream.send(_line({"memory-mcp": __version__, "pid": os.getpid(), **self._answer(hello)}))
                await self._serve(stream, given, hello)
        except (*CLOSED, TimeoutError, OSError):
            return
        except Exception:
            log.exception("a connection ended with a defect")

    async def _serve(self, stream: anyio.abc.SocketStream, given: "_Lines", hello: Mapping[str, Any]) -> None:
        environ = {str(k): str(v) for k, v in dict(hello.get("environ") or {}).items()}
        cwd = str(hello.get("cwd", ""))
        kind = "rpc" if hello.get("kind") == "rpc" else "mcp"
        with self._clients.connected(Client(kind, pid=int(hello.get("pid", 0)), cwd=cwd)) as client:
            if kind == "rpc":
                await self._private(Conversation(stream, given, cwd, environ))
                return
            project = caller_project(environ, cwd, configured=self._project)
            CALLER.set(Caller(project, relayed=True, locked=hello.get("locked") is True))
            await self._speak(stream, given, client)


class _Lines(Lines):
    """Whole lines of a connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._splitter = lines.Splitter(lines.LONGEST + _ADDED)
        self._ended: deque[bytes | lines.Cut] = deque()

    async def hello(self) -> dict[str, Any] | None:
        """The first line; None for a caller that says nothing we know."""
        found = await self.told()
        return found if "memory-mcp" in found else None

    async def told(self) -> dict[str, Any]:
        """The next line's object; empty where the line is none."""
        try:
            line = await self.__anext__()
            found = json.loads(line) if isinstance(line, bytes) else None
        except (StopAsyncIteration, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> bytes | lines.Cut:
        while not self._ended:
            try:
                self._ended.extend(self._splitter.feed(await self._stream.receive(1 << 18)))
            except CLOSED:
                raise StopAsyncIteration from None
        return self._ended.popleft()


def _is_ours(stream: anyio.abc.SocketStream) -> bool:
    """Whether the other side belongs to this user, where the platform tells; the socket's own mode says so everywhere."""
    option = getattr(socket, "SO_PEERCRED", None)
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    if option is None or raw.family != socket.AF_UNIX:
        return True
    _, user, _ = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return int(user) in (os.getuid(), 0)


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
