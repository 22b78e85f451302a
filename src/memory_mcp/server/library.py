"""Serves what is not plain of a client's messages by the protocol's library. Loaded with the first of them."""

import json
from collections import deque
from contextlib import suppress
from functools import partial

import anyio
from mcp import types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_mcp.base import lines
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.message_ids import mend_ids, restore_ids
from memory_mcp.server.plain import CLOSED, GREETING_ID, ClientMessages, Say, See

#: A client that has closed its end may still read so long what it was answered (seconds).
_LAST_WORDS = 2.0


async def serve_messages(server: MemoryServer, first: lines.Read, messages: ClientMessages, say: Say, see: See) -> None:
    """Serve a client's messages from `first` on, until they end and are answered."""
    low = server._lowlevel_server  # the SDK has no public handle for streams of one's own
    stream = _LibraryStream(first, messages, say, see)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    all_written = anyio.Event()

    async def write() -> None:
        async with from_server:
            with suppress(*CLOSED):
                async for message in from_server:
                    if stream.is_for_client(message.message):
                        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await say(restore_ids(text.encode()) + b"\n")
                        if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                            messages.release_request("" if (number := message.message.id) is None else number)
        all_written.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            options = low.create_initialization_options()
            await serve_dual_era_loop(low, stream, to_client, lifespan_state={}, init_options=options)
            with anyio.move_on_after(_LAST_WORDS):
                await all_written.wait()
        finally:
            tasks.cancel_scope.cancel()


class _LibraryStream:
    """The stream from which the library reads: a greeting that was answered before, then what is not plain."""

    def __init__(self, first: lines.Read, messages: ClientMessages, say: Say, see: See) -> None:
        self._messages = messages
        self._say = say
        self._see = see
        heard = [SessionMessage(types.jsonrpc_message_adapter.validate_python(m)) for m in messages.plain.hand_over()]
        self._heard, self._first = deque(heard), [first]
        #: The parameters of a greeting that the library answers, by its id.
        self._greetings: dict[str | int, dict[str, object]] = {}

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; raises EndOfStream at the end."""
        if self._heard:
            return self._heard.popleft()
        with suppress(*CLOSED):
            while True:
                checked = self._first.pop() if self._first else await self._messages.read_message()
                text = json.dumps(checked.message).encode() if mend_ids(checked.message) else checked.line
                try:
                    message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                except ValueError:
                    await self._say(lines.refuse_message(checked.message, "the line is no message of the protocol"))
                    continue
                if not isinstance(message, types.JSONRPCRequest):
                    return SessionMessage(message)
                if message.method == "initialize":
                    self._greetings[message.id] = message.params or {}
                self._messages.plain.note_request(message.method, message.params)
                self._see(checked.message or {})
                await self._messages.admit_request(message.method, message.id)
                # One that is cancelled ends without an answer.
                release = partial(self._release, message.id)
                return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=release))
        raise anyio.EndOfStream

    def is_for_client(self, message: types.JSONRPCMessage) -> bool:
        """Return whether the client waits for a message; note the answer of a greeting."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.id is None:
            return True
        params = self._greetings.pop(message.id, None)
        if params is not None and isinstance(message, types.JSONRPCResponse):
            self._messages.plain.note_greeting(params, message.result)
        return message.id != GREETING_ID

    async def _release(self, number: str | int) -> None:
        self._messages.release_request(number)

    async def aclose(self) -> None:
        """Do nothing: whoever made the stream closes what is behind it."""

    def __aiter__(self) -> "_LibraryStream":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_LibraryStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
