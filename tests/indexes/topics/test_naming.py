"""What topics are called: readable, unique, made of their own words, the same every time."""

import random
import re
from collections.abc import Sequence

import pytest

from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.indexes.topics.naming import MAX_KEYWORDS, name_topics
from memory_mcp.indexes.topics.reading import SegmentText, TextUnits
from memory_mcp.model.topic import MAX_LABEL

GARDEN = [
    SegmentText(
        "Planned the vegetable garden: beans along the fence", ("The vegetable garden needs more compost",), ("beans", "fence")
    ),
    SegmentText(
        "Tomatoes for the vegetable garden", ("Sown in March", "Water the vegetable garden at dawn"), ("tomatoes", "seeds")
    ),
    SegmentText("Slugs ate the lettuce", ("A copper ring keeps slugs off the vegetable garden",), ("slugs", "lettuce")),
]
RETRY = [
    SegmentText(
        "Retry on 503 with a growing pause", ("The client gives up after four attempts",), ("retry", "503", "HttpClient")
    ),
    SegmentText("Make the sync client retry on 503", ("HttpClient.send() hides the status",), ("HttpClient", "status")),
    SegmentText(
        "Why uploads failed last night", ("Uploads did not retry on 503", "HttpClient logs nothing"), ("uploads", "HttpClient")
    ),
]
BREAD = [
    SegmentText("Sourdough starter too sour", ("Feed the sourdough starter twice a day",), ("sourdough starter", "rye")),
    SegmentText("Rye loaf with caraway", ("The sourdough starter doubles in five hours",), ("rye", "caraway")),
    SegmentText(
        "Oven steam for a better crust", ("Water below the loaf", "Less sourdough starter in it"), ("oven", "crust", "loaf")
    ),
]


def named(*topics: Sequence[SegmentText], taken: Sequence[str] = ()) -> list[TopicName]:
    """Names of topics that are a whole store."""
    docs = [doc for topic in topics for doc in topic]
    numbers = iter(range(len(docs)))
    return name_topics(TextUnits(docs), [[next(numbers) for _ in topic] for topic in topics], used_labels=taken)


def test_a_topic_is_called_by_the_phrase_its_segments_share() -> None:
    assert [name.label for name in named(GARDEN, RETRY, BREAD)] == ["vegetable garden", "retry on 503", "sourdough starter"]


def test_identifiers_stay_whole_and_as_written() -> None:
    keywords = named(GARDEN, RETRY, BREAD)[1].keywords
    assert "HttpClient" in keywords
    assert not {"Http", "http", "Client"} & set(keywords)


def test_what_a_third_of_a_topic_names_comes_before_what_two_segments_name() -> None:
    common = [
        SegmentText(f"Chess gambit number {n}", (f"Practised the gambit for the match against {who}",))
        for n, who in enumerate(WHO)
    ]
    odd = [SegmentText("Zugzwang puzzle"), SegmentText("Zugzwang again")]
    others = [SegmentText(f"Sailing trip to {who}", ("Wind and waves",)) for who in WHO] + [SegmentText("The gambit of a shop")]
    name = named([*common, *odd], others)[0]
    assert "gambit" in name.label.lower()
    assert "zugzwang" not in name.label.lower()


WHO = ("Ada", "Bela", "Cleo", "Dora", "Emil", "Finn", "Gust", "Hugo", "Ines", "Jona", "Kira", "Lena")


def test_no_stop_words_hashes_paths_or_bare_numbers_alone() -> None:
    docs = [
        SegmentText(
            "Commit 3f2a9c1d8e7b to /home/ann/src/mailbox/parser.py",
            ("The header folding of 3f2a9c1d8e7b is in parser.py", "and the"),
        ),
        SegmentText("Header folding breaks long subjects", ("src/mailbox/parser.py:120 folds at 78", "It was 12345678 before")),
        SegmentText("More header folding", ("see 550e8400-e29b-41d4-a716-446655440000", "of the in")),
    ]
    name = named(docs, GARDEN)[0]
    assert name.label.lower().startswith("header folding")
    for shown in (name.label, *name.keywords):
        assert not re.search(r"/|[0-9a-f]{8}|\b(?:the|of|and|it)$|^\d+$", shown), shown


