"""The calendar: windows tile time, weeks hang where they reach, and clock changes lose nothing."""

import datetime as dt
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model import calendar as cal
from memory_mcp.model.calendar import Calendar, TimeWindow, TocLevel
from memory_mcp.model.ids import NodeId, day_id, month_id, parse_node_id, segment_id, week_id, year_id

HOUR = 3_600_000
#: Zones with clock changes at midnight, half-hour shifts, a day that never was, and both sides of the date line.
ODD_ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Havana",
    "America/Asuncion",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Asia/Kolkata",
    "UTC",
)
ZONES = st.sampled_from([z for z in ODD_ZONES if z in available_timezones()])
DAYS = st.dates(dt.date(1972, 1, 2), dt.date(2037, 12, 30))


def test_levels_run_from_coarse_to_fine_and_roll_up_the_other_way() -> None:
    assert cal.LEVELS == (TocLevel.YEAR, TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY, TocLevel.SEGMENT)
    assert cal.PERIODS == (TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH, TocLevel.YEAR)
    assert [cal.DEPTH[level] for level in (TocLevel.ROOT, *cal.LEVELS)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("node_id", "level", "sources"),
    [
        ("toc:year:2026", TocLevel.YEAR, TocLevel.MONTH),
        ("toc:month:2026-01", TocLevel.MONTH, TocLevel.DAY),
        ("toc:week:2026-W04", TocLevel.WEEK, TocLevel.DAY),
        ("toc:day:2026-01-30", TocLevel.DAY, TocLevel.SEGMENT),
    ],
)
def test_what_each_level_is_made_of(node_id: str, level: TocLevel, sources: TocLevel) -> None:
    assert cal.level_of(NodeId(node_id)) is level
    assert cal.source_level(NodeId(node_id)) is sources


@pytest.mark.parametrize(
    ("node_id", "parents"),
    [
        ("toc:root", ()),
        ("toc:year:2026", ("toc:root",)),
        ("toc:month:2026-01", ("toc:year:2026",)),
        ("toc:week:2026-W04", ("toc:month:2026-01",)),
        ("toc:week:2026-W05", ("toc:month:2026-01", "toc:month:2026-02")),
        ("toc:week:2026-W01", ("toc:month:2025-12", "toc:month:2026-01")),
        ("toc:week:2020-W53", ("toc:month:2020-12", "toc:month:2021-01")),
        ("toc:day:2026-01-01", ("toc:week:2026-W01",)),
        ("toc:day:2024-12-30", ("toc:week:2025-W01",)),
        ("toc:day:2021-01-03", ("toc:week:2020-W53",)),
    ],
)
def test_parents_by_the_iso_calendar(node_id: str, parents: tuple[str, ...]) -> None:
    assert cal.parents_of(NodeId(node_id)) == parents


def test_a_segments_parent_is_its_day() -> None:
    assert cal.parents_of(segment_id("2026-01-30", 5)) == ("toc:day:2026-01-30",)


@given(DAYS)
def test_a_week_is_a_child_of_every_month_it_intersects_and_of_no_other(day: dt.date) -> None:
    (week,) = cal.parents_of(day_id(day.isoformat()))
    first, after = cal.span_of(week)
    own = {month_id(d.year, d.month) for d in (first + dt.timedelta(days=i) for i in range(7))}
    assert set(cal.parents_of(week)) == own
    assert after - first == dt.timedelta(days=7)
    assert first <= day < after


@given(DAYS)
def test_a_day_makes_stale_its_week_and_its_own_month_and_year(day: dt.date) -> None:
    iso = day.isocalendar()
    assert cal.rollup_targets(day.isoformat()) == (
        day_id(day.isoformat()),
        week_id(iso.year, iso.week),
        month_id(day.year, day.month),
        year_id(day.year),
    )


def _next(level: TocLevel, node_id: NodeId) -> NodeId:
    after = cal.span_of(node_id)[1]
    targets = cal.rollup_targets(after.isoformat())
    return next(t for t in targets if cal.level_of(t) is level)


@given(ZONES, DAYS, st.sampled_from(cal.PERIODS))
@example("Pacific/Apia", dt.date(2011, 12, 29), TocLevel.DAY)
@example("America/Sao_Paulo", dt.date(2018, 11, 3), TocLevel.DAY)
def test_windows_of_one_level_tile_time(zone: str, day: dt.date, level: TocLevel) -> None:
    calendar = Calendar(zone)
    node_id = next(t for t in cal.rollup_targets(day.isoformat()) if cal.level_of(t) is level)
    window = calendar.node_window(node_id)
    assert window.end_ms == calendar.node_window(_next(level, node_id)).start_ms
    assert parse_node_id(node_id) == node_id


