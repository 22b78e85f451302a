"""Calls that the server carries out itself are answered byte for byte as the library answers them, whatever the revision."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.server.build import build_server
from memory_mcp.server.calls import make_kit
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.server.pipe import converse
from memory_mcp.server.plain import PlainMessages
from tests.waiting import PATIENCE

_CLIENT = {"name": "raw", "version": "1"}
_PREFIX = "io.modelcontextprotocol/"
_MODERN = "2026-07-28"
#: The number of the last call that is plain.
PLAIN = 7
#: Parameters of calls: plain ones, and what only the library looks at or refuses.
CALLS: tuple[Any, ...] = (
    {"name": "browse_toc", "arguments": {}},
    {"name": "browse_toc"},
    {"name": "browse_toc", "arguments": None, "_meta": {"progressToken": 7, "other": [1]}},
    {"name": "expand_grip", "arguments": {"grip_id": "nope"}},
    {"name": "intelligent_search", "arguments": {"query": "refresh token", "keywords": ["rotation", "ü\0"], "limit": 2}},
    {"name": "intelligent_search", "arguments": {"query": "   "}},
    {"name": "intelligent_search", "arguments": {"query": "token", "scope": "all", "since": None, "detail": "full"}},
    {"name": "expand_grip", "arguments": {"grip_id": "nope", "before": 2, "after": None}},
    {"name": "search_children", "arguments": {"query": "token", "fields": ["title", "bullets"], "child_level": "", "limit": 1}},
    {"name": "intelligent_search", "arguments": {"query": "token", "keywords": '["rotation"]', "limit": "2"}},
    {"name": "intelligent_search", "arguments": {"query": "x" * 5000}},
    {"name": "intelligent_search", "arguments": {"query": 7}},
    {"name": "intelligent_search", "arguments": {"limit": 2}},
    {"name": "intelligent_search", "arguments": {"query": "token", "limit": True}},
    {"name": "intelligent_search", "arguments": {"query": "token", "bounds": {"beam_width": 2}}},
    {"name": "browse_toc", "arguments": {"nodeid": "x"}},
    {"name": "browse_toc", "arguments": {"limit": "x"}},
    {"name": "browse_toc", "arguments": {"limit": 10**400}},
    {"name": "no_such_tool", "arguments": {}},
    {"name": 5, "arguments": {}},
    {"name": "browse_toc", "arguments": []},
    {"name": "browse_toc", "arguments": {}, "_meta": {"progressToken": [7]}},
    {"name": "browse_toc", "arguments": {}, "_meta": {f"{_PREFIX}logLevel": "bad"}},
    {"name": "browse_toc", "arguments": {}, "requestState": "abc"},
    {"name": "browse_toc", "arguments": {}, "inputResponses": {"a": 1}},
    {"name": "browse_toc", "arguments": {}, "task": {"ttl": 5}},
    {"name": "browse_toc", "arguments": {}, "extra": 1},
    [1],
)


def exchange(app: App, server: MemoryServer, messages: Sequence[dict[str, Any]], greeting: bytes = b"") -> list[bytes]:
    """Send messages one after the other; return the answers of those that have an id.

    `greeting` is the answer to `initialize` that is known; b"" where the library gives it.
    """
    loaded: list[bool] = []

    async def load_server() -> MemoryServer:
        loaded.append(True)
        return server

    def find(message: Mapping[str, Any]) -> bytes:
        return greeting if message["method"] == "initialize" else b""

    async def main() -> list[bytes]:
        to_server, client_lines = anyio.create_memory_object_stream[bytes](1)
        to_client, answers = anyio.create_memory_object_stream[bytes](1)
        kit = make_kit(Host.of(app))
        received: list[bytes] = []
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks, to_server, answers, to_client, client_lines:
                serve = partial(converse, find=find)
                tasks.start_soon(serve, kit, load_server, client_lines, to_client.send, lambda: True)
                for message in messages:
                    await to_server.send(json.dumps({"jsonrpc": "2.0", **message}).encode())
                    if "id" in message:
                        received.append(await answers.receive())
                    if greeting and message.get("id") == PLAIN:
                        assert not loaded
                tasks.cancel_scope.cancel()
        return received

    return anyio.run(main)


def enveloped(params: Any) -> Any:
    if not isinstance(params, dict):
        return params
    envelope = {f"{_PREFIX}protocolVersion": _MODERN, f"{_PREFIX}clientInfo": _CLIENT, f"{_PREFIX}clientCapabilities": {}}
    return {**params, "_meta": {**(params.get("_meta") or {}), **envelope}}


def conversation(revision: str) -> list[dict[str, Any]]:
    """Every call in one revision; "" for a client that does not greet."""
    calls = [
        {"id": number, "method": "tools/call", "params": enveloped(params) if revision == _MODERN else params}
        for number, params in enumerate(CALLS)
    ]
    if revision in ("", _MODERN):
        return calls
    late = {"method": "notifications/cancelled", "params": {"requestId": "hello"}}
    greeting = {"protocolVersion": revision, "capabilities": {}, "clientInfo": _CLIENT}
    return [{"id": "hello", "method": "initialize", "params": greeting}, {"method": "notifications/initialized"}, late, *calls]


@pytest.mark.parametrize("revision", ["", "2024-11-05", "2025-06-18", "2025-11-25", _MODERN])
def test_an_answer_is_the_same_by_the_librarys_way(shared_app: App, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = conversation(revision)
    answers = exchange(shared_app, build_server(shared_app, ""), messages)
    greeting = answers[0] if len(messages) > len(CALLS) else b""
    assert exchange(shared_app, build_server(shared_app, ""), messages, greeting) == answers
    by_library = build_server(shared_app, "")
    by_library._lowlevel_server.middleware.pop()
    monkeypatch.setattr(PlainMessages, "take_message", AsyncMock(return_value=False))
    assert exchange(shared_app, by_library, messages) == answers
