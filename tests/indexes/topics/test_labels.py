"""Which of the labels that somebody gave hold."""

from memory_mcp.indexes.topics.base import Name
from memory_mcp.indexes.topics.labels import in_force, source_of
from memory_mcp.model.ids import TopicId
from memory_mcp.model.toc import AGENT, llm_author
from memory_mcp.model.topic import TopicLabel

A, B = TopicId("topic:aaaaaaaaaaaa"), TopicId("topic:bbbbbbbbbbbb")
VALVE = Name("valve, pump", ("valve", "pump", "seal", "crane", "harbour"))
ROUTE = Name("ferry route", ("ferry route", "timetable"))
OWN = {(A, None): VALVE, (A, "p"): VALVE, (B, None): ROUTE}


def by_model(topic: TopicId, name: Name, label: str, at_ms: int = 1, project: str | None = None) -> TopicLabel:
    return TopicLabel(topic, project, label, llm_author("small", source_of(name)), at_ms)


def held(*given: TopicLabel) -> dict[tuple[TopicId, str | None], str]:
    return {place: one.label for place, one in in_force(given, OWN).items()}


def test_a_models_label_holds_in_its_scope_while_the_topics_own_words_stay() -> None:
    assert held(by_model(A, VALVE, "Leaking valves")) == {(A, None): "Leaking valves"}
    assert held(by_model(A, VALVE, "Leaking valves", project="p")) == {(A, "p"): "Leaking valves"}
    assert held(by_model(A, ROUTE, "Leaking valves")) == {}
    assert held(by_model(B, ROUTE, "Ferries", project="p")) == {}


def test_an_agents_label_holds_whatever_becomes_of_the_words() -> None:
    given = TopicLabel(A, "elsewhere", "Mine", AGENT, 1)
    assert held(given) == {(A, "elsewhere"): "Mine"}


def test_keywords_behind_the_first_may_come_and_go_and_the_first_may_change_places() -> None:
    assert source_of(VALVE) == source_of(Name("valve, pump", ("pump", "seal", "valve", "pilot")))
    assert source_of(VALVE) != source_of(Name("valve, pump", ("valve", "pump", "pilot")))
    assert source_of(VALVE) != source_of(Name("valve", VALVE.keywords))


def test_no_two_topics_of_a_scope_are_called_the_same_by_a_model() -> None:
    assert held(by_model(A, VALVE, "Harbour work", 2), by_model(B, ROUTE, "work, Harbour", 1)) == {(B, None): "work, Harbour"}
    assert held(by_model(A, VALVE, "Ferry route")) == {}
    assert held(by_model(B, ROUTE, "Route (ferry)")) == {(B, None): "Route (ferry)"}
    mine = TopicLabel(B, None, "Leaking valves", AGENT, 9)
    assert held(by_model(A, VALVE, "Leaking valves"), mine) == {(B, None): "Leaking valves"}
    apart = (by_model(A, VALVE, "Harbour work", project="p"), by_model(B, ROUTE, "Harbour work"))
    assert len(held(*apart)) == 2
