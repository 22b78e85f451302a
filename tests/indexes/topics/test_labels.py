"""Which of the labels that somebody gave hold."""

from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.indexes.topics.labels import holds_words, source_of, valid_labels
from memory_mcp.model.ids import TopicId
from memory_mcp.model.toc import AGENT, make_llm_author
from memory_mcp.model.topic import TopicLabel

A, B = TopicId("topic:aaaaaaaaaaaa"), TopicId("topic:bbbbbbbbbbbb")
VALVE = TopicName("valve, pump", ("valve", "pump", "seal", "crane", "harbour"))
ROUTE = TopicName("ferry route", ("ferry route", "timetable"))
OWN = {(A, None): VALVE, (A, "p"): VALVE, (B, None): ROUTE}


def by_model(topic: TopicId, name: TopicName, label: str, at_ms: int = 1, project: str | None = None) -> TopicLabel:
    return TopicLabel(topic, project, label, make_llm_author("small", source_of(name)), at_ms)


def held(*given: TopicLabel) -> dict[tuple[TopicId, str | None], str]:
    return {place: one.label for place, one in valid_labels(given, OWN).items()}


def test_a_models_label_holds_in_its_scope_while_the_topics_own_words_stay() -> None:
    assert held(by_model(A, VALVE, "Leaking valves")) == {(A, None): "Leaking valves"}
    assert held(by_model(A, VALVE, "Leaking valves", project="p")) == {(A, "p"): "Leaking valves"}
    assert held(by_model(A, ROUTE, "Leaking valves")) == {}
    assert held(by_model(B, ROUTE, "Ferries", project="p")) == {}


def test_an_agents_label_holds_whatever_becomes_of_the_words() -> None:
    given = TopicLabel(A, "elsewhere", "Mine", AGENT, 1)
    assert held(given) == {(A, "elsewhere"): "Mine"}


def test_words_may_change_places_and_some_may_go() -> None:
    source = source_of(VALVE)
    assert source == source_of(TopicName("pump, valve", ("seal", "harbour", "crane")))
    assert holds_words(source, TopicName("crane", ("pilot", "valve", "berth", "pump", "ferry")))
    assert not holds_words(source, TopicName("crane", ("pilot", "berth", "pump", "ferry")))
    assert not holds_words(source, ROUTE)


def test_a_name_without_a_telling_word_has_a_source_too() -> None:
    assert holds_words(source_of(TopicName("no words", ())), TopicName("No words", ()))
    assert source_of(TopicName("the", ()))
    assert not holds_words(source_of(TopicName("the", ())), VALVE)


def test_no_two_topics_of_a_scope_are_called_the_same_by_a_model() -> None:
    assert held(by_model(A, VALVE, "Harbour work", 2), by_model(B, ROUTE, "work, Harbour", 1)) == {(B, None): "work, Harbour"}
    assert held(by_model(A, VALVE, "Ferry route")) == {}
    assert held(by_model(B, ROUTE, "Route (ferry)")) == {(B, None): "Route (ferry)"}
    mine = TopicLabel(B, None, "Leaking valves", AGENT, 9)
    assert held(by_model(A, VALVE, "Leaking valves"), mine) == {(B, None): "Leaking valves"}
    apart = (by_model(A, VALVE, "Harbour work", project="p"), by_model(B, ROUTE, "Harbour work"))
    assert len(held(*apart)) == 2
