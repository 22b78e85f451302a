"""Topics as a connected client sees them while their files are removed, changed and replaced under a running daemon."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.indexes.settings import TeleportSettings
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, copied, needs_proc
from tests.daemon.test_pump import call, talk
from tests.files import iter_files
from tests.indexes.helpers import fill_indexed, flip, truncate
from tests.requirements import requirement
from tests.topics_material import THEMES, themed
from tests.waiting import until_async

pytestmark = needs_proc

OVERVIEW = "What have I been working on?"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six themes with both indexes and their topics."""
    return fill_indexed(tmp_path_factory.mktemp("origin") / "data", themed(), TeleportSettings(), topics=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, origin: Path) -> Iterator[Place]:
    # What was said in the sample is old by now: one new word would leave all else out for its silence.
    more = {**DAEMON, "MEMORY_MCP_TOPICS__PRUNE_DAYS": "0"}
    with copied(origin, tmp_path_factory.mktemp("place"), more, kind=Beside) as made:
        yield made


async def status(client: Client) -> tuple[int, dict[str, Any]]:
    told = await call(client, "get_retrieval_status")
    (topics,) = (one for one in told["layers"] if one["name"] == "topics")
    return told["tier"], topics


async def until_tier(client: Client, tier: int) -> dict[str, Any]:
    """What is told of topics once the memory is of a tier."""
    seen: list[dict[str, Any]] = []

    async def reached() -> bool:
        found, topics = await status(client)
        seen.append(topics)
        return found == tier

    await until_async(reached, f"for tier {tier}")
    return seen[-1]


async def themes(client: Client) -> set[str]:
    """The topics of an overview, which is answered whatever becomes of them."""
    told = await call(client, "intelligent_search", query=OVERVIEW, scope="all", detail="full")
    assert told["results"]
    return {theme["topic"] for theme in told.get("themes", [])}


def one_file(folder: Path, name: str) -> Path:
    return next(p for p in iter_files(folder) if p.name == name)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "truncated": lambda folder: truncate(one_file(folder / "parts", "rows")),
    "changed": lambda folder: flip(one_file(folder / "parts", "topics.json")),
    "CURRENT": lambda folder: (folder / "CURRENT").write_bytes(b"\xff\0garbage"),
}


def test_what_is_remembered_is_placed_in_a_topic_by_the_daemon_that_serves(place: Place) -> None:
    async def work(client: Client) -> None:
        await until_tier(client, 1)
        before = await themes(client)
        await call(client, "remember", text="We decided that the refund posting of the ledger waits for the journal balance.")

        async def found() -> bool:
            told = await call(client, "get_topic_graph_status")
            return bool(await themes(client) == before and told["segments"] == 73)

        await until_async(found, "for the remembered segment to be placed")
        told = await call(client, "get_topic_graph_status")
        assert (told["topic_count"], told["generation"]) == (len(THEMES), 1)

    talk(place, work)


@requirement("policy:check-fall-back", "policy:tier-1")
def test_damage_under_a_daemon_lowers_the_tier_is_told_and_healed_by_the_job(
    place: Place, request: pytest.FixtureRequest
) -> None:
    """Damage of other kinds is what tests of their keeper do in the short form."""
    folder = place.directory / "indexes" / "topics"

    async def work(client: Client) -> None:
        topics = await until_tier(client, 1)
        assert topics["count"] == len(THEMES)
        wanted = await themes(client)
        assert wanted
        # By its schedule it might heal what no one has seen yet.
        await asyncio.to_thread(place.ok, "scheduler", "pause", "group_topics")
        for damage in list(DAMAGES.values())[: None if request.config.getoption("--slow") else 1]:
            damage(folder)
            told = await until_tier(client, 2)
            assert told["reason"] == "its files were changed or removed from outside; it is built again"
            assert await themes(client) == set()
            await asyncio.to_thread(place.ok, "scheduler", "run", "group_topics")
            await until_tier(client, 1)
            assert await themes(client) == wanted, "the same topics by the same ids"
        await asyncio.to_thread(place.ok, "scheduler", "resume", "group_topics")

    talk(place, work)
