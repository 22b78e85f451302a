"""Compute the window on a calendar of each form of a point in time."""

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
class Found:
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
        """Beginning of a range that begins with this: its instant if it names one, else that of the window; UTC milliseconds."""
        return self.window.start_ms if self.at_ms is None else self.at_ms

    @property
    def last_ms(self) -> int:
        """End of a range that ends with this: its instant if it names one, else that of the window; UTC milliseconds."""
        return self.window.end_ms if self.at_ms is None else self.at_ms


class Points(ABC):
    """Resolves matches of forms. Every method returns None if the match is no time after that leading word."""

    def __init__(self, text: str, windows: Windows, language: Language) -> None:
        """Read `text` with one language's words; `windows` is the calendar as seen from today."""
        self.begins = language.begins
        self._text = text
        self._on = windows
        self._words = language

    @abstractmethod
    def point(self, i: int, lead: str) -> Found | None:
        """Return the time, without a range or bound, at a place after a leading word ("" for none); None where there is none."""

    def _inner(self, i: int, lead: str) -> Found | None:
        """Return the time that a part is of: "last month" in "the end of last month"; None without it or for a part of a part."""
        if lead in INSIDE:
            return None
        while i < len(self._text) and self._text[i] in " -":
            i += 1
        return self.point(i, "inside in" if lead in PLAIN_LEADS else "inside")

    def _at_clock(self, day: Found) -> Found:
        """Return a day with the clock time behind it, if it is one whole day and there is one; else the day unchanged."""
        m = self._words.clock.match(self._text, day.end)
        if not m or day.at_ms is not None or self._on.unit(day.window) != "day":
            return day
        return self._clock(m, self._on.calendar.to_local(day.window.start_ms).date(), day)

    def _clock(self, m: re.Match[str], date: dt.date, day: Found) -> Found:
        """Return `day` narrowed to a clock time: a minute, an hour where no minute is said, an hour to each side for "around"."""
        text = (m["clock"] or m["hour"]).lower().replace(" ", "")
        hour, _, minute = re.sub("[^0-9:]", "", text).partition(":")
        hours = 12 if text in self._words.noons else int(hour)
        if text.endswith(("am", "pm")):
            hours = hours % 12 + 12 * text.endswith("pm")
        at = self._on.at(date, hours * 60 + int(minute or 0))
        alone = TimeWindow(at, at + (_MINUTE_MS if m["clock"] else _HOUR_MS))
        if m["around"]:
            return replace(day, window=TimeWindow(at - _HOUR_MS, at + _HOUR_MS), end=m.end())
        return replace(day, window=alone, end=m.end(), at_ms=at)

    def _resolve_clock(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the time of "noon yesterday"; without a day the latest after "since", or one a range completes, else None."""
        if lead in INSIDE:
            return None
        lead_match = self._words.lead.match(self._text, m.end() + 1)
        begin = lead_match.end() if lead_match else m.end() + 1
        day = self.point(begin, "inside on") if self._text[m.end() : m.end() + 1] == " " else None
        if day and day.at_ms is None and self._on.unit(day.window) == "day":
            point = self._clock(m, self._on.calendar.to_local(day.window.start_ms).date(), day)
            return replace(point, end=day.end)
        whole_day = Found(self._on.day(self._on.today), m.start(), m.end(), floating=True, needs_day=lead in PAIR_LEADS)
        point = self._clock(m, self._on.today, whole_day)
        if lead != "since":
            return point if whole_day.needs_day else None
        return point if point.first_ms <= self._on.now_ms else self._clock(m, self._on.today - DAY, whole_day)

    def _instant(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the minute, or the second if given, of 2026-01-30T14:00 with or without a zone; None before 1970."""
        local = dt.datetime.fromisoformat(m["stamp"].upper().replace(" ", "T"))
        zone = (m["zone"] or "").upper()
        offset = dt.datetime.fromisoformat(f"2000-01-01T00:00{zone.replace('Z', '+00:00')}").tzinfo
        at = round(local.replace(tzinfo=offset or self._on.calendar.zone).timestamp() * 1000)
        if at <= 0 or lead in INSIDE:
            return None
        length = _SECOND_MS if m["stamp"].count(":") == 2 else _MINUTE_MS
        return Found(TimeWindow(at, at + length), m.start(), m.end(), at_ms=at)

    def _iso(self, m: re.Match[str], _lead: str) -> TimeWindow:
        """Return the day, week or month of 2026-01-30, 2026-W04, 2026-W04-2 or 2026-01. ValueError for an impossible one."""
        year, part = int(m["iso"]), m["part"]
        if part[:1] in "wW":
            week = self._on.week(year, int(part[1:3]))
            return self._on.nth(week, "day", int(part[4:])) or week if part[3:] else week
        if len(part) == 2:
            return self._on.months(year, int(part), 1)
        return self._on.day(dt.date.fromisoformat(f"{year}-{part}"))

    def _numeric(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the day of 2026/01/30 or 30.1.2026; of 30/1/2026 and 1/30/2026 only if one order is possible, else None."""
        if m["y"]:
            return self._on.day(dt.date(int(m["y"]), int(m["b"]), int(m["a"])))
        day, month = int(m["d"]), int(m["m"])
        if m["by"] != "." and day <= 12 and month <= 12 and day != month:
            return None
        day, month = (month, day) if m["by"] != "." and month > 12 else (day, month)
        return self._on.day(dt.date(int(m["year"]), month, day))

    def _days(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the days of "Jan 30", "the 3rd to the 5th of January"; without a year the latest; None for a doubtful month."""
        month = self._month_number(m["m"], is_sure=bool(lead or m["n"] or (m["fixed"] and m["m"].lower() in self._words.months)))
        first, last = (int(re.sub(r"\D", "", text)) for text in (m["d"], m["e"] or m["d"]))
        if not month or last < first:
            return None
        year = self._year_number(m["fixed"]) if m["fixed"] else self._on.begun(month, first)
        return self._on.days(dt.date(year, month, first), dt.date(year, month, last) + DAY)

    def _nth_of(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the first week of March, the last Friday of December, the second half of 2025; None where it has none such."""
        period, unit = self._inner(m.end(), lead), m["u"].lower()
        number = self._words.ordinals[m["n"].lower()]
        weekday = self._words.weekdays.get(unit)
        window = self._on.nth(period.window, unit if weekday is None else weekday, number) if period else None
        return replace(period, window=window) if period and window else None

    def _nth_day(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the day of "on the 3rd", the latest; None after another word than "on" and "since"."""
        return self._on.nth_day(int(re.sub(r"\D", "", m["d"]))) if lead in {"on", "since"} else None

    def _third(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the time of "early 2025" or "the end of May", after "before" its last day; None if no whole period follows."""
        period, which = self._inner(m.end(), lead), self._words.thirds[(m["third"] or m["of"]).lower()]
        window = self._on.third(period.window, which) if period else None
        dates = self._on.dates(window) if window else None
        if dates and which == 2 and lead == "before":
            window = self._on.days(dates[1] - DAY, dates[1])
        return replace(period, window=window) if period and window else None

    def _month(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the month of "in January"; without a year the latest begun; None where no word says it is a month."""
        name = m["m"].lower()
        is_led = lead in _PERIOD_LEADS and not (lead == "from" and name in self._words.named_months)
        is_sure = lead in PLAIN_LEADS
        if m["fixed"]:
            is_led, is_sure = True, bool(lead) or (name in self._words.months and m["fixed"].isdigit())
        elif name not in self._words.months:
            is_led = lead in PAIR_LEADS or (lead in PLAIN_LEADS | INSIDE and m["m"].istitle())
        number = self._month_number(m["m"], is_sure=is_sure) if is_led else 0
        if not number:
            return None
        return self._on.months(self._year_number(m["fixed"]) if m["fixed"] else self._on.begun(number), number, 1)

    def _month_number(self, name: str, *, is_sure: bool) -> int:
        """Return the number of a month; 0 for an ordinary word in lower case that nothing makes a month."""
        word = name.lower()
        is_doubtful = word in self._words.doubtful_months and not is_sure and not name.istitle()
        return 0 if is_doubtful else self._words.months.get(word) or self._words.short_months[word]

    def _year_number(self, text: str) -> int:
        """Return the year of "2025", or of "last year" as counted from the current one."""
        return int(text) if text.isdigit() else self._on.today.year - self._words.shifts[text.lower().split()[0]]

    def _quarter(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the quarter of "Q3 2025" or "2025-Q3"; of "in Q3" the latest begun; None for a bare "Q3"."""
        if not m["fixed"] and lead not in _PERIOD_LEADS:
            return None
        text = m["q"].lower()
        month = (int(text) if text.isdigit() else self._words.ordinals[text]) * 3 - 2
        year = self._year_number(m["fixed"]) if m["fixed"] else self._on.begun(month)
        return self._on.months(year, month, 3)

    def _half(self, m: re.Match[str], _lead: str) -> TimeWindow:
        """Return the half year of "H1 2025", or of "H1 last year"."""
        return self._on.months(self._year_number(m["fixed"]), int(m["h"]) * 6 - 5, 6)

    def _week(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the week of "week 4 of 2026"; without a year the latest begun. None for a bare "week 4"."""
        if m["plain"] and not (m["y"] or lead):
            return None
        year = self._on.today.isocalendar().year
        if not m["y"] and self._on.week(year, int(m["k"])).start_ms > self._on.now_ms:
            year -= 1
        return self._on.week(int(m["y"] or year), int(m["k"]))

    def _week_of(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the week of May 5; "the weekend of" a Saturday or Sunday. None where no single day follows."""
        day = self._inner(m.end(), lead)
        if not day or self._on.unit(day.window) != "day":
            return None
        reference = self._on.seen_from(day.window.start_ms)
        if m["end"]:
            return replace(day, window=reference.weekend(0)) if reference.today.weekday() >= 5 else None
        return replace(day, window=reference.period("week", 0))

    def _part_of(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the hours of "the morning of 5 June"; None where no one day follows."""
        day = self._inner(m.end(), lead)
        if not day or self._on.unit(day.window) != "day":
            return None
        return replace(day, window=self._on.day(self._on.calendar.to_local(day.window.start_ms).date(), self._hours(m["part"])))

    def _beside(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the Saturday after October 28, two days before 5 June, the week after that of May 5; None where unclear."""
        reference, name, words = self._inner(m.end(), lead), m["u"].lower(), self._words
        weekday = words.weekdays.get(name)
        count = 1 if not m["n"] else abs(words.ordinals.get(m["n"].lower(), 0)) if weekday is not None else self._count(m["n"])
        if not reference or not count:
            return None
        unit = words.units.get(name, "weekend") if weekday is None else weekday
        as_span = not m["n"] or lead in _SPAN_LEADS or self._has_the(m)
        window = self._on.beside(reference.window, unit, count, words.sides[m["side"].lower()], as_span=as_span)
        return replace(reference, window=window) if window else None

    def _lasting(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the last units up to now for "seit zwei Wochen", where other languages say "since two weeks ago"; else None."""
        return self._on.rolling(self._words.units[m["u"].lower()], self._count(m["n"])) if lead == "since" else None

    def _year(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the year of "in 2025" or "the year 2025"; None for a future year, which is a number."""
        year, is_led = int(m["fixed"]), lead in _PERIOD_LEADS or bool(m["word"])
        return self._on.months(year, 1, 12) if is_led and year <= self._on.today.year else None

    def _season(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the season of "summer 2025"; of "in summer" the latest begun; else None. A winter has the year it begins in."""
        name = (m["s"] or m["bare"]).lower()
        month = self._words.seasons[name]
        if m["s"]:
            return self._on.months(self._year_number(m["fixed"]), month, 3)
        return self._on.season(month, None) if lead in PLAIN_LEADS and name not in self._words.doubtful_seasons else None

    def _shifted_season(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the season of "last summer", the latest over, or "this summer", running or this year's; None for "the last"."""
        return None if self._is_the_last(m) else self._on.season(self._words.seasons[m["s"].lower()], self._shift(m["w"]))

    def _resolve_day_name(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the time of "today", "yesterday evening", "last night"; None for "the last night" and "the today page"."""
        words = " ".join(m["words"].lower().split())
        back, part = self._words.named_days[words]
        if words in self._words.doubtful_days and not (m["part"] or self._words.speaks.search(self._text)):
            return None
        is_last = words.startswith("last") and self._has_the(m)
        is_name = " " not in words and self._words.owner_before.search(self._text[max(0, m.start() - BACK) : m.start()])
        return (
            None if is_last or is_name else self._on.day(self._on.today - dt.timedelta(days=back), self._hours(part or m["part"]))
        )

    def _hours(self, part: str | None) -> tuple[int, int] | None:
        """Return the hours (first, after the last) of a part of a day; None for no part."""
        return self._words.day_parts[part.lower()] if part else None

    def _ago(self, m: re.Match[str], lead: str) -> TimeWindow | Found | None:
        """Return the week of "two weeks ago", the time about "two hours ago", 2 back if uncounted; None after over and within."""
        unit, count = self._words.units[m["u"].lower()], self._count(m["n"]) if m["n"] else 2
        if lead in {"over", "within"}:
            return None
        if unit not in SECONDS:
            return self._on.period(unit, count)
        at = self._on.now_ms - count * SECONDS[unit] * 1000
        return Found(self._on.ago(unit, count), m.start(), m.end(), at_ms=at) if lead not in INSIDE else None

    def _resolve_shift(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the week of "last week" or "this week", the days up to now of "the last three weeks" or "the past week".

        "Last day" and "the last week" are the days up to now after "over", "within" and the like, and else None.
        """
        shift, unit = self._shift(m["w"]), self._words.units[m["u"].lower()]
        if m["n"]:
            return self._on.rolling(unit, self._count(m["n"])) if shift == 1 else None
        if unit in {"minute", "second", "day"} or self._is_the_last(m):
            return self._on.rolling(unit, 1) if lead in _SPAN_LEADS and shift else None
        if m["w"].lower().split()[-1] == "past" or (shift and unit in {"hour", "fortnight"}):
            return self._on.rolling(unit, 1)
        return self._on.period(unit, shift) if unit not in SECONDS and unit != "fortnight" else None

    def _shifted_month(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Return the month of "last March", the latest that is over, or "this March", this year's; None for a doubtful word."""
        number = self._month_number(m["m"], is_sure=False)
        is_before = self._shift(m["w"]) > 0 and number >= self._on.today.month
        return self._on.months(self._on.today.year - is_before, number, 1) if number else None

    def _weekday(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the latest past day of "on Tuesday", "last Tuesday", this week's of "this Tuesday"; None for a bare weekday."""
        number, word = self._words.weekdays[m["name"].lower()], m["fixed"] or ""
        has_sign = word or m["part"] or m["before"] or self._text.startswith(POSSESSIVES, m.end())
        # "The Saturday after the release" is relative to something unknown.
        is_beside = not m["before"] and self._words.side.match(self._text, m.end()) and self._has_the(m)
        if is_beside or not (has_sign or lead in _WEEKDAY_LEADS):
            return None
        ahead = number - self._on.today.weekday()
        days = ahead if word and not self._shift(word) else ahead % 7 - (14 if m["before"] else 7)
        return self._on.day(self._on.today + dt.timedelta(days=days), self._hours(m["part"]))

    def _week_and_day(self, m: re.Match[str], lead: str) -> Found | None:
        """Return the day of "Tuesday of last week" or "Friday two weeks ago"; None where no whole week follows."""
        week, number = self._inner(m.end(), lead), self._words.weekdays[m["name"].lower()]
        window = self._on.nth(week.window, "day", number + 1) if week and self._on.unit(week.window) == "week" else None
        return replace(week, window=window) if week and window else None

    def _weekend(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the days of "last weekend" or "over the weekend"; the latest begun if no word says which; else None."""
        if m["w"] and not self._is_the_last(m):
            return self._on.weekend(self._shift(m["w"]))
        return self._on.weekend(None) if not m["w"] and lead in _WEEKEND_LEADS else None

    def _inside_unit(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Return the current period, for "the (end of the) month"; None outside of such a phrase."""
        return self._on.period(self._words.units[m["u"].lower()], 0) if lead in INSIDE else None

    def _shift(self, words: str) -> int:
        """Return how many periods back words such as "last" (1) or "this" (0) mean. Raises KeyError for other words."""
        return self._words.shifts[" ".join(words.lower().split())]

    def _count(self, text: str) -> int:
        """Return a count in figures, or the largest of the number words in a text; 0 where none is one."""
        return int(text) if text.isdigit() else max(self._words.numbers.get(word, 0) for word in text.lower().split())

    def _is_the_last(self, m: re.Match[str]) -> bool:
        """Return whether "the" before "last" makes it one of many: the last week we deployed."""
        return m["w"].lower() == "last" and self._has_the(m)

    def _has_the(self, m: re.Match[str]) -> bool:
        """Return whether an article of `the_before` is directly before a match; False in a language without these."""
        return bool(self._words.the_before.search(self._text[max(0, m.start() - BACK) : m.start()]))


Resolver = Callable[[Points, re.Match[str], str], TimeWindow | Found | None]
#: What a form names its resolver by.
RESOLVERS: Mapping[str, Resolver] = {
    "clocked": Points._resolve_clock,
    "instant": Points._instant,
    "iso": Points._iso,
    "numeric": Points._numeric,
    "days": Points._days,
    "nth": Points._nth_of,
    "nth_day": Points._nth_day,
    "third": Points._third,
    "month": Points._month,
    "quarter": Points._quarter,
    "half": Points._half,
    "week": Points._week,
    "week_of": Points._week_of,
    "part_of": Points._part_of,
    "beside": Points._beside,
    "lasting": Points._lasting,
    "year": Points._year,
    "season": Points._season,
    "shifted_season": Points._shifted_season,
    "named": Points._resolve_day_name,
    "ago": Points._ago,
    "shifted": Points._resolve_shift,
    "shifted_month": Points._shifted_month,
    "weekday": Points._weekday,
    "week_and_day": Points._week_and_day,
    "weekend": Points._weekend,
    "inside_unit": Points._inside_unit,
}
