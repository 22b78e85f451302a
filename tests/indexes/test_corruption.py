"""The index of a serving daemon is damaged while a real client asks: every answer is right or refused, and it heals.

An index holds ids, the store holds the words: right means that an answer is the one of an undamaged run.
"""

import asyncio
import itertools
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.indexes.generation import IndexFolder
from tests.daemon.places import DAEMON, needs_proc
from tests.daemon.test_pump import call
from tests.factories import a_small_history
from tests.fakes import FakeClock
from tests.indexes.helpers import delete, extend, files_of, flip_within, halve, opened, truncate
from tests.requirements import requirement
from tests.waiting import until_async

pytestmark = needs_proc

EVERY = 0.2
QUERIES = (
    "retry queue idempotency",
    "discount Decimal cart",
    "applyDiscount",
    "theme hydration",
    "test_137 failed",
    "Norway VAT",
)
DAMAGES: dict[str, Callable[[Path], None]] = {
    "flip": lambda p: flip_within(p, 7),
    "flip again": lambda p: flip_within(p, 8),
    "truncate": truncate,
    "halve": halve,
    "extend": extend,
    "delete": delete,
}
#: A damage within a file and one of its length, each to another sort of file; the long form tries all on all.
SAMPLE = {"flip": "grip/data.csc.index.npy", "truncate": "nodes.npys"}


