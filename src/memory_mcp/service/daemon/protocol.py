"""Speaks MCP on a connection of the local socket. Loaded with the first client that speaks it.

The SDK takes longer to import than everything else that answers a command together.
"""

import anyio
import anyio.abc
from mcp import types

from memory_mcp.base import machine
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.pipe import converse
from memory_mcp.service.daemon.clients import Client
from memory_mcp.service.daemon.rpc import Lines

_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_PROTOCOL = "io.modelcontextprotocol/protocolVersion"


async def speak(server: MemoryServer, stream: anyio.abc.SocketStream, lines: Lines, client: Client) -> None:
    """Speak MCP until either side disconnects.

    In the protocol era of the client's first request. Name, version and era that the client tells first are noted in `client`.
    """
    turn = anyio.Lock()

    async def say(line: bytes) -> None:
        # The stream refuses a second sender while a line is half sent.
        async with turn:
            await stream.send(line)

    def see(request: types.JSONRPCRequest) -> None:
        """Note how the client's first request names itself, and its era.

        Name, version and protocol revision are cut to 100, 50 and 20 characters; "" for none. Nothing once the name is known.
        """
        if not client.name:
            params = request.params or {}
            meta = params.get("_meta")
            meta = meta if isinstance(meta, dict) else {}
            info = params.get("clientInfo") if request.method == "initialize" else meta.get(_CLIENT_INFO)
            if isinstance(info, dict):
                client.name, client.version = str(info.get("name", ""))[:100], str(info.get("version", ""))[:50]
            client.era = str(params.get("protocolVersion") or meta.get(_PROTOCOL) or "")[:20]

    reader = stream.extra(anyio.abc.SocketAttribute.raw_socket).fileno()
    await converse(server, lines, say, lambda: machine.listens(reader), see)
