"""The levels of the tree, and the calendar windows that a moment belongs to.

Invariants
1. Days are local days of the store's fixed zone; a day is from local midnight to local midnight, so it may last
   23 or 25 hours around a clock change.
2. An ISO week is a child of every month it intersects, and of no other; months and years are made of days.
3. Windows of one level tile time: each ends where the next begins.

Change here: what a week or month contains.
"""

import datetime as dt
import io
import re
import struct
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.ids import ROOT, NodeId, day_id, month_id, week_id, year_id


class TocLevel(StrEnum):
    """Levels of the tree, coarse to fine. On disk: do not change."""

    ROOT = "root"
    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    SEGMENT = "segment"


#: Times that are taken: what computes with days and years needs room on both sides (years 1000 to 9998; UTC milliseconds).
FIRST_MS, LATEST_MS = -30_610_224_000_000, 253_370_764_800_000
#: A span of days, as ISO dates, that holds every day.
EVERY_DAY = ("0000", "9999-99")
#: Coarse to fine, as browsing goes.
LEVELS = (TocLevel.YEAR, TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY, TocLevel.SEGMENT)
#: Periods that are rolled up, finest first: the order in which roll-ups must run.
PERIODS = (TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH, TocLevel.YEAR)
DEPTH = {TocLevel.ROOT: 0} | {level: i + 1 for i, level in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Half-open: `start_ms` included, `end_ms` not; UTC milliseconds."""

    start_ms: int
    end_ms: int

    def contains(self, ms: int) -> bool:
        """Return whether a moment, UTC milliseconds, is inside."""
        return self.start_ms <= ms < self.end_ms

    def intersects(self, other: "TimeWindow") -> bool:
        """Return whether the windows share a moment; touching is not enough."""
        return self.start_ms < other.end_ms and other.start_ms < self.end_ms

    def intersection(self, other: "TimeWindow | None") -> "TimeWindow":
        """Return the shared window; this one if the other is None.

        It ends at or before its start if no moment is shared.
        """
        if other is None:
            return self
        return TimeWindow(max(self.start_ms, other.start_ms), min(self.end_ms, other.end_ms))


def level_of(node_id: NodeId) -> TocLevel:
    """Return the level that a canonical node id names.

    Raises ValueError or IndexError for other texts.
    """
    return TocLevel.ROOT if node_id == ROOT else TocLevel(node_id.split(":", 2)[1])


@dataclass(frozen=True, slots=True)
class Calendar:
    """The user's calendar: one zone, fixed when the store is made."""

    zone_name: str

    @property
    def zone(self) -> dt.tzinfo:
        """The zone's rules. Raises InvalidQuery when the name is unknown."""
        return _load_zone(self.zone_name)

    def to_local(self, ms: int) -> dt.datetime:
        """Return a moment (UTC ms) in the zone.

        Raises InvalidQuery for an unknown zone, OverflowError outside the years 1 to 9999.
        """
        return (_EPOCH + dt.timedelta(milliseconds=ms)).astimezone(self.zone)

    def format_iso(self, ms: int) -> str:
        """Return a moment (UTC ms) as local ISO 8601: 2026-01-30T09:00:00+01:00."""
        return self.to_local(ms).isoformat(timespec="seconds")

    def day_of(self, ms: int) -> str:
        """Return the local date (YYYY-MM-DD) of a moment, UTC milliseconds."""
        return self.to_local(ms).date().isoformat()

    def midnight_of(self, day: dt.date) -> int:
        """Return the first instant of a day (UTC ms).

        Later than midnight where a clock change skips it.
        """
        stamp = dt.datetime(day.year, day.month, day.day, tzinfo=self.zone)
        return round((stamp.astimezone(dt.UTC) - _EPOCH).total_seconds() * 1000)

    def days_window(self, first: dt.date, after_last: dt.date) -> TimeWindow:
        """Return the window (UTC ms) from one local midnight to another."""
        return TimeWindow(self.midnight_of(first), self.midnight_of(after_last))

    def node_window(self, node_id: NodeId) -> TimeWindow:
        """Return the window of a period's node, UTC milliseconds.

        Raises InvalidQuery for segments and wrong dates, ValueError for the root.
        """
        first, after = span_of(node_id)
        return self.days_window(first, after)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ABBREVIATION, _OFFSET = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)", r"[+-]?\d{1,3}(?::\d{2}){0,2}"
#: A rule of POSIX's TZ: a name and its offset, perhaps summer time, with its offset and dates.
_POSIX = re.compile(rf"{_ABBREVIATION}{_OFFSET}(?P<summer>{_ABBREVIATION}(?:{_OFFSET})?(?:,[^,\s]+,[^,\s]+)?)?")
_DEFAULT_SUMMER_DATES = ",M3.2.0,M11.1.0"


