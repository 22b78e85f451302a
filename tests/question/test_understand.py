"""A question read once: its parts together, and whether a period is asked for as such."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.question.intent import Intent
from memory_mcp.question.understand import Question, understand
from tests.question.time_phrases import BERLIN, FRIDAY


def _ms(local: str) -> int:
    return round(dt.datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(BERLIN)).timestamp() * 1000)


def _understood(text: str, timeout_ms: int | None = None) -> Question:
    return understand(text, _ms(FRIDAY), Calendar(BERLIN), timeout_ms)


def test_one_reading_holds_intent_literal_things_deadline_time_and_words() -> None:
    asked = "within 200 ms: find parse_config from the Saturday after October 28, 2023"
    assert _understood(asked) == Question(
        text=asked,
        intent=Intent.TIME_BOXED,
        confidence=0.95,
        signals=('time_boxed: "within 200 ms"', 'locate: "find"', "locate: identifier parse_config"),
        exact=("parse_config",),
        deadline_ms=200,
        window=TimeWindow(_ms("2023-11-04"), _ms("2023-11-05")),
        window_words="the Saturday after October 28, 2023",
        split_words="parse_config",
        is_general=False,
    )
    assert _understood("recurring topics in the parser").particular == "in the parser"


def test_without_time_deadline_or_request_the_words_are_the_question() -> None:
    found = _understood("oauth token rotation")
    assert (found.split_words, found.window, found.window_words, found.deadline_ms) == ("oauth token rotation", None, "", None)
    assert (found.is_general, found.asks_period) == (False, False)


def test_the_shorter_of_two_deadlines_counts() -> None:
    assert _understood("within 300 ms: why duckdb", timeout_ms=1000).deadline_ms == 300
    assert _understood("why duckdb", timeout_ms=1000).deadline_ms == 1000


#: Questions of a time and nothing particular, and those that name a thing or no time.
OF_PERIODS = [
    "what did we do on 2 February",
    "What did we do on the Saturday after October 28, 2023?",
    "what happened last week",
    "what was I working on yesterday?",
    "summarize last week",
    "show me last week",
    "yesterday",
    "what's new since yesterday",
    "recap of January",
    "what did we talk about on Friday",
    "was haben wir gestern gemacht",
    "was ist letzte Woche passiert",
    "was war am 2. Februar los",
    "qu'avons-nous fait hier ?",
    "que s'est-il passé la semaine dernière ?",
    "qué hicimos ayer",
    "en qué trabajé la semana pasada",
    "上周我们做了什么",
    "昨天发生了什么",
    "先週何をした",
    "先週何がありましたか",
    "2023年10月28日に何をしたか",
]
OF_THINGS = [
    "what happened",
    "what did we decide about raft last week",
    "which tests failed yesterday",
    "what did I eat yesterday",
    "was haben wir gestern über Raft gesagt",
    "qu'avons-nous dit hier des index ?",
    "qué decidimos ayer sobre la caché",
    "上周我们讨论了数据库",
    "先週のデータベースの話",
    "when did we deploy",
]


@pytest.mark.parametrize(("text", "asks"), [*((t, True) for t in OF_PERIODS), *((t, False) for t in OF_THINGS)])
def test_a_question_of_a_time_and_nothing_particular_asks_for_the_period(text: str, asks: bool) -> None:
    assert _understood(text).asks_period is asks
