"""Speaks MCP on a connection of the local socket. Loaded with the first client that speaks it."""

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from memory_mcp.base import machine
from memory_mcp.server.calls import Kit
from memory_mcp.server.pipe import converse
from memory_mcp.service.client import handshake
from memory_mcp.service.daemon.clients import Client
from memory_mcp.service.daemon.rpc import Lines

if TYPE_CHECKING:
    from memory_mcp.server.guard import MemoryServer

log = logging.getLogger(__name__)

_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_PROTOCOL = "io.modelcontextprotocol/protocolVersion"
#: Packages that make the answers to a handshake.
_MAKERS = ("mcp", "mcp-types", "pydantic", "pydantic-core")
#: Results kept for the next start at most: some clients in some eras.
_MOST_RESULTS = 60


class HandshakeRecorder:
    """Keeps the answers to handshakes in a file, from which relays answer while the next daemon starts."""

    def __init__(self, directory: str, fingerprint: str) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._results = handshake.load_results(directory, fingerprint)
        self._writing = threading.Lock()

    def saved_answers(self) -> handshake.SavedAnswers:
        """Return what answers a new connection by what is kept by now."""
        return handshake.SavedAnswers(self._results)

    def note_result(self, name: str, result: str) -> bool:
        """Note the result of a request; return whether it is a new one."""
        if self._results.get(name) == result:
            return False
        self._results.pop(name, None)
        self._results[name] = result
        while len(self._results) > _MOST_RESULTS:
            del self._results[next(iter(self._results))]
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
    turn, observer = anyio.Lock(fast_acquire=True), _Observer(recorder)

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
            info = params.get("clientInfo") if request["method"] == "initialize" else meta.get(_CLIENT_INFO)
            if isinstance(info, dict):
                client.name, client.version = str(info.get("name", ""))[:100], str(info.get("version", ""))[:50]
            client.era = str(params.get("protocolVersion") or meta.get(_PROTOCOL) or "")[:20]

    reader = stream.extra(anyio.abc.SocketAttribute.raw_socket).fileno()
    find = recorder.saved_answers().answer_request
    await converse(kit, load_server, lines, say, lambda: machine.listens(reader), see, find)
