"""Time hints: which words of a question name a time, and exactly which window they mean.

Expected windows are turned into moments here by the standard library, not by the calendar under test.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.question.timehints import TimeHint, find_time
from tests.question.time_phrases import (
    ACROSS,
    AROUND,
    BERLIN,
    CHINESE_AND_JAPANESE,
    FRENCH,
    FRIDAY,
    GERMAN,
    GERMAN_NOT_TIMES,
    NEW_YORK,
    NOT_TIMES,
    OTHER_NOT_TIMES,
    PHRASES,
    SPANISH,
)
from tests.work import calls


def _ms(local: str, zone: str) -> int:
    return round(dt.datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def _window(expected: str, zone: str) -> TimeWindow:
    start, end = expected.split(" .. ")
    last = _ms(FRIDAY, zone) + 1 if end == "now" else _ms(end, zone)
    return TimeWindow(0 if start == "ever" else _ms(start, zone), last)


def _find(query: str, now: str = FRIDAY, zone: str = BERLIN) -> TimeHint:
    return find_time(query, _ms(now, zone), Calendar(zone))


def _lines(table: str) -> list[str]:
    return table.strip().splitlines()


#: The phrases of each language, and questions that they may stand in.
TABLES = {
    PHRASES: ("{}", "what did we decide {}?", "{}: which tests failed"),
    GERMAN: ("{}", "was haben wir {} entschieden?", "{}: welche Tests fielen aus"),
    FRENCH: ("{}", "qu'avons-nous décidé {} ?"),
    SPANISH: ("{}", "¿qué decidimos {}?"),
}


@pytest.mark.parametrize(("line", "questions"), [(line, asked) for table, asked in TABLES.items() for line in _lines(table)])
def test_a_phrase_means_exactly_its_window_wherever_it_stands(line: str, questions: tuple[str, ...]) -> None:
    phrase, expected = (part.strip() for part in line.split("|"))
    for question in questions:
        assert _find(question.format(phrase)).window == _window(expected, BERLIN)


@pytest.mark.parametrize("line", _lines(CHINESE_AND_JAPANESE))
def test_a_phrase_in_a_text_without_spaces_means_exactly_its_window(line: str) -> None:
    phrase, expected = (part.strip() for part in line.split("|"))
    window = _window(expected, BERLIN)
    assert _find(phrase).window == window
    hint = _find(f"我们{phrase}做了什么")
    assert (hint.window, hint.words, hint.rest) == (window, phrase, "我们 做了什么")


@pytest.mark.parametrize(("query", "words", "expected"), ACROSS)
def test_a_word_of_another_language_changes_no_time(query: str, words: str, expected: str) -> None:
    hint = _find(query)
    assert (hint.words, hint.window) == (words, _window(expected, BERLIN))


def test_the_tables_are_large_and_say_nothing_twice() -> None:
    phrases = [line.split("|")[0].strip() for line in _lines(PHRASES)]
    german = [line.split("|")[0].strip() for line in _lines(GERMAN)]
    around = [(zone, now, phrase) for zone, now, phrase, _, _ in AROUND]
    for rows, least in ((phrases, 250), (german, 60), (around, 60), (_lines(NOT_TIMES), 150)):
        assert len(rows) >= least
        assert len(rows) == len(set(rows))


@pytest.mark.parametrize(("zone", "now", "phrase", "start", "end"), AROUND)
def test_windows_follow_the_local_calendar_through_clock_changes_and_year_ends(
    zone: str, now: str, phrase: str, start: str, end: str
) -> None:
    expected = TimeWindow(*(round(dt.datetime.fromisoformat(t).timestamp() * 1000) for t in (start, end)))
    assert _find(phrase, now, zone).window == expected


@pytest.mark.parametrize("query", _lines(NOT_TIMES) + _lines(GERMAN_NOT_TIMES) + _lines(OTHER_NOT_TIMES))
def test_what_is_no_time_is_left_alone(query: str) -> None:
    assert _find(query) == TimeHint(None, "", query)


RESTS = [
    ("what did we do yesterday?", "yesterday", "what did we do?"),
    ("Yesterday, what failed", "Yesterday", "what failed"),
    ("what failed in January", "January", "what failed"),
    ("what failed in the last 3 days and why", "the last 3 days", "what failed and why"),
    ("last week's deploy", "last week's", "deploy"),
    ("today’s plan", "today’s", "plan"),
    ("which  tests\tfailed (last week)?", "last week", "which tests failed?"),
    ("since 2026-01-15 what changed", "since 2026-01-15", "what changed"),
    ("builds between May 3 and May 5, all of them", "between May 3 and May 5", "builds, all of them"),
    ("where is .env from yesterday .gitignore", "yesterday", "where is .env .gitignore"),
    ("foo, yesterday, bar", "yesterday", "foo, bar"),
    ("on Tuesday of last week", "Tuesday of last week", ""),
    ("what broke in the last week of January?", "the last week of January", "what broke?"),
    ("what broke at the end of last month, and why", "the end of last month", "what broke, and why"),
    ("who changed it at noon yesterday", "noon yesterday", "who changed it"),
    ("what ran 2026-01-30T14:00Z?", "2026-01-30T14:00Z", "what ran?"),
    ("on the 3rd we said no", "the 3rd", "we said no"),
    ("earlier today it failed", "today", "it failed"),
    ("answer within 200 ms what broke in the last 2 hours", "the last 2 hours", "answer within 200 ms what broke"),
    ("in under a second: what broke yesterday", "yesterday", "in under a second: what broke"),
    ("was ging am Dienstag kaputt?", "Dienstag", "was ging kaputt?"),
    ("was haben wir vor zwei Wochen beschlossen", "vor zwei Wochen", "was haben wir beschlossen"),
    ("Fehler seit dem 3. Mai im Parser", "seit dem 3. Mai", "Fehler im Parser"),
    ("not in January but last week", "last week", "not in January but"),
    ("yesterday", "yesterday", ""),
    ("(since March)!", "since March", ""),
    ('"yesterday"', "yesterday", ""),
    ("in February 30 tests", "February", "30 tests"),
    ("2023年10月28日に何をしたか", "2023年10月28日", "何をしたか"),
    ("先週の会議", "先週", "会議"),
    ("Qu'a-t-on décidé la semaine dernière ?", "la semaine dernière", "Qu'a-t-on décidé?"),
    ("what did we do on the Saturday after October 28, 2023?", "the Saturday after October 28, 2023", "what did we do?"),
    ("last week compared to 2025-12-01", "last week", "compared to 2025-12-01"),
]


@pytest.mark.parametrize(("query", "words", "rest"), RESTS)
def test_the_phrase_is_reported_as_written_and_the_rest_is_the_question(query: str, words: str, rest: str) -> None:
    hint = _find(query)
    assert hint.window is not None
    assert (hint.words, hint.rest) == (words, rest)


def test_without_a_time_the_rest_is_the_question_tidied() -> None:
    assert _find("  which   parser\n") == TimeHint(None, "", "which parser")
    assert _find("") == TimeHint(None, "", "")
    assert _find("???") == TimeHint(None, "", "???")


def test_a_day_that_the_zone_left_out_and_the_year_of_missing_times_are_no_window() -> None:
    assert _find("yesterday morning", "2011-12-31T12:00", "Pacific/Apia").window is None
    assert _find("2011-12-30", "2012-01-05T12:00", "Pacific/Apia").window is None
    assert _find("before today", "1970-01-01T12:00").window is None
    assert _find("since yesterday", "1970-01-01T12:00").window is None


REPEATED = [
    "the last week of ",
    "from may to march and between last ",
    "3-4 ",
    "of the ",
    "“",
    "the " + " " * 500,
    "since the first week of the ",
    "the end of the first week of ",
    "early mid-late ",
    "zwischen dem letzten ",
    "2026-02-30T25:00 ",
    "noon on the ",
    "Monday of ",
    "the Saturday after the ",
    "two days before ",
    "deux jours avant le ",
    "每周 ",
    "每年3月",
    "13月40日",
    "从3月到",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", REPEATED)
@pytest.mark.few(4)
def test_repetitive_text_costs_no_more_for_each_character_the_longer_it_is(piece: str) -> None:
    """At most five calls a character were counted. A pattern that takes the square of the length does not end."""
    text = piece * (16_000 // len(piece))
    assert calls(lambda: _find(text)) <= 8 * len(text)
    _find(piece * (250_000 // len(piece)))


def test_a_time_behind_a_long_text_is_found() -> None:
    prose = "We looked at the second of the 3 parsers, and it may fail at the end of a file of 200 lines. " * 25
    assert _find(prose + "What broke last Tuesday?").words == "last Tuesday"


#: Prepositions that a phrase is reported without.
LEADS = ["", *"in on at during of from for over within throughout between earlier im am an vom von während zwischen".split()]
WORDS = sorted({word for line in _lines(PHRASES + GERMAN) for word in line.split("|")[0].split()})
WORDS += "of the not ago last from between and before Feb 31 999 years 2099 W53 deploy".split()
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.lists(
        st.one_of(st.sampled_from(WORDS), st.sampled_from(list(",.;:()-–\"'’` \t\n")), st.text(max_size=3)), max_size=20
    ).map("".join),
)


@given(
    query=texts,
    now_ms=st.integers(min_value=0, max_value=4_102_444_800_000),
    zone=st.sampled_from([BERLIN, NEW_YORK, "UTC", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu", "Africa/Cairo"]),
)
def test_any_text_gives_a_sound_hint(query: str, now_ms: int, zone: str) -> None:
    hint = find_time(query, now_ms, Calendar(zone))
    assert len(hint.rest) <= len(query)
    assert hint.rest == " ".join(hint.rest.split())
    assert hint.words in query
    if hint.window is None:
        assert (hint.words, hint.rest) == ("", " ".join(query.split()))
    else:
        assert 0 <= hint.window.start_ms < hint.window.end_ms
        assert _parts(query, hint) <= {word for lead in LEADS for word in (lead, f"{lead}the")}


def _parts(query: str, hint: TimeHint) -> set[str]:
    """What the question holds beside the phrase, right before it, and is not in the rest: nothing or a preposition.

    Letters and digits only; empty when phrase and rest do not make up the question in any way.
    """
    whole, words, rest = ("".join(c for c in text if c.isalnum()) for text in (query, hint.words, hint.rest))
    cut = len(whole) - len(rest)
    cuts = (whole[i : i + cut] for i in range(len(rest) + 1) if whole[:i] + whole[i + cut :] == rest)
    left = {part[: -len(words)].lower() for part in cuts if part.endswith(words)}
    assert words, hint
    assert left, (query, hint)
    return left if len(left) == 1 else set()