@given(ZONES, st.integers(86_400_000 * 400, 2_145_000_000_000))
def test_every_moment_lies_in_the_window_of_its_day_and_of_all_periods_above(zone: str, ms: int) -> None:
    calendar = Calendar(zone)
    for period in cal.rollup_targets(calendar.day_of(ms)):
        assert calendar.node_window(period).contains(ms), period


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_is_as_long_as_its_clock_says(day: str, hours: int) -> None:
    window = Calendar("Europe/Berlin").node_window(day_id(day))
    assert window.end_ms - window.start_ms == hours * HOUR


@pytest.mark.parametrize(
    ("zone", "day", "begins"),
    [("America/Sao_Paulo", "2018-11-04", 1), ("Asia/Beirut", "2022-03-27", 1), ("America/Havana", "2024-03-10", 1)],
)
def test_where_midnight_does_not_exist_the_day_begins_at_the_first_moment_that_does(zone: str, day: str, begins: int) -> None:
    calendar = Calendar(zone)
    window = calendar.node_window(day_id(day))
    assert calendar.to_local(window.start_ms).hour == begins
    assert calendar.day_of(window.start_ms) == day
    assert calendar.day_of(window.start_ms - 1) != day
    assert window.end_ms - window.start_ms == 23 * HOUR


def test_where_midnight_comes_twice_both_belong_to_the_day_that_has_25_hours() -> None:
    calendar = Calendar("America/Havana")
    window = calendar.node_window(day_id("2024-11-03"))
    assert window.end_ms - window.start_ms == 25 * HOUR
    assert calendar.day_of(window.start_ms + HOUR) == "2024-11-03"


def test_the_day_that_samoa_skipped_is_empty_and_its_neighbours_meet() -> None:
    calendar = Calendar("Pacific/Apia")
    skipped = calendar.node_window(day_id("2011-12-30"))
    assert skipped.start_ms == skipped.end_ms == calendar.node_window(day_id("2011-12-31")).start_ms


@pytest.mark.parametrize(
    "node_id",
    [
        "toc:month:2026-13",
        "toc:month:2026-00",
        "toc:day:2026-02-30",
        "toc:week:2026-W54",
        "toc:year:0000",
        "toc:year:9999",
        "toc:week:9999-W53",
        "toc:month:9999-12",
        "toc:day:9999-12-31",
    ],
)
def test_an_impossible_period_is_refused(node_id: str) -> None:
    with pytest.raises(InvalidQuery, match="no such period"):
        Calendar("UTC").node_window(parse_node_id(node_id))


def test_a_segment_has_no_calendar_window() -> None:
    with pytest.raises(InvalidQuery, match="not a period"):
        cal.span_of(segment_id("2026-01-30", 5))


@pytest.mark.parametrize(
    ("zone", "summer", "winter"),
    [
        ("CST-8", "+08:00", "+08:00"),
        ("UTC0", "+00:00", "+00:00"),
        ("<+0530>-5:30", "+05:30", "+05:30"),
        ("CET-1CEST", "+02:00", "+01:00"),
        ("CST6CDT,M4.1.0,M10.5.0", "-05:00", "-06:00"),
        ("AEST-10AEDT,M10.1.0,M4.1.0/3", "+10:00", "+11:00"),
    ],
)
def test_a_posix_rule_is_a_zone(zone: str, summer: str, winter: str) -> None:
    moments = (1_751_328_000_000, 1_736_000_000_000)
    assert [Calendar(zone).format_iso(ms)[-6:] for ms in moments] == [summer, winter]


@pytest.mark.parametrize("zone", ["CST-99999", "CST", "EST5EDT,M3", "Mars/Olympus", "../etc/passwd", "", "Europe/berlin/x"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidQuery, match="unknown time zone"):
        Calendar(zone).day_of(0)


def test_local_times_carry_their_offset() -> None:
    calendar = Calendar("Europe/Berlin")
    summer = round(dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
    assert calendar.format_iso(summer) == "2026-07-01T12:00:00+02:00"
    assert calendar.format_iso(0) == "1970-01-01T01:00:00+01:00"


@given(st.tuples(st.integers(0, 50), st.integers(1, 50)), st.tuples(st.integers(0, 50), st.integers(1, 50)))
def test_two_windows_intersect_exactly_when_they_share_a_moment(a: tuple[int, int], b: tuple[int, int]) -> None:
    one, two = TimeWindow(a[0], a[0] + a[1]), TimeWindow(b[0], b[0] + b[1])
    shared = any(one.contains(ms) and two.contains(ms) for ms in range(110))
    assert one.intersects(two) == two.intersects(one) == shared
