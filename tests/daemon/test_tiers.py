"""Tiers as a connected client sees them while the keyword index comes, goes, is damaged and is switched off."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.generation import IndexFolder
from memory_mcp.server import service
from tests.daemon.inside import WORDS, Beside
from tests.daemon.places import copied, needs_proc
from tests.daemon.test_pump import call, talk
from tests.factories import a_small_history
from tests.indexes.helpers import files_of, fill_indexed, flip
from tests.requirements import requirement
from tests.waiting import until_async

pytestmark = needs_proc

#: How often the indexes are looked at, at least (seconds): by the specification damage shows within two.
LOOKS = 2.0
QUERY = "the retry queue has no idempotency key"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A week of work, in the long form two, with a keyword index of all of it."""
    history = a_small_history(2 if request.config.getoption("--slow") else 1)
    return fill_indexed(tmp_path_factory.mktemp("origin") / "data", history, topics=False)


@pytest.fixture
def place(tmp_path: Path, origin: Path) -> Iterator[Place]:
    with copied(origin, tmp_path, WORDS, kind=Beside) as made:
        yield made


def folder(place: Place) -> Path:
    return place.directory / "indexes" / "bm25"


def manifest(place: Place) -> Any:
    return IndexFolder(folder(place)).read_current()


async def state(client: Client) -> tuple[int, bool]:
    """Tier, and whether the keyword layer is healthy."""
    told = await call(client, "get_retrieval_status")
    (bm25,) = [one for one in told["layers"] if one["name"] == "bm25"]
    return told["tier"], bool(bm25["healthy"])


async def until(client: Client, wanted: tuple[int, bool]) -> None:
    """Wait for a state."""

    async def reached() -> bool:
        return await state(client) == wanted

    await until_async(reached, f"for {wanted}")


async def answered(client: Client) -> dict[str, Any]:
    """The answer to one question, which is right whatever answers it."""
    told = await call(client, "intelligent_search", query=QUERY, scope="all", limit=3, detail="full")
    assert told["results"]
    assert "idempotency" in told["results"][0]["quote"]
    return told


def test_the_indexes_are_looked_at_often_enough() -> None:
    """That one look is enough is told by the tests of their keeper."""
    assert service.WATCH <= LOOKS


def flipped(directory: Path) -> None:
    """Change a bit of the largest file of the index; files of a generation before it may lie next to it."""
    current = IndexFolder(directory).read_current()
    assert current is not None
    parts = {entry.name for entry in current.shards}
    files = [path for path in files_of(directory / "parts") if path.parent.name in parts]
    flip(max(files, key=lambda path: path.stat().st_size))


def garbage(directory: Path) -> None:
    (directory / "CURRENT").write_bytes(b"\xff\0garbage")


DAMAGES = (garbage, shutil.rmtree, flipped, lambda _: None)


@requirement("bm25:FR-07.3", "bm25:NFR-02.1", "bm25:NFR-02.2", "bm25:NFR-02.3", "bm25:FR-01.5")
@requirement("bm25:risk-index-corruption", "bm25:risk-cold-start", "goal:G4")
@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.few(1)
def test_a_start_waits_for_no_damaged_index_and_damage_lowers_the_tier_until_it_comes_back(
    place: Place, damage: Callable[[Path], None]
) -> None:
    """None can be read, so each has to be built first: tools are listed and questions answered before.

    Then a healthy tier, damage, a tier that says so, answers all the while, and the healthy tier again.
    """
    damage(folder(place))

    async def is_committed() -> bool:
        """Whether files are in place whose stamps have been taken: what changes before is not noticed by them."""
        with suppress(IndexUnreadable, OSError):
            current = manifest(place)
            return current is not None and f"{current.name}.json" in (folder(place) / "stamps").read_text()
        return False

    async def work(client: Client) -> None:
        assert {"teleport_search", "intelligent_search"} <= {t.name for t in (await client.list_tools()).tools}
        await answered(client)
        await until(client, (4, True))
        # A rebuilt index answers before its files are in place.
        await until_async(is_committed)
        before = manifest(place).number
        flipped(folder(place))

        async def rebuilt() -> bool:
            # Asked first: the indexes are looked at once a minute where nobody asks.
            return await state(client) == (4, True) and manifest(place).number > before and await is_committed()

        await until_async(rebuilt)
        await answered(client)
        # The daemon removes what it has replaced meanwhile. A file in its place keeps it from being built too soon to be seen.
        while not folder(place).is_file():
            shutil.rmtree(folder(place), ignore_errors=True)
            with suppress(OSError):
                folder(place).touch()
        await until(client, (5, False))
        await answered(client)
        folder(place).unlink()
        await until(client, (4, True))
        await answered(client)
        assert manifest(place) is not None

    talk(place, work)


@requirement("bm25:FR-04.4", "us:US-07", "bm25:FR-08.2", "bm25:FR-08.4")
def test_a_start_answers_by_the_index_a_stop_commits_what_it_followed_and_switched_off_the_client_goes_on_by_navigation(
    place: Place, request: pytest.FixtureRequest
) -> None:
    """The client stays connected all the while."""
    before = manifest(place).position

    async def work(client: Client) -> None:
        told = await answered(client)
        assert told["explanation"]["tier_used"] == 4
        assert told["explanation"]["method_used"] == "bm25"
        await call(client, "remember", text="We decided to name the valve rhodium.")

        async def followed() -> bool:
            told = await call(client, "get_teleport_status")
            found = await call(client, "teleport_search", query="rhodium", scope="all", doc_type="toc_node")
            return bool(found["results"] and told["indexes"]["bm25"]["behind"] == 0)

        await until_async(followed)
        assert manifest(place).position == before, "not committed yet: the interval is a minute"
        await asyncio.to_thread(place.ok, "daemon", "stop")
        assert manifest(place).position.outbox > before.outbox
        assert manifest(place).position.events > before.events
        (place.home / "config.toml").write_text("[teleport.bm25]\nenabled = false\n")
        assert await state(client) == (5, False)
        told = await answered(client)
        assert told["explanation"]["method_used"] == "agentic"
        assert told["explanation"]["tier_used"] == 5
        refused = await client.call_tool("teleport_search", {"query": QUERY})
        assert refused.is_error
        assert "BM25 index not enabled" in str(refused.content)
        if request.config.getoption("--slow"):
            (place.home / "config.toml").write_text("")
            await asyncio.to_thread(place.ok, "daemon", "restart")
            await until(client, (4, True))

    talk(place, work)


def listed(place: Place) -> float:
    """Seconds from the start of a client until it has the list of tools; that it is answered, and that no daemon is left."""
    began = time.monotonic()

    async def work(client: Client) -> float:
        assert {"teleport_search", "intelligent_search"} <= {t.name for t in (await client.list_tools()).tools}
        took = time.monotonic() - began
        await answered(client)
        return took

    took = float(talk(place, work))
    place.stop()
    return took


def whole(place: Place, origin: Path) -> Path:
    """The keyword index's folder, whole again: a daemon that has just answered may have been stopped amid a rebuild."""
    shutil.rmtree(place.directory)
    shutil.copytree(origin, place.directory)
    return folder(place)


@pytest.mark.slow
def test_a_start_with_a_damaged_or_missing_index_is_as_fast_as_without(place: Place, origin: Path) -> None:
    (place.home / "config.toml").write_text("[teleport]\nenabled = false\n")
    without = listed(place)
    (place.home / "config.toml").write_text("")
    for damage in DAMAGES:
        damage(whole(place, origin))
        assert listed(place) < 2 * without + 1.0
