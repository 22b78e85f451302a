"""Speaks MCP on a connection of the local socket. Loaded with the first client that speaks it."""

import json
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from memory_mcp.base import machine
from memory_mcp.config import Settings
from memory_mcp.server.calls import Kit
from memory_mcp.server.envelope import CLIENT_INFO, PROTOCOL_VERSION
from memory_mcp.server.pipe import converse
from memory_mcp.service.client import handshake
from memory_mcp.service.daemon.clients import Client
from memory_mcp.service.daemon.rpc import Lines

if TYPE_CHECKING:
    from memory_mcp.server.guard import MemoryServer

log = logging.getLogger(__name__)

#: The library's module: where it is loaded, it answers.
_LIBRARY = "mcp.server.mcpserver"
#: Packages that make the answers to a handshake.
_MAKERS = ("mcp", "mcp-types", "pydantic", "pydantic-core")
#: Results kept for the next start at most: some clients in some eras.
_MOST_RESULTS = 60
#: Asked of another process along with the first request of a kind of client: nearly every client asks them next.
_LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
#: That process has so long (seconds); it takes one on a machine at rest. Then the library is loaded here.
_PATIENCE = 20.0
#: So many kinds of clients are learned by one daemon, however many a client makes up.
_MOST_LEARNED = 8


class HandshakeRecorder:
    """Keeps the answers to handshakes in a file, from which relays answer while the next daemon starts."""

    def __init__(self, settings: Settings, directory: str, fingerprint: str) -> None:
        self._settings = settings
        self._directory = directory
        self._fingerprint = fingerprint
        self._results = handshake.load_results(directory, fingerprint)
        self._writing = threading.Lock()
        #: Who waits for an answer that is being learned holds no thread.
        self.learning = anyio.CapacityLimiter(1)
        #: What another process was asked for: it is not asked again.
        self._learned: set[str] = set()

    def saved_answers(self) -> handshake.SavedAnswers:
        """Return what answers a new connection by what is kept by now."""
        return handshake.SavedAnswers(self._results)

    def learn_answers(self, greeting: Mapping[str, Any] | None, request: Mapping[str, Any]) -> None:
        """Ask another process for the answer of a request, and of the lists, and keep them.

        `greeting` is the connection's `initialize` before it. Blocks for a second or more, so call it in a thread of `learning`;
        a failure is logged.
        """
        name = handshake.name_requests([request] if greeting is None else [greeting, request])
        if not name or name in self._learned or name in self._results or len(self._learned) == _MOST_LEARNED:
            return
        self._learned.add(name)
        messages = _make_introduction(greeting, request)
        try:
            answers = _ask_process(self._settings, messages)
        except (OSError, ValueError) as error:
            log.info("the answers to handshakes are not learned: %s", error)
            return
        observer = _Observer(self)
        for message, answer in zip((message for message in messages if "id" in message), answers, strict=False):
            observer.see_request(message)
            observer.see_answer(answer.encode())
        self.save()

    def note_result(self, name: str, result: str) -> bool:
        """Note the result of a request; return whether it is a new one."""
        if self._results.get(name) == result:
            return False
        self._results.pop(name, None)
        self._results[name] = result
        while len(self._results) > _MOST_RESULTS:
            self._results.pop(next(iter(self._results)), None)
        return True

    def save(self) -> None:
        """Write the file; a failure is logged."""
        with self._writing:
            try:
                stamps = {path: handshake.file_stamp(path) for path in map(_metadata_file, _MAKERS)}
                if all(stamps.values()):
                    handshake.save_results(self._directory, self._fingerprint, stamps, dict(self._results))
            except OSError as error:
                log.info("the answers to handshakes are not kept: %s", error)


