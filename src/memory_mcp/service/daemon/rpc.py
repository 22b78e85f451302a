"""The private methods, which this program's commands and hooks call over connections of their own.

MCP clients cannot call them: the first line of a connection says which kind it is. Files are opened by the caller's
process; no method takes a path to open.
"""

import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.from_thread

from memory_mcp.base import lines
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp.capture.running import CallerProcess

if TYPE_CHECKING:
    from memory_mcp.app import App

log = logging.getLogger(__name__)

#: Characters of a command's answer that are sent at once.
_PIECE = 16_384


class Lines(AsyncIterator[bytes | lines.Cut]):
    """Whole lines of a connection, a Cut for one that is too long; they end when the caller has disconnected."""

    #: Whether the caller disconnected before it had read all that was sent.
    is_reset = False


@dataclass(slots=True)
class Conversation:
    """A caller's connection, and where it was started."""

    stream: anyio.abc.SocketStream
    lines: Lines
    cwd: str
    environ: Mapping[str, str]
    connection: CallerProcess = field(default_factory=CallerProcess)
    #: Called when the answer to the current request was sent.
    on_sent: list[Callable[[], None]] = field(default_factory=list)
    #: Whether the caller confirmed that it has read what it was sent.
    has_read: bool = False
    #: Called when the caller has disconnected.
    at_end: list[Callable[[], None]] = field(default_factory=list)

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Send one line of JSON to the caller.

        Raises anyio's errors of a stream where it has disconnected.
        """
        await self.stream.send(json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n")


#: A method: takes the conversation and the parameters, and returns the result as JSON values.
Method = Callable[[Conversation, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
#: Runs a command line on an open App, and returns its exit status. It takes the words, the caller, the streams of its terminal,
#: that terminal's columns with whether it is plain and whether a person confirmed, and the function that ends the daemon.
Execute = Callable[["App", list[str], Conversation, "Pipe", "Pipe", tuple[int, bool, bool], Callable[[str], None]], int]


class Private:
    """Answers the requests of connections by a table of methods."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    async def serve(self, talk: Conversation) -> None:
        """Answer requests in order until the caller disconnects."""
        requests_in, requests = anyio.create_memory_object_stream[bytes | lines.Cut](100)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._answer_all, talk, requests)
                async with requests_in:
                    async for line in talk.lines:
                        await requests_in.send(line)
                tasks.cancel_scope.cancel()
        finally:
            for let_go in talk.at_end:
                let_go()

    async def _answer_all(self, talk: Conversation, requests: "anyio.abc.ObjectReceiveStream[bytes | lines.Cut]") -> None:
        async for line in requests:
            try:
                await self._answer(talk, line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # The caller has disconnected; the reader of its lines ends the connection.
                return

    async def _answer(self, talk: Conversation, line: bytes | lines.Cut) -> None:
        """Answer one request with {id, result} or {id, error}.

        An error has code, message, hint and (exit) status. An unknown method and a line that is too long are an InvalidQuery;
        any other exception, as for a line that is no JSON, is logged and answered as INTERNAL, without a hint. Raises anyio's
        errors of a stream where the caller has disconnected.
        """
        number: Any = None
        try:
            if isinstance(line, lines.Cut):
                raise InvalidQuery(f"the request is longer than {lines.LONGEST} bytes", "Send less at once.")
            message = json.loads(line)
            number, params = message.get("id"), message.get("params") or {}
            method = self._methods.get(message.get("method"))
            if method is None:
                raise InvalidQuery(f"unknown method {message.get('method')!r}", "Both sides must be of the same version.")
            answer: Mapping[str, Any] = {"id": number, "result": await method(talk, params)}
        except MemoryMcpError as error:
            details = {"code": error.code, "message": str(error), "hint": error.hint, "status": error.exit_status}
            answer = {"id": number, "error": details}
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise
        except Exception as error:
            log.exception("a private method failed")
            text = f"INTERNAL: {type(error).__name__}: {error}. The daemon's log has the details."
            answer = {"id": number, "error": {"code": "INTERNAL", "message": text, "status": 1}}
        await talk.tell(answer)
        while talk.on_sent:
            talk.on_sent.pop()()


class Pipe(io.TextIOBase):
    """A text stream whose output is sent to the caller's terminal."""

    def __init__(self, talk: Conversation, name: str, is_tty: bool, encoding: str) -> None:
        self._talk = talk
        self._name = name
        self._tty = is_tty
        self._encoding = encoding
        self._waiting: list[str] = []
        self._size = 0

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the caller's stream."""
        return self._encoding

    def isatty(self) -> bool:
        """Whether the caller's stream is a terminal."""
        return self._tty

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Buffer the text, return its length.

        Send a full buffer, and stderr's lines. BrokenPipeError if the caller has gone.
        """
        self._waiting.append(text)
        self._size += len(text)
        if self._size >= _PIECE or (self._name == "err" and "\n" in text):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send the buffered text from a worker thread.

        Raises BrokenPipeError when the caller has disconnected.
        """
        if self._waiting:
            text, self._waiting, self._size = "".join(self._waiting), [], 0
            try:
                anyio.from_thread.run(self._talk.tell, {self._name: text})
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError) as error:
                raise BrokenPipeError from error
