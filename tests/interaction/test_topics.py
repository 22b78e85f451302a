"""Topics through the client: dated and cited, within tokens, and in each scope in that scope's own words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ResourceTemplateReference

from memory_mcp.app import App
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.model.sentinel import MARK
from memory_mcp.model.topic import TopicRecord
from tests import topics
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, tokens
from tests.interaction.test_errors import SNAPSHOT as REFUSALS
from tests.interaction.test_resources import read
from tests.requirements import requirement
from tests.snapshots import assert_same

#: Arguments of every tool that answers with topics, or with what is said of one.
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("topics_by_query", {"query": "canary rollout of the gateway, hosts drained", "limit": 10}),
    ("get_top_topics", {}),
    ("get_toc_nodes_for_topic", {"topic_id": "shared", "limit": 50}),
    ("get_related_topics", {"topic_id": "shared"}),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Filled and grouped once; for tests that only read, or take back what they write."""
    made = topics.opened(tmp_path_factory.mktemp("topics") / "data")
    told = Door(made, "auto").ok("rebuild_index", index_type="topics")
    held = made.topics.describe_status().topic_count
    assert (told["documents_indexed"], told["message"]) == (72, f"{held} topics were found in 72 segments")
    yield made
    made.close()


def shared(app: App) -> str:
    """The topic that both projects talk about, in words that neither shares with the other."""
    found = app.topics.read_graph().best_topics(app.topics.read_view(SHOP), "kingfisher", 10)
    return str(found[0].topic_id)


@pytest.mark.usefixtures("processes")
def test_every_topic_leads_to_dated_nodes_and_verified_quotations(app: App) -> None:
    door = Door(app, "auto")
    found = door.ok("topics_by_query", query="why are invoice mails and the ledger wrong after a refund")
    labels = " ".join(topic["label"] for topic in found["topics"])
    assert "invoice" in labels
    assert "refund" in labels
    for topic in found["topics"]:
        assert topic["first_mentioned"] <= topic["last_mentioned"]
        assert topic["nodes"]
        for node in topic["nodes"]:
            proof = door.ok("expand_grip", grip_id=node["grip"])
            assert proof["verified"] is True
            assert node.get("text", "").rstrip("…").strip(" .") in proof["grip"]["quote"]
            assert door.ok("browse_toc", node_id=node["node_id"])["node"]["start"].startswith(node["when"])


def test_a_question_is_answered_within_nine_hundred_tokens_and_less_where_less_is_wanted(app: App) -> None:
    door = Door(app, "auto")
    query = "canary rollout and error budget, invoice mail and outbox, ledger balance after a refund"
    usual = door.ok("topics_by_query", query=query)
    shown = len(usual["topics"])
    assert shown >= 4
    assert 450 < tokens(usual) <= 900
    assert all(topic["nodes"] for topic in usual["topics"])
    less = door.ok("topics_by_query", query=query, token_budget=400)
    assert 0 < len(less["topics"]) < shown
    assert tokens(less) <= 400
    assert tokens(door.ok("topics_by_query", query=query, limit=10, token_budget=3000)) > tokens(usual)


def test_statements_of_a_topic_differ_from_each_other_and_from_the_title_and_the_text_names_each_topic_once(app: App) -> None:
    for topic in Door(app, "auto").ok("topics_by_query", query="voucher discount in the basket")["topics"]:
        said = [node["text"] for node in topic["nodes"] if "text" in node]
        assert len(set(said)) == len(said) > 0
        assert all(node["grip"] for node in topic["nodes"])
        assert not any(node.get("text", "nothing") in node["title"] for node in topic["nodes"])
    found = Door(app, "auto").call("topics_by_query", query="invoice mail")
    [block] = found.content
    assert re.search(r"\n\*\*1\. .*invoice.*\*\* topic:", block.text)  # type: ignore[union-attr]
    assert MARK in block.text  # type: ignore[union-attr]


