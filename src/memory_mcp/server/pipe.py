"""A client's lines as the SDK's messages or as answers of ours, and this process's own stdin and stdout as the SDK takes them."""

import os
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from memory_mcp import lines
from memory_mcp.server.guard import MemoryServer

_CHUNK = 1 << 16


def parsed(line: bytes) -> SessionMessage | bytes | None:
    """The message of a line, or the line that answers it because it is none; None for an empty one."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        found = lines.read(line)
    if not found.line:
        return found.answer or None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(found.line, by_name=False))
    except ValueError:
        return lines.refused(line, "the line is no message of the protocol")


async def serve_pipe(server: MemoryServer) -> None:
    """Serve the client of this process's stdin and stdout until it closes them.

    Meanwhile stdin is empty and stdout goes to stderr, so that nothing that prints, here or in a child, gets between messages.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    low = server._lowlevel_server  # the SDK has no public handle for streams of one's own
    out = _Out(sink)
    # The SDK iterates over the one, and calls `write` and `flush` of the other.
    stdin, stdout = cast("anyio.AsyncFile[str]", _answered(source, out)), cast("anyio.AsyncFile[str]", out)
    async with stdio_server(stdin, stdout) as (reading, writing):
        await low.run(reading, writing, low.create_initialization_options())


class _Out:
    """Lines out, one after the other, whoever says them."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._turn = anyio.Lock()

    async def write(self, text: str) -> None:
        """All of it; nothing once nobody listens, as reading ends then too."""
        async with self._turn:
            await anyio.to_thread.run_sync(self._write, text.encode())

    async def flush(self) -> None:
        """Nothing is held back."""

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            return


async def _answered(file: int, out: _Out) -> AsyncIterator[str]:
    """The lines that the server is to get; the others are answered."""
    splitter = lines.Splitter()
    while True:
        got = await anyio.to_thread.run_sync(_read, file, abandon_on_cancel=True)
        for line in splitter.feed(got) if got else [splitter.end()]:
            found = lines.read(line)
            message: Any = parsed(found.line) if found.line else None
            if isinstance(message, SessionMessage):
                yield found.line.decode()
            elif answer := found.answer or message:
                await out.write(answer.decode())
        if not got:
            return


def _read(file: int) -> bytes:
    try:
        return os.read(file, _CHUNK)
    except OSError:
        return b""
