"""Time hints: which words of a question name a time, and exactly which window they mean.

Expected windows are written as local times, `from .. up to`; a date alone is its midnight. They are turned into
moments here by the standard library, not by the calendar under test.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.layers.timehints import TimeHint, find_time
from memory_mcp.model.calendar import Calendar, TimeWindow

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
#: A Friday afternoon in winter, the last week but one of January.
FRIDAY = "2026-01-30T15:00"


def _ms(local: str, zone: str) -> int:
    return round(dt.datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def _window(expected: str, zone: str) -> TimeWindow:
    start, end = expected.split(" .. ")
    return TimeWindow(0 if start == "ever" else _ms(start, zone), _ms(end, zone))


def _find(query: str, now: str = FRIDAY, zone: str = BERLIN) -> TimeHint:
    return find_time(query, _ms(now, zone), Calendar(zone))


PHRASES = """
today                                       | 2026-01-30 .. 2026-01-31
today's                                     | 2026-01-30 .. 2026-01-31
TODAY                                       | 2026-01-30 .. 2026-01-31
tonight                                     | 2026-01-30T18:00 .. 2026-01-31T06:00
this morning                                | 2026-01-30T05:00 .. 2026-01-30T12:00
last night                                  | 2026-01-29T18:00 .. 2026-01-30T06:00
yesterday                                   | 2026-01-29 .. 2026-01-30
yesterday morning                           | 2026-01-29T05:00 .. 2026-01-29T12:00
yesterday afternoon                         | 2026-01-29T12:00 .. 2026-01-29T18:00
yesterday evening                           | 2026-01-29T18:00 .. 2026-01-30
the day before yesterday                    | 2026-01-28 .. 2026-01-29
yesterday and today                         | 2026-01-29 .. 2026-01-31
this week                                   | 2026-01-26 .. 2026-02-02
last week                                   | 2026-01-19 .. 2026-01-26
last  week's                                | 2026-01-19 .. 2026-01-26
previous week                               | 2026-01-19 .. 2026-01-26
the week before last                        | 2026-01-12 .. 2026-01-19
last week and this week                     | 2026-01-19 .. 2026-02-02
this month                                  | 2026-01-01 .. 2026-02-01
last month                                  | 2025-12-01 .. 2026-01-01
the previous month                          | 2025-12-01 .. 2026-01-01
the month before last                       | 2025-11-01 .. 2025-12-01
this year                                   | 2026-01-01 .. 2027-01-01
last year                                   | 2025-01-01 .. 2026-01-01
the year before last                        | 2024-01-01 .. 2025-01-01
the year before last year                   | 2024-01-01 .. 2025-01-01
1 day ago                                   | 2026-01-29 .. 2026-01-30
3 days ago                                  | 2026-01-27 .. 2026-01-28
30 days ago                                 | 2025-12-31 .. 2026-01-01
a couple of days ago                        | 2026-01-28 .. 2026-01-29
a few days ago                              | 2026-01-27 .. 2026-01-28
a week ago                                  | 2026-01-19 .. 2026-01-26
two weeks ago                               | 2026-01-12 .. 2026-01-19
a couple weeks ago                          | 2026-01-12 .. 2026-01-19
a month ago                                 | 2025-12-01 .. 2026-01-01
twelve months ago                           | 2025-01-01 .. 2025-02-01
13 months ago                               | 2024-12-01 .. 2025-01-01
three years ago                             | 2023-01-01 .. 2024-01-01
in the last 3 days                          | 2026-01-27 .. 2026-01-31
over the past two weeks                     | 2026-01-16 .. 2026-01-31
last 12 months                              | 2025-01-30 .. 2026-01-31
in the last two months                      | 2025-11-30 .. 2026-01-31
within the last couple of weeks             | 2026-01-16 .. 2026-01-31
the last few months                         | 2025-10-30 .. 2026-01-31
in the last day                             | 2026-01-29 .. 2026-01-31
in the last week                            | 2026-01-23 .. 2026-01-31
the past month                              | 2025-12-30 .. 2026-01-31
during the past year                        | 2025-01-30 .. 2026-01-31
on Tuesday                                  | 2026-01-27 .. 2026-01-28
on tuesday morning                          | 2026-01-27T05:00 .. 2026-01-27T12:00
on Friday                                   | 2026-01-23 .. 2026-01-24
on Saturday                                 | 2026-01-24 .. 2026-01-25
last Tuesday                                | 2026-01-27 .. 2026-01-28
last Friday                                 | 2026-01-23 .. 2026-01-24
last Friday, January 16                     | 2026-01-16 .. 2026-01-17
this past Thursday                          | 2026-01-29 .. 2026-01-30
this Monday                                 | 2026-01-26 .. 2026-01-27
this Friday                                 | 2026-01-30 .. 2026-01-31
Thursday evening                            | 2026-01-29T18:00 .. 2026-01-30
Monday's                                    | 2026-01-26 .. 2026-01-27
on Monday and Tuesday                       | 2026-01-26 .. 2026-01-28
in January                                  | 2026-01-01 .. 2026-02-01
in february                                 | 2025-02-01 .. 2025-03-01
during March                                | 2025-03-01 .. 2025-04-01
in May                                      | 2025-05-01 .. 2025-06-01
in may                                      | 2025-05-01 .. 2025-06-01
in Dec                                      | 2025-12-01 .. 2026-01-01
in January and December                     | 2025-12-01 .. 2026-02-01
last March                                  | 2025-03-01 .. 2025-04-01
last January                                | 2025-01-01 .. 2025-02-01
last May                                    | 2025-05-01 .. 2025-06-01
March of last year                          | 2025-03-01 .. 2025-04-01
January 2026                                | 2026-01-01 .. 2026-02-01
in Dec 2025                                 | 2025-12-01 .. 2026-01-01
May 2025                                    | 2025-05-01 .. 2025-06-01
may 2025                                    | 2025-05-01 .. 2025-06-01
in early May                                | 2025-05-01 .. 2025-05-11
mid-January                                 | 2026-01-11 .. 2026-01-21
late February 2024                          | 2024-02-21 .. 2024-03-01
Q3 2025                                     | 2025-07-01 .. 2025-10-01
2025 Q4                                     | 2025-10-01 .. 2026-01-01
2025-Q1                                     | 2025-01-01 .. 2025-04-01
in Q3                                       | 2025-07-01 .. 2025-10-01
in 2025                                     | 2025-01-01 .. 2026-01-01
of 2024                                     | 2024-01-01 .. 2025-01-01
from 2025                                   | 2025-01-01 .. 2026-01-01
in 2024 and 2025                            | 2024-01-01 .. 2026-01-01
2026-01-15                                  | 2026-01-15 .. 2026-01-16
2024-02-29                                  | 2024-02-29 .. 2024-03-01
2026-01                                     | 2026-01-01 .. 2026-02-01
2025-12                                     | 2025-12-01 .. 2026-01-01
2026-W04                                    | 2026-01-19 .. 2026-01-26
2026-W01                                    | 2025-12-29 .. 2026-01-05
2020-w53                                    | 2020-12-28 .. 2021-01-04
30 January 2026                             | 2026-01-30 .. 2026-01-31
Jan 30                                      | 2026-01-30 .. 2026-01-31
jan 31                                      | 2025-01-31 .. 2025-02-01
30 Jan                                      | 2026-01-30 .. 2026-01-31
January 30th, 2026                          | 2026-01-30 .. 2026-01-31
the 3rd of December                         | 2025-12-03 .. 2025-12-04
Sept 5 2025                                 | 2025-09-05 .. 2025-09-06
May 3                                       | 2025-05-03 .. 2025-05-04
on may 3                                    | 2025-05-03 .. 2025-05-04
Feb 29                                      | 2024-02-29 .. 2024-03-01
Tuesday, 27 January 2026                    | 2026-01-27 .. 2026-01-28
January 3-5                                 | 2026-01-03 .. 2026-01-06
from 3 to 5 January 2025                    | 2025-01-03 .. 2025-01-06
between the 3rd and the 5th of January      | 2026-01-03 .. 2026-01-06
since yesterday                             | 2026-01-29 .. 2026-01-31
since Tuesday                               | 2026-01-27 .. 2026-01-31
since last week                             | 2026-01-19 .. 2026-01-31
since March                                 | 2025-03-01 .. 2026-01-31
since May                                   | 2025-05-01 .. 2026-01-31
since 2026-01-15                            | 2026-01-15 .. 2026-01-31
since 2024                                  | 2024-01-01 .. 2026-01-31
since two weeks ago                         | 2026-01-12 .. 2026-01-31
after January 15                            | 2026-01-16 .. 2026-01-31
before 2026-01-15                           | ever .. 2026-01-15
before January 15th                         | ever .. 2026-01-15
prior to 2025                               | ever .. 2025-01-01
before yesterday                            | ever .. 2026-01-29
until 2026-01-15                            | ever .. 2026-01-16
until March 2025                            | ever .. 2025-04-01
up to last week                             | ever .. 2026-01-26
between January 5 and January 9             | 2026-01-05 .. 2026-01-10
between 2025-12-30 and 2026-01-02           | 2025-12-30 .. 2026-01-03
between last week and this week             | 2026-01-19 .. 2026-02-02
between January and March 2025              | 2025-01-01 .. 2025-04-01
between November and January                | 2025-11-01 .. 2026-02-01
between 2024 and 2025                       | 2024-01-01 .. 2026-01-01
from Monday to Wednesday                    | 2026-01-26 .. 2026-01-29
from Friday to Monday                       | 2026-01-23 .. 2026-01-27
from May to July                            | 2025-05-01 .. 2025-08-01
from Q1 to Q3 2025                          | 2025-01-01 .. 2025-10-01
from 30 Dec to today                        | 2025-12-30 .. 2026-01-31
since Monday until Wednesday                | 2026-01-26 .. 2026-01-29
January - March 2025                        | 2025-01-01 .. 2025-04-01
2026-01-01..2026-01-05                      | 2026-01-01 .. 2026-01-06
2026-01-01 to yesterday                     | 2026-01-01 .. 2026-01-30
"""


@pytest.mark.parametrize("line", PHRASES.strip().splitlines())
def test_a_phrase_means_exactly_its_window_wherever_it_stands(line: str) -> None:
    phrase, expected = (part.strip() for part in line.split("|"))
    window = _window(expected, BERLIN)
    assert _find(phrase).window == window
    assert _find(f"what did we decide {phrase}?").window == window
    assert _find(f"{phrase}: which tests failed").window == window


AROUND = [
    # Clocks forward on Sunday 29 March 2026 (23 hours), back on Sunday 25 October (25 hours).
    (BERLIN, "2026-03-30T09:00", "yesterday", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-03-29T12:00", "today", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-03-30T09:00", "yesterday morning", "2026-03-29T05:00+02:00", "2026-03-29T12:00+02:00"),
    (BERLIN, "2026-03-29T09:00", "last night", "2026-03-28T18:00+01:00", "2026-03-29T06:00+02:00"),
    (BERLIN, "2026-03-31T09:00", "last week", "2026-03-23T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-04-10T09:00", "in March", "2026-03-01T00:00+01:00", "2026-04-01T00:00+02:00"),
    (BERLIN, "2026-10-26T00:30", "yesterday", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
    (BERLIN, "2026-10-27T09:00", "in the last 3 days", "2026-10-24T00:00+02:00", "2026-10-28T00:00+01:00"),
    (BERLIN, "2026-10-27T09:00", "on Sunday", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
    # In New York on 8 March and 1 November 2026.
    (NEW_YORK, "2026-03-09T08:00", "yesterday", "2026-03-08T00:00-05:00", "2026-03-09T00:00-04:00"),
    (NEW_YORK, "2026-03-10T08:00", "since Sunday", "2026-03-08T00:00-05:00", "2026-03-11T00:00-04:00"),
    (NEW_YORK, "2026-11-02T08:00", "yesterday", "2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00"),
    (NEW_YORK, "2026-11-02T08:00", "this month", "2026-11-01T00:00-04:00", "2026-12-01T00:00-05:00"),
    (NEW_YORK, "2026-11-05T08:00", "between 2026-10-31 and 2026-11-01", "2026-10-31T00:00-04:00", "2026-11-02T00:00-05:00"),
    # The turn of the year; 2025-12-31 is a Wednesday, in the first ISO week of 2026.
    (BERLIN, "2026-01-01T00:10", "yesterday", "2025-12-31T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "this week", "2025-12-29T00:00+01:00", "2026-01-05T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "last month", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "in December", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "in January", "2026-01-01T00:00+01:00", "2026-02-01T00:00+01:00"),
    (BERLIN, "2025-12-31T23:50", "in January", "2025-01-01T00:00+01:00", "2025-02-01T00:00+01:00"),
    (BERLIN, "2025-12-31T23:50", "last year", "2024-01-01T00:00+01:00", "2025-01-01T00:00+01:00"),
    (NEW_YORK, "2025-12-31T23:50", "today", "2025-12-31T00:00-05:00", "2026-01-01T00:00-05:00"),
    (NEW_YORK, "2026-01-02T12:00", "Dec 31", "2025-12-31T00:00-05:00", "2026-01-01T00:00-05:00"),
    (NEW_YORK, "2026-01-02T12:00", "from December to today", "2025-12-01T00:00-05:00", "2026-01-03T00:00-05:00"),
    # Months of unequal length.
    (NEW_YORK, "2026-03-31T12:00", "in the last month", "2026-02-28T00:00-05:00", "2026-04-01T00:00-04:00"),
    (NEW_YORK, "2024-02-29T12:00", "in the past year", "2023-02-28T00:00-05:00", "2024-03-01T00:00-05:00"),
    # Midnight skipped by the clock: the day begins at the first instant that exists.
    ("America/Sao_Paulo", "2018-11-05T09:00", "yesterday", "2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"),
    ("America/Sao_Paulo", "2018-11-05T09:00", "the day before yesterday", "2018-11-03T00:00-03:00", "2018-11-04T01:00-02:00"),
]


@pytest.mark.parametrize(("zone", "now", "phrase", "start", "end"), AROUND)
def test_windows_follow_the_local_calendar_through_clock_changes_and_year_ends(
    zone: str, now: str, phrase: str, start: str, end: str
) -> None:
    expected = TimeWindow(*(round(dt.datetime.fromisoformat(t).timestamp() * 1000) for t in (start, end)))
    assert _find(phrase, now, zone).window == expected


NOT_TIMES = """
it may fail
the step before may fail
the last may be wrong
it broke in the parser and may break again
it may 3 times out of 4 fail
clients MAY 2 times retry
march through the steps
dec 10 counter
the second argument
the last argument
the last commit
show the last error
the last 3 errors
the last week we used it
the week before last release
two days before yesterday
last weekend
sat
sun and mon
on sat
Sun Microsystems
Monday
Monday.com
on Sundays
every Monday morning
next Tuesday
next week
fixed by Friday
now
daily and weekly
week
a week
this day
this second
last minute
January
the message from April
Python 3.11
version 2.0
API version 2024-10-21
port 2025
2025
in 2025 lines
of 2000 rows
in 2030
HTTP 404
CVE-2026-0130
v2026-01
logs/2026-01-30/build
2026-01-30T10:00:00Z
2026-02-30
2026-13
2026-W54
1970-01-01
today.md
today()
daily_today
@yesterday
yesterday/today
0 days ago
-3 days ago
10-12 days ago
2.5 weeks ago
half a year ago
more than two weeks ago
over 3 days ago
999 years ago
within 200 ms
after today
since when
between the two
from A to B
on "Tuesday" we meant the column
`last week` as a literal
what does "yesterday" mean here
not in January
except yesterday
from 2026-01-01 onwards
last. Week of
"""


@pytest.mark.parametrize("query", NOT_TIMES.strip().splitlines())
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
    ("on Tuesday of last week", "last week", "on Tuesday"),
    ("the last week of January", "January", "the last week"),
    ("not in January but last week", "last week", "not in January but"),
    ("yesterday", "yesterday", ""),
    ("(since March)!", "since March", ""),
    ('"yesterday"', "yesterday", ""),
    ("in February 30 tests", "February", "30 tests"),
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


def test_a_day_that_the_zone_left_out_is_no_window() -> None:
    assert _find("yesterday morning", "2011-12-31T12:00", "Pacific/Apia").window is None
    assert _find("2011-12-30", "2012-01-05T12:00", "Pacific/Apia").window is None


def test_the_year_of_missing_times_is_never_meant() -> None:
    assert _find("before today", "1970-01-01T12:00").window is None
    assert _find("since yesterday", "1970-01-01T12:00").window is None


def test_long_and_repetitive_text_is_read_in_reasonable_time() -> None:
    for piece in ("the last week of ", "from may to march and between last ", "3-4 ", "of the ", "“", "the " + " " * 500):
        _find(piece * (40_000 // len(piece)))


WORDS = sorted({word for line in PHRASES.splitlines() for word in line.split("|")[0].split()})
WORDS += [
    "of",
    "the",
    "not",
    "ago",
    "last",
    "from",
    "between",
    "and",
    "before",
    "Feb",
    "31",
    "999",
    "years",
    "2099",
    "W53",
    "deploy",
]
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
        assert hint.words
