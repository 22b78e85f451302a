"""A call that takes long says so to a client that asked for progress, and to no other."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from memory_mcp.server import progress
from tests.interaction.conftest import Door
from tests.waiting import PATIENCE


def slowed(own: Door, monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object], every: float) -> None:
    quick = own.app.ask

    def ask(*given: Any, **named: Any) -> Any:
        wait()
        return quick(*given, **named)

    monkeypatch.setattr(own.app, "ask", ask)
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", every)


def test_a_long_call_reports_how_long_it_has_been_at_it(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[float, str]] = []
    often = threading.Event()
    slowed(own, monkeypatch, lambda: often.wait(PATIENCE), 0.02)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message or ""))
        if len(heard) >= 3:
            often.set()

    async def work(client: Client) -> None:
        found = await client.call_tool("intelligent_search", {"query": "anything"}, progress_callback=hear)
        assert not found.is_error

    own.run(work)
    assert len(heard) >= 3
    assert [p for p, _ in heard] == sorted({p for p, _ in heard})
    assert all(m.startswith("intelligent_search: ") for _, m in heard)


def test_a_quick_call_reports_nothing(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(own, monkeypatch, lambda: None, 600.0)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        raise AssertionError((progress, total, message))

    async def work(client: Client) -> None:
        found = await client.call_tool("intelligent_search", {"query": "anything"}, progress_callback=hear)
        assert not found.is_error

    own.run(work)


def test_a_client_that_asked_for_no_progress_hears_none(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library hands progress to whoever asked; the program must not even try to tell the others."""
    heard: list[object] = []
    waited = threading.Event()
    slowed(own, monkeypatch, lambda: waited.wait(0.2), 0.02)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def work(client: Client) -> None:
        unasked = await client.call_tool("intelligent_search", {"query": "anything"})
        assert not unasked.is_error
        # Of the second call nothing is due, however busy the machine is.
        monkeypatch.setattr(progress, "PROGRESS_SECONDS", 600.0)
        found = await client.call_tool("get_retrieval_status", {}, progress_callback=hear)
        assert not found.is_error

    own.run(work)
    assert heard == []
