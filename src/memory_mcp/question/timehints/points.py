"""Compute the window on a calendar of each form of a point in time."""

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.question.timehints.language import Language
from memory_mcp.question.timehints.windows import DAY, SECONDS, Windows

#: What must lead a phrase that is no time by itself; "between" and "to" stand for the places in a range, "inside" for
#: what "the end of" is said about.
PAIR_LEADS = {"between", "to"}
INSIDE = {"inside", "inside in", "inside on"}
_WEEKDAY_LEADS = set("on from since before after until between to".split()) | {"inside on"}
_WEEKEND_LEADS = _WEEKDAY_LEADS | {"at", "over", "during", "throughout"}
_PERIOD_LEADS = set("in during throughout of from since before after until between to".split()) | INSIDE
_SPAN_LEADS = set("in during throughout over within for since".split())
#: After these an ordinary word in lower case is a month; "from" is no such word for a month that is a person's name.
PLAIN_LEADS = {"in", "during", "since", "between", "inside in"}
POSSESSIVES = ("'s", "’s", "'S", "’S")
BACK, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 40, 3_600_000, 60_000, 1000  # BACK: the longest stretch looked back over


@dataclass(frozen=True, slots=True)
class FoundTime:
    """A phrase from start up to end, and what it means.

    floating: which Friday or January it is depends on the day it is seen from. at_ms: the instant that is named, where
    one is; that is where a range begins or ends, and the window is what it means alone.
    """

    window: TimeWindow
    start: int
    end: int
    floating: bool = False
    at_ms: int | None = None
    #: A clock time that still needs a day.
    needs_day: bool = False

    @property
    def first_ms(self) -> int:
        """Beginning of a range that begins with this, UTC milliseconds."""
        return self.window.start_ms if self.at_ms is None else self.at_ms

    @property
    def last_ms(self) -> int:
        """End of a range that ends with this, UTC milliseconds."""
        return self.window.end_ms if self.at_ms is None else self.at_ms


