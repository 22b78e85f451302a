"""A call that takes long says so to a client that asked for progress, and to no other."""

import time
from typing import Any

import pytest
from mcp import Client

from memory_mcp.server import guard
from tests.interaction.conftest import Door


def slowed(own: Door, monkeypatch: pytest.MonkeyPatch, seconds: float, every: float) -> None:
    quick = own.app.ask

    def ask(*given: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return quick(*given, **named)

    monkeypatch.setattr(own.app, "ask", ask)
    monkeypatch.setattr(guard, "PROGRESS_SECONDS", every)


@pytest.mark.parametrize(("seconds", "every", "least", "most"), [(0.4, 0.05, 3, 60), (0.0, 30.0, 0, 0)])
def test_a_long_call_reports_how_long_it_has_been_at_it(
    own: Door, monkeypatch: pytest.MonkeyPatch, seconds: float, every: float, least: int, most: int
) -> None:
    slowed(own, monkeypatch, seconds, every)
    heard: list[tuple[float, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message or ""))

    async def work(client: Client) -> None:
        found = await client.call_tool("intelligent_search", {"query": "anything"}, progress_callback=hear)
        assert not found.is_error
        unasked = await client.call_tool("intelligent_search", {"query": "anything"})
        assert not unasked.is_error

    own.run(work)
    assert least <= len(heard) <= most
    assert [p for p, _ in heard] == sorted({p for p, _ in heard})
    assert all(m.startswith("intelligent_search: ") for _, m in heard)