def stored(directory: Path, weeks: int, seed: int) -> Path:
    """A memory with an index of all of it, at rest."""
    app = opened(directory, FakeClock())
    app.write(a_small_history(weeks, seed=seed), "test")
    app.derivation.run()
    app.accelerators.catch_up()
    app.close()
    return directory


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("origin") / "data", 1, 1)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another memory with other words."""
    return stored(tmp_path_factory.mktemp("other") / "data", 1, 2)


def copy_of(origin: Path, root: Path) -> Place:
    """A place with a copy of a memory, not served yet."""
    made = Place(root, more={**DAEMON, "MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"})
    shutil.copytree(origin, made.directory)
    return made


@pytest.fixture(scope="module")
def place(processes: None, tmp_path_factory: pytest.TempPathFactory, origin: Path) -> Iterator[Place]:
    """One daemon for all damages: every test waits until it has healed its index."""
    with copy_of(origin, tmp_path_factory.mktemp("served")) as made:
        yield made


@dataclass
class Asking:
    """A client that asks five times a second, and what it was told."""

    client: Client
    #: What an undamaged index answers, by query.
    wanted: dict[str, Any] = field(default_factory=dict)
    navigated: dict[str, Any] = field(default_factory=dict)
    right: int = 0
    refused: list[str] = field(default_factory=list)

    async def begin(self) -> None:
        await until_async(self.healthy)
        for query in QUERIES:
            self.wanted[query] = await self.teleport(query)
            self.navigated[query] = await self.navigate(query)
        assert all(self.wanted.values())

    async def teleport(self, query: str) -> Any:
        """Results, or None when it was refused with a reason."""
        told = await self.client.call_tool("teleport_search", {"query": query, "scope": "all", "limit": 20, "detail": "full"})
        if told.is_error:
            self.refused.append(str(told.content))
            assert "UNAVAILABLE" in str(told.content) or "not ready" in str(told.content), told.content
            return None
        assert told.structured_content is not None
        return [(r["id"], r["bm25_score"], r["quote"]) for r in told.structured_content["results"]]

    async def navigate(self, query: str) -> Any:
        return (await call(self.client, "search_children", query=query, scope="all", limit=5))["results"]

    async def once(self, number: int) -> None:
        query = QUERIES[number % len(QUERIES)]
        found = await self.teleport(query)
        if found is not None:
            assert found == self.wanted[query], f"a wrong answer to {query!r}"
            self.right += 1
        if number % 5 == 0:
            assert await self.navigate(query) == self.navigated[query]

    async def healthy(self) -> bool:
        """Whether the status is."""
        return bool((await call(self.client, "get_teleport_status"))["bm25_healthy"])

    async def asked_through(self, damage: Callable[[], object], watched: Callable[[], bool]) -> None:
        """Damage, and questions until it has been dealt with and the index is healthy again."""
        damage()
        numbers = itertools.count()

        async def dealt_with() -> bool:
            if watched():
                return True
            await self.once(next(numbers))
            await asyncio.sleep(EVERY)
            return False

        await until_async(dealt_with, "for the damage to be healed")
        await until_async(self.healthy)
        for number in range(len(QUERIES)):
            await self.once(number)


def asked(place: Place, work: Callable[[Asking], Awaitable[None]]) -> Asking:
    async def main() -> Asking:
        async with Client(place.server(), read_timeout_seconds=30) as client:
            asking = Asking(client)
            await asking.begin()
            await work(asking)
            return asking

    return asyncio.run(main())


def home(place: Place) -> IndexFolder:
    return IndexFolder(place.directory / "indexes" / "bm25")


def renewed(place: Place) -> Callable[[], bool]:
    """Whether another generation than now is in force."""
    now = home(place).read_current()
    assert now is not None
    before = now.number, {p.name for p in now.shards}

    def watched() -> bool:
        try:
            found = home(place).read_current()
        except Exception:
            return False
        return found is not None and (found.number, {p.name for p in found.shards}) != before

    return watched


@requirement("bm25:NFR-02.2", "bm25:risk-index-corruption", "bm25:optional")
def test_files_damaged_and_the_whole_folder_deleted_under_questions_never_give_a_wrong_answer(place: Place) -> None:
    async def work(asking: Asking) -> None:
        for damage, name in SAMPLE.items():
            path = next(p for p in files_of(home(place).directory) if p.as_posix().endswith(name))
            await asking.asked_through(lambda p=path, d=damage: DAMAGES[d](p), renewed(place))  # type: ignore[misc]
        folder = home(place).directory
        await asking.asked_through(
            lambda: shutil.rmtree(folder), lambda: folder.exists() and home(place).read_current() is not None
        )

    told = asked(place, work)
    assert told.right > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_file_damaged_in_turn_under_questions_never_gives_a_wrong_answer(place: Place, damage: str) -> None:
    async def work(asking: Asking) -> None:
        names = [p.name for p in files_of(home(place).directory)]
        for name in names:
            match = "gen-" if name.startswith("gen-") else name
            path = next(p for p in files_of(home(place).directory) if p.name.startswith(match))
            if path.stat().st_size:
                await asking.asked_through(lambda p=path: DAMAGES[damage](p), renewed(place))  # type: ignore[misc]

    asked(place, work)


def test_the_folder_of_another_memory_put_in_its_place_is_never_believed(place: Place, other: Path) -> None:
    async def work(asking: Asking) -> None:
        foreign = json.loads(next((other / "indexes" / "bm25").glob("gen-*.json")).read_text())["manifest"]["store_id"]

        def swapped() -> None:
            directory = home(place).directory
            directory.rename(directory.with_name("aside"))
            shutil.copytree(other / "indexes" / "bm25", directory)

        def ours() -> bool:
            try:
                found = home(place).read_current()
            except Exception:
                return False
            return found is not None and found.store_id != foreign

        await asking.asked_through(swapped, ours)

    asked(place, work)


@pytest.mark.slow  # in the short form: the test above, and test_follow.py::test_an_index_of_another_store_is_never_followed.
@pytest.mark.usefixtures("processes")
def test_a_memory_that_is_served_with_the_folder_of_another_builds_its_own(tmp_path: Path, other: Path, origin: Path) -> None:
    place = copy_of(origin, tmp_path)
    shutil.rmtree(home(place).directory)
    shutil.copytree(other / "indexes" / "bm25", home(place).directory)

    async def work(asking: Asking) -> None:
        ids = {doc_id for found in asking.wanted.values() for doc_id, *_ in found}
        app = opened(origin, FakeClock())
        grips = {g.grip_id for batch in app.storage.grips.iter_all() for g in batch}
        nodes = {n.node_id for n in app.storage.toc.iter_nodes()}
        app.close()
        assert ids <= grips | nodes

    with place:
        asked(place, work)
