"""Serves one client whose messages come in lines, over any transport or this process's own stdin and stdout.

Invariants
1. Every line is passed on to the SDK or answered here.
2. A client that takes no answers, or asks faster than it can be answered, is not read any further: what it costs is bounded.
"""

import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.abc
import anyio.to_thread
from mcp import types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_mcp.base import lines, machine
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.message_ids import mend_ids, restore_ids

_CHUNK = 1 << 16
#: Requests of one client that are under way at once, answers it has not taken among them: fewer than the threads that calls run
#: in (40), so that there are some left for the other clients, and more than any agent waits for.
AT_ONCE = 32
#: A client that has closed its end may still read so long what it was answered (seconds).
_LAST_WORDS = 2.0
#: What was asked before a client closed its end is answered within so long, as long as it reads (seconds), and so often it is
#: looked whether it does. Requests that last as long as the connection are not waited for.
_ANSWERS, _LOOK = 4.0, 0.05
_LASTING = "subscriptions/listen"
#: What a stream raises once either side has gone.
CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

#: Sends a line to the client.
Say = Callable[[bytes], Awaitable[None]]
#: Told each request before it is served.
See = Callable[[types.JSONRPCRequest], None]


def parse_line(line: bytes | lines.Cut) -> SessionMessage | bytes | None:
    """Return a line's message, or the error line that answers it.

    The error line is bytes; None for an empty line. A line that was cut for its length is answered with an error too.
    """
    # Not the SDK first: for it, a request whose id is null or a fraction is a notification.
    checked = lines.read_line(line)
    if not checked.line:
        return checked.answer or None
    text = json.dumps(checked.message).encode() if mend_ids(checked.message) else checked.line
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        return lines.refuse_message(checked.message, "the line is no message of the protocol")


async def converse(
    server: MemoryServer,
    client_lines: AsyncIterable[bytes | lines.Cut],
    say: Say,
    listens: Callable[[], bool],
    see: See = lambda _: None,
) -> None:
    """Serve a client until its lines end and it is answered.

    Or until it reads no more; in the era of its first request. `client_lines` yields its lines, `say` sends it one, `listens`
    returns whether it still reads; `see` is called with each request before that is served. At most `AT_ONCE` requests run at
    once; at the end answers are awaited `_ANSWERS` s.
    """
    low = server._lowlevel_server  # the SDK has no public handle for streams of one's own
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    room, all_written = anyio.Semaphore(AT_ONCE), anyio.Event()

    async def write() -> None:
        async with from_server:
            with suppress(*CLOSED):
                async for message in from_server:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await say(restore_ids(text.encode()) + b"\n")
                    if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                        room.release()
        all_written.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_client, client_lines, to_server, room, say, see, listens)
        tasks.start_soon(write)
        try:
            options = low.create_initialization_options()
            await serve_dual_era_loop(low, from_client, to_client, lifespan_state={}, init_options=options)
            with anyio.move_on_after(_LAST_WORDS):
                await all_written.wait()
        finally:
            tasks.cancel_scope.cancel()


async def _read_client(
    client_lines: AsyncIterable[bytes | lines.Cut],
    to_server: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    room: anyio.Semaphore,
    say: Say,
    see: See,
    listens: Callable[[], bool],
) -> None:
    """Pass the client's messages on, at most `AT_ONCE` requests at once.

    Errors of a line are answered here. At the end of the lines requests under way are waited for, for at most `_ANSWERS` seconds
    and only while the client reads, except those that last as long as the connection.
    """
    lasting = 0

    async def ended() -> None:
        room.release()

    async with to_server:
        with suppress(*CLOSED):
            async for line in client_lines:
                if isinstance(message := parse_line(line), bytes):
                    await say(message)
                elif message is not None:
                    if isinstance(message.message, types.JSONRPCRequest):
                        see(message.message)
                        await room.acquire()
                        lasting += message.message.method == _LASTING
                        # One that is cancelled ends without an answer.
                        message.metadata = ServerMessageMetadata(on_request_unanswered=ended)
                    await to_server.send(message)
        missing, end = AT_ONCE - lasting, anyio.current_time() + _ANSWERS
        while missing > 0 and anyio.current_time() < end and listens():
            try:
                room.acquire_nowait()
                missing -= 1
            except anyio.WouldBlock:
                await anyio.sleep(_LOOK)


async def serve_pipe(server: MemoryServer) -> None:
    """Serve the client of stdin and stdout until it closes them.

    Meanwhile stdin is empty and stdout goes to stderr, so that nothing that prints, here or in a child, gets between messages.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    await converse(server, _iter_lines(source), _Out(sink).say, lambda: machine.listens(sink))


class _Out:
    """Writes lines to a file, one at a time."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._turn = anyio.Lock()

    async def say(self, line: bytes) -> None:
        """Write a whole line in a thread, one at a time.

        A closed pipe is ignored, since reading ends then too.
        """
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
