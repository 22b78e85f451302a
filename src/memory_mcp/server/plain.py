"""Answers what is plain on a client's connection by itself, so that the protocol's library is loaded only for all else.

Plain are calls of tools by a client that greeted in an older era, with arguments that need no look; and, until the library is
loaded, the greeting and what else of a handshake is known from an earlier process.

Invariants
1. An answer is the library's own, byte for byte.
2. Where anything is unusual the message is the library's; it is told the greeting that it has not heard.
"""

import json
import secrets
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import anyio
import anyio.abc

from memory_mcp.base import lines, metrics
from memory_mcp.base.storable import storable_value
from memory_mcp.requests.entry import Entry
from memory_mcp.requests.registry import load_entry
from memory_mcp.server.arguments import are_plain
from memory_mcp.server.caller import agent_name, relay_key
from memory_mcp.server.calls import CALL_FIELDS, REVISIONS, Answer, Kit, make_request, note_call
from memory_mcp.server.errors import as_ours, describe
from memory_mcp.server.progress import report_progress

#: What begins the name of a field of a call's metadata that only the library looks at.
_LIBRARYS = "io.modelcontextprotocol/"
#: Requests of one client that are under way at once, answers it has not taken among them: fewer than the threads that calls run
#: in (40), so that there are some left for the other clients, and more than any agent waits for.
AT_ONCE = 32
#: What was asked before a client closed its end is answered within so long, as long as it reads (seconds), and so often it is
#: looked whether it does. Requests that last as long as the connection are not waited for.
_ANSWERS, _LOOK = 4.0, 0.05
_LASTING = "subscriptions/listen"
#: What a stream raises once either side has gone.
CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
#: Under this id the library hears a greeting again; no client knows it.
GREETING_ID = f"memory-mcp:greeting:{secrets.token_hex(8)}"
#: What is said of a call whose connection ends before it, as the library says it, and for how long that is tried (seconds).
_CLOSED_ERROR, _CLOSED_SECONDS = {"code": -32000, "message": "Connection closed"}, 1.0

#: Sends a line to the client; told each request before it is served; returns the answer line that is known of a request.
Say = Callable[[bytes], Awaitable[None]]
See = Callable[[Mapping[str, Any]], None]
Find = Callable[[Mapping[str, Any]], bytes]


class PlainMessages:
    """What is answered here of one connection."""

    def __init__(self, kit: Kit, say: Say, see: See, find: Find, room: anyio.Semaphore, tasks: anyio.abc.TaskGroup) -> None:
        """Answer in `tasks`; each call takes its place in `room`."""
        self._kit, self._say, self._see, self._find, self._room, self._tasks = kit, say, see, find, room, tasks
        #: The client's name; None before it has greeted.
        self._agent: str | None = None
        self._is_loaded = False
        self._greeting: list[dict[str, Any]] = []
        #: Calls under way, by their ids as `_correlate` gives them.
        self._calls: dict[str | int, anyio.CancelScope] = {}

    async def take_message(self, message: dict[str, Any]) -> bool:
        """Answer a message, or begin to; return False where it is the library's."""
        method = message.get("method")
        if method == "tools/call" and "id" in message:
            return await self._take_call(message)
        if method == "notifications/cancelled":
            return self._cancel_call(message)
        if self._is_loaded:
            return False
        if method == "notifications/initialized" and self._greeting:
            self._greeting[1:] = [message]
            return True
        return "id" in message and method is not None and await self._take_greeting(message)

    def hand_over(self) -> list[dict[str, Any]]:
        """Return what the library has to hear first; from now on all but calls is its own."""
        self._is_loaded = True
        return [{**message, "id": GREETING_ID} if "id" in message else message for message in self._greeting]

    def note_greeting(self, params: Mapping[str, Any] | None, result: Mapping[str, Any]) -> None:
        """Note that a client's `initialize` was answered."""
        is_known = result.get("protocolVersion") in REVISIONS
        self._agent = agent_name((params or {})["clientInfo"]["name"]) if is_known else None

    async def _take_greeting(self, message: dict[str, Any]) -> bool:
        is_first = not self._greeting
        if is_first != (message["method"] == "initialize") or not (line := self._find(message)):
            # Who begins otherwise speaks the other era, or is refused.
            return False
        self._see(message)
        if is_first:
            self._greeting.append(message)
            self.note_greeting(message.get("params"), json.loads(line)["result"])
        await self._say(line)
        return True

    def _cancel_call(self, message: Mapping[str, Any]) -> bool:
        number: Any = (message.get("params") or {}).get("requestId")
        scope = self._calls.get(_correlate(number)) if type(number) in (str, int) else None
        if scope is not None:
            scope.cancel()
        # What is not under way any more is nobody's.
        return scope is not None or not self._is_loaded

    async def _take_call(self, message: Mapping[str, Any]) -> bool:
        number, params = message["id"], storable_value(message.get("params"))
        if self._agent is None or type(number) not in (str, int) or _correlate(number) in self._calls or metrics.is_traced():
            return False
        if not _is_plain_call(params) or params["name"] not in self._kit.tools:
            return False
        entry = load_entry(params["name"])
        arguments = {name: value for name, value in (params.get("arguments") or {}).items() if value is not None}
        if not are_plain(entry.request, arguments):
            return False
        self._see(message)
        await self._room.acquire()
        self._calls[_correlate(number)] = scope = anyio.CancelScope()
        self._tasks.start_soon(self._answer_call, number, scope, entry, arguments, params.get("_meta") or {})
        return True

    async def _answer_call(
        self, number: str | int, scope: anyio.CancelScope, entry: Entry, arguments: dict[str, Any], meta: Mapping[str, Any]
    ) -> None:
        """Carry out a call and send its answer, none where the client cancels it."""
        began, outcome, line = time.perf_counter(), "cancelled", b""
        try:
            with scope:
                async with self._report_progress(entry.name, meta):
                    answer, outcome = await self._carry_out(entry, arguments, meta)
                line = _encode({"jsonrpc": "2.0", "id": number, "result": answer.as_result()})
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLOSED_SECONDS, shield=True), suppress(*CLOSED):
                await self._say(_encode({"jsonrpc": "2.0", "id": number, "error": _CLOSED_ERROR}))
            raise
        finally:
            note_call(entry.name, outcome, began)
            del self._calls[_correlate(number)]
        with suppress(*CLOSED):
            if not scope.cancel_called:
                await self._say(line)
        self._room.release()

    async def _carry_out(self, entry: Entry, arguments: dict[str, Any], meta: Mapping[str, Any]) -> tuple[Answer, str]:
        """Return a call's answer and its outcome."""
        try:
            request = make_request(entry.request, arguments, self._agent or "", partial(relay_key, meta))
            return await self._kit.answer(entry, request), "ok"
        except Exception as error:
            ours = as_ours(error, entry.name)
            return Answer(describe(ours), is_error=True), ours.code

    def _report_progress(self, name: str, meta: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
        async def tell(seconds: float, text: str) -> None:
            told = {"progressToken": meta["progressToken"], "progress": seconds, "message": text}
            with suppress(*CLOSED):
                await self._say(_encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))

        return report_progress(tell, name) if "progressToken" in meta else nullcontext()