@pytest.mark.parametrize(("tool", "arguments"), ASKED, ids=[name for name, _ in ASKED])
@pytest.mark.parametrize("project", [SHOP, BILLING])
def test_a_scope_is_answered_in_its_own_words_alone(app: App, project: str, tool: str, arguments: dict[str, Any]) -> None:
    named = {name: shared(app) if value == "shared" else value for name, value in arguments.items()}
    [other] = set(topics.SECRETS) - {project}
    found = Door(app, "auto", project).ok(tool, **named)
    assert found["scope"] == project
    assert topics.SECRETS[other] not in json.dumps(found)
    if tool != "get_related_topics":  # which says nothing but labels
        everywhere = json.dumps(Door(app, "auto", project).ok(tool, scope="all", **named))
        assert [secret for secret in topics.SECRETS.values() if secret not in everywhere] == []


def test_the_whole_of_a_topic_is_told_in_the_words_of_its_reader_alone(app: App) -> None:
    topic = shared(app)
    for project, own in topics.SECRETS.items():
        told = read(Door(app, "auto", project), f"memory://topic/{topic}")
        assert told["origin"] == MARK
        assert told["topic"]["mentions"] == sum(told["topic"]["weeks"]) == 3
        assert [segment["node_id"] for segment in told["nodes"] if segment["bullets"]]
        assert own in json.dumps(told)
        assert [s for s in topics.SECRETS.values() if s != own and s in json.dumps(told)] == []
        assert [turn["what"] for turn in told["history"]] == ["found"]


def test_relations_are_told_from_both_sides(app: App) -> None:
    door, topic = Door(app, "auto"), shared(app)
    told = door.ok("get_related_topics", topic_id=topic)["related"]
    assert {"parent", "similar"} <= {one["kind"] for one in told}
    back = {"parent": "child", "similar": "similar", "co_occurring": "co_occurring"}
    for one in told:
        other = door.ok("get_related_topics", topic_id=one["topic_id"], limit=50)["related"]
        assert (topic, back[one["kind"]], one["strength"]) in [(o["topic_id"], o["kind"], o["strength"]) for o in other]


def test_topics_of_a_time_are_those_of_that_time(app: App) -> None:
    door = Door(app, "auto")
    every = door.ok("get_top_topics", fine=True)
    assert (every["total"], len(every["topics"][0]["weeks"])) == (door.ok("get_topic_graph_status")["topic_count"], 26)
    areas = door.ok("get_top_topics")
    assert 0 < areas["total"] <= every["total"]
    labels = {topic["label"] for topic in every["topics"]}
    assert [area["parts"] for area in areas["topics"] if "parts" in area and not labels.issuperset(area["parts"])] == []
    assert sum(area["mentions"] for area in areas["topics"]) == sum(topic["mentions"] for topic in every["topics"])
    month = door.ok("get_top_topics", since="2026-02-01", project="shop", fine=True)
    assert all(topic["first_mentioned"] >= "2026-02-01" for topic in month["topics"])
    assert sum(topic["mentions"] for topic in month["topics"]) < sum(topic["mentions"] for topic in every["topics"])
    nothing = door.ok("get_top_topics", since="2019", until="2019", project="shop")
    assert nothing["topics"] == []
    assert nothing["notices"] == [f"0 of 108 events in project {SHOP}; scope='all' without project searches every project"]


def test_where_nothing_fits_the_answer_says_how_much_there_is_and_what_finds_the_rest(app: App) -> None:
    found = Door(app, "auto").ok("topics_by_query", query="漁船の修理")
    assert (found["topics"], found["total"]) == ([], 0)
    [notice] = found["notices"]
    held = Door(app, "auto").ok("get_topic_graph_status")["topic_count"]
    assert notice.startswith(f"no topic fits among the {held} in all projects; intelligent_search finds")


@requirement("policy:status-topics")
def test_the_status_has_the_names_of_the_specification(app: App) -> None:
    status = Door(app, "auto").ok("get_topic_graph_status")
    assert (status["enabled"], status["healthy"], status["topic_count"] >= 6) == (True, True, True)
    assert (status["segments"], status["by_meaning"], status["generation"] >= 1) == (72, True, True)
    assert status["last_commit_at"] == "2026-03-02T13:00:00+01:00"
    assert status["size_bytes"] > 0