class PointResolver(ABC):
    """Resolves matches of forms; None is no time after that lead."""

    def __init__(self, text: str, windows: Windows, language: Language) -> None:
        """Read `text` with one language's words."""
        self.begins = language.begins
        self._text = text
        self._on = windows
        self._words = language

    @abstractmethod
    def read_point(self, i: int, lead: str) -> FoundTime | None:
        """Return the time at a place after a leading word."""

    def _read_inner(self, i: int, lead: str) -> FoundTime | None:
        """Return the time that a part is of."""
        if lead in INSIDE:
            return None
        while i < len(self._text) and self._text[i] in " -":
            i += 1
        return self.read_point(i, "inside in" if lead in PLAIN_LEADS else "inside")

    def _add_clock(self, day: FoundTime) -> FoundTime:
        """Return a day with the clock time after it."""
        m = self._words.clock.match(self._text, day.end)
        if not m or day.at_ms is not None or self._on.unit_of(day.window) != "day":
            return day
        return self._set_clock(m, self._on.calendar.to_local(day.window.start_ms).date(), day)

    def _set_clock(self, m: re.Match[str], date: dt.date, day: FoundTime) -> FoundTime:
        """Return `day` narrowed to a clock time."""
        text = (m["clock"] or m["hour"]).lower().replace(" ", "")
        hour, _, minute = re.sub("[^0-9:]", "", text).partition(":")
        hours = 12 if text in self._words.noons else int(hour)
        if text.endswith(("am", "pm")):
            hours = hours % 12 + 12 * text.endswith("pm")
        at = self._on.minute_ms(date, hours * 60 + int(minute or 0))
        alone = TimeWindow(at, at + (_MINUTE_MS if m["clock"] else _HOUR_MS))
        if m["around"]:
            return replace(day, window=TimeWindow(at - _HOUR_MS, at + _HOUR_MS), end=m.end())
        return replace(day, window=alone, end=m.end(), at_ms=at)

    def _resolve_clocked(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the time of "noon yesterday"."""
        if lead in INSIDE:
            return None
        lead_match = self._words.lead.match(self._text, m.end() + 1)
        begin = lead_match.end() if lead_match else m.end() + 1
        day = self.read_point(begin, "inside on") if self._text[m.end() : m.end() + 1] == " " else None
        if day and day.at_ms is None and self._on.unit_of(day.window) == "day":
            point = self._set_clock(m, self._on.calendar.to_local(day.window.start_ms).date(), day)
            return replace(point, end=day.end)
        today = self._on.day_window(self._on.today)
        whole_day = FoundTime(today, m.start(), m.end(), floating=True, needs_day=lead in PAIR_LEADS)
        point = self._set_clock(m, self._on.today, whole_day)
        if lead != "since":
            return point if whole_day.needs_day else None
        return point if point.first_ms <= self._on.now_ms else self._set_clock(m, self._on.today - DAY, whole_day)

    def _resolve_instant(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the minute or second of 2026-01-30T14:00."""
        local = dt.datetime.fromisoformat(m["stamp"].upper().replace(" ", "T"))
        zone = (m["zone"] or "").upper()
        offset = dt.datetime.fromisoformat(f"2000-01-01T00:00{zone.replace('Z', '+00:00')}").tzinfo
        at = round(local.replace(tzinfo=offset or self._on.calendar.zone).timestamp() * 1000)
        if at <= 0 or lead in INSIDE:
            return None
        length = _SECOND_MS if m["stamp"].count(":") == 2 else _MINUTE_MS
        return FoundTime(TimeWindow(at, at + length), m.start(), m.end(), at_ms=at)

    def _resolve_iso(self, m: re.Match[str], _lead: str) -> TimeWindow:
        """Return the time of 2026-01-30, 2026-W04, 2026-W04-2 or 2026-01; ValueError if impossible."""
        year, part = int(m["iso"]), m["part"]
        if part[:1] in "wW":
            week = self._on.week_window(year, int(part[1:3]))
            return self._on.nth_within(week, "day", int(part[4:])) or week if part[3:] else week
        if len(part) == 2:
            return self._on.months_window(year, int(part), 1)
        return self._on.day_window(dt.date.fromisoformat(f"{year}-{part}"))

    def _resolve_numeric(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the day of 2026/01/30 or 30.1.2026."""
        if m["y"]:
            return self._on.day_window(dt.date(int(m["y"]), int(m["b"]), int(m["a"])))
        day, month = int(m["d"]), int(m["m"])
        if m["by"] != "." and day <= 12 and month <= 12 and day != month:
            return None
        day, month = (month, day) if m["by"] != "." and month > 12 else (day, month)
        return self._on.day_window(dt.date(int(m["year"]), month, day))

    def _resolve_days(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the days of "Jan 30", "the 3rd to the 5th of January"."""
        month = self._parse_month(m["m"], is_sure=bool(lead or m["n"] or (m["fixed"] and m["m"].lower() in self._words.months)))
        first, last = (int(re.sub(r"\D", "", text)) for text in (m["d"], m["e"] or m["d"]))
        if not month or last < first:
            return None
        year = self._parse_year(m["fixed"]) if m["fixed"] else self._on.latest_year(month, first)
        return self._on.days_window(dt.date(year, month, first), dt.date(year, month, last) + DAY)

    def _resolve_nth(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the first week of March, the last Friday of December."""
        period, unit = self._read_inner(m.end(), lead), m["u"].lower()
        number = self._words.ordinals[m["n"].lower()]
        weekday = self._words.weekdays.get(unit)
        window = self._on.nth_within(period.window, unit if weekday is None else weekday, number) if period else None
        return replace(period, window=window) if period and window else None

    def _resolve_nth_day(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the day of "on the 3rd", the latest."""
        return self._on.nth_day_window(int(re.sub(r"\D", "", m["d"]))) if lead in {"on", "since"} else None

    def _resolve_third(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the time of "early 2025" or "the end of May"."""
        period, which = self._read_inner(m.end(), lead), self._words.thirds[(m["third"] or m["of"]).lower()]
        window = self._on.third_of(period.window, which) if period else None
        dates = self._on.local_dates(window) if window else None
        if dates and which == 2 and lead == "before":
            window = self._on.days_window(dates[1] - DAY, dates[1])
        return replace(period, window=window) if period and window else None

    def _resolve_month(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the month of "in January"."""
        name = m["m"].lower()
        is_led = lead in _PERIOD_LEADS and not (lead == "from" and name in self._words.named_months)
        is_sure = lead in PLAIN_LEADS
        if m["fixed"]:
            is_led, is_sure = True, bool(lead) or (name in self._words.months and m["fixed"].isdigit())
        elif name not in self._words.months:
            is_led = lead in PAIR_LEADS or (lead in PLAIN_LEADS | INSIDE and m["m"].istitle())
        number = self._parse_month(m["m"], is_sure=is_sure) if is_led else 0
        if not number:
            return None
        return self._on.months_window(self._parse_year(m["fixed"]) if m["fixed"] else self._on.latest_year(number), number, 1)

    def _parse_month(self, name: str, *, is_sure: bool) -> int:
        """Return the number of a month."""
        word = name.lower()
        is_doubtful = word in self._words.doubtful_months and not is_sure and not name.istitle()
        return 0 if is_doubtful else self._words.months.get(word) or self._words.short_months[word]

    def _parse_year(self, text: str) -> int:
        """Return the year of "2025", or of "last year"."""
        return int(text) if text.isdigit() else self._on.today.year - self._words.shifts[text.lower().split()[0]]

    def _resolve_quarter(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the quarter of "Q3 2025" or "2025-Q3"."""
        if not m["fixed"] and lead not in _PERIOD_LEADS:
            return None
        text = m["q"].lower()
        month = (int(text) if text.isdigit() else self._words.ordinals[text]) * 3 - 2
        year = self._parse_year(m["fixed"]) if m["fixed"] else self._on.latest_year(month)
        return self._on.months_window(year, month, 3)

    def _resolve_half(self, m: re.Match[str], _lead: str) -> TimeWindow:
        """Return the half year of "H1 2025" or "H1 last year"."""
        return self._on.months_window(self._parse_year(m["fixed"]), int(m["h"]) * 6 - 5, 6)

    def _resolve_week(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the week of "week 4 of 2026"."""
        if m["plain"] and not (m["y"] or lead):
            return None
        year = self._on.today.isocalendar().year
        if not m["y"] and self._on.week_window(year, int(m["k"])).start_ms > self._on.now_ms:
            year -= 1
        return self._on.week_window(int(m["y"] or year), int(m["k"]))

    def _resolve_week_of(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the week of May 5."""
        day = self._read_inner(m.end(), lead)
        if not day or self._on.unit_of(day.window) != "day":
            return None
        reference = self._on.seen_from(day.window.start_ms)
        if m["end"]:
            return replace(day, window=reference.weekend_window(0)) if reference.today.weekday() >= 5 else None
        return replace(day, window=reference.period_window("week", 0))

    def _resolve_part_of(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the hours of "the morning of 5 June"."""
        day = self._read_inner(m.end(), lead)
        if not day or self._on.unit_of(day.window) != "day":
            return None
        date = self._on.calendar.to_local(day.window.start_ms).date()
        return replace(day, window=self._on.day_window(date, self._hours_of(m["part"])))

    def _resolve_beside(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the Saturday after October 28, two days before 5 June."""
        reference, name, words = self._read_inner(m.end(), lead), m["u"].lower(), self._words
        weekday = words.weekdays.get(name)
        count = 1
        if m["n"]:
            count = self._parse_count(m["n"]) if weekday is None else abs(words.ordinals.get(m["n"].lower(), 0))
        if not reference or not count:
            return None
        unit = words.units.get(name, "weekend") if weekday is None else weekday
        as_span = not m["n"] or lead in _SPAN_LEADS or self._has_the(m)
        window = self._on.window_beside(reference.window, unit, count, words.sides[m["side"].lower()], as_span=as_span)
        return replace(reference, window=window) if window else None

    def _resolve_lasting(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the last units up to now for "seit zwei Wochen"."""
        return self._on.rolling_window(self._words.units[m["u"].lower()], self._parse_count(m["n"])) if lead == "since" else None

    def _resolve_year(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the year of "in 2025" or "the year 2025"."""
        year, is_led = int(m["fixed"]), lead in _PERIOD_LEADS or bool(m["word"])
        return self._on.months_window(year, 1, 12) if is_led and year <= self._on.today.year else None

    def _resolve_season(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the season of "summer 2025"."""
        name = (m["s"] or m["bare"]).lower()
        month = self._words.seasons[name]
        if m["s"]:
            return self._on.months_window(self._parse_year(m["fixed"]), month, 3)
        return self._on.season_window(month, None) if lead in PLAIN_LEADS and name not in self._words.doubtful_seasons else None

    def _resolve_shifted_season(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the season of "last summer" or "this summer"."""
        return (
            None
            if self._is_the_last(m)
            else self._on.season_window(self._words.seasons[m["s"].lower()], self._periods_back(m["w"]))
        )

    def _resolve_named(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the time of "today", "yesterday evening", "last night"."""
        words = " ".join(m["words"].lower().split())
        back, part = self._words.named_days[words]
        if words in self._words.doubtful_days and not (m["part"] or self._words.speaks.search(self._text)):
            return None
        is_last = words.startswith("last") and self._has_the(m)
        is_name = " " not in words and self._words.owner_before.search(self._text[max(0, m.start() - BACK) : m.start()])
        return (
            None
            if is_last or is_name
            else self._on.day_window(self._on.today - dt.timedelta(days=back), self._hours_of(part or m["part"]))
        )

    def _hours_of(self, part: str | None) -> tuple[int, int] | None:
        return self._words.day_parts[part.lower()] if part else None

    def _resolve_ago(self, m: re.Match[str], lead: str) -> TimeWindow | FoundTime | None:
        """Return the week of "two weeks ago", about "two hours ago"."""
        unit, count = self._words.units[m["u"].lower()], self._parse_count(m["n"]) if m["n"] else 2
        if lead in {"over", "within"}:
            return None
        if unit not in SECONDS:
            return self._on.period_window(unit, count)
        at = self._on.now_ms - count * SECONDS[unit] * 1000
        return FoundTime(self._on.window_ago(unit, count), m.start(), m.end(), at_ms=at) if lead not in INSIDE else None

    def _resolve_shifted(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the week of "last week", the days of "past week"."""
        shift, unit = self._periods_back(m["w"]), self._words.units[m["u"].lower()]
        if m["n"]:
            return self._on.rolling_window(unit, self._parse_count(m["n"])) if shift == 1 else None
        if unit in {"minute", "second", "day"} or self._is_the_last(m):
            return self._on.rolling_window(unit, 1) if lead in _SPAN_LEADS and shift else None
        if m["w"].lower().split()[-1] == "past" or (shift and unit in {"hour", "fortnight"}):
            return self._on.rolling_window(unit, 1)
        return self._on.period_window(unit, shift) if unit not in SECONDS and unit != "fortnight" else None

    def _resolve_shifted_month(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the month of "last March" or "this March"."""
        number = self._parse_month(m["m"], is_sure=False)
        is_before = self._periods_back(m["w"]) > 0 and number >= self._on.today.month
        return self._on.months_window(self._on.today.year - is_before, number, 1) if number else None

    def _resolve_weekday(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the latest past day of "on Tuesday", "last Tuesday"."""
        number, word = self._words.weekdays[m["name"].lower()], m["fixed"] or ""
        has_sign = word or m["part"] or m["before"] or self._text.startswith(POSSESSIVES, m.end())
        # "The Saturday after the release" is relative to something unknown.
        is_beside = not m["before"] and self._words.side.match(self._text, m.end()) and self._has_the(m)
        if is_beside or not (has_sign or lead in _WEEKDAY_LEADS):
            return None
        ahead = number - self._on.today.weekday()
        days = ahead if word and not self._periods_back(word) else ahead % 7 - (14 if m["before"] else 7)
        return self._on.day_window(self._on.today + dt.timedelta(days=days), self._hours_of(m["part"]))

    def _resolve_week_and_day(self, m: re.Match[str], lead: str) -> FoundTime | None:
        """Return the day of "Tuesday of last week"."""
        week, number = self._read_inner(m.end(), lead), self._words.weekdays[m["name"].lower()]
        window = self._on.nth_within(week.window, "day", number + 1) if week and self._on.unit_of(week.window) == "week" else None
        return replace(week, window=window) if week and window else None

    def _resolve_weekend(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the days of "last weekend" or "over the weekend"."""
        if m["w"] and not self._is_the_last(m):
            return self._on.weekend_window(self._periods_back(m["w"]))
        return self._on.weekend_window(None) if not m["w"] and lead in _WEEKEND_LEADS else None

    def _resolve_inside_unit(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the current period, for "the (end of the) month"."""
        return self._on.period_window(self._words.units[m["u"].lower()], 0) if lead in INSIDE else None

    def _periods_back(self, words: str) -> int:
        return self._words.shifts[" ".join(words.lower().split())]

    def _parse_count(self, text: str) -> int:
        return int(text) if text.isdigit() else max(self._words.numbers.get(word, 0) for word in text.lower().split())

    def _is_the_last(self, m: re.Match[str]) -> bool:
        """Return whether "the" before "last" makes it one of many."""
        return m["w"].lower() == "last" and self._has_the(m)

    def _has_the(self, m: re.Match[str]) -> bool:
        return bool(self._words.the_before.search(self._text[max(0, m.start() - BACK) : m.start()]))


Resolver = Callable[[PointResolver, re.Match[str], str], TimeWindow | FoundTime | None]
#: The resolvers by the names that forms use.
RESOLVERS: Mapping[str, Resolver] = {
    name.removeprefix("_resolve_"): method for name, method in vars(PointResolver).items() if name.startswith("_resolve_")
}
