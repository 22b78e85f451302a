"""The map of topics: areas hold all of it, relations stay within it, and no project is told of another."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.one_topic import GetTopic, get_topic
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.topics import GetTopicMap, get_topic_map
from tests import topics
from tests.factories import BILLING, SHOP

NOBODY = Caller()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    made = topics.opened(tmp_path_factory.mktemp("map") / "data")
    made.topics.rebuild_graph()
    yield made
    made.close()


@pytest.mark.usefixtures("processes")
def test_every_topic_is_in_one_area_and_relations_are_between_topics_of_the_map(app: App) -> None:
    found = get_topic_map(app, GetTopicMap(), NOBODY)
    ids = [topic.topic_id for topic in found.topics]
    assert len(ids) == found.total >= 5
    assert sorted(name for area in found.areas for name in area.topics) == sorted(ids)
    assert found.relations
    pairs = [relation.topics for relation in found.relations]
    assert all(set(pair) <= set(ids) and pair[0] < pair[1] for pair in pairs)
    assert len(set(pairs)) == len(pairs)
    strengths = [relation.strength for relation in found.relations]
    assert strengths == sorted(strengths, reverse=True)


def test_topics_come_by_importance_page_by_page(app: App) -> None:
    whole = [topic.topic_id for topic in get_topic_map(app, GetTopicMap(), NOBODY).topics]
    first = get_topic_map(app, GetTopicMap(2), NOBODY)
    second = get_topic_map(app, GetTopicMap(100, first.next_cursor), NOBODY)
    assert [topic.topic_id for topic in (*first.topics, *second.topics)] == whole
    assert second.next_cursor == ""
    importance = [topic.importance for topic in (*first.topics, *second.topics)]
    assert importance == sorted(importance, reverse=True)


@pytest.mark.parametrize(("project", "other"), [(SHOP, BILLING), (BILLING, SHOP)])
def test_a_caller_who_is_bound_to_a_project_is_told_of_no_other(app: App, project: str, other: str) -> None:
    bound = Caller(project, locked=True)
    found = get_topic_map(app, GetTopicMap(), bound)
    assert found.scope == project
    said = json.dumps(asdict(found)).lower()
    assert found.topics
    assert topics.SECRETS[other] not in said
    for wrong in (GetTopicMap(scope="all"), GetTopicMap(project=other)):
        with pytest.raises(InvalidQuery, match="this connection is bound to project"):
            get_topic_map(app, wrong, bound)


def test_the_weeks_of_a_topic_hold_all_its_mentions_and_begin_on_mondays(app: App) -> None:
    for topic in get_topic_map(app, GetTopicMap(), NOBODY).topics:
        weeks = get_topic(app, GetTopic(topic.topic_id), NOBODY).by_week
        assert sum(week.mentions for week in weeks) == topic.mentions
        days = [week.week for week in weeks]
        assert days == sorted(set(days))
        assert {dt.date.fromisoformat(day).weekday() for day in days} == {0}