class ClientMessages:
    """The messages of a client that are not plain, at most `AT_ONCE` requests under way at once.

    What is plain, and errors of a line, are answered here. At the end of the lines requests under way are waited for, for at most
    `_ANSWERS` seconds and only while the client reads, except those that last as long as the connection.
    """

    def __init__(
        self,
        client_lines: AsyncIterable[bytes | lines.Cut],
        say: Say,
        listens: Callable[[], bool],
        room: anyio.Semaphore,
        plain: PlainMessages,
    ) -> None:
        self._lines = aiter(client_lines)
        self._say = say
        self._listens = listens
        self._lasting = 0
        #: What is left of the requests that may be under way.
        self.room = room
        self.plain = plain

    async def read_message(self) -> lines.Read:
        """Return the next message that is not plain; raises EndOfStream at the end."""
        with suppress(*CLOSED):
            async for line in self._lines:
                # Not the SDK first: for it, a request whose id is null or a fraction is a notification.
                checked = lines.read_line(line)
                if checked.message is None:
                    if checked.answer:
                        await self._say(checked.answer)
                elif not await self.plain.take_message(checked.message):
                    return checked
        await self._await_answers()
        raise anyio.EndOfStream

    async def admit_request(self, method: str) -> None:
        """Wait for a place among those under way."""
        await self.room.acquire()
        self._lasting += method == _LASTING

    async def _await_answers(self) -> None:
        missing, end = AT_ONCE - self._lasting, anyio.current_time() + _ANSWERS
        while missing > 0 and anyio.current_time() < end and self._listens():
            try:
                self.room.acquire_nowait()
                missing -= 1
            except anyio.WouldBlock:
                await anyio.sleep(_LOOK)


def _is_plain_call(params: Any) -> bool:
    """Return whether a call has only a name, arguments and metadata of which the library reads nothing but a token."""
    if not isinstance(params, dict) or not params.keys() <= CALL_FIELDS or not isinstance(params.get("name"), str):
        return False
    meta = params.get("_meta", {})
    return (
        isinstance(params.get("arguments"), dict | None)
        and isinstance(meta, dict)
        and type(meta.get("progressToken", "")) in (str, int)
        and not any(key.startswith(_LIBRARYS) for key in meta)
    )


def _correlate(number: str | int) -> str | int:
    """Return the key of an id; a whole number and its text have one, as in the library.

    Some clients cancel by text what they asked by number.
    """
    try:
        return int(number)
    except ValueError:
        return number


def _encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
