"""A crowded day as an agent reads it: pages within their tokens, short exchanges folded, and every child within reach."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import EventDraft, Role
from tests.factories import SHOP, draft, ms
from tests.interaction.conftest import Door, open_app, tokens
from tests.requirements import requirement

DAY = "toc:day:2026-02-10"
SHORT, LONG = 14, 26


def crowded() -> list[EventDraft]:
    """Forty sessions of one day: some of two messages, the others of ten, each about something of its own."""
    drafts = []
    for number in range(SHORT + LONG):
        at, session = ms("2026-02-10 06:00") + number * 1_500_000, f"s{number:02}"
        matter = f"pier {number} of the northern harbour with its {number + 3} bollards"
        turns = 1 if number % 3 == 0 and number < 3 * SHORT else 5
        for turn in range(turns):
            at += 60_000
            drafts.append(draft(f"Please measure {matter}, side {turn}.", at=at, session=session, source_id=f"{session}u{turn}"))
            closed = f"Measured {matter}: side {turn} has {number * 7 + turn} metres."
            drafts.append(draft(closed, at=at + 1000, session=session, role=Role.ASSISTANT, source_id=f"{session}a{turn}"))
    return drafts


@pytest.fixture(scope="module")
def memory() -> Iterator[App]:
    app = open_app(days=None, profile="full")
    app.write(crowded(), "test")
    app.derivation.run()
    yield app
    app.close()


@pytest.fixture
def harbour(memory: App) -> Door:
    return Door(memory, "auto", SHOP)


def pages(door: Door, node_id: str, cursor: str = "", **more: Any) -> list[dict[str, Any]]:
    """A page and all behind it."""
    found = [door.ok("browse_toc", node_id=node_id, cursor=cursor, **more)]
    while "next_cursor" in found[-1]:
        found.append(door.ok("browse_toc", node_id=node_id, cursor=found[-1]["next_cursor"], **more))
    return found


def ids(several: list[dict[str, Any]]) -> list[str]:
    return [child["node_id"] for page in several for child in page["children"]]


@requirement("plan:goal-token-budget")
def test_pages_of_a_crowded_day_cost_at_most_900_tokens_unless_larger_ones_are_asked_for_also_of_a_node_read_whole(
    harbour: Door,
) -> None:
    found = pages(harbour, DAY)
    assert len(found) > 1
    assert max(map(tokens, found)) <= 900
    assert max(len(page["children"]) for page in found) <= 20
    assert found[0]["node"]["bullets"]
    # What was shown with the first page is not shown again.
    assert all("bullets" not in page["node"] and "folded" not in page for page in found[1:])
    whole = harbour.ok("browse_toc", node_id=DAY, limit=100)
    assert (len(whole["children"]), "next_cursor" in whole) == (LONG, False)
    assert harbour.error("browse_toc", node_id="toc:week:2026-W07", cursor=whole["folded_cursor"]).startswith("INVALID_ARGUMENT")
    read = harbour.ok("get_node", node_id=DAY)
    assert len(read["children"]) == 20
    rest = pages(harbour, DAY, read["next_cursor"])
    assert len(ids([read, *rest])) == LONG
    assert read["folded"].startswith(f"{SHORT} short exchanges")


def test_the_short_exchanges_are_one_line_open_by_its_cursor_and_are_found_by_a_search_below_the_day(
    harbour: Door, memory: App
) -> None:
    loud = pages(harbour, DAY)
    assert loud[0]["folded"] == f"{SHORT} short exchanges, {2 * SHORT} events"
    opened = pages(harbour, DAY, loud[0]["folded_cursor"], limit=5)
    assert [len(page["children"]) for page in opened] == [5, 5, 4]
    assert {child["events"] for page in opened for child in page["children"]} == {2}
    every = memory.tree.children(memory.tree.node(memory.tree.path(opened[0]["children"][0]["node_id"])[-2]).node_id, SHOP)
    assert sorted(ids(loud) + ids(opened)) == sorted(every)
    assert len(ids(loud) + ids(opened)) == SHORT + LONG
    found = harbour.ok("search_children", query="pier 33 bollards", parent_id=DAY)["results"]
    assert found[0]["node_id"] in ids(opened)


def test_what_is_pinned_is_not_folded(harbour: Door, memory: App) -> None:
    [short, *_] = pages(harbour, DAY, harbour.ok("browse_toc", node_id=DAY)["folded_cursor"])[0]["children"]
    memory.storage.toc.set_pin(short["node_id"], True, "test")
    try:
        found = pages(harbour, DAY)
        assert found[0]["folded"].startswith(f"{SHORT - 1} short exchanges")
        assert short["node_id"] in ids(found)
    finally:
        memory.storage.toc.set_pin(short["node_id"], False, "test")


def test_children_tell_what_came_of_them_what_they_were_about_and_how_much_there_was(harbour: Door) -> None:
    [day] = harbour.ok("browse_toc", node_id="toc:week:2026-W07")["children"]
    assert (day["sessions"], day["children"]) == (SHORT + LONG, SHORT + LONG)
    assert day["events"] == 2 * SHORT + 10 * LONG
    assert day["summary"]
    assert " — " not in day["title"]


def test_a_resource_is_read_page_by_page(harbour: Door) -> None:
    def read(uri: str) -> Any:
        [content] = harbour.run(lambda client: client.read_resource(uri)).contents
        return json.loads(content.text)  # type: ignore[union-attr]

    first = read(f"memory://toc/{DAY}")
    assert tokens(first) <= 900
    second = read(f"memory://toc/{DAY}/{first['next_cursor']}")
    assert not set(ids([first])) & set(ids([second]))
    opened = read(f"memory://toc/{DAY}/{first['folded_cursor']}")
    assert {child["events"] for child in opened["children"]} == {2}
    segment = read(f"memory://toc/{first['children'][0]['node_id']}")
    assert [parent["level"] for parent in segment["context"]["parents"]] == ["day", "week", "month", "year"]
