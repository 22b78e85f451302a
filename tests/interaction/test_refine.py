"""Refining through the tools of the full profile: what is due, what is read, and that nothing of the old text remains."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.importers.jsonl import draft_of
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId
from memory_mcp.requests.plain import tokens_of
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.toc.refining import LEAST_EVENTS, LEAST_TOKENS
from tests.factories import BILLING, SHOP, ms
from tests.fakes import FakeClock
from tests.filled import filled
from tests.interaction.conftest import Door
from tests.sessions import DAYS, MATTERS, sessions, stretch
from tests.toc.helpers import findings, rebuild

NOW = "2026-01-22 09:00"


def opened(events: list[dict[str, Any]], now: str = NOW) -> App:
    settings = Settings(storage=StorageSettings(timezone="Europe/Berlin"), server=ServerSettings(profile="full"))
    app = App(settings, FakeClock(ms(now)), in_memory=True)
    app.write([draft_of(event) for event in events], "jsonl")
    app.derivation.run()
    return app


@pytest.fixture
def door(data_dir: Path) -> Iterator[Door]:
    clock = FakeClock(ms(NOW))
    stored = filled(data_dir, [draft_of(event) for event in sessions()], clock)
    app = App(replace(stored, server=ServerSettings(profile="full")), clock)
    yield Door(app, "auto", SHOP, "Claude Code")
    app.close()


def due(door: Door, **more: Any) -> list[dict[str, Any]]:
    return list(door.ok("refine_due", **more)["due"])


def segment(door: Door, matter: str) -> str:
    return next(str(one["node_id"]) for one in due(door) if matter in one["title"].casefold())


def grips_of(door: Door, node_id: str) -> list[str]:
    return [grip for line in door.ok("refine_show", node_id=node_id)["events"] for grip in line.get("grip_ids", ())]


def retell(door: Door, node_id: str, **more: Any) -> dict[str, Any]:
    """New words that share none with the old, on the node's own first and last grip."""
    grips = grips_of(door, node_id)
    bullets = [{"text": "Zeppelins moor by starboard ropes.", "grip_ids": [grips[0], grips[-1]]}]
    return door.ok("refine_summary", node_id=node_id, title="Mooring: ropes replaced", bullets=bullets, **more)


def words_of_tree(door: Door) -> dict[str, str]:
    """Everything that nodes say, as any reader is shown it, by node."""
    ids = [str(node.node_id) for node in door.app.storage.toc.iter_nodes()]

    async def browse(client: Client) -> list[Any]:
        return [await client.call_tool("browse_toc", {"node_id": i, "scope": "all"}) for i in ids]

    shown = [found.structured_content["node"] for found in door.run(browse)]
    return {i: json.dumps(node, ensure_ascii=False).casefold() for i, node in zip(ids, shown, strict=True)}


# what is due


def test_segments_that_are_over_and_hold_enough_are_due_newest_first(door: Door) -> None:
    found = due(door)
    assert [next(m for m in MATTERS if m in one["title"].casefold()) for one in found] == list(reversed(MATTERS))
    assert all(one["level"] == "segment" and one["events"] == 12 and one["tokens"] >= LEAST_TOKENS for one in found)
    assert [one["session_id"] for one in due(door, day="yesterday")] == [f"s-{DAYS[1]}"] * 3
    assert len(due(door, limit=2)) == 2
    assert door.ok("refine_due", limit=2)["more"] is True
    assert due(door, day="2025") == []


def test_what_goes_on_is_short_or_is_a_subagents_is_not_due() -> None:
    going = stretch("quokka", "2026-01-22 08:20", "now")
    short = stretch("narwhal", "2026-01-21 09:00", "short")[: LEAST_EVENTS - 1]
    helper = stretch("okapi", "2026-01-21 12:00", "s", thread="helper")
    app = opened([*going, *short, *helper, *stretch("pangolin", "2026-01-21 15:00", "s")])
    [one] = due(Door(app, "auto", SHOP))
    assert "pangolin" in one["title"].casefold()
    app.close()


