"""The Unix socket: one line of hello each way, then MCP in both eras or the private methods, until either side goes.

Invariants
1. Only processes of the same user are answered.
2. When a client goes, what it asked for is cancelled; writes that have begun are finished.
"""

import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from memory_mcp import __version__, paths
from memory_mcp.daemon.clients import Client, Clients
from memory_mcp.daemon.rpc import Conversation, Lines
from memory_mcp.scope import caller_project
from memory_mcp.server.caller import CALLER, Caller

log = logging.getLogger(__name__)

#: Longest line of a client (bytes): ten megabytes of text, escaped.
LONGEST = 64 * 1024 * 1024
_HELLO_PATIENCE = 10.0
_BACKLOG = 128
#: What a stream raises once either side has gone.
CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

Serve = Callable[[Conversation], Awaitable[None]]
#: Speaks MCP on a connection until its client goes.
Speak = Callable[[anyio.abc.SocketStream, Lines, Client], Awaitable[None]]


def bind(directory: str) -> socket.socket:
    """The listening socket of a data directory whose lock the caller holds; a stale one is replaced."""
    place = paths.socket_path(directory)
    with suppress(FileNotFoundError):
        if Path(place).exists() and not Path(place).is_socket():
            raise FileExistsError(f"{place} is in the way: it is not a socket")
        Path(place).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(place)
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def unbind(directory: str) -> None:
    """Nobody finds this daemon any more."""
    with suppress(OSError):
        Path(paths.socket_path(directory)).unlink()


class SocketDoor:
    """Serves whoever connects."""

    def __init__(self, speak: Speak, clients: Clients, private: Serve, settings: Mapping[str, str], project: str) -> None:
        self._speak = speak
        self._clients = clients
        self._private = private
        #: What this daemon was started with, to tell a caller with other settings.
        self._settings = dict(settings)
        #: Of callers that tell none.
        self._project = project

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
                lines = _Lines(stream)
                with anyio.fail_after(_HELLO_PATIENCE):
                    hello = await lines.hello()
                    if hello is None:
                        return
                    await stream.send(_line({"memory-mcp": __version__, "pid": os.getpid(), **self._note(hello)}))
                await self._serve(stream, lines, hello)
        except (*CLOSED, TimeoutError, OSError):
            return
        except Exception:
            log.exception("a connection ended with a defect")

    def _note(self, hello: Mapping[str, Any]) -> dict[str, str]:
        theirs = hello.get("settings")
        if not isinstance(theirs, dict):
            return {}
        differ = sorted(
            k for k in {*theirs, *self._settings} if theirs.get(k) != self._settings.get(k) and (k != "config" or theirs.get(k))
        )
        if not differ:
            return {}
        names = ", ".join(k.lower().replace("__", ".") for k in differ)
        return {
            "note": f"the running daemon was started with other settings ({names}); `memory-mcp daemon restart` applies yours"
        }

    async def _serve(self, stream: anyio.abc.SocketStream, lines: "_Lines", hello: Mapping[str, Any]) -> None:
        environ = {str(k): str(v) for k, v in dict(hello.get("environ") or {}).items()}
        cwd = str(hello.get("cwd", ""))
        kind = "rpc" if hello.get("kind") == "rpc" else "mcp"
        with self._clients.connected(Client(kind, pid=int(hello.get("pid", 0)), cwd=cwd)) as client:
            if kind == "rpc":
                await self._private(Conversation(stream, lines, cwd, environ))
                return
            CALLER.set(Caller(caller_project(environ, cwd, configured=self._project), relayed=True))
            await self._speak(stream, lines, client)


class _Lines(Lines):
    """Whole lines of a connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def hello(self) -> dict[str, Any] | None:
        """The first line; None for a caller that says nothing we know."""
        try:
            found = json.loads(await self.__anext__())
        except (StopAsyncIteration, ValueError):
            return None
        return found if isinstance(found, dict) and "memory-mcp" in found else None

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> bytes:
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            if start > LONGEST:
                log.warning("a client's line is longer than %d bytes; the connection is closed", LONGEST)
                raise StopAsyncIteration
            try:
                self._buffer += await self._stream.receive(1 << 18)
            except CLOSED:
                raise StopAsyncIteration from None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def _is_ours(stream: anyio.abc.SocketStream) -> bool:
    """Whether the other side belongs to this user, where the platform tells; the socket's own mode says so everywhere."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    _, user, _ = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return int(user) in (os.getuid(), 0)


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