@lru_cache(maxsize=64)
def _load_zone(name: str) -> dt.tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        if rules := _posix_zone(name):
            return rules
        from difflib import get_close_matches

        similar_names = get_close_matches(name, available_timezones(), n=1)
        hint = "Zones are named as in Europe/Berlin or America/New_York."
        if similar_names:
            hint = f"Did you mean {similar_names[0]}? {hint}"
        raise InvalidQuery(f"unknown time zone: {name!r}", hint) from None


def _posix_zone(rule: str) -> dt.tzinfo | None:
    """Return the zone of a POSIX rule, as TZ may hold one, or None.

    Such as `CST-8` or `CET-1CEST,M3.5.0,M10.5.0/3`. A rule with summer time and without its dates gets those of the C
    library. The parser is that of zone files (RFC 9636), whose last line is such a rule.
    """
    if (match := _POSIX.fullmatch(rule)) is None:
        return None
    footer = rule + (_DEFAULT_SUMMER_DATES if match["summer"] and "," not in rule else "")
    header = b"TZif2" + bytes(15) + struct.pack(">6L", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lBB", 0, 0, 0) + b"UTC\0"
    try:
        return ZoneInfo.from_file(io.BytesIO(block * 2 + f"\n{footer}\n".encode()), key=rule)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def span_of(node_id: NodeId) -> tuple[dt.date, dt.date]:
    """Return a period's first date and the date after its last.

    Raises InvalidQuery for a segment's id and for a date that does not exist, ValueError for the root.
    """
    level, value = node_id.split(":", 2)[1:]
    try:
        if level == TocLevel.YEAR:
            year = int(value)
            return dt.date(year, 1, 1), dt.date(year + 1, 1, 1)
        if level == TocLevel.MONTH:
            year, month = int(value[:4]), int(value[5:])
            return dt.date(year, month, 1), dt.date(year + month // 12, month % 12 + 1, 1)
        if level == TocLevel.WEEK:
            monday = dt.date.fromisocalendar(int(value[:4]), int(value[6:]), 1)
            return monday, monday + dt.timedelta(days=7)
        if level == TocLevel.DAY:
            day = dt.date.fromisoformat(value)
            return day, day + dt.timedelta(days=1)
    except (ValueError, OverflowError):
        raise InvalidQuery(f"no such period: {node_id}", "Give a real calendar period, or start at the root.") from None
    raise InvalidQuery(f"not a period: {node_id}", "Segments have stored times, not calendar windows.")


def period_of(window: TimeWindow, calendar: Calendar) -> NodeId | None:
    """Return the finest period that has exactly this window, or None."""
    date = calendar.to_local(window.start_ms).date()
    candidates = rollup_targets(date.isoformat())
    return next((node_id for node_id in candidates if calendar.node_window(node_id) == window), None)


def parents_of_day(day: str) -> tuple[NodeId, ...]:
    """Return the parent of a day (ISO date): its ISO week.

    Raises ValueError for a date that does not exist.
    """
    iso = dt.date.fromisoformat(day).isocalendar()
    return (week_id(iso.year, iso.week),)


def months_of_week(node_id: NodeId) -> tuple[NodeId, ...]:
    """Return the months that an ISO week intersects, in order.

    Raises InvalidQuery for a week that does not exist.
    """
    first, after = span_of(node_id)
    last = after - dt.timedelta(days=1)
    months = [month_id(first.year, first.month)]
    if (last.year, last.month) != (first.year, first.month):
        months.append(month_id(last.year, last.month))
    return tuple(months)


def parents_of(node_id: NodeId) -> tuple[NodeId, ...]:
    """Return the ids of a node's parents in the tree.

    A segment has its day, a day its ISO week, a week the one or two months that it intersects, a month its year, a year
    the root; the root has none: (). Raises ValueError for a day, InvalidQuery for a week, that does not exist.
    """
    if node_id == ROOT:
        return ()
    level = level_of(node_id)
    if level is TocLevel.SEGMENT:
        return (day_id(node_id.split(":")[2]),)
    if level is TocLevel.DAY:
        return parents_of_day(node_id.split(":")[2])
    if level is TocLevel.WEEK:
        return months_of_week(node_id)
    if level is TocLevel.MONTH:
        return (year_id(int(node_id.split(":")[2][:4])),)
    return (ROOT,)


@lru_cache(maxsize=4096)
def rollup_targets(day: str) -> tuple[NodeId, ...]:
    """Return the periods that a change on a day makes stale, finest first.

    These are day, ISO week, month, year. `day` is an ISO date; raises ValueError for one that does not exist.
    """
    date = dt.date.fromisoformat(day)
    return (day_id(day), *parents_of_day(day), month_id(date.year, date.month), year_id(date.year))


def source_level(node_id: NodeId) -> TocLevel:
    """Return the level whose nodes a period's summary is computed from.

    A day's from segments, a week's and a month's from days, a year's from months; for the root and segments the result
    means nothing.
    """
    level = level_of(node_id)
    if level is TocLevel.DAY:
        return TocLevel.SEGMENT
    return TocLevel.MONTH if level is TocLevel.YEAR else TocLevel.DAY
