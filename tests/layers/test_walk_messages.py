"""What the walk gives are messages: each once, by its own words and those beside it, said by whoever is named, also in haste."""

import random
from collections.abc import Iterator

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import Role
from memory_mcp.model.ids import NodeId
from memory_mcp.question.intent import Intent
from memory_mcp.search.layers.agentic.navigate import AgenticLayer
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.search.policy.plan import How, Mode
from tests.factories import draft, ms
from tests.fakes import FakeClock
from tests.requirements import requirement
from tests.toc.helpers import memory

WORDS = [
    f"{first}{last}"
    for first in ("bal", "cor", "dun", "fer", "gol", "hak", "jin", "lum")
    for last in ("ba", "do", "gi", "mu", "pe")
]
#: A talk of one stretch: the answer says little by itself, and stands beside the question it answers.
TALK = [
    ("Where shall the quarterly backup tapes be kept?", Role.USER, "Ada"),
    ("In the cellar of the harbour office, backup and all.", Role.ASSISTANT, "Bo"),
    ("What is for lunch today?", Role.USER, "Ada"),
    ("Soup, then the usual.", Role.ASSISTANT, "Bo"),
    ("Another backup of the wiki ran.", Role.TOOL, ""),
]


@pytest.fixture(scope="module")
def talk() -> Iterator[App]:
    begin = ms("2026-02-02 09:00")
    said = [
        draft(text, at=begin + n * 60_000, session="talk", source_id=str(n), role=role, speaker=speaker)
        for n, (text, role, speaker) in enumerate(TALK)
    ]
    far = [draft(f"The weather on day {n} is fine, no backup.", at=begin + n * 86_400_000, session=f"w{n}") for n in range(1, 9)]
    app = memory([*said, *far])
    yield app
    app.close()


@pytest.fixture(scope="module")
def crowd() -> Iterator[App]:
    """Three hundred stretches over ten months of the same forty words: term sets tell nothing, and only reading does."""
    rng = random.Random(11)
    begin = ms("2025-03-01 09:00")
    app = memory(
        draft(" ".join(rng.choices(WORDS, k=12)), at=begin + n * 86_400_000, session=f"s{n}", source_id=f"{n}/{i}")
        for n in range(300)
        for i in range(3)
    )
    yield app
    app.close()


def ask(app: App, text: str, spend: Budget | None = None, **more: object) -> list[str]:
    budget = spend or Budget(StopConditions(max_nodes_visited=10_000, max_rpc_calls=1000), app.clock)
    return [h.quote for h in app.agentic.search(Query(text, **more), budget).hits]  # type: ignore[arg-type]


def test_each_hit_is_a_message_with_the_grip_that_proves_it_lifted_by_what_stands_beside_it(talk: App) -> None:
    budget = Budget(StopConditions(), talk.clock)
    hits = talk.agentic.search(Query("backup", 20), budget).hits
    assert len({h.event_id for h in hits}) == len(hits) > 3
    assert len([h for h in hits if h.session_id == "talk"]) == 3, "several messages of one segment"
    for hit in hits:
        assert hit.grip_ids == (hit.grip_id,)
        assert talk.evidence.expand_grip(hit.grip_ids[0]).quote == hit.quote
        assert hit.node_id.startswith("toc:segment:")
    # Both say it once in as many words; one of them follows a question about it.
    assert ask(talk, "backup tapes")[:2] == [TALK[0][0], TALK[1][0]]


@pytest.mark.parametrize(
    ("role", "speaker", "said"), [("user", None, TALK[0][0]), ("tool", None, TALK[4][0]), (None, "BO", TALK[1][0])]
)
def test_only_what_the_named_one_said_is_found(talk: App, role: str | None, speaker: str | None, said: str) -> None:
    first_day = talk.calendar.node_window(talk.tree.children(NodeId("toc:week:2026-W06"))[0])
    assert ask(talk, "backup tapes harbour", window=first_day, role=role, speaker=speaker) == [said]


def test_what_is_not_filed_yet_is_narrowed_by_who_said_it_too(app: App) -> None:
    app.write(
        [draft("a palladium one", at="2026-03-01 09:00", speaker="Ada"), draft("palladium two", at="2026-03-01 09:01")], "test"
    )
    assert ask(app, "palladium", speaker="ada") == ["a palladium one"]
    assert ask(app, "palladium", role="assistant") == []


