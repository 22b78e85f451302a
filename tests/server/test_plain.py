"""Calls that the server answers by itself: how they are cancelled, end with their connection, and report."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import anyio
import anyio.abc
import pytest

from memory_mcp.app import App
from memory_mcp.server import progress
from memory_mcp.server.build import assemble
from memory_mcp.server.calls import Answer, Kit, make_kit
from memory_mcp.server.envelope import ENVELOPE
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.server.pipe import converse
from memory_mcp.server.plain import AT_ONCE, PlainMessages
from tests.waiting import PATIENCE

ERAS = pytest.mark.parametrize("is_modern", [False, True])


class _Connection:
    """A client that has greeted or says who it is, whose calls last until `finish` is set; a line is written in two parts."""

    def __init__(self, app: App, tasks: anyio.abc.TaskGroup, monkeypatch: pytest.MonkeyPatch, is_modern: bool) -> None:
        self._envelope = ENVELOPE if is_modern else {}
        self.finish, self.output, self._turn = anyio.Event(), b"", anyio.Lock()

        async def answer(*_: object) -> Answer:
            await self.finish.wait()
            return Answer("done")

        monkeypatch.setattr(Kit, "answer", answer)
        room = anyio.Semaphore(AT_ONCE)
        find_nothing = AsyncMock(return_value=b"")
        self.plain = PlainMessages(make_kit(Host.of(app)), self._say, lambda _: None, find_nothing, room, tasks)
        self.plain.note_greeting({"clientInfo": {"name": "raw"}}, {"protocolVersion": "2025-11-25"})

    async def _say(self, line: bytes) -> None:
        async with self._turn:
            self.output += line[:10]
            await anyio.sleep(0.02)
            self.output += line[10:]

    async def call(self, number: str | int, **meta: object) -> None:
        params = {"name": "browse_toc", "arguments": {}, "_meta": {**self._envelope, **meta}}
        assert await self.plain.take_message({"id": number, "method": "tools/call", "params": params})

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.splitlines()]


@asynccontextmanager
async def connect(app: App, monkeypatch: pytest.MonkeyPatch, is_modern: bool) -> AsyncIterator[_Connection]:
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            yield _Connection(app, tasks, monkeypatch, is_modern)
            tasks.cancel_scope.cancel()


@ERAS
@pytest.mark.parametrize(("number", "said"), [(7, "7"), ("7", 7), ("x", "x")])
def test_a_call_is_cancelled_by_its_id_as_number_or_text(
    app: App, monkeypatch: pytest.MonkeyPatch, number: str | int, said: str | int, is_modern: bool
) -> None:
    async def main() -> None:
        async with connect(app, monkeypatch, is_modern) as connection:
            await connection.call(number)
            await connection.plain.take_message({"method": "notifications/cancelled", "params": {"requestId": said}})
            connection.finish.set()
            await connection.call("next")
            while not connection.output.endswith(b"\n"):
                await anyio.sleep(0.01)
            assert [message["id"] for message in connection.messages] == ["next"]

    anyio.run(main)


@ERAS
def test_a_call_that_outlasts_its_connection_is_told_so(app: App, monkeypatch: pytest.MonkeyPatch, is_modern: bool) -> None:
    async def main() -> list[dict[str, Any]]:
        async with connect(app, monkeypatch, is_modern) as connection:
            await connection.call(1)
            await anyio.sleep(0.01)
        return connection.messages

    error = {"code": -32000, "message": "Connection closed"}
    assert anyio.run(main) == [{"jsonrpc": "2.0", "id": 1, "error": error}]


@ERAS
def test_an_answer_tears_no_report_of_progress(app: App, monkeypatch: pytest.MonkeyPatch, is_modern: bool) -> None:
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.01)

    async def main() -> list[dict[str, Any]]:
        async with connect(app, monkeypatch, is_modern) as connection:
            await connection.call(1, progressToken="t")
            while not connection.output:
                await anyio.sleep(0.001)
            # The first report is half written now.
            connection.finish.set()
            while b"isError" not in connection.output or not connection.output.endswith(b"\n"):
                await anyio.sleep(0.01)
        return connection.messages

    reported, answered = anyio.run(main)
    assert reported["method"] == "notifications/progress"
    assert answered["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("listener", [0, 2])
def test_at_the_end_a_request_is_awaited_though_a_listener_was_refused(
    app: App, monkeypatch: pytest.MonkeyPatch, listener: int
) -> None:
    async def main() -> list[dict[str, Any]]:
        finish, refused, answers, looks = anyio.Event(), anyio.Event(), list[dict[str, Any]](), itertools.count()

        async def answer(*_: object) -> Answer:
            await finish.wait()
            return Answer("done")

        async def say(line: bytes) -> None:
            answers.append(json.loads(line))
            if answers[-1].get("id") == listener:
                refused.set()

        async def iter_lines() -> AsyncIterator[bytes]:
            greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
            yield encode(id=1, method="initialize", params=greeting)
            yield encode(method="notifications/initialized")
            yield encode(id=listener, method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}})
            await refused.wait()
            yield encode(id=3, method="tools/call", params={"name": "browse_toc", "arguments": {}})

        def listens() -> bool:
            # Looked at for each place that is free, and then while the call is awaited.
            if next(looks) > AT_ONCE:
                finish.set()
            return True

        monkeypatch.setattr(Kit, "answer", answer)
        host = Host.of(app)

        async def load_server() -> MemoryServer:
            return assemble(host)

        with anyio.fail_after(PATIENCE):
            await converse(make_kit(host), load_server, iter_lines(), say, listens)
        return answers

    answers = {message["id"]: message for message in anyio.run(main)}
    assert "error" in answers[listener]
    assert "done" in json.dumps(answers[3])


def encode(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