def _make_introduction(greeting: Mapping[str, Any] | None, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a connection with a request and the lists, numbered."""
    if greeting is None and request["method"] == "initialize":
        greeting, requests = request, list[Mapping[str, Any]]()
    else:
        requests = [request]
    meta = (request.get("params") or {}).get("_meta", {}) if greeting is None else {}
    requests += [{"method": method, "params": {"_meta": meta} if meta else {}} for method in _LISTS]
    numbered = [{**message, "jsonrpc": "2.0", "id": number} for number, message in enumerate(requests, 2)]
    if greeting is None:
        return numbered
    return [{**greeting, "id": 1}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *numbered]


def _ask_process(settings: Settings, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the answer lines of messages by `server.introduce` in another process.

    Raises OSError or ValueError if there are none.
    """
    command = [sys.executable, "-P", "-m", "memory_mcp.server.introduce"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **machine.apart()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(_PATIENCE, process.kill)
        timer.start()
        try:
            process.stdin.write(pickle.dumps((settings, messages)))
            process.stdin.flush()
            # It ends with this process, as its input does: that is closed once it has answered.
            answers = process.stdout.read()
        finally:
            timer.cancel()
    return list(json.loads(answers))


def _metadata_file(package: str) -> str:
    """Return the file that every installation of another version replaces."""
    from importlib.metadata import distribution

    installed = distribution(package)
    return str(installed.locate_file(f"{package.replace('-', '_')}-{installed.version}.dist-info/METADATA"))


class _Observer:
    """Sees the requests and answers of one connection that belong to its handshake."""

    def __init__(self, recorder: HandshakeRecorder) -> None:
        self._recorder = recorder
        self._opening = handshake.Opening()
        #: Requests under way: method and name by the beginning of their answer.
        self._asked: dict[bytes, tuple[str, str]] = {}

    def see_request(self, request: Mapping[str, Any]) -> None:
        method = request["method"]
        begins = f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":'.encode()
        # A later request of the same id makes the answer nobody's.
        self._asked.pop(begins, None)
        if name := self._opening.name_request(method, request.get("params")):
            self._asked[begins] = (method, name)

    def see_answer(self, line: bytes) -> bool:
        """Note the answer of a handshake; return whether it is a new one."""
        begins = next((begins for begins in self._asked if line.startswith(begins)), None)
        if begins is None:
            return False
        method, name = self._asked.pop(begins)
        self._opening.note_answer(method, name)
        return self._recorder.note_result(name, line[len(begins) :].decode().removesuffix("}\n"))


class _Answers:
    """Finds the answers of one connection's handshake."""

    def __init__(self, recorder: HandshakeRecorder) -> None:
        self._recorder = recorder
        self._saved = recorder.saved_answers()
        self._greeting: Mapping[str, Any] | None = None

    async def find(self, request: Mapping[str, Any]) -> bytes:
        """Return the answer line of a request, b"" if the library has to answer.

        Unless that is loaded, another process answers what no process has answered.
        """
        if not (line := self._saved.answer_request(request)) and _LIBRARY not in sys.modules:
            learn, limiter = self._recorder.learn_answers, self._recorder.learning
            await anyio.to_thread.run_sync(learn, self._greeting, request, abandon_on_cancel=True, limiter=limiter)
            line = self._saved.answer_request(request)
        if request["method"] == "initialize":
            self._greeting = request
        return line


async def speak(
    kit: Kit,
    load_server: Callable[[], Awaitable["MemoryServer"]],
    stream: anyio.abc.SocketStream,
    lines: Lines,
    client: Client,
    recorder: HandshakeRecorder,
) -> None:
    """Speak MCP until either side disconnects.

    In the protocol era of the client's first request. Name, version and era that the client tells first are noted in `client`.
    """
    turn, observer, answers = anyio.Lock(fast_acquire=True), _Observer(recorder), _Answers(recorder)

    async def say(line: bytes) -> None:
        # The stream refuses a second sender while a line is half sent.
        async with turn:
            await stream.send(line)
        if observer.see_answer(line):
            threading.Thread(target=recorder.save, name="handshake", daemon=True).start()

    def see(request: Mapping[str, Any]) -> None:
        """Note how the client's first request names itself, and its era.

        Name, version and protocol revision are cut to 100, 50 and 20 characters; "" for none. Nothing once the name is known.
        """
        observer.see_request(request)
        if not client.name:
            params = request.get("params") or {}
            meta = params.get("_meta")
            meta = meta if isinstance(meta, dict) else {}
            info = params.get("clientInfo") if request["method"] == "initialize" else meta.get(CLIENT_INFO)
            if isinstance(info, dict):
                client.name, client.version = str(info.get("name", ""))[:100], str(info.get("version", ""))[:50]
            client.era = str(params.get("protocolVersion") or meta.get(PROTOCOL_VERSION) or "")[:20]

    reader = stream.extra(anyio.abc.SocketAttribute.raw_socket).fileno()
    await converse(kit, load_server, lines, say, lambda: machine.listens(reader), see, answers.find)
