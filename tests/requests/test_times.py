"""Times and node ids as agents and people write them, read on a calendar and relative to a moment."""

from collections.abc import Callable

import pytest

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import Calendar
from memory_mcp.requests.times import Times
from tests.factories import ms

BERLIN = Calendar("Europe/Berlin")
#: A Friday.
TIMES = Times(BERLIN, ms("2026-01-30 12:00"))


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026-01-30", "2026-01-30 00:00", "2026-01-31 00:00"),
        ("2026-01", "2026-01-01 00:00", "2026-02-01 00:00"),
        ("2026-12", "2026-12-01 00:00", "2027-01-01 00:00"),
        ("2026-03-29", "2026-03-29 00:00", "2026-03-30 00:00"),
        ("2026-01-30T14:00", "2026-01-30 14:00", "2026-01-30 14:00"),
        ("2026-01-30T14:00Z", "2026-01-30 15:00", "2026-01-30 15:00"),
        (" 2026-01-30T14:00+05:00 ", "2026-01-30 10:00", "2026-01-30 10:00"),
        ("1769778000000", "2026-01-30 14:00", "2026-01-30 14:00"),
        ("2025", "2025-01-01 00:00", "2026-01-01 00:00"),
        ("2026-W05", "2026-01-26 00:00", "2026-02-02 00:00"),
        ("yesterday", "2026-01-29 00:00", "2026-01-30 00:00"),
        ("last Tuesday", "2026-01-27 00:00", "2026-01-28 00:00"),
        ("monday", "2026-01-26 00:00", "2026-01-27 00:00"),
        ("last week", "2026-01-19 00:00", "2026-01-26 00:00"),
        ("december 2025", "2025-12-01 00:00", "2026-01-01 00:00"),
        ("letzte Woche", "2026-01-19 00:00", "2026-01-26 00:00"),
    ],
)
def test_a_date_a_period_or_a_phrase_is_included_whole_and_a_bare_time_is_local(text: str, since: str, until: str) -> None:
    assert TIMES.since(text) == ms(since)
    assert TIMES.until(text) == ms(until)


@pytest.mark.parametrize("read", [TIMES.since, TIMES.until])
def test_a_time_counted_back_bounds_a_stretch_exactly(read: Callable[[str], int | None]) -> None:
    assert read("2 hours ago") == ms("2026-01-30 10:00")


def test_nothing_given_is_no_time() -> None:
    assert TIMES.since("") is None
    assert TIMES.until("") is None


@pytest.mark.parametrize(
    "text",
    [
        "yesterdayish",
        "2026-13",
        "2026-W60",
        "999999999999999",
        "what we did yesterday",
        "2026-02-30",
        "0",
        "99999999999999999999",
        "9999-12-31",
        "\0",
        "０",
    ],
)
def test_what_is_no_time_is_refused_by_the_arguments_name(text: str) -> None:
    with pytest.raises(InvalidQuery, match="invalid as_of: "):
        TIMES.since(text, "as_of")


@pytest.mark.parametrize(
    ("text", "node_id"),
    [
        ("", "toc:root"),
        ("2026", "toc:year:2026"),
        (" 2026-01 ", "toc:month:2026-01"),
        ("2026-W05", "toc:week:2026-W05"),
        ("2026w05", "toc:week:2026-W05"),
        ("2026-01-30", "toc:day:2026-01-30"),
        ("last week", "toc:week:2026-W04"),
        ("this month", "toc:month:2026-01"),
        ("yesterday", "toc:day:2026-01-29"),
        ("last year", "toc:year:2025"),
        ("toc:week:2026:W04", "toc:week:2026-W04"),
        ("toc:segment:2026-01-30:0123456789ab", "toc:segment:2026-01-30:0123456789ab"),
    ],
)
def test_a_node_may_be_named_by_its_short_form_or_by_a_phrase(text: str, node_id: str) -> None:
    assert TIMES.node_id(text) == node_id


@pytest.mark.parametrize("text", ["the last 3 days", "soonish", "2026-1", "this morning", "toc:decade:2020"])
def test_what_is_no_single_period_names_no_node(text: str) -> None:
    with pytest.raises(InvalidQuery, match="not a node id"):
        TIMES.node_id(text)