def test_a_day_is_due_behind_its_segments_and_only_where_it_is_one_projects() -> None:
    app = opened(
        [*sessions(DAYS[:1]), *stretch("okapi", f"{DAYS[1]} 09:00", "s"), *stretch("axolotl", f"{DAYS[1]} 18:00", "b", BILLING)]
    )
    door = Door(app, "auto", SHOP)
    for one in due(door):
        retell(door, one["node_id"])
    [day] = due(door)
    assert (day["node_id"], day["level"], day["events"]) == (f"toc:day:{DAYS[0]}", "day", 36)
    retell_day(door, day["node_id"])
    assert due(door) == []
    assert door.ok("refine_due")["notices"][0].startswith("nothing is due")
    app.close()


def retell_day(door: Door, node_id: str) -> None:
    children = door.ok("refine_show", node_id=node_id)["children"]
    bullets = [{"text": "Ropes were replaced.", "grip_ids": children[0]["bullets"][0]["grip_ids"]}]
    door.ok("refine_summary", node_id=node_id, title="A day of ropes", bullets=bullets)


# what is read


def test_one_call_brings_bullets_what_came_before_and_every_event_with_its_grips(door: Door) -> None:
    node_id = segment(door, "narwhal")
    found = door.ok("refine_show", node_id=node_id)
    node = door.ok("get_node", node_id=node_id)
    assert found["bullets"] == node["node"]["bullets"]
    assert [line["when"] for line in found["events"]] == sorted(line["when"] for line in found["events"])
    assert len(found["events"]) == 12
    grips = [grip for line in found["events"] for grip in line.get("grip_ids", ())]
    assert len(grips) >= 8
    for grip in grips:
        assert door.ok("expand_grip", grip_id=grip)["grip"]["node_id"] == node_id
    assert {grip for bullet in found["bullets"] for grip in bullet["grip_ids"]} <= set(grips)


def test_what_came_just_before_in_the_session_is_context() -> None:
    both = [*stretch("quokka", "2026-01-20 09:00", "big"), *stretch("tapir", "2026-01-20 09:24", "big")]
    app = opened([{**e, "text": f"{e['text']} {'and so on ' * 90}"} for e in both])
    own = Door(app, "auto", SHOP)
    first, second = sorted(app.storage.toc.iter_cuts(), key=lambda c: c.start)
    assert "before" not in own.ok("refine_show", node_id=first.node_id)["context"]
    found = own.ok("refine_show", node_id=second.node_id)["context"]
    last = app.storage.events.segment_events(first)[-1]
    assert (found["session_id"], found["before"][-1]["text"][:40]) == ("big", " ".join(last.text.split())[:40])
    assert "grip_ids" not in found["before"][-1]
    app.close()


def test_it_keeps_to_its_budget_and_says_what_is_left_out(door: Door) -> None:
    long = [{**e, "text": f"{e['text']} {'and so on ' * 800}"} for e in stretch("ibex", "2026-01-19 09:00", "long")]
    door.app.write([draft_of(e) for e in long], "jsonl")
    door.app.derivation.run()
    cuts = list(door.app.storage.toc.iter_cuts())
    longest = max(cuts, key=lambda c: c.events).node_id
    for node_id in (longest, NodeId("toc:day:2026-01-20"), NodeId("toc:year:2026")):
        held = max(c.events for c in cuts) if node_id == longest else len(door.app.tree.children(node_id, SHOP))
        for budget in (1000, 1500, 3000, 8000):
            found = door.ok("refine_show", node_id=node_id, token_budget=budget)
            assert tokens_of(found, 1.0) <= budget, node_id
            told = found.get("events", []) + found.get("children", [])
            assert len(told) + found.get("left_out", 0) == held, (node_id, budget)
            assert told


# what is written


