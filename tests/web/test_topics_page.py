"""Topics: the list and the map say what the request says, a topic leads to words and relatives, and none yet is explained."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.indexes.topics.base import State
from memory_mcp.requests.one_topic import GetTopic, LabelTopic
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.topics import GetTopicMap
from tests import topics
from tests.daemon.door import Door
from tests.factories import BILLING, SHOP, draft
from tests.web.acting import visited
from tests.web.visitor import Visitor, plain

HOSTILE = 'odd"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Visitor]]:
    """Twelve weeks of two projects with the topics in them, looked at through a visit."""
    with visited(tmp_path_factory.mktemp("topics") / "data", *topics.sessions()) as (door, visitor):
        door.app.topics.rebuild_graph()
        yield door, visitor


@pytest.fixture(scope="module")
def visitor(door: tuple[Door, Visitor]) -> Visitor:
    return door[1]


def asked(door: tuple[Door, Visitor], request: object) -> dict[str, Any]:
    found: dict[str, Any] = as_json(respond(door[0].app, request, Caller()))
    return found


def listed(page: str) -> list[str]:
    """Topic ids in the order of the list."""
    return [html.unescape(name) for name in re.findall(r'href="[^"]*/topics/(topic:[^"?]+)[^"]*" data-open', page)]


@pytest.mark.usefixtures("processes")
def test_topics_are_listed_by_importance_with_state_and_the_same_are_on_the_map(
    door: tuple[Door, Visitor], visitor: Visitor
) -> None:
    found = asked(door, GetTopicMap(scope="all"))
    page = visitor.page("topics")
    ids = [one["topic_id"] for one in found["topics"]]
    assert len(ids) >= 5
    assert listed(page) == ids
    drawing = page.split('class="topics-map"', 1)[1].split("</svg>", 1)[0]
    assert sorted(re.findall(r'href="[^"]*/topics/(topic:[^"?]+)" class="topic ', drawing)) == sorted(ids)
    said = plain(page)
    for one in found["topics"]:
        assert f"{one['label']} {one['state']}" in said
        assert f"{one['mentions']} mentions, last {one['last_mentioned']}" in said
    assert page.count('class="spark"') == len(ids)
    assert {one["state"] for one in found["topics"]} <= set(State)


def test_a_topic_leads_to_its_segments_by_time_with_statements_and_their_words(
    door: tuple[Door, Visitor], visitor: Visitor
) -> None:
    [name, *_] = listed(visitor.page("topics"))
    found = asked(door, GetTopic(name, scope="all"))
    page = visitor.page(f"topics/{name}")
    assert f'<h1 dir="auto">{html.escape(found["topic"]["label"])}</h1>' in page
    where = page.split('id="where"', 1)[1].split("</section>", 1)[0]
    times = re.findall(r'<time datetime="([^"]+)"', where)
    assert len(times) == found["topic"]["mentions"]
    assert times == sorted(times, reverse=True)
    ways = re.findall(rf'href="{visitor.base}/((?:tree|grip)/[^"]+)"', where)
    assert len([way for way in ways if way.startswith("grip/")]) >= len(times)
    assert {visitor.get(html.unescape(way)).status for way in ways[:4]} == {200}
    said = plain(page)
    for turn in found["history"]:
        assert f"{turn['when']} {turn['what']}" in said
    for other in found["related"]:
        assert other["label"] in said


def test_the_chart_of_a_topic_counts_every_mention_in_its_week(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    [name, *_] = listed(visitor.page("topics"))
    found = asked(door, GetTopic(name, scope="all"))
    chart = visitor.page(f"topics/{name}").split('class="columns-chart"', 1)[1].split("</svg>", 1)[0]
    counts = [int(count) for count in re.findall(r": (\d+) mentions?</title>", chart)]
    assert len(counts) >= 26
    assert sum(counts) == found["topic"]["mentions"]
    ways = re.findall(r'href="([^"]+)"', chart)
    assert len(ways) == len(found["by_week"])
    assert visitor.send("GET", ways[0]).status == 200


@pytest.mark.parametrize("project", [SHOP, BILLING])
def test_within_a_project_nothing_of_the_other_is_said(visitor: Visitor, project: str) -> None:
    page = visitor.page("topics", project=project)
    other = next(word for of, word in topics.SECRETS.items() if of != project)
    names = listed(page)
    assert names
    for name in names:
        page += visitor.page(f"topics/{name}", project=project)
    assert other not in page.lower()
    page = re.sub('<p class="bound">.*?</p>', "", page)
    assert all("project=" in way for way in re.findall(rf'href="({visitor.base}/(?:topics|tree)/[^"]+)"', page))


def test_a_topic_that_the_project_has_not_is_no_page(visitor: Visitor) -> None:
    assert visitor.get("topics/topic:0123456789ab").status == 404
    assert visitor.get("topics/nonsense").status == 400


def test_the_less_important_ones_are_on_further_pages(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    first = asked(door, GetTopicMap(2, scope="all"))
    rest = listed(visitor.page("topics", cursor=first["next_cursor"]))
    assert rest == [one["topic_id"] for one in asked(door, GetTopicMap(scope="all"))["topics"][2:]]


def test_a_hostile_label_stays_a_label(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    [name, *_] = listed(visitor.page("topics"))
    respond(door[0].app, LabelTopic(name, HOSTILE, scope="all"), Caller())
    try:
        pages = [visitor.page("topics"), visitor.page(f"topics/{name}")]
    finally:
        respond(door[0].app, LabelTopic(name, "", scope="all"), Caller())
    for page in pages:
        assert "<script>alert" not in page
        assert html.escape(HOSTILE) in page.replace("&#34;", "&quot;")


@pytest.mark.usefixtures("processes")
def test_where_there_are_no_topics_the_page_says_why_and_what_happens_next(tmp_path: Path) -> None:
    with visited(tmp_path / "data", draft("Please rename the login handler.")) as (door, visitor):
        page = visitor.page("topics")
        assert "There are no topics yet" in page
        assert "Topics are looked for from 50 segments on; there is 1." in plain(page)
        live = re.search(r'data-live="([^"]+)"', page)
        assert live is not None
        door.app.write(topics.sessions(), "jsonl")
        door.app.derivation.run()
        door.app.topics.rebuild_graph()
        part = visitor.send("GET", html.unescape(live[1]), X_Part="1", X_Live="1").text
        assert len(listed(part)) >= 5
