"""Several processes with one memory open: what one of them says of projects, statements and topics holds for the others."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from memory_mcp.model.event import ROOT_COMMIT
from memory_mcp.model.grip import GripUsage, Supersession
from memory_mcp.model.ids import GripId, topic_id
from memory_mcp.model.project import Alias, Split
from memory_mcp.model.topic import TopicLabel
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.values import Scope
from memory_mcp_team.postgres.store import PostgresStorage, open_storage
from tests.factories import SHOP, event

Both = tuple[PostgresStorage, PostgresStorage]
OLD, NEW = GripId("grip:1:a"), GripId("grip:2:b")


@pytest.fixture
def both(database_url: str, request: pytest.FixtureRequest) -> Iterator[Both]:
    """One memory, opened as two processes have it open."""
    opening = OpenOptions(None, "Europe/Berlin", url=database_url, tenant=request.node.name, pool=2)
    one, other = open_storage(opening), open_storage(opening)
    yield one, other
    one.close()
    other.close()


def heard(store: PostgresStorage) -> PostgresStorage:
    """A store that was told that somebody committed."""
    store.connection.expire_head()
    return store


def test_other_names_hold_for_all_and_are_the_same_object_while_nothing_is_said_of_them(both: Both) -> None:
    one, other = both
    other.events.append([event("said", project="old-shop")])
    assert other.projects.names.resolve_alias("old-shop") == "old-shop"
    one.projects.add_alias(Alias("old-shop", SHOP, "person", 1))
    assert heard(other).projects.names.resolve_alias("old-shop") == SHOP
    assert [e.project for e in other.events.list_events(Scope())] == [SHOP]
    names = other.projects.names
    one.toc.set_pin("a pin", True, "person")
    one.events.append([event("said again")])
    assert heard(other).projects.names is names
    one.projects.drop_alias("old-shop")
    assert heard(other).projects.names.is_plain


def test_a_session_that_began_in_a_split_folder_is_known_to_all(both: Both) -> None:
    one, other = both
    one.projects.add_splits([Split(SHOP, "", "/srv/shop/app", "app", 1)])
    assert heard(other).projects.names.display_name(SHOP, "s1") == SHOP
    began = replace(event("said"), metadata={"cwd": "/srv/shop/app/web"})
    one.events.append([began])
    assert heard(other).projects.names.display_name(SHOP, "s1") == "app"
    assert one.projects.names.display_name(SHOP, "s1") == "app"


def test_names_that_came_by_another_process_are_news_once(both: Both) -> None:
    one, other = both
    one.events.append([event("said", project="a")])
    assert heard(other).projects.take_new_names() == ["a"]
    one.events.append([event("said", project="b"), event("again", project="a")])
    assert heard(other).projects.take_new_names() == ["b"]
    one.toc.set_pin("a pin", True, "person")
    assert heard(other).projects.take_new_names() == []
    assert other.projects.list_recorded() == ["a", "b"]
    roots = [replace(event(f"in a copy {name}", project=name), metadata={ROOT_COMMIT: "4b825dc"}) for name in ("b", "a")]
    for rooted in roots:
        one.events.append([rooted])
    assert list(heard(other).projects.get_root_commits().items()) == [("b", "4b825dc"), ("a", "4b825dc")]


def test_a_correction_and_the_first_opening_hold_for_all(both: Both) -> None:
    one, other = both
    assert other.superseded.is_empty()
    assert other.usage.get_usage([OLD]) == {}
    one.superseded.record_supersession(Supersession(OLD, NEW, 5, "changed our minds"))
    assert heard(other).superseded.get_successors([OLD])[OLD].new == NEW
    one.usage.record_usage([OLD], 5)
    assert heard(other).usage.get_usage([OLD]) == {OLD: GripUsage((5,))}


def test_notes_are_noticed_by_all_and_have_nothing_else_read_again(both: Both) -> None:
    one, other = both
    head = other.connection.get_head()
    one.topics.set_label(TopicLabel(topic_id("topic", [1]), None, "Paint", "agent", 5))
    labelled = heard(other).connection.get_head()
    assert (labelled.stamp, labelled.notes) == (head.stamp, head.notes + 1)
    assert [label.label for label in other.topics.list_labels()] == ["Paint"]
