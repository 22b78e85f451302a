"""A connection that is bound to its project, over a pipe: neither what there is of others nor that it is paused is told."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import ClientSession, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

from bench.place import Place
from tests.daemon.inside import BARE, WORDS, Beside, Inside
from tests.daemon.places import copied, needs_proc, said

pytestmark = needs_proc

OWN, OTHER = "github.com/acme/shop", "github.com/acme/hidden"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An event of the own project, and seven of the other, which is paused."""
    alone = Inside(tmp_path_factory.mktemp("origin"), more=BARE)
    secrets = "".join(said(OTHER, f"Secret number {n} of the vault.", 11 + n) for n in range(6))
    alone.ok("ingest", "-", stdin=said(OWN, "We decided that the kettle is descaled on Mondays.", 9))
    alone.ok("ingest", "-", stdin=said(OTHER, "We decided that the vault opens with the blue key.", 10) + secrets)
    alone.ok("pause", "--project", OTHER, "--for", "2h")
    return alone


@pytest.fixture(scope="module")
def grips(origin: Place) -> tuple[str, str]:
    """One of the own project, and one of the other."""
    own, other = (re.findall(r"grip:[0-9]+:[0-9a-z]+", origin.ok("search", word, "--all"))[0] for word in ("kettle", "blue key"))
    return own, other


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, origin: Place) -> Iterator[Place]:
    """One whose daemon binds connections to their project."""
    more = WORDS | {"MEMORY_MCP_SERVER__SCOPE_LOCK": "true"}
    with copied(origin.directory, tmp_path_factory.mktemp("locked"), more, kind=Beside) as made:
        yield made


@pytest.mark.anyio
async def test_a_bound_status_counts_its_own_and_names_no_other_project(locked: Place) -> None:
    given = locked.server("serve")
    given.env = {**(given.env or {}), "MEMORY_MCP_PROJECT": OWN}
    async with stdio_client(given) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        call = Asked(client).tool
        text, told = await call("get_retrieval_status", detail="full")
        assert "hidden" not in text + json.dumps(told)
        assert (told["store"]["events"] + told["lag"]["events"], told["store"]["size_bytes"]) == (1, 0)
        assert told["store"]["last"][:10] == "2026-01-05"
        assert {layer["count"] for layer in told["layers"]} <= {0, 1}
        assert "hidden" not in json.dumps((await call("pause_capture"))[1])
        for name in ("get_teleport_status", "get_vector_index_status", "get_topic_graph_status"):
            assert "concerns more than the project of this connection" in (await call(name))[0]


class Asked:
    """A client's calls: what comes back as text and as structure, or the error's text."""

    def __init__(self, client: ClientSession) -> None:
        self._client = client

    async def tool(self, name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        result = await self._client.call_tool(name, arguments)
        [block] = result.content
        assert isinstance(block, TextContent)
        return block.text, dict(result.structured_content or {})

    async def resource(self, uri: str) -> str:
        try:
            return str((await self._client.read_resource(uri)).contents)
        except MCPError as error:
            return f"error: {error}"


@pytest.mark.anyio
async def test_by_no_id_does_a_bound_connection_get_words_of_another_project(locked: Place, grips: tuple[str, str]) -> None:
    own, other = grips
    given = locked.server("serve")
    given.env = {**(given.env or {}), "MEMORY_MCP_PROJECT": OWN}
    async with stdio_client(given) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        asked = Asked(client)
        assert "kettle" in (await asked.tool("expand_grip", grip_id=own))[0]
        assert "kettle" in (await asked.tool("get_events", session_id=OWN))[0]
        assert "kettle" in await asked.resource(f"memory://grip/{own}")
        assert "kettle" in await asked.resource(f"memory://session/{OWN}")
        refinement = {"title": "The vault", "bullets": [{"text": "The vault opens.", "grip_ids": [other]}]}
        answers = [
            await asked.tool("expand_grip", grip_id=other),
            await asked.tool("get_events", session_id=OTHER),
            await asked.tool("get_retrieval_status", detail="full"),
            await asked.tool("refine_summary", node_id="2026", **refinement),
            (await asked.resource(f"memory://grip/{other}"), {}),
            (await asked.resource(f"memory://session/{OTHER}"), {}),
        ]
        for text, told in answers:
            whole = text + json.dumps(told)
            # The session is named by whoever asks for it.
            assert "vault" not in whole, whole
            assert "blue key" not in whole, whole
            assert '"hidden' not in whole, whole
