"""What a call costs the store, in statements, rows and bytes: the same on a small memory and on one six times as large.

The bars in milliseconds are those of the benches; these counts are what they rest on, and no machine changes them.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.storage.settings import StorageSettings
from tests.factories import a_small_history
from tests.fakes import FakeClock
from tests.interaction.conftest import Door
from tests.requirements import requirement
from tests.toc.helpers import engine
from tests.work import asked_of_the_store

QUESTION = "retry queue idempotency key"
#: Most statements and rows of a call that was made before: a few more than were counted on both memories.
MOST: dict[str, tuple[int, int]] = {
    "get_retrieval_status": (13, 20),
    "browse_toc": (1, 1),
    "search_children": (4, 10),
    "expand_grip": (5, 84),
    # By the tree alone, which sifts events for what its walk has no bounds left for: 33 on 1,400 events and 34 on 5,800.
    "intelligent_search": (40, 250),
    "remember": (4, 2),
}
#: Of the same question once something was filed in between, so that what had been read of the tree is read again.
MOST_AGAIN = (48, 400)
#: Of filing one event that arrives alone, with everything above it rolled up.
MOST_FILED = (95, 300)


def opened(directory: Path, weeks: int) -> App:
    settings = Settings(StorageSettings(str(directory), "Europe/Berlin"), server=ServerSettings(profile="full"))
    app = App(settings, FakeClock())
    app.write(a_small_history(weeks), "jsonl")
    app.derivation.run()
    return app


@pytest.fixture(scope="module", params=[1, 3, pytest.param(6, marks=pytest.mark.slow)], ids=["small", "large", "largest"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    made = opened(tmp_path_factory.mktemp("costs") / "data", request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(app: App) -> Door:
    """A client whose every kind of call has been made once, so that what is read once is there."""
    made = Door(app, "auto", "")
    for tool, given in arguments(made, 0).items():
        made.ok(tool, **given)
    return made


@cache
def arguments(door: Door, number: int) -> dict[str, dict[str, Any]]:
    [first, *_] = door.full("intelligent_search", query=QUESTION, scope="all", limit=5)["results"]
    return {
        "get_retrieval_status": {},
        "browse_toc": {"scope": "all"},
        "search_children": {"query": "retry queue", "scope": "all"},
        "expand_grip": {"grip_id": first["grip_ids"][0]},
        "intelligent_search": {"query": QUESTION, "scope": "all"},
        "remember": {"text": f"The pelican sits on roof {number}."},
    }


@requirement("bm25:FR-03.4")
@pytest.mark.parametrize("tool", MOST)
def test_a_call_asks_the_store_a_bounded_number_of_things(door: Door, tool: str) -> None:
    given = arguments(door, 1)[tool]
    with asked_of_the_store() as read:
        door.ok(tool, **given)
    statements, rows = MOST[tool]
    assert len(read.statements) <= statements, read.statements
    assert read.rows <= rows


def test_an_event_that_arrives_alone_is_filed_at_a_cost_of_its_own(app: App, door: Door) -> None:
    """The bars are 20 ms and 100 kB."""

    def kept() -> tuple[int, int]:
        [(deltas, size)] = engine(app).connection.fetch_rows("SELECT count(*), sum(octet_length(hashes)) FROM term_delta")
        return deltas, size

    app.derivation.run()
    deltas, size = kept()
    door.ok("remember", text="A heron nests behind the transformer.")
    with asked_of_the_store() as read:
        app.derivation.run()
    assert (len(read.statements) <= MOST_FILED[0], read.rows <= MOST_FILED[1]) == (True, True), (read.statements, read.rows)
    more, grown = kept()
    # The segment's own row, and one for each period above it at most; of their terms, those that are new.
    assert more - deltas <= 6
    assert grown - size <= 200


def test_a_question_after_something_was_filed_reads_again_what_changed_and_no_more(app: App, door: Door) -> None:
    door.ok("remember", text="A plover nests on the gravel of the car park.")
    app.derivation.run()
    with asked_of_the_store() as read:
        door.full("intelligent_search", query=QUESTION, scope="all")
    assert (len(read.statements) <= MOST_AGAIN[0], read.rows <= MOST_AGAIN[1]) == (True, True), (read.statements, read.rows)
