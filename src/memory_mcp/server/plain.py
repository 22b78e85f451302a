"""Answers what is plain on a client's connection by itself, so that the protocol's library is loaded only for all else.

Plain are calls of tools with arguments that need no look, by a client that greeted in an older era or whose requests each say
who it is; and, until the library is loaded, the greeting and what else of a handshake is known from another process.

Invariants
1. An answer is the library's own, byte for byte.
2. Where anything is unusual the message is the library's; it is told the greeting that it has not heard, or the era.
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
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.storable import storable_value
from memory_mcp.requests.entry import Entry
from memory_mcp.requests.registry import load_entry
from memory_mcp.server.arguments import are_plain
from memory_mcp.server.caller import agent_name, relay_key
from memory_mcp.server.calls import REVISIONS, Answer, Kit, is_plain_call, make_request, note_call
from memory_mcp.server.envelope import ENVELOPE, client_name, is_plain_listening, is_plain_meta, opens_modern
from memory_mcp.server.errors import as_ours, describe
from memory_mcp.server.progress import report_progress

#: What a plain request has.
_REQUEST_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
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
#: What the library hears first of a client of the newest era, which it refuses without a look.
_ERA = {"jsonrpc": "2.0", "id": GREETING_ID, "method": "ping", "params": {"_meta": ENVELOPE}}
#: What is said to a client that would listen to changes: there are none.
_NOTHING_CHANGES = {"code": -32601, "message": "Method not found", "data": _LASTING}
#: What is said of a call whose connection ends before it, as the library says it, and for how long that is tried (seconds).
_CLOSED_ERROR, _CLOSED_SECONDS = {"code": -32000, "message": "Connection closed"}, 1.0

#: Sends a line to the client; told each request before it is served; returns the answer line that is known of a request.
Say = Callable[[bytes], Awaitable[None]]
See = Callable[[Mapping[str, Any]], None]
Find = Callable[[Mapping[str, Any]], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class _Call:
    """A plain call, as it came and as it is carried out."""

    number: str | int
    entry: Entry
    arguments: dict[str, Any]
    meta: Mapping[str, Any]
    #: The client's name.
    agent: str
    is_modern: bool


class PlainMessages:
    """What is answered here of one connection."""

    def __init__(self, kit: Kit, say: Say, see: See, find: Find, room: anyio.Semaphore, tasks: anyio.abc.TaskGroup) -> None:
        """Answer in `tasks`; each call takes its place in `room`."""
        self._kit, self._say, self._see, self._find, self._room, self._tasks = kit, say, see, find, room, tasks
        #: Whether the connection is of the newest era; None before its first request is served.
        self._is_modern: bool | None = None
        #: The client's name, in an older era; None before it has greeted.
        self._agent: str | None = None
        self._is_loaded = False
        self._greeting: list[dict[str, Any]] = []
        #: Calls under way, by their ids as `_correlate` gives them.
        self._calls: dict[str | int, anyio.CancelScope] = {}

    async def take_message(self, message: dict[str, Any]) -> bool:
        """Answer a message, or begin to; return False where it is the library's."""
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if "id" not in message:
            return self._take_notification(message)
        if type(number) not in (str, int) or not message.keys() <= _REQUEST_FIELDS:
            return False
        is_modern = opens_modern(method, params) if self._is_modern is None else self._is_modern
        meta = params.get("_meta", {}) if isinstance(params, dict) else {}
        if (is_modern or method == "tools/call") and not is_plain_meta(meta, is_modern):
            return False
        if method == "tools/call":
            is_taken = await self._take_call(message, meta, is_modern)
        elif self._is_loaded:
            is_taken = False
        else:
            is_taken = await (self._take_discovery(message) if is_modern else self._take_greeting(message))
        if is_taken:
            self._is_modern = is_modern
        return is_taken

    def hand_over(self) -> list[dict[str, Any]]:
        """Return what the library has to hear first; from now on all but calls is its own."""
        self._is_loaded = True
        if self._is_modern:
            return [_ERA]
        return [{**message, "id": GREETING_ID} if "id" in message else message for message in self._greeting]

    def note_request(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Note a request that the library serves: the first decides the era."""
        if self._is_modern is None:
            self._is_modern = opens_modern(method, params)

    def note_greeting(self, params: Mapping[str, Any] | None, result: Mapping[str, Any]) -> None:
        """Note that a client's `initialize` was answered."""
        is_known = result.get("protocolVersion") in REVISIONS
        self._agent = agent_name((params or {})["clientInfo"]["name"]) if is_known else None

    def _take_notification(self, message: dict[str, Any]) -> bool:
        if message.get("method") == "notifications/cancelled":
            return self._cancel_call(message)
        if message.get("method") == "notifications/initialized" and self._greeting and not self._is_loaded:
            self._greeting[1:] = [message]
            return True
        return False

    async def _take_greeting(self, message: dict[str, Any]) -> bool:
        is_first = not self._greeting
        if is_first != (message["method"] == "initialize") or not (line := await self._find(message)):
            # Who begins otherwise is refused.
            return False
        self._see(message)
        if is_first:
            self._greeting.append(message)
            self.note_greeting(message.get("params"), json.loads(line)["result"])
        await self._say(line)
        return True

    async def _take_discovery(self, message: dict[str, Any]) -> bool:
        if message["method"] == _LASTING and is_plain_listening(message["params"]):
            line = _encode({"jsonrpc": "2.0", "id": message["id"], "error": _NOTHING_CHANGES})
        elif message["method"] == "initialize" or not (line := await self._find(message)):
            return False
        self._see(message)
        await self._say(line)
        return True

    def _cancel_call(self, message: Mapping[str, Any]) -> bool:
        number: Any = (message.get("params") or {}).get("requestId")
        scope = self._calls.get(_correlate(number)) if type(number) in (str, int) else None
        if scope is not None:
            scope.cancel()
        # What is not under way any more is nobody's.
        return scope is not None or not self._is_loaded

    async def _take_call(self, message: Mapping[str, Any], meta: Any, is_modern: bool) -> bool:
        number, params = message["id"], storable_value(message.get("params"))
        agent = agent_name(client_name(meta)) if is_modern else self._agent
        if agent is None or _correlate(number) in self._calls or metrics.is_traced():
            return False
        if not is_plain_call(params) or params["name"] not in self._kit.tools:
            return False
        entry = load_entry(params["name"])
        arguments = {name: value for name, value in (params.get("arguments") or {}).items() if value is not None}
        if not are_plain(entry.request, arguments):
            return False
        self._see(message)
        await self._room.acquire()
        self._calls[_correlate(number)] = scope = anyio.CancelScope()
        self._tasks.start_soon(self._answer_call, _Call(number, entry, arguments, meta, agent, is_modern), scope)
        return True

    async def _answer_call(self, call: _Call, scope: anyio.CancelScope) -> None:
        """Carry out a call and send its answer, none where the client cancels it."""
        began, outcome, line = time.perf_counter(), "cancelled", b""
        try:
            with scope:
                async with self._report_progress(call):
                    answer, outcome = await self._carry_out(call)
                line = _encode({"jsonrpc": "2.0", "id": call.number, "result": answer.as_result(call.is_modern)})
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLOSED_SECONDS, shield=True), suppress(*CLOSED):
                await self._say(_encode({"jsonrpc": "2.0", "id": call.number, "error": _CLOSED_ERROR}))
            raise
        finally:
            note_call(call.entry.name, outcome, began)
            del self._calls[_correlate(call.number)]
        with suppress(*CLOSED):
            if not scope.cancel_called:
                await self._say(line)
        self._room.release()

    async def _carry_out(self, call: _Call) -> tuple[Answer, str]:
        """Return a call's answer and its outcome."""
        try:
            request = make_request(call.entry.request, call.arguments, call.agent, partial(relay_key, call.meta))
            return await self._kit.answer(call.entry, request), "ok"
        except Exception as error:
            ours = as_ours(error, call.entry.name)
            return Answer(describe(ours), is_error=True), ours.code

    def _report_progress(self, call: _Call) -> AbstractAsyncContextManager[None]:
        async def tell(seconds: float, text: str) -> None:
            progress = {"progressToken": call.meta["progressToken"], "progress": seconds, "message": text}
            with suppress(*CLOSED):
                await self._say(_encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))

        return report_progress(tell, call.entry.name) if "progressToken" in call.meta else nullcontext()


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
        #: The ids of requests under way that last as long as the connection.
        self._lasting: set[str | int] = set()
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

    async def admit_request(self, method: str, number: str | int) -> None:
        """Wait for a place among those under way, for a request with that id."""
        await self.room.acquire()
        if method == _LASTING:
            self._lasting.add(number)

    def release_request(self, number: str | int) -> None:
        """Free the place of a request with that id, which was answered or ended without an answer."""
        self._lasting.discard(number)
        self.room.release()

    async def _await_answers(self) -> None:
        missing, end = AT_ONCE, anyio.current_time() + _ANSWERS
        while missing > len(self._lasting) and anyio.current_time() < end and self._listens():
            try:
                self.room.acquire_nowait()
                missing -= 1
            except anyio.WouldBlock:
                await anyio.sleep(_LOOK)


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
