"""When a job is due: intervals, times of day, clock changes, missed runs and clocks that were put right."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.model.calendar import Calendar
from memory_mcp.upkeep.jobs.schedule import Daily, Every, Schedule, next_due, retry_after

BERLIN, NEW_YORK, KOLKATA, APIA = "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"
UTC = Calendar("UTC")


def utc(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


def due(zone: str, at: str, last: str, now: str | None = None) -> str:
    """The next moment in UTC of a daily job, from the last run and the time now, both in UTC."""
    found = next_due(Daily.at(at), utc(last), utc(now or last), Calendar(zone))
    return dt.datetime.fromtimestamp(found / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("zone", "at", "last", "expected"),
    [
        # plain days, before and after the hour
        (BERLIN, "03:00", "2026-01-12 01:59", "2026-01-12 02:00:00"),
        (BERLIN, "03:00", "2026-01-12 02:00", "2026-01-13 02:00:00"),
        (BERLIN, "00:00", "2026-01-12 22:59", "2026-01-12 23:00:00"),
        (NEW_YORK, "23:59", "2026-07-01 03:59", "2026-07-02 03:59:00"),
        (KOLKATA, "03:00", "2026-01-12 00:00", "2026-01-12 21:30:00"),
        # spring: the hour from 02:00 to 03:00 is skipped, so 02:30 is the first moment after it
        (BERLIN, "02:30", "2026-03-28 12:00", "2026-03-29 01:00:00"),
        (BERLIN, "02:00", "2026-03-28 12:00", "2026-03-29 01:00:00"),
        (BERLIN, "02:59", "2026-03-28 12:00", "2026-03-29 01:00:00"),
        (BERLIN, "03:00", "2026-03-28 12:00", "2026-03-29 01:00:00"),
        (BERLIN, "03:01", "2026-03-28 12:00", "2026-03-29 01:01:00"),
        (BERLIN, "02:30", "2026-03-29 01:00", "2026-03-30 00:30:00"),
        (NEW_YORK, "02:30", "2026-03-07 20:00", "2026-03-08 07:00:00"),
        (NEW_YORK, "02:30", "2026-03-08 07:00", "2026-03-09 06:30:00"),
        # autumn: the hour is there twice, and only the first counts
        (BERLIN, "02:30", "2026-10-24 12:00", "2026-10-25 00:30:00"),
        (BERLIN, "02:30", "2026-10-25 00:30", "2026-10-26 01:30:00"),
        (BERLIN, "02:30", "2026-10-25 00:45", "2026-10-26 01:30:00"),
        (NEW_YORK, "01:30", "2026-10-31 20:00", "2026-11-01 05:30:00"),
        (NEW_YORK, "01:30", "2026-11-01 05:30", "2026-11-02 06:30:00"),
        # a day that never was: Samoa went from 29 to 31 December 2011
        (APIA, "12:00", "2011-12-29 23:00", "2011-12-30 10:00:00"),
        (APIA, "12:00", "2011-12-30 10:00", "2011-12-30 22:00:00"),
    ],
)
def test_a_daily_job_is_due_at_its_local_time(zone: str, at: str, last: str, expected: str) -> None:
    assert due(zone, at, last) == expected


def test_a_run_missed_for_weeks_is_due_once_and_clocks_put_back_by_an_hour_or_a_year_repeat_and_stall_nothing() -> None:
    late = next_due(Daily(3, 0), utc("2026-01-01 12:00"), utc("2026-02-01 12:00"), UTC)
    assert late == utc("2026-01-02 03:00")
    assert next_due(Daily(3, 0), utc("2026-02-01 12:00"), utc("2026-02-01 12:00"), UTC) == utc("2026-02-02 03:00")
    assert next_due(Every(60), utc("2026-01-01 12:00"), utc("2026-02-01 12:00"), UTC) == utc("2026-01-01 12:01")
    assert due(BERLIN, "03:00", last="2026-01-12 02:00:10", now="2026-01-12 01:00:10") == "2026-01-13 02:00:00"
    assert next_due(Every(3600), utc("2026-01-12 02:00"), utc("2026-01-12 01:00"), UTC) == utc("2026-01-12 02:00")
    assert due(BERLIN, "03:00", last="2027-01-12 02:00", now="2026-01-12 12:00") == "2026-01-13 02:00:00"
    assert next_due(Every(3600), utc("2027-01-12 02:00"), utc("2026-01-12 12:00"), UTC) == utc("2026-01-12 13:00")


@given(
    zone=st.sampled_from([BERLIN, NEW_YORK, KOLKATA, "Australia/Lord_Howe", "America/Havana", "UTC"]),
    last=st.integers(utc("2024-01-01 00:00") // 1000, utc("2027-12-31 00:00") // 1000).map(lambda s: s * 1000),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
)
def test_a_daily_job_runs_once_on_every_local_day(zone: str, last: int, hour: int, minute: int) -> None:
    calendar, at = Calendar(zone), Daily(hour, minute)
    moments = [last]
    for _ in range(4):
        moments.append(next_due(at, moments[-1], moments[-1], calendar))
    days = [calendar.to_local(m).date() for m in moments[1:]]
    assert [b - a for a, b in itertools.pairwise(days)] == [dt.timedelta(days=1)] * 3
    assert moments[1] - last <= 25 * 3_600_000
    for moment in moments[1:]:
        local = calendar.to_local(moment)
        before = calendar.to_local(moment - 1000)
        # Either the clock shows the time, or it skipped it just now.
        assert (local.hour, local.minute) == (hour, minute) or before.utcoffset() != local.utcoffset()


@pytest.mark.parametrize(
    ("schedule", "waits"),
    [
        (Every(1), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Every(30), [30, 60, 120, 240, 300, 300]),
        (Every(3600), [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
        (Daily(3, 0), [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
    ],
)
def test_each_failure_in_a_row_waits_twice_as_long_up_to_a_bound(schedule: Schedule, waits: list[int]) -> None:
    assert [retry_after(schedule, failures) for failures in range(1, len(waits) + 1)] == waits
    assert retry_after(schedule, 10_000) == waits[-1]


def test_schedules_are_told_in_words() -> None:
    words = [
        s.words
        for s in (Every(1), Every(30), Every(60), Every(300), Every(3600), Every(7200), Every(90), Every(0.5), Daily(3, 5))
    ]
    assert words == [
        *("every second", "every 30 seconds", "every minute", "every 5 minutes", "every hour", "every 2 hours"),
        *("every 90 seconds", "every 0.5 seconds", "daily at 03:05"),
    ]
