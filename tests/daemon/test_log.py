"""The log of the background process tells which tools were called, in order."""

import anyio
from mcp import Client

from bench.place import Place
from bench.skills import calls_in
from tests.waiting import until


def test_calls_stand_in_the_daemons_log_in_the_order_they_were_made(beside: Place) -> None:
    async def both() -> None:
        async with Client(beside.server("serve")) as client:
            await client.call_tool("get_retrieval_status", {})
            await client.call_tool("intelligent_search", {"query": "quokka"})

    anyio.run(both)
    log = beside.directory / "daemon.log"
    until(lambda: len(calls_in(log.read_text(encoding="utf-8"))) == 2)
    written = log.read_text(encoding="utf-8")
    assert calls_in(written) == ["get_retrieval_status", "intelligent_search"]
    assert "quokka" not in written