def sentences(app: App, count: int) -> list[str]:
    rng = random.Random(5)
    events = [e.event for batch in app.storage.events.iter_all() for e in batch]
    return [e.text for e in rng.sample(events, count)]


def test_where_a_walk_may_compare_little_the_events_are_sifted(crowd: App) -> None:
    """Six words of a message: fifty nodes of three hundred are enough to find it."""
    for text in sentences(crowd, 6):
        words = list(dict.fromkeys(text.split()))
        spend = Budget(StopConditions(max_nodes_visited=50), crowd.clock, hard=frozenset({"max_nodes_visited"}))
        assert text in ask(crowd, " ".join(words[::-1][:8]), spend)[:3]
        assert spend.spent.nodes_visited <= 50


@requirement("policy:bound-timeout_ms")
@pytest.mark.parametrize("tick", [0.0001, 0.001, 0.003])
def test_in_haste_what_was_compared_is_read_before_more_is_compared(crowd: App, tick: float) -> None:
    """A tenth of a second, of which each look at the clock takes a part."""
    for text in sentences(crowd, 4):
        spend = Budget(StopConditions(timeout_ms=100, max_depth=2), FakeClock(tick=tick))
        assert ask(crowd, text.split()[0], spend)


@requirement("policy:bound-timeout_ms")
@pytest.mark.parametrize("intent", [None, Intent.TIME_BOXED, Intent.LOCATE])
@pytest.mark.parametrize("mode", Mode)
def test_a_deadline_never_empties_an_answer_that_a_longer_one_has(crowd: App, mode: Mode, intent: Intent | None) -> None:
    rng = random.Random(3)
    for text in sentences(crowd, 2):
        query = Query(" ".join(rng.sample(text.split(), 2)), 5)
        for timeout_ms in (1, 50, 150, 1000):
            answer = crowd.ask(query, How(intent=intent, mode=mode, bounds={"timeout_ms": timeout_ms}))
            assert answer.hits, (query.text, timeout_ms, answer.why.tried)
    assert not crowd.ask(Query("unheard nowhere"), How(intent=intent, mode=mode, bounds={"timeout_ms": 1})).hits


def test_a_walk_that_leaves_the_rest_to_an_index_notes_the_bound_that_ended_it(
    crowd: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd.index_reader, "is_whole", lambda: True)
    layer = AgenticLayer(crowd.storage, crowd.tree, crowd.clock, crowd.index_reader)
    spend = Budget(StopConditions(max_nodes_visited=10), crowd.clock)
    assert not layer.search(Query("balba corgi dunmu", looked_up=True), spend).hits
    assert (spend.cut_by, spend.spent.hit) == (["max_nodes_visited"], [])


def test_in_haste_the_likeliest_of_a_crowd_is_read_first(crowd: App) -> None:
    """Three hundred sessions and no time: the words are looked for in all of them before any is read."""
    for text in sentences(crowd, 4):
        words = list(dict.fromkeys(text.split()))
        spend = Budget(StopConditions(timeout_ms=150, max_depth=2, max_nodes_visited=50), crowd.clock)
        assert text in ask(crowd, " ".join(words[:6]), spend)[:3]


@pytest.mark.parametrize("nodes", [1, 3])
def test_no_question_overruns_a_bound_that_is_named(crowd: App, nodes: int) -> None:
    rng = random.Random(nodes)
    for text in sentences(crowd, 15):
        words = rng.sample(text.split(), 3)
        how = How(bounds={"max_nodes_visited": nodes, "max_rpc_calls": nodes})
        why = crowd.ask(Query(" ".join([*words, *rng.choice([["yesterday"], ["in May 2025"], []])])), how).why
        assert why.nodes_visited <= nodes
        assert why.rpc_calls <= nodes
        assert why.exceeded == ""


def test_pages_of_a_question_that_only_the_walk_answers_neither_repeat_nor_lose(crowd: App) -> None:
    seen: list[str] = []
    for page in range(6):
        hits = crowd.ask(Query("balba corgi", 5), How(offset=5 * page)).hits
        seen += [h.event_id for h in hits]
    assert len(seen) == len(set(seen)) == 30
