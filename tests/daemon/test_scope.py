"""A connection that is bound to its project, over a pipe: neither what there is of others nor that it is paused is told."""

import json
from typing import Any

import pytest
from mcp import ClientSession, stdio_client
from mcp.types import TextContent

from bench.place import Place
from tests.daemon.places import needs_proc, said

pytestmark = needs_proc

OWN, OTHER = "github.com/acme/shop", "github.com/acme/hidden"


@pytest.mark.anyio
async def test_a_bound_status_counts_its_own_and_names_no_other_project(place: Place) -> None:
    place.ok("ingest", "-", stdin=said(OWN, "The kettle is descaled on Mondays.", 9))
    place.ok("ingest", "-", stdin="".join(said(OTHER, f"Secret number {n} of the vault.", 10 + n) for n in range(7)))
    place.ok("pause", "--project", OTHER, "--for", "2h")
    place.stop()
    given = place.server("serve")
    given.env = {**(given.env or {}), "MEMORY_MCP_SERVER__SCOPE_LOCK": "true", "MEMORY_MCP_PROJECT": OWN}
    async with stdio_client(given) as (read, write), ClientSession(read, write) as client:
        await client.initialize()

        async def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
            result = await client.call_tool(name, arguments)
            [block] = result.content
            assert isinstance(block, TextContent)
            return block.text, dict(result.structured_content or {})

        text, told = await call("get_retrieval_status", detail="full")
        assert "hidden" not in text + json.dumps(told)
        assert (told["store"]["events"] + told["lag"]["events"], told["store"]["size_bytes"]) == (1, 0)
        assert told["store"]["last"][:10] == "2026-01-05"
        assert {layer["count"] for layer in told["layers"]} <= {0, 1}
        assert "hidden" not in json.dumps((await call("pause_capture"))[1])
        for name in ("get_teleport_status", "get_vector_index_status", "get_topic_graph_status"):
            assert "concerns more than the project of this connection" in (await call(name))[0]
