"""Serves one client whose messages come in lines, over any transport or this process's own stdin and stdout.

Invariants
1. Every line is answered here or passed on to the SDK, which is loaded for the first that is.
2. A client that takes no answers, or asks faster than it can be answered, is not read any further: what it costs is bounded.
"""

import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from memory_mcp.base import lines, machine
from memory_mcp.server.calls import Kit
from memory_mcp.server.plain import AT_ONCE, ClientMessages, Find, PlainMessages, Say, See

if TYPE_CHECKING:
    from memory_mcp.server.guard import MemoryServer

_CHUNK = 1 << 16


async def converse(
    kit: Kit,
    load_server: Callable[[], Awaitable["MemoryServer"]],
    client_lines: AsyncIterable[bytes | lines.Cut],
    say: Say,
    listens: Callable[[], bool],
    see: See = lambda _: None,
    find: Find | None = None,
) -> None:
    """Serve a client until its lines end and it is answered.

    Or until it reads no more. `client_lines` yields its lines, `say` sends it one, `listens` returns whether it still reads;
    `see` is called with each request before that is served. What is not plain is served by the server that `load_server`
    returns, in the era of the first request; until then `find` returns the answer line that is known of a request, else b"". At
    most `AT_ONCE` requests run at once; at the end answers are awaited `_ANSWERS` s.
    """
    room = anyio.Semaphore(AT_ONCE, fast_acquire=True)
    async with anyio.create_task_group() as tasks:
        messages = ClientMessages(
            client_lines, say, listens, room, PlainMessages(kit, say, see, find or _find_nothing, room, tasks)
        )
        try:
            first = await messages.read_message()
            server = await load_server()
            from memory_mcp.server.library import serve_messages

            await serve_messages(server, first, messages, say, see)
        except anyio.EndOfStream:
            return
        finally:
            tasks.cancel_scope.cancel()


async def _find_nothing(_: object) -> bytes:
    return b""


async def serve_pipe(server: "MemoryServer", kit: Kit) -> None:
    """Serve the client of stdin and stdout until it closes them.

    Meanwhile stdin is empty and stdout goes to stderr, so that nothing that prints, here or in a child, gets between messages.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)

    async def load_server() -> "MemoryServer":
        return server

    await converse(kit, load_server, _iter_lines(source), _Out(sink).say, lambda: machine.listens(sink))


class _Out:
    """Writes lines to a file, one at a time."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._turn = anyio.Lock(fast_acquire=True)

    async def say(self, line: bytes) -> None:
        """A closed pipe is ignored, since reading ends then too."""
        async with self._turn:
            # A client that neither reads nor goes would else keep this process at its end.
            await anyio.to_thread.run_sync(self._write, line, abandon_on_cancel=True)

    def _write(self, data: bytes) -> None:
        """Write all bytes to the file, waiting while it takes none."""
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            return


async def _iter_lines(file: int) -> AsyncIterator[bytes | lines.Cut]:
    """Yield a file's lines as they come, then the unterminated rest."""
    splitter = lines.Splitter()
    while got := await anyio.to_thread.run_sync(_read_some, file, abandon_on_cancel=True):
        for line in splitter.feed(got):
            yield line
    yield splitter.end()


def _read_some(file: int) -> bytes:
    """Return the next bytes of a file, up to `_CHUNK`."""
    try:
        return os.read(file, _CHUNK)
    except OSError:
        return b""
