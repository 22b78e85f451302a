"""How a question is understood, as a client sees it: words looked for, times named, periods asked for."""

from collections.abc import Iterator
from typing import Any

import pytest

from memory_mcp.app import App
from tests.factories import SHOP
from tests.interaction.conftest import Door, open_app

AS_OF = "2026-01-27T12:00"


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    opened = open_app("full")
    yield opened
    opened.close()


@pytest.fixture
def door(app: App) -> Door:
    return Door(app, "auto", SHOP)


def ids(found: dict[str, Any]) -> list[str]:
    return [r["id"] for r in found["results"]]


@pytest.mark.parametrize(
    ("asking", "words"),
    [
        ("find the payment module", "the payment module"),
        ("can you show me the payment module", "the payment module"),
        ("wo ist payment module", "payment module"),
        ("busca payment module", "payment module"),
    ],
)
def test_words_that_ask_for_a_search_are_not_looked_for(door: Door, asking: str, words: str) -> None:
    # The intent is named, so that only the words differ.
    assert door.ok("classify_query", query=asking)["text"] == words
    found = door.ok("intelligent_search", query=asking, intent="answer", detail="full")
    assert ids(found) == ids(door.ok("intelligent_search", query=words, intent="answer", detail="full")) != []


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ("what broke on the Saturday after October 28, 2023?", "2023-11-04", "2023-11-05"),
        ("was haben wir letzte Woche entschieden", "2026-01-19", "2026-01-26"),
        ("qu'a-t-on décidé la semaine dernière ?", "2026-01-19", "2026-01-26"),
        ("qué decidimos la semana pasada", "2026-01-19", "2026-01-26"),
        ("上周我们决定了什么", "2026-01-19", "2026-01-26"),
        ("2023年10月28日に何を決めたか", "2023-10-28", "2023-10-29"),
    ],
)
def test_a_time_in_any_of_six_languages_is_reported_as_its_window(door: Door, query: str, since: str, until: str) -> None:
    window = door.ok("classify_query", query=query, as_of=AS_OF)["window"]
    assert (window["since"][:10], window["until"][:10]) == (since, until)


@pytest.mark.parametrize(
    "query",
    [
        "what did we do on 21 January",
        "was haben wir am 21. Januar gemacht",
        "qu'avons-nous fait le 21 janvier ?",
        "qué hicimos el 21 de enero",
        "1月21日我们做了什么",
    ],
)
def test_a_day_asked_for_as_such_is_answered_from_that_day(door: Door, query: str) -> None:
    found = door.ok("intelligent_search", query=query, as_of=AS_OF, detail="full")["results"]
    assert {r["when"][:10] for r in found} == {"2026-01-21"}
    day = door.ok("browse_toc", node_id="toc:day:2026-01-21")["children"]
    assert {r["id"] for r in found} == {"toc:day:2026-01-21", *(child["node_id"] for child in day)}