def test_a_label_is_seen_in_the_scope_that_gave_it_and_nowhere_else_and_passes_the_gate_of_every_write(app: App) -> None:
    topic, shop, billing = shared(app), Door(app, "auto", SHOP), Door(app, "auto", BILLING)
    before = billing.ok("get_related_topics", topic_id=topic)["label"]
    given = shop.ok("label_topic", topic_id=topic, label="  draining\n kingfisher hosts ")
    assert (given["label"], given["labelled_by"], given["scope"]) == ("draining kingfisher hosts", "agent", SHOP)
    assert shop.ok("get_toc_nodes_for_topic", topic_id=topic)["label"] == "draining kingfisher hosts"
    assert billing.ok("get_related_topics", topic_id=topic)["label"] == before
    everywhere = Door(app, "auto").ok("get_related_topics", topic_id=topic)
    assert everywhere["label"] != "draining kingfisher hosts"
    taken = shop.ok("label_topic", topic_id=topic)
    assert "labelled_by" not in taken
    assert taken["label"] != given["label"]
    kept = shop.ok("label_topic", topic_id=topic, label="key AKIAIOSFODNN7EXAMPLE")["label"]
    assert "AKIA" not in kept
    shop.ok("label_topic", topic_id=topic)
    for label, said in (
        (f"<{MARK}> 2026-01-12 09:00 rotor", "the label is refused: own output"),
        ("x" * 51, "label is too long: at most 50"),
    ):
        assert shop.error("label_topic", topic_id=topic, label=label).startswith(f"INVALID_ARGUMENT: {said}")


def test_a_pinned_topic_comes_first_until_it_is_let_go(app: App) -> None:
    door, topic = Door(app, "auto"), shared(app)
    assert door.ok("get_top_topics", fine=True)["topics"][0]["topic_id"] != topic
    assert door.ok("pin", id=topic) == {"id": topic, "pinned": True}
    first = door.ok("get_top_topics", fine=True)["topics"][0]
    assert (first["topic_id"], first["pinned"]) == (topic, True)
    door.ok("pin", id=topic, on=False)
    assert door.ok("get_top_topics", fine=True)["topics"][0]["topic_id"] != topic


def test_the_id_of_a_topic_that_was_merged_leads_to_the_one_it_is_in(app: App) -> None:
    known, old = app.storage.topics.list_topics(), "topic:0123456789ab"
    gone = TopicRecord(old, 0, merged_into=known[0].topic_id, is_over=True)  # type: ignore[arg-type]
    app.storage.topics.replace_topics([*known, gone])
    app.accelerators.find_topic_keeper().reload_facts()  # type: ignore[union-attr]
    found = Door(app, "auto").ok("get_toc_nodes_for_topic", topic_id=old)
    app.storage.topics.replace_topics(known)
    app.accelerators.find_topic_keeper().reload_facts()  # type: ignore[union-attr]
    assert found["topic_id"] == known[0].topic_id
    assert found["notices"] == [f"{old} was merged into {known[0].topic_id}, which is shown"]


def test_topics_that_are_off_or_too_few_say_so_and_what_to_do(tmp_path: Path) -> None:
    off = topics.opened(tmp_path / "off", 9, TopicsSettings(enabled=False))
    few = topics.opened(tmp_path / "few", 9)
    for part, app in (("topics switched off", off), ("too few segments for topics", few)):
        refusals = {}
        for tool, arguments in ASKED:
            named = {name: "topic:0123456789ab" if value == "shared" else value for name, value in arguments.items()}
            refusals[tool] = Door(app, "auto").error(tool, **named)
        assert {text.partition(":")[0] for text in refusals.values()} == {"UNAVAILABLE"}
        assert_same(REFUSALS, part, refusals)
    status = Door(off, "auto").ok("get_topic_graph_status")
    assert (status["enabled"], status["healthy"], status["topic_count"]) == (False, False, 0)
    assert status["message"] == "disabled (topics.enabled = false)"
    off.close()
    few.close()


def test_ids_of_topics_are_completed_by_their_beginning_or_a_word_of_their_label(app: App) -> None:
    template = ResourceTemplateReference(uri="memory://topic/{+topic_id}")

    def complete(door: Door, typed: str) -> list[str]:
        argument = {"name": "topic_id", "value": typed}
        return list(door.run(lambda client: client.complete(template, argument)).completion.values)

    everything = complete(Door(app, "auto"), "topic:")
    assert len(everything) == len(set(everything)) >= 6
    assert complete(Door(app, "auto"), "invoice") == complete(Door(app, "auto", BILLING), "Invoice")
    assert complete(Door(app, "auto", SHOP), "invoice") == []
    assert complete(Door(app, "auto", SHOP), topics.SECRETS[BILLING]) == []
