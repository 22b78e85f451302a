"""Keywords as a client gives them: they raise what holds them, leave nothing out, and are bounded."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, VectorSettings
from memory_mcp.model.event import EventDraft
from tests.factories import draft
from tests.filled import filled
from tests.interaction.conftest import Door
from tests.interaction.indexed import over
from tests.interaction.test_stdio import Pipe

QUESTION = "what held up the nightly runs"
ANSWER = "The nightly runs waited for ld: mold links in one minute instead of nine."
KEYWORDS = ["linker", "mold", "links"]


def said() -> list[EventDraft]:
    """Remarks about the nightly runs, and the one that says in other words what held them up."""
    lines = [
        "The nightly runs are green again.",
        "Who looks at the nightly runs?",
        "Nightly runs of today: none.",
        ANSWER,
        *(f"Module {name} is built by night." for name in ("alpha", "beta", "gamma", "delta")),
        *(f"Unrelated remark about {name}." for name in ("paint", "invoices", "harbours", "tickets", "kayaks", "violins")),
    ]
    return [draft(text, at=f"2026-02-{day:02} 10:00", session=f"s{day}") for day, text in enumerate(lines, 1)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a keyword index, at rest."""
    place = tmp_path_factory.mktemp("keywords") / "data"
    filled(place, said())
    app = over(place, "", TeleportSettings())
    app.accelerators.catch_up()
    app.close()
    return place


@pytest.fixture(scope="module")
def indexed(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    place = tmp_path_factory.mktemp("indexed") / "data"
    shutil.copytree(store, place)
    app = over(place, "", TeleportSettings())
    app.accelerators.catch_up()
    yield app
    app.close()


@pytest.fixture
def talk(indexed: App) -> Door:
    return Door(indexed, "auto")


def quotes(answer: dict[str, Any]) -> list[str]:
    return [result.get("quote", "") for result in answer["results"]]


@pytest.mark.usefixtures("processes")
def test_a_client_on_a_pipe_gets_the_answer_that_holds_its_keywords_first(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(store, place)
    pipe = Pipe(place)
    try:
        pipe.begin("modern")
        alone = pipe.call("intelligent_search", query=QUESTION, scope="all")["structuredContent"]
        helped = pipe.call("intelligent_search", query=QUESTION, keywords=KEYWORDS, scope="all")["structuredContent"]
        many = pipe.call("intelligent_search", query=QUESTION, keywords=[f"word{n}" for n in range(9)])
    finally:
        pipe.stop()
    assert quotes(alone)[0] != ANSWER
    assert quotes(helped)[0] == ANSWER
    assert many["isError"] is True
    assert many["content"][0]["text"].startswith(
        "INVALID_ARGUMENT: too many keywords: 9, at most 8. Keep those that the answer most likely contains."
    )


@pytest.mark.parametrize("tool", ["intelligent_search", "teleport_search", "hybrid_search"])
def test_each_search_raises_what_holds_them(talk: Door, tool: str) -> None:
    arguments = {"query": QUESTION, "scope": "all", **({} if tool == "intelligent_search" else {"doc_type": "grip"})}
    alone, helped = quotes(talk.ok(tool, **arguments)), quotes(talk.ok(tool, **arguments, keywords=KEYWORDS))
    assert helped.index(ANSWER) < (alone.index(ANSWER) if ANSWER in alone else len(alone))


@pytest.mark.parametrize("keywords", [[], ["", " "], ["the", "and"], ["zyzzyva"]])
def test_keywords_that_say_nothing_change_nothing(talk: Door, keywords: list[str]) -> None:
    for tool in ("intelligent_search", "teleport_search", "hybrid_search"):
        alone = talk.ok(tool, query=QUESTION, scope="all")
        helped = talk.ok(tool, query=QUESTION, scope="all", keywords=keywords)
        assert quotes(helped) == quotes(alone)


def test_keywords_of_something_else_leave_the_answer_where_it_is(talk: Door) -> None:
    alone = quotes(talk.ok("intelligent_search", query="unrelated remark about violins", scope="all"))
    wrong = quotes(talk.ok("intelligent_search", query="unrelated remark about violins", scope="all", keywords=KEYWORDS))
    assert wrong[0] == alone[0] == "Unrelated remark about violins."


def test_in_the_other_language_they_find_the_answer_and_make_no_missing_word_known(talk: Door) -> None:
    question = "Warum dauerte alles so lange"
    alone = talk.ok("intelligent_search", query=question, scope="all")
    helped = talk.ok("intelligent_search", query=question, scope="all", keywords=KEYWORDS)
    assert ANSWER not in quotes(alone)
    assert quotes(helped)[0] == ANSWER
    assert (helped["confidence"], helped["missing"]) == ("weak", alone["missing"])


def test_a_cursor_is_of_a_question_with_its_keywords(talk: Door) -> None:
    first = talk.ok("intelligent_search", query=QUESTION, scope="all", limit=2, keywords=KEYWORDS)
    cursor = first["next_cursor"]
    assert "another question" in talk.error("intelligent_search", query=QUESTION, scope="all", limit=2, cursor=cursor)
    second = talk.ok("intelligent_search", query=QUESTION, scope="all", limit=2, keywords=KEYWORDS, cursor=cursor)
    assert not set(quotes(first)) & set(quotes(second))


def test_the_tree_alone_counts_them_too(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(store, place)
    off = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    app = over(place, "", off)
    try:
        door = Door(app, "auto")
        assert door.ok("get_retrieval_status")["tier"] == 5
        alone = door.ok("intelligent_search", query=QUESTION, scope="all", limit=10)
        helped = door.ok("intelligent_search", query=QUESTION, scope="all", limit=10, keywords=KEYWORDS)
    finally:
        app.close()
    assert quotes(helped).index(ANSWER) < quotes(alone).index(ANSWER)


def test_what_was_recorded_a_moment_ago_is_found_by_them(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(store, place)
    app = over(place, "", TeleportSettings())
    try:
        door = Door(app, "auto")
        door.ok("remember", text="Since Monday a profiler named samply shows where the nightly runs wait.")
        found = door.ok("intelligent_search", query=QUESTION, scope="all", keywords=["samply", "profiler"])
    finally:
        app.close()
    assert "samply" in quotes(found)[0]
