"""Times as agents write them, read on a calendar."""

import pytest

from memory_mcp.errors import InvalidQuery
from memory_mcp.model.calendar import Calendar
from memory_mcp.server.times import since_ms, until_ms
from tests.factories import ms

BERLIN = Calendar("Europe/Berlin")


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
    ],
)
def test_a_date_or_month_is_included_whole_and_a_bare_time_is_local(text: str, since: str, until: str) -> None:
    assert since_ms(text, BERLIN) == ms(since)
    assert until_ms(text, BERLIN) == ms(until)


def test_nothing_given_is_no_time() -> None:
    assert since_ms("", BERLIN) is None
    assert until_ms("", BERLIN) is None


@pytest.mark.parametrize("text", ["yesterday", "2026-13", "2026-02-30", "0", "99999999999999999999", "9999-12-31", "\0", "０"])
def test_what_is_no_time_is_refused_by_the_arguments_name(text: str) -> None:
    with pytest.raises(InvalidQuery, match="as_of is no time"):
        since_ms(text, BERLIN, "as_of")
