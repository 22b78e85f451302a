"""Calls that the server carries out itself are answered byte for byte as the library answers them, whatever the revision."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.server import progress
from memory_mcp.server.build import build_server
from memory_mcp.server.calls import Kit, make_kit
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.server.pipe import converse
from memory_mcp.server.plain import PlainMessages
from memory_mcp.service.client.handshake import Opening, SavedAnswers
from tests.waiting import PATIENCE

_CLIENT = {"name": "raw", "version": "1"}
_PREFIX = "io.modelcontextprotocol/"
_MODERN = "2026-07-28"
#: The number of the last call that is plain.
_PLAIN = 9
#: Parameters of calls: plain ones, and what only the library looks at or refuses.
_CALLS: tuple[Any, ...] = (
    {"name": "browse_toc", "arguments": {}},
    {"name": "browse_toc"},
    {"name": "browse_toc", "arguments": None, "_meta": {"progressToken": 7, "other": [1]}},
    {"name": "expand_grip", "arguments": {"grip_id": "nope"}},
    {"name": "intelligent_search", "arguments": {"query": "refresh token", "keywords": ["rotation", "ü\0"], "limit": 2}},
    {"name": "intelligent_search", "arguments": {"query": "   "}},
    {"name": "intelligent_search", "arguments": {"query": "token", "scope": "all", "since": None, "detail": "full"}},
    {"name": "expand_grip", "arguments": {"grip_id": "nope", "before": 2, "after": None}},
    {"name": "ingest_events", "arguments": {"events": []}},
    {"name": "ingest_events", "arguments": {"events": [{"role": "user", "metadata": {"n": [1, 2.5, None, True, "ü\0"]}}]}},
    {"name": "ingest_events", "arguments": {"events": [{"role": "user", "timestamp": 10**30}]}},
    {"name": "ingest_events", "arguments": {"events": ["x"]}},
    {"name": "ingest_events", "arguments": {"events": "[]"}},
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


#: What a client may say of itself, and what it may be able to do; `...` for nothing.
_CLIENTS: tuple[Any, ...] = (
    *(..., None, "raw", [], {}, {"name": "raw"}, {"version": "1"}, {"name": 5, "version": "1"}),
    {"name": "", "version": ""},
    {"name": " Raw\0 Client ü", "version": "1"},
    {"name": "raw", "version": "1", "title": None},
    {"name": "raw", "version": "1", "title": "R", "description": "d", "websiteUrl": "no address"},
    {"name": "raw", "version": "1", "websiteUrl": 5},
    {"name": "raw", "version": "1", "website_url": 5},
    {"name": "raw", "version": "1", "icons": "x"},
    {"name": "raw", "version": "1", "icons": [{"src": "https://example.org/icon.png"}]},
    {"name": "raw", "version": "1", "more": [1]},
)
_CAPABILITIES: tuple[Any, ...] = (
    *(..., None, "all", [], {"roots": None}, {"roots": True}, {"roots": {}}, {"roots": {"listChanged": True}}),
    *({"roots": {"listChanged": "x"}}, {"roots": {"more": 1}}, {"other": {}}, {"other": 1}, {"tasks": {}}, {"tasks": 3}),
    *({"elicitation": {}}, {"elicitation": {"form": {}, "url": {}}}, {"elicitation": {"form": True}}),
    *({"elicitation": {"form": {"a": 1}}}, {"elicitation": {"voice": 1}}, {"elicitation": [1]}),
    *({"sampling": {}}, {"sampling": {"tools": {}, "context": {}}}, {"sampling": {"tools": 1}}),
    *({"experimental": {"a": {"b": [1]}}}, {"experimental": {"a": 1}}, {"experimental": {"a": None}}),
    *({"extensions": {f"{_PREFIX}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}, {"extensions": {"a": "b"}}),
)
_VERSIONS: tuple[Any, ...] = (..., None, 3, "", "2025-11-25", "2026-07-29", [_MODERN], {"a": 1}, f"{_MODERN} ")
#: What metadata may also say: nothing of it, or something else, counts in the newest era.
_META: tuple[dict[str, Any], ...] = (
    {},
    {"progressToken": "t\0ü"},
    {"progressToken": None},
    {"progressToken": 1.5},
    {"progressToken": True},
    {"progressToken": {}},
    {"progress_token": [1]},
    {"progress_token": "t"},
    {"claudecode/toolUseId": "toolu_1", "other": {"deep": [1, None]}},
    {"memory-mcp/key": 5},
    {f"{_PREFIX}other": 1},
    {f"{_PREFIX}logLevel": "debug"},
    {f"{_PREFIX}logLevel": None},
    {f"{_PREFIX}subscriptionId": 1},
    *({f"{_PREFIX}protocolVersion": value} for value in _VERSIONS),
    *({f"{_PREFIX}clientInfo": value} for value in _CLIENTS),
    *({f"{_PREFIX}clientCapabilities": value} for value in _CAPABILITIES),
)
#: What a client listens to.
_FILTERS: tuple[Any, ...] = (
    {"toolsListChanged": True},
    {"toolsListChanged": False, "promptsListChanged": True, "resourcesListChanged": True},
    {},
    {"toolsListChanged": "yes please"},
    {"toolsListChanged": None},
    {"resourceSubscriptions": ["memory://status"]},
    {"resourceSubscriptions": 1},
    {"other": 1},
    None,
    [],
)
_LISTS = ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
Find = Callable[[Mapping[str, Any]], Awaitable[bytes]]


async def find_nothing(_: Mapping[str, Any]) -> bytes:
    """Find no answer of an earlier process."""
    return b""


def exchange(
    app: App,
    server: MemoryServer,
    messages: Sequence[dict[str, Any]],
    find: Find = find_nothing,
    plain_id: int | str | None = None,
) -> list[bytes]:
    """Send messages one after the other; return the answers of those that have an id.

    `find` finds answers of an earlier process. By the answer of `plain_id` the library is not loaded.
    """
    loaded: list[bool] = []

    async def load_server() -> MemoryServer:
        loaded.append(True)
        return server

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
                    if plain_id is not None and message.get("id") == plain_id:
                        assert not loaded
                tasks.cancel_scope.cancel()
        return received

    return anyio.run(main)


def exchange_by_library(app: App, messages: Sequence[dict[str, Any]]) -> list[bytes]:
    """Return the answers of the library alone."""
    by_library = build_server(app, "")
    by_library._lowlevel_server.middleware.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainMessages, "take_message", AsyncMock(return_value=False))
        return exchange(app, by_library, messages)


def save_answers(messages: Sequence[dict[str, Any]], answers: Sequence[bytes]) -> Find:
    """Return what finds the results among answers, as those of an earlier process are found."""
    opening = Opening()
    results: dict[str, str] = {}
    for message, answer in zip(messages, answers, strict=True):
        name = opening.name_request(message["method"], message.get("params"))
        _, is_result, result = answer.decode().removesuffix("}\n").partition(',"result":')
        if name and is_result:
            results[name] = result
    saved = SavedAnswers(results)

    async def find(request: Mapping[str, Any]) -> bytes:
        return saved.answer_request(request)

    return find


def enveloped(params: Any, **change: Any) -> Any:
    """Return parameters with the envelope of the newest era, whose fields `change` replaces."""
    if not isinstance(params, dict):
        return params
    envelope = {f"{_PREFIX}protocolVersion": _MODERN, f"{_PREFIX}clientInfo": _CLIENT, f"{_PREFIX}clientCapabilities": {}}
    meta = {**(params.get("_meta") or {}), **envelope, **change}
    return {**params, "_meta": {key: value for key, value in meta.items() if value is not ...}}


def conversation(revision: str) -> list[dict[str, Any]]:
    """Every call in one revision; "" for a client that does not greet."""
    calls = [
        {"id": number, "method": "tools/call", "params": enveloped(params) if revision == _MODERN else params}
        for number, params in enumerate(_CALLS)
    ]
    if revision in ("", _MODERN):
        return calls
    late = {"method": "notifications/cancelled", "params": {"requestId": "hello"}}
    greeting = {"protocolVersion": revision, "capabilities": {}, "clientInfo": _CLIENT}
    return [{"id": "hello", "method": "initialize", "params": greeting}, {"method": "notifications/initialized"}, late, *calls]


@pytest.mark.parametrize("revision", ["", "2024-11-05", "2025-06-18", "2025-11-25", _MODERN])
def test_an_answer_is_the_same_by_the_librarys_way(shared_app: App, revision: str) -> None:
    messages = conversation(revision)
    answers = exchange(shared_app, build_server(shared_app, ""), messages)
    requests = [message for message in messages if "id" in message]
    greeting = save_answers(requests[:1], answers[:1])
    assert exchange(shared_app, build_server(shared_app, ""), messages, greeting, _PLAIN if revision else None) == answers
    assert exchange_by_library(shared_app, messages) == answers


def test_metadata_of_the_newest_era_change_no_answer_by_the_way_it_takes(shared_app: App) -> None:
    call = {"name": "expand_grip", "arguments": {"grip_id": "nope"}}
    calls = [{"id": f"ü{n}", "method": "tools/call", "params": enveloped(call, **meta)} for n, meta in enumerate(_META)]
    lists = [
        {"id": f"{method} {n}", "method": method, "params": enveloped({}, **meta)}
        for n, meta in enumerate(_META)
        for method in ("server/discover", "resources/list")
    ]
    by_library = exchange_by_library(shared_app, [*calls, *lists])
    found = save_answers([*calls, *lists], by_library)
    assert exchange(shared_app, build_server(shared_app, ""), [*calls, *lists], found) == by_library
    # Each by itself, as the first of its connection.
    for message, answer in zip([*calls, *lists], by_library, strict=True):
        if f"{_PREFIX}protocolVersion" in message["params"]["_meta"]:
            assert exchange(shared_app, build_server(shared_app, ""), [message], found) == [answer]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_connection_of_the_newest_era_has_the_librarys_answers(shared_app: App, is_known: bool) -> None:
    """Whether they are known from an earlier process or not; the library joins in as it would have gone on."""
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
    call = {"name": "browse_toc", "arguments": {}}
    plain: list[dict[str, Any]] = [
        *({"id": n, "method": method, "params": enveloped({})} for n, method in enumerate(_LISTS)),
        {"id": "listen", "method": "subscriptions/listen", "params": enveloped({"notifications": _FILTERS[0]})},
        {"method": "notifications/cancelled", "params": {"requestId": "listen"}},
        {"id": "call", "method": "tools/call", "params": enveloped(call)},
    ]
    rest: list[dict[str, Any]] = [
        {"id": "greets", "method": "initialize", "params": initialize},
        {"method": "notifications/initialized"},
        {"id": "bare", "method": "tools/call", "params": call},
        {"id": "older list", "method": "tools/list", "params": {}},
        {"id": "ping", "method": "ping", "params": enveloped({})},
        {"id": "page", "method": "tools/list", "params": enveloped({"cursor": "x"})},
        {"id": "cancelled", "method": "notifications/cancelled", "params": enveloped({"requestId": "listen"})},
        {"id": 1.5, "method": "tools/call", "params": enveloped(call)},
        {"id": "more", "method": "tools/call", "params": enveloped(call), "more": 1},
        *({"id": n, "method": "subscriptions/listen", "params": enveloped({"notifications": f})} for n, f in enumerate(_FILTERS)),
        *({"id": n, "method": method, "params": enveloped({})} for n, method in enumerate(_LISTS)),
        {"id": "again", "method": "tools/call", "params": enveloped(call)},
    ]
    messages = [*plain, *rest]
    requests = [message for message in messages if "id" in message]
    by_library = exchange_by_library(shared_app, messages)
    find = save_answers(requests, by_library) if is_known else find_nothing
    plain_id = "call" if is_known else None
    assert exchange(shared_app, build_server(shared_app, ""), messages, find, plain_id) == by_library
    for late in rest:
        if "id" in late:
            late_answer = by_library[requests.index(late)]
            answers = exchange(shared_app, build_server(shared_app, ""), [*plain, late], find, plain_id)
            assert answers == [*by_library[: len(plain) - 1], late_answer]


@pytest.mark.parametrize("revision", ["2025-11-25", _MODERN])
@pytest.mark.parametrize("token", [7, "7", "ü\0"])
def test_progress_is_reported_as_the_library_reports_it(
    shared_app: App, monkeypatch: pytest.MonkeyPatch, revision: str, token: object
) -> None:
    async def last(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(Kit, "answer", last)
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.01)
    params = {"name": "browse_toc", "arguments": {}, "_meta": {"progressToken": token}}
    greeting = [] if revision == _MODERN else conversation(revision)[:2]
    call: dict[str, Any] = {"id": 1, "method": "tools/call", "params": enveloped(params) if revision == _MODERN else params}
    *_, reported = exchange(shared_app, build_server(shared_app, ""), [*greeting, call])
    assert json.loads(reported)["params"]["progressToken"] == token
    assert exchange_by_library(shared_app, [*greeting, call])[-1] == reported


def test_an_envelope_in_an_older_era_is_the_librarys(shared_app: App) -> None:
    greeting = conversation("2025-11-25")[:2]
    requests: list[dict[str, Any]] = [
        *({"id": n, "method": method, "params": enveloped({})} for n, method in enumerate((*_LISTS, "subscriptions/listen"))),
        {"id": "call", "method": "tools/call", "params": enveloped({"name": "browse_toc", "arguments": {}})},
    ]
    by_library = exchange_by_library(shared_app, [*greeting, *requests])
    find = save_answers(greeting[:1], by_library[:1])
    for number, request in enumerate(requests):
        answers = exchange(shared_app, build_server(shared_app, ""), [*greeting, request], find, "hello")
        assert answers == [by_library[0], by_library[number + 1]]
