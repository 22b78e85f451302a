"""Windows of the user's calendar, seen from a moment: last week, the rolling month, the third Monday of a year.

An impossible date, and a window before time began or on a day that a zone left out, is a ValueError.
"""

import datetime as dt
from itertools import pairwise

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar, TimeWindow

DAY, WEEK = dt.timedelta(days=1), dt.timedelta(days=7)
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF = {"day": 1, "week": 7, "fortnight": 14}


def month_of(year: int, month: int) -> dt.date:
    """Return a month's first day; month 13 is next January."""
    index = year * 12 + month - 1
    return dt.date(index // 12, index % 12 + 1, 1)


@dataclass(frozen=True, slots=True)
class Windows:
    """The calendar seen from a day; hours and smaller units count from `now_ms`."""

    calendar: Calendar
    now_ms: int
    today: dt.date

    def seen_from(self, ms: int) -> "Windows":
        """Return the calendar seen from a moment's local day; `now_ms` stays."""
        return Windows(self.calendar, self.now_ms, self.calendar.to_local(ms).date())

    def days_window(self, first: dt.date, after: dt.date) -> TimeWindow:
        """Return the days up to, excluding, another; ValueError if empty or before 1970."""
        return _positive(self.calendar.days_window(first, after))

    def local_dates(self, window: TimeWindow) -> tuple[dt.date, dt.date] | None:
        """Return a window's first date and the one behind, or None."""
        first, after = (self.calendar.to_local(ms).date() for ms in (window.start_ms, window.end_ms))
        return (first, after) if first < after and self.calendar.days_window(first, after) == window else None

    def months_window(self, year: int, month: int, count: int) -> TimeWindow:
        """Return `count` whole months, month 0 of last year; ValueError before 1970."""
        return self.days_window(month_of(year, month), month_of(year, month + count))

    def day_window(self, day: dt.date, hours: tuple[int, int] | None = None) -> TimeWindow:
        """Return a day, or its `hours` (first, after the last).

        The end may be above 24. Raises ValueError before 1970.
        """
        day_window = self.days_window(day, day + DAY)
        return TimeWindow(self.minute_ms(day, hours[0] * 60), self.minute_ms(day, hours[1] * 60)) if hours else day_window

    def minute_ms(self, day: dt.date, minute: int) -> int:
        """Return the UTC milliseconds of a local clock's minute.

        `minute` counts from a day's 0:00; of two moments it is the earlier.
        """
        local = dt.datetime.combine(day, dt.time()) + dt.timedelta(minutes=minute)
        return round(local.replace(tzinfo=self.calendar.zone).timestamp() * 1000)

    def week_window(self, year: int, week: int) -> TimeWindow:
        """Return an ISO week; ValueError if the year lacks it."""
        monday = dt.date.fromisocalendar(year, week, 1)
        return self.days_window(monday, monday + WEEK)

    def period_window(self, unit: str, back: int) -> TimeWindow:
        """Return the period that is `back` before the current one.

        `unit` is day, week, month, quarter or year. A fortnight is the one week 2 x `back` weeks ago. Raises KeyError for
        another unit, ValueError before 1970.
        """
        day = self.today
        if unit == "day":
            return self.day_window(day - dt.timedelta(days=back))
        if unit in _DAYS_OF:
            monday = day - dt.timedelta(days=day.weekday() + _DAYS_OF[unit] * back)
            return self.days_window(monday, monday + WEEK)
        count = _MONTHS_OF[unit]
        return self.months_window(day.year, (day.month - 1) // count * count + 1 - back * count, count)

    def rolling_window(self, unit: str, count: int) -> TimeWindow:
        """Return the window of the last `count` units.

        In days and longer units it begins that long before today and includes all of today; in hours and less it ends with this
        millisecond. Raises KeyError for another unit, ValueError before 1970.
        """
        day = self.today
        if unit in SECONDS:
            start = self.now_ms - count * SECONDS[unit] * 1000
            return _positive(TimeWindow(start, self.now_ms + 1))
        if unit in _DAYS_OF:
            first = day - dt.timedelta(days=count * _DAYS_OF[unit])
        else:
            month = month_of(day.year, day.month - count * _MONTHS_OF[unit])
            first = min(month + dt.timedelta(days=day.day - 1), month_of(month.year, month.month + 1) - DAY)
        return self.days_window(first, day + DAY)

    def window_ago(self, unit: str, count: int) -> TimeWindow:
        """Return `count` units ago, give or take a quarter.

        Hours, minutes or seconds. ValueError before 1970, KeyError for days.
        """
        length = count * SECONDS[unit] * 1000
        start = self.now_ms - length - length // 4
        return _positive(TimeWindow(start, self.now_ms - length + length // 4))

    def weekend_window(self, back: int | None) -> TimeWindow:
        """Return the weekend `back` weeks ago; None: latest begun."""
        saturday = self.today + dt.timedelta(days=5 - self.today.weekday())
        weeks = (saturday > self.today) if back is None else back
        return self.days_window(saturday - weeks * WEEK, saturday - weeks * WEEK + 2 * DAY)

    def season_window(self, month: int, shift: int | None) -> TimeWindow:
        """Return three months from `month` on.

        `shift` None: the latest begun, 0: running or this year's, 1: latest over.
        """
        now = self.today
        start = month_of(self.latest_year(month), month)
        running = now < month_of(start.year, month + 3)
        if shift and running:
            start = month_of(start.year - 1, month)
        if shift == 0 and not running:
            start = month_of(now.year, month)
        return self.months_window(start.year, month, 3)

    def latest_year(self, month: int, day: int = 1) -> int:
        """Return the latest year in which a date began; ValueError beyond nine."""
        now = self.today
        for year in range(now.year - ((month, day) > (now.month, now.day)), now.year - 9, -1):
            if day <= 28 or day <= (month_of(year, month + 1) - month_of(year, month)).days:
                return year
        raise ValueError(day)

    def nth_day_window(self, day: int) -> TimeWindow:
        """Return the latest day of that number; ValueError where no month has it."""
        for back in range(3):  # no two months in a row lack it
            month = month_of(self.today.year, self.today.month - back)
            date = month + dt.timedelta(days=day - 1)
            if date.month == month.month and date <= self.today:
                return self.day_window(date)
        raise ValueError(day)

    def third_of(self, window: TimeWindow, which: int) -> TimeWindow | None:
        """Return a whole period's beginning, middle or end (0 to 2).

        Of a week, month, quarter or year; None for any other window. Of a month the 1st to 10th, 11th to 20th and the rest; of
        a week two, two and three days.
        """
        dates, unit = self.local_dates(window), self.unit_of(window)
        if not dates or not unit:
            return None
        first, after = dates
        if unit in {"quarter", "year"}:
            count = _MONTHS_OF[unit] // 3
            return self.months_window(first.year, first.month + which * count, count)
        cuts = [first + dt.timedelta(days=n) for n in ((0, 2, 4) if unit == "week" else (0, 10, 20))] + [after]
        return self.days_window(cuts[which], cuts[which + 1])

    def unit_of(self, window: TimeWindow) -> str:
        """Return day, week, month, quarter or year, if a window is one."""
        first, after = self.local_dates(window) or (self.today, self.today)
        if (after - first, first.weekday()) == (WEEK, 0):
            return "week"
        unit_names = (name for name, n in _MONTHS_OF.items() if first.day == 1 and after == month_of(first.year, first.month + n))
        return "day" if after - first == DAY else next(unit_names, "")

    def nth_within(self, window: TimeWindow, unit: str | int, n: int) -> TimeWindow | None:
        """Return the nth (-1: the last) part of a window.

        Day, week, half, quarter, or weekday by its number. Weeks are counted from the window's first day, not by the calendar.
        None if there is none such, or the window is no whole month, quarter or year (of a week only days).
        """
        dates, unit_name = self.local_dates(window), self.unit_of(window)
        if not dates or (unit_name not in {"month", "quarter", "year"} and (unit_name, unit) != ("week", "day")):
            return None
        first, after = dates
        if unit == "half":
            middle = month_of(first.year, 7) if unit_name == "year" else first + dt.timedelta(days=15)
            parts = [(first, middle), (middle, after)] if unit_name in {"year", "month"} else []
        elif unit == "quarter":
            starts = [month_of(first.year, month) for month in (1, 4, 7, 10, 13)] if unit_name == "year" else []
            parts = list(pairwise(starts))
        elif unit == "week":
            parts = [(start := first + (n - 1) * WEEK, start + WEEK)] if n > 0 else [(after - WEEK, after)]
            return self.days_window(*parts[0])
        else:
            if isinstance(unit, int):
                first += dt.timedelta(days=(unit - first.weekday()) % 7)
                after -= dt.timedelta(days=(after.weekday() - 1 - unit) % 7)
            step = DAY if unit == "day" else WEEK
            day = first + (n - 1) * step if n > 0 else after - DAY
            return self.day_window(day) if first <= day < after else None
        return self.days_window(*parts[n if n < 0 else n - 1]) if n <= len(parts) and parts else None

    def window_beside(self, window: TimeWindow, unit: str | int, count: int, side: int, *, as_span: bool) -> TimeWindow | None:
        """Return what is so many units after or before a window.

        `side` is 1 for after, -1 for before; the window is of whole days; None where that is unclear. A unit is a weekday's
        number, "weekend" or a unit of time; `as_span` means the days in between.
        """
        dates = self.local_dates(window)
        if not dates:
            return None
        first, after = dates
        if isinstance(unit, int) or unit == "weekend":
            weekday, length = (unit, 1) if isinstance(unit, int) else (5, 2)
            nearest = after if side > 0 else first - dt.timedelta(days=length)
            nearest += side * dt.timedelta(days=side * (weekday - nearest.weekday()) % 7) + side * (count - 1) * WEEK
            return self.days_window(nearest, nearest + length * DAY)
        from_there = self.seen_from(window.start_ms)
        if unit in _MONTHS_OF:
            is_one = count == 1 if self.unit_of(window) == unit else self.unit_of(window) == "day" and not as_span
            return from_there.period_window(unit, -side * count) if is_one else None
        if unit not in _DAYS_OF:
            return None
        far = dt.timedelta(days=_DAYS_OF[unit] * count)
        if as_span:
            return self.days_window(after, after + far) if side > 0 else self.days_window(first - far, first)
        if self.unit_of(window) != "day":
            return None
        return self.day_window(first + side * far) if unit == "day" else from_there.period_window(unit, -side * count)


def _positive(window: TimeWindow) -> TimeWindow:
    if not 0 < window.start_ms < window.end_ms:
        raise ValueError(window)
    return window