@pytest.mark.parametrize(
    ("docs", "label"),
    [
        (
            [
                SegmentText("Die Heizungsanlage im Keller fällt aus", ("Der Monteur kommt für die Heizungsanlage am Montag",)),
                SegmentText("Neue Pumpe für die Heizungsanlage", ("Die Pumpe ist bestellt und kommt mit der Post",)),
            ],
            "Heizungsanlage",
        ),
        (
            [
                SegmentText("香港马拉松训练计划", ("这周的马拉松训练是二十公里",)),
                SegmentText("马拉松训练后膝盖痛", ("教练说马拉松训练要减量",)),
            ],
            "马拉松训练",
        ),
        (
            [SegmentText("台湾旅行の計画を立てる", ("台湾旅行は五月の予定",)), SegmentText("台湾旅行の宿", ("台南の宿を予約",))],
            "台湾旅行",
        ),
        (
            [
                SegmentText("Le toit de la grange fuit", ("Il faut réparer la grange",)),
                SegmentText("Devis pour la grange", ("Elle est dans la cour",)),
            ],
            "grange",
        ),
    ],
)
def test_other_languages_are_named_in_their_words(docs: list[SegmentText], label: str) -> None:
    assert label in named(docs, GARDEN)[0].label


def test_topics_that_share_their_best_phrase_are_told_apart_by_words() -> None:
    first = [
        SegmentText("Session storage tests for the cache"),
        SegmentText("Session storage tests and the cache"),
        SegmentText("Cache: session storage tests"),
    ]
    second = [SegmentText("Session storage tests on Windows"), SegmentText("Windows runners for session storage tests")]
    labels = [name.label for name in named(first, second, GARDEN)]
    assert len(set(labels)) == 3
    assert "Windows" in labels[1]


def test_topics_of_the_same_words_still_have_labels_of_their_own() -> None:
    labels = [name.label for name in named(GARDEN, GARDEN, GARDEN, taken=["Garden, vegetable"])]
    assert len({label.lower() for label in labels}) == 3
    assert not any(re.search(r"\d$", label) for label in labels)
    assert not any(set(label.lower().split()) == {"vegetable", "garden"} for label in labels)


def test_a_scope_sees_its_own_words_and_statistics_only() -> None:
    others = [SegmentText(f"Secret merger with Globex {n}", ("The vegetable garden of Globex",)) for n in range(20)]
    together, alone = TextUnits([*GARDEN, *others, *BREAD]), TextUnits([*GARDEN, *BREAD])
    mine = name_topics(together, [[0, 1, 2], [23, 24, 25]])
    assert mine == name_topics(alone, [[0, 1, 2], [3, 4, 5]])
    assert "Globex" not in repr(mine)


def test_names_depend_on_no_order_of_documents_and_are_the_same_every_time() -> None:
    shuffled = [random.Random(n).sample(topic, len(topic)) for n, topic in enumerate((GARDEN, RETRY, BREAD))]
    assert named(*shuffled) == named(GARDEN, RETRY, BREAD) == named(GARDEN, RETRY, BREAD)


def test_one_more_segment_leaves_the_label() -> None:
    more = [*GARDEN, SegmentText("Frost in May", ("Covered the vegetable garden with fleece",), ("frost", "fleece"))]
    assert named(more, RETRY, BREAD)[0].label == named(GARDEN, RETRY, BREAD)[0].label


def test_a_label_is_kept_while_it_is_nearly_as_good_as_a_new_one() -> None:
    sown = [
        SegmentText("Beans in the vegetable garden"),
        SegmentText("Beans again, and the vegetable garden"),
        SegmentText("Vegetable garden: beans"),
    ]
    docs = TextUnits([*sown, *RETRY])
    topics = [[0, 1, 2], [3, 4, 5]]
    assert [name.label for name in name_topics(docs, topics, former_labels=["beans", "retry on 503"])] == [
        "beans",
        "retry on 503",
    ]
    assert name_topics(docs, topics, former_labels=["sourdough starter", ""]) == name_topics(docs, topics)


def test_whoever_speaks_is_no_label() -> None:
    talk = [
        SegmentText(
            "Ann: The orchard needs pruning",
            ("Ann: I pruned half of the orchard", "Bob: Ann, the ladder is mine", "Bob: Ann did it"),
        ),
        SegmentText("Bob: Ann sold apples", ("Bob: Ann, how is the orchard?", "Ann: The orchard is fine", "Bob: Ann is glad")),
    ]
    assert "Ann" not in named(talk, RETRY)[0].label


def test_every_label_fits_and_is_never_empty() -> None:
    long = [SegmentText("Donaudampfschifffahrtsgesellschaftskapitän " * 3, ("x" * 300,)), SegmentText("")]
    for name in named(long, [SegmentText("")], [SegmentText("the of and")], GARDEN):
        assert 0 < len(name.label) <= MAX_LABEL
        assert len(name.keywords) <= MAX_KEYWORDS
    assert named() == []
