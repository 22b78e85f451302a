"""MCP on a connection of the socket: lines in, the SDK's messages out. Loaded with the first client that speaks it.

The SDK takes longer to import than everything else that answers a command together.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
from mcp import types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage

from memory_mcp.daemon.clients import Client
from memory_mcp.daemon.rpc import Lines
from memory_mcp.daemon.socket import CLOSED
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.pipe import parsed

_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_PROTOCOL = "io.modelcontextprotocol/protocolVersion"


async def speak(server: MemoryServer, stream: anyio.abc.SocketStream, lines: Lines, client: Client) -> None:
    """MCP, in the era of the client's first request, until either side goes."""
    low = server._lowlevel_server  # the SDK has no public handle for streams of one's own
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_server:
            with suppress(*CLOSED):
                async for line in lines:
                    if isinstance(found := parsed(line), bytes):
                        await stream.send(found)
                    elif found is not None:
                        if not client.name and isinstance(found.message, types.JSONRPCRequest):
                            _introduce(client, found.message.method, found.message.params or {})
                        await to_server.send(found)

    async def write() -> None:
        async with from_server:
            with suppress(*CLOSED):
                async for message in from_server:
                    await stream.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            options = low.create_initialization_options()
            await serve_dual_era_loop(low, from_client, to_client, lifespan_state={}, init_options=options)
        finally:
            tasks.cancel_scope.cancel()


def _introduce(client: Client, method: str, params: Mapping[str, Any]) -> None:
    """Keep what a client says of itself in its first request."""
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    info = params.get("clientInfo") if method == "initialize" else meta.get(_CLIENT_INFO)
    if isinstance(info, dict):
        client.name, client.version = str(info.get("name", ""))[:100], str(info.get("version", ""))[:50]
    client.era = str(params.get("protocolVersion") or meta.get(_PROTOCOL) or "")[:20]