def test_nothing_of_the_old_text_remains_anywhere_a_reader_looks(door: Door) -> None:
    node_id = segment(door, "narwhal")
    before = words_of_tree(door)
    assert {i for i, words in before.items() if "narwhal" in words} >= {node_id, f"toc:day:{DAYS[0]}"}
    old = door.ok("browse_toc", node_id=node_id)["node"]
    made = retell(door, node_id)
    assert (made["title"], made["author"]) == ("2026-01-20 12:00 · Mooring: ropes replaced", "agent")
    assert {i for i, words in words_of_tree(door).items() if "narwhal" in words} == set()
    node = door.ok("browse_toc", node_id=node_id)["node"]
    assert node["summary"].startswith("Mooring: ropes replaced. Zeppelins")
    assert not {w.casefold() for w in node["keywords"]} & {w.casefold() for w in old["keywords"]}
    assert "zeppelins" in json.dumps(door.ok("browse_toc", node_id=f"toc:day:{DAYS[0]}")).casefold()
    for field in ("title", "summary", "bullets", "keywords"):
        assert door.ok("search_node", node_id=node_id, query="narwhal", fields=[field])["matches"] == []
        found = door.ok("search_children", query="narwhal", child_level="segment", fields=[field])
        assert found["results"] == [], field
    assert findings(door.app) == []


def test_indexes_find_the_new_text_and_show_none_of_the_old(door: Door) -> None:
    app = door.app
    app.accelerators.catch_up()
    node_id = segment(door, "narwhal")
    retell(door, node_id)
    app.accelerators.catch_up()
    for tool in ("teleport_search", "hybrid_search"):
        [hit] = [r for r in door.full(tool, query="zeppelins starboard", doc_type="toc_node")["results"] if r["id"] == node_id]
        assert "Mooring" in hit["title"]
        for result in door.full(tool, query="narwhal", doc_type="toc_node", limit=20)["results"]:
            # Its events' own words still lead to the segment; what is shown of it is what the agent wrote.
            assert "narwhal" not in json.dumps([result["title"], result.get("keywords", [])]).casefold()


def test_a_late_event_and_a_rebuilt_tree_keep_every_word_and_grip(door: Door) -> None:
    node_id = segment(door, "narwhal")
    retell(door, node_id)
    told = door.ok("browse_toc", node_id=node_id)["node"]
    late = {
        **stretch("narwhal", f"{DAYS[0]} 12:05", f"s-{DAYS[0]}")[1],
        "id": "late",
        "text": "The narwhal reader was slow. " * 40,
    }
    door.ok("ingest_events", events=[{k: v for k, v in late.items() if v}])
    door.app.derivation.run()
    assert door.ok("browse_toc", node_id=node_id)["node"] == {**told, "events": 13}
    report = rebuild(door.app)
    assert (report.nodes_changed, report.nodes_dropped) == (0, 0)
    assert door.ok("browse_toc", node_id=node_id)["node"] == {**told, "events": 13}
    assert findings(door.app) == []


def test_a_summary_keywords_and_kinds_that_are_given_are_kept_and_the_same_words_again_are_no_new_version(door: Door) -> None:
    node_id = segment(door, "okapi")
    grips = grips_of(door, node_id)
    bullets = [
        {"text": "Ropes over chains.", "grip_ids": grips[:1], "kind": "decision"},
        {"text": "Moored.", "grip_ids": grips[1:2]},
    ]
    door.ok("refine_summary", node_id=node_id, title="Ropes", bullets=bullets, summary="All of it.", keywords=["hawser"])
    node = door.ok("browse_toc", node_id=node_id)["node"]
    assert (node["summary"], node["keywords"], node["bullets"]) == ("All of it.", ["hawser"], bullets)
    stored = door.app.storage.toc.get_nodes([node["node_id"]])[node["node_id"]]
    assert (stored.kind, stored.salience) == ("decision", 0.725)
    assert "hawser" in json.dumps(door.ok("browse_toc", node_id=f"toc:day:{DAYS[1]}"))
    assert retell(door, node_id) == retell(door, node_id)


