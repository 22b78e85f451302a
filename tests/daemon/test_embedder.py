"""The model is changed while a client is connected: the layer stays healthy, the old index serves until the new one does."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.embed.models import BUNDLED, resolve_model
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, needs_proc
from tests.daemon.test_pump import call, talk
from tests.factories import a_small_history
from tests.waiting import until_async

pytestmark = needs_proc

QUERY = "the retry queue has no idempotency key"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Beside(tmp_path, more=DAEMON | {"MEMORY_MCP_TOPICS__ENABLED": "false"}) as made:
        made.ok("ingest", "-", stdin="".join(_line(draft) for draft in a_small_history(1)))
        yield made


def _line(draft: Any) -> str:
    told = {"session_id": draft.session_id, "id": draft.source_id, "role": draft.role.value, "text": draft.text}
    return json.dumps({**told, "timestamp": draft.timestamp}) + "\n"


async def vector(client: Client) -> dict[str, Any]:
    (found,) = [one for one in (await call(client, "get_retrieval_status"))["layers"] if one["name"] == "vector"]
    return dict(found)


async def until_embedded(client: Client, place: Place, folder: str) -> dict[str, Any]:
    """Ask for the status until a model has embedded everything that is stored."""
    told = dict[str, Any]()

    async def done() -> bool:
        nonlocal told
        lag = (await call(client, "get_retrieval_status"))["lag"]
        if lag["events"] or lag.get("index_changes"):
            return False
        told = json.loads(await asyncio.to_thread(place.ok, "embedder", "status", "--json"))
        return bool(told.get("documents") and told["healthy"] and told.get("folder") == folder and "served_by" not in told)

    await until_async(done, folder)
    return told


def test_a_fresh_memory_has_the_hybrid_tier_and_another_model_is_taken_up_unnoticed(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "mine"
    shutil.copytree(resolve_model(BUNDLED, None).folder, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"max_length": 16}), encoding="utf-8")
    unhealthy: list[dict[str, Any]] = []

    async def work(client: Client) -> None:
        first = await until_embedded(client, place, str(resolve_model(BUNDLED, None).folder))
        status = await call(client, "get_retrieval_status")
        assert (status["tier"], status["name"], status["embedder"]) == (2, "Hybrid", BUNDLED)
        done = json.loads(await asyncio.to_thread(place.ok, "embedder", "use", str(other), "--json"))
        assert done["daemon_restarted"] is True
        switched = asyncio.create_task(until_embedded(client, place, str(other)))
        while not switched.done():
            # Files are read anew after a start; nothing is ever built from nothing.
            if not (seen := await vector(client))["healthy"] and seen["reason"] != "its files are being read":
                unhealthy.append(seen)
            answer = await call(client, "vector_teleport", query=QUERY, scope="all", limit=3)
            assert "idempotency" in answer["results"][0]["quote"]
            await asyncio.sleep(0.1)
        second = await switched
        assert second["digest"] != first["digest"]
        assert second["documents"] == first["documents"] > 0
        assert (await call(client, "get_retrieval_status"))["embedder"] == "mine"

    talk(place, work)
    assert unhealthy == []
    assert f'model = "{other}"' in (place.home / "config.toml").read_text(encoding="utf-8")