def test_a_title_is_told_whole_and_what_goes_on_is_said() -> None:
    app = opened([*stretch("quokka", "2026-01-22 08:20", "now"), *stretch("okapi", "2026-01-22 06:00", "then")])
    door = Door(app, "auto", SHOP)
    going, over = sorted(
        (c.node_id for c in app.storage.toc.iter_cuts() if c.open), key=lambda i: "now" not in session_of(app, i)
    )
    assert "notices" not in retell(door, over)
    made = retell(door, going)
    assert made["notices"][0].startswith("this node is not over")
    bullets = [{"text": "Moored.", "grip_ids": grips_of(door, going)[:1]}]
    door.ok("refine_summary", node_id=going, title="Ropes — replaced", bullets=bullets)
    assert "replaced" in door.ok("browse_toc", node_id="toc:day:2026-01-22")["node"]["summary"]
    app.close()


def session_of(app: App, node_id: str) -> str:
    return next(c.session_id for c in app.storage.toc.iter_cuts() if c.node_id == node_id)


def test_a_refined_day_is_read_by_its_project_until_another_works_on_it_too(door: Door) -> None:
    day = f"toc:day:{DAYS[0]}"
    retell_day(door, day)
    assert door.ok("browse_toc", node_id=day)["node"]["title"] == "Tue 20 Jan 2026 · A day of ropes"
    door.app.write([draft_of(e) for e in stretch("ibex", f"{DAYS[0]} 18:00", "b", BILLING)], "jsonl")
    door.app.derivation.run()
    assert door.ok("browse_toc", node_id=day, scope="all")["node"]["title"] == "Tue 20 Jan 2026 · A day of ropes"
    assert "ropes" not in door.ok("browse_toc", node_id=day, project="billing")["node"]["title"]


def test_a_bullet_rests_on_one_project(door: Door) -> None:
    door.app.write([draft_of(e) for e in stretch("ibex", f"{DAYS[0]} 18:00", "b", BILLING)], "jsonl")
    door.app.derivation.run()
    cuts = [c for c in door.app.storage.toc.iter_cuts() if c.day == DAYS[0]]
    two = [next(iter(n.bullets)).grip_ids[0] for n in door.app.storage.toc.get_nodes([c.node_id for c in cuts]).values()]
    text = door.error(
        "refine_summary", node_id=f"toc:day:{DAYS[0]}", title="Both", bullets=[{"text": "Mixed.", "grip_ids": two}], scope="all"
    )
    assert text.startswith("INVALID_ARGUMENT: a bullet rests on two projects: 'Mixed.'. Nothing was changed.")
    assert "ropes" not in words_of_tree(door)[f"toc:day:{DAYS[0]}"]


def test_what_does_not_fit_is_named_and_changes_nothing(door: Door) -> None:
    node_id = segment(door, "okapi")
    before = [n for n in door.app.storage.toc.iter_nodes() if n.level is TocLevel.SEGMENT]
    fine: dict[str, Any] = {"title": "Fine", "bullets": [{"text": "Fine.", "grip_ids": grips_of(door, node_id)[:1]}]}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"keywords": ["x" * 61]}, "keywords.0"),
        ({"title": " "}, "title is empty"),
        ({"title": "x" * 201}, "title"),
        ({"bullets": [{"text": "", "grip_ids": ["grip:1:x"]}]}, "bullets.0.text is empty"),
        ({"bullets": [{"text": "a", "grip_ids": ["grip:1:x"], "kind": "guess"}]}, "bullets.0.kind must be 'procedure'"),
        ({"bullets": [{"text": "a", "grip_ids": ["grip:1:x"], "tags": []}]}, "bullets.0.tags"),
    ]
    for change, said in changes:
        assert said in door.error("refine_summary", node_id=node_id, **(fine | change))
        assert [n for n in door.app.storage.toc.iter_nodes() if n.level is TocLevel.SEGMENT] == before, change
