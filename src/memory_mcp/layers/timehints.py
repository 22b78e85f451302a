"""A question in, the window of time it names out: "what broke last week" is a week and "what broke". Pure.

Invariants
1. Exact rather than broad: what may be an ordinary word (may, march, a bare 2025) is no time without a word that says so.
2. Whole words only, never across punctuation; paths, versions and what stands in double quotes or backticks mean nothing.
3. The first phrase of the question wins; words that turn it round (not, except, by, next, ...) leave it unread.
4. Windows are made of local days, but for parts of a day. "The last N days" is whole days, so nothing of N x 24 hours is cut.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from memory_mcp.model.calendar import Calendar, TimeWindow

# The words of the language. Another one is another set of these tables, and its word order in the forms below.
_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)}
_SHORT_MONTHS = {name[:3]: n for name, n in _MONTHS.items() if name != "may"} | {"sept": 9}
_WEEKDAYS = {name: n for n, name in enumerate("monday tuesday wednesday thursday friday saturday sunday".split())}
_NUMBERS = {name: n for n, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "couple": 2, "few": 3}
#: Days back, with a part of the day where the word has one.
_NAMED_DAYS = {"today": (0, ""), "yesterday": (1, ""), "day before yesterday": (2, ""), "tonight": (0, "night")}
_NAMED_DAYS |= {"last night": (1, "night"), "last evening": (1, "evening")}
_NAMED_DAYS |= {f"this {part}": (0, part) for part in ("morning", "afternoon", "evening")}
#: Local hours, from and up to; the night ends on the next day.
_DAY_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
#: Days of the month, from and to.
_MONTH_PARTS = {"early": (1, 10), "mid": (11, 20), "late": (21, 31)}
#: Periods before the current one.
_SHIFTS = {"this": 0, "last": 1, "previous": 1, "past": 1, "this past": 1}
_BOUNDS = {"since": "since", "before": "before", "prior to": "before", "earlier than": "before"}
_BOUNDS |= {"after": "after", "later than": "after", "until": "until", "till": "until", "up to": "until"}
#: Prepositions that lead a time and add nothing to it.
_NEUTRAL = "in on at during of from for over within throughout between".split()
#: What must lead a phrase that is no time by itself; "between" and "to" stand for the places in a range.
_PAIR_LEADS = {"between", "to"}
_WEEKDAY_LEADS = set("on from since before after until between to".split())
_PERIOD_LEADS = set("in during throughout of from since before after until between to".split())
_SPAN_LEADS = set("in during throughout over within for since".split())
#: After these an ordinary word in lower case is a month; "from" is no such word for a month that is a person's name.
_PLAIN_LEADS = {"in", "during", "since", "between"}
_ALSO_WORDS, _ALSO_NAMES = set("may march mar dec oct sep".split()), {"april", "may", "june"}
#: Before a time or its preposition these turn it round; the others, right before a time, make it another thing.
_NEGATIONS = "by not except excluding than half".split()
_BLOCKERS = "next every each over within black version revision since before after until till".split()
#: Nouns that make a number a count.
_COUNTED = """ms s secs? seconds? minutes? hours? h am pm days? weeks? months? times bytes? [kmg]b chars? tokens? words? lines?
    rows? files? items? entry entries events? messages? records? requests? query queries tests? errors? bugs? commits?""".split()
#: After "the week before last"; a noun ("last release") would make it something else.
_GOES_ON = """about and or but for from in on at with to we i you he she they it that when where who what which how why was
    were is are did do had has have regarding concerning""".split()


def _any(words: Iterable[str]) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


#: Parts of the forms below. What stands in the group `fixed` (a year, "last") says which Friday or January is meant.
_PIECES = {
    "yyyy": r"(?:197[1-9]|19[89]\d|20\d\d)",  # not the epoch's year: that is what a missing time looks like
    "year": r"{yyyy}(?! {counted})(?!\w)",
    "of_year": "(?:,? (?:of )?(?P<fixed>{year}|(?:this|last|previous) year))?",
    "day": r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?(?!\w)",
    "to_day": "(?:(?:{joint}| and )(?:the )?(?P<e>{day})(?! {month}))?",
    "month": _any(_MONTHS | _SHORT_MONTHS),
    "weekday": _any(_WEEKDAYS),
    "named": "(?P<n>(?:{shift} )?{weekday},? (?:the )?)?",
    "shift": _any(_SHIFTS),
    "unit": "(?:day|week|month|year)",
    "number": r"(?:[1-9]\d{0,2}|an?|(?:an? )?(?:couple(?: of)?|few)|" + _any(_NUMBERS) + ")",
    "counted": _any(_COUNTED) + r"(?!\w)",
    "joint": r"(?: (?:to|through|until|till) | ?(?:-|–|\.\.) ?)",
    "part": f"(?: (?P<part>{_any(_DAY_PARTS)}))?",
    "not_of": r"(?! of (?:the|this|that|last|each|every|an?|{month}|{yyyy}|q[1-4])(?!\w))",
    "not_beside": "(?! (?:in )?(?:the )?(?:(?:{shift}|{number}) {unit}|{unit} before))",
    "goes_on": rf"(?=['’,.;:!?)]| ?$| {_any(_GOES_ON)}(?!\w))",
}


def _form(template: str) -> re.Pattern[str]:
    """A phrase as a pattern: a space is white space, {piece} one of the pieces."""
    return re.compile("(?:" + _expand(template) + r")(?!\w)", re.I | re.A)


def _expand(template: str) -> str:
    text = re.sub(r"\{([a-z_]+)\}", lambda m: _expand(_PIECES[m[1]]), template)
    return text.replace(" ?", r"\s*").replace(" ", r"\s+")


_THE, _THE_BEFORE = re.compile(r"(?:the\s+)?", re.I), re.compile(r"\bthe\s+\Z", re.I)
_LEAD = re.compile(rf"({_any(_NEUTRAL)})\s+", re.I)
_BOUND = re.compile(_expand(f"({_any(_BOUNDS)}) "), re.I)
_PAIR = re.compile(r"(?:(between)|from|since)\s+", re.I)
_JOINT, _AND = re.compile(_expand("{joint}"), re.I), re.compile(r"\s+and\s+", re.I)
_AROUND = rf"(?:{_any(_NEGATIONS)} (?:(?:{_any(_NEUTRAL)}|the) )?|{_any(_BLOCKERS)} (?:the )?)\Z"
_BLOCKED = re.compile(_expand(r"(?<![^\s(])" + _AROUND), re.I)
_UNIT_BEFORE = re.compile(rf"\b(?:days?|weeks?|months?|years?|{_any(_DAY_PARTS)})\s+\Z", re.I)
_OPENING, _CLOSING, _POSSESSIVES = '([{"“', ")]}\"”'’,.;:!?…", ("'s", "’s", "'S", "’S")
_END = re.compile(rf"\Z|[\s{re.escape(_CLOSING)}](?!onwards?\b)")
_QUOTED = re.compile(r'"[^"]*"|`[^`]*`|“[^“”]*”')
#: A word that a phrase may be made of; any other (a path, a version, a name in code) is no word of the language.
_WORD = r"(?:{yyyy}(?:-\d\d-\d\d|-(?:0[1-9]|1[0-2]|w\d\d|q[1-4]))?|(?:early-|mid-|late-)?[a-z]+|q[1-4]|\d{1,3}(?:st|nd|rd|th)?)"
_PLAIN = re.compile(_expand(rf"{_WORD}(?:(?:\.\.|–){_WORD})?(?:['’]s)?|{{day}}[-–]{{day}}|-|–|\.\."), re.I | re.A)
_BACK, _WEEK = 40, dt.timedelta(days=7)  # the longest stretch looked back over; a week


@dataclass(frozen=True, slots=True)
class TimeHint:
    """The window meant, or None; the phrase as written, less a preposition that adds nothing; the question without both."""

    window: TimeWindow | None
    words: str
    rest: str


def find_time(query: str, now_ms: int, calendar: Calendar) -> TimeHint:
    """The first time the question names, relative to now on the user's calendar."""
    text, starts = _plain(query)
    reader = _Reader(text, dt.date.fromisoformat(calendar.day_of(now_ms)), calendar)
    for start in starts:
        found = reader.read(start)
        if found and _END.match(text, found.end):
            return TimeHint(found.window, query[found.start : found.end], _without(query, start, found.end))
    return TimeHint(None, "", " ".join(query.split()))


def _plain(query: str) -> tuple[str, list[int]]:
    """The question with all that is no plain word blanked out, place for place, and where its words begin."""
    text = re.sub(r"\s", " ", query)
    if not _QUOTED.fullmatch(text.strip()):
        text = _QUOTED.sub(lambda m: "\0" * len(m.group()), text)
    chars, starts = list(text), list[int]()
    for chunk in re.finditer(r"\S+", text):
        core = chunk.group().lstrip(_OPENING)
        start = chunk.end() - len(core)
        core = core.rstrip(_CLOSING)
        if _PLAIN.fullmatch(core):
            starts.append(start)
        else:
            chars[start : start + len(core)] = "\0" * len(core)
    return "".join(chars), starts


def _without(query: str, start: int, end: int) -> str:
    """The text around a cut, less the punctuation that only served the phrase."""
    left, right = query[:start].rstrip(), query[end:].lstrip()
    if left.endswith("(") and right.startswith(")"):
        left, right = left[:-1].rstrip(), right[1:].lstrip()
    if not left or not left[-1].isalnum():
        right = right.lstrip(",;: ")
    is_tail = right[:1] in tuple(_CLOSING) and not right[1:2].isalnum()
    rest = left.rstrip(",;: ") + right if is_tail else f"{left} {right}"
    return " ".join(rest.split()) if any(c.isalnum() for c in rest) else ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A phrase. Floating: which Friday or January it is depends on the day it is seen from."""

    window: TimeWindow
    start: int
    end: int
    floating: bool = False


class _Reader:
    """Reads phrases at a place in the text. Every method gives None where its form does not stand."""

    def __init__(self, text: str, today: dt.date, calendar: Calendar) -> None:
        self._text = text
        self._today = today
        self._calendar = calendar

    def read(self, i: int) -> _Found | None:
        """A range, a bound or a point; the longest form first."""
        if _BLOCKED.search(self._text[max(0, i - _BACK) : i]):
            return None
        return self._range(i) or self._bound(i) or self._led(i)

    def _led(self, i: int) -> _Found | None:
        """A point, or two with "and" between them."""
        m = _LEAD.match(self._text, i)
        begin, lead = (m.end(), m[1].lower()) if m and m[1].lower() != "between" else (m.end() if m else i, "")
        a = self._point(begin, lead)
        joint = _AND.match(self._text, a.end) if a else None
        b = self._point(joint.end(), "of" if lead in _PLAIN_LEADS else lead) if joint else None
        return self._joined(a, b, lead) if a and b else a

    def _range(self, i: int) -> _Found | None:
        """Between A and B; from A to B; A to B, where one of them must be a time by itself."""
        m = _PAIR.match(self._text, i)
        begin, lead = (m.end(), "between") if m else (i, "to")
        a = self._point(begin, lead)
        joint = (_AND if m and m[1] else _JOINT).match(self._text, a.end) if a else None
        b = self._point(joint.end(), lead) if joint else None
        if not a or not joint or not b or not (m or self._point(i, "") or self._point(joint.end(), "")):
            return None
        return replace(self._joined(a, b, lead), start=i)

    def _joined(self, a: _Found, b: _Found, lead: str) -> _Found:
        if a.floating and (lead in _PAIR_LEADS or not b.floating):  # the Friday before that Monday, the January of that year
            seen = dt.date.fromisoformat(self._calendar.day_of(b.window.start_ms))
            a = _Reader(self._text, seen, self._calendar)._point(a.start, lead) or a
        start, end = min(a.window.start_ms, b.window.start_ms), max(a.window.end_ms, b.window.end_ms)
        return _Found(TimeWindow(start, end), a.start, b.end)

    def _bound(self, i: int) -> _Found | None:
        """Since, before, after, until a point."""
        m = _BOUND.match(self._text, i)
        kind = _BOUNDS[" ".join(m[1].lower().split())] if m else ""
        if kind in {"before", "after"} and _UNIT_BEFORE.search(self._text[max(0, i - _BACK) : i]):
            return None  # "two days before yesterday"
        point = self._point(m.end(), kind) if m else None
        if not point:
            return None
        today = self._calendar.days(self._today, self._today + dt.timedelta(days=1))
        start = {"since": point.window.start_ms, "after": point.window.end_ms}.get(kind, 0)
        end = {"before": point.window.start_ms, "until": point.window.end_ms}.get(kind, today.end_ms)
        return _Found(TimeWindow(start, end), i, point.end) if start < end else None

    def _point(self, i: int, lead: str) -> _Found | None:
        """One day or period, after a leading word ("" for none); an impossible date is no time."""
        the = _THE.match(self._text, i)
        for form, resolve in _FORMS:
            m = form.match(self._text, the.end() if the else i)
            try:
                window = resolve(self, m, lead) if m else None
            except (ValueError, OverflowError):
                continue
            if window and m:
                end = m.end() + 2 * self._text.startswith(_POSSESSIVES, m.end())
                return _Found(window, i, end, m.groupdict("").get("fixed") == "")
        return None

    def _days(self, first: dt.date, after: dt.date) -> TimeWindow:
        window = self._calendar.days(first, after)
        if not 0 < window.start_ms < window.end_ms:  # before time began, or a day that a zone left out
            raise ValueError(first)
        return window

    def _months(self, year: int, month: int, count: int) -> TimeWindow:
        return self._days(_month(year, month), _month(year, month + count))

    def _day(self, day: dt.date, part: str | None = "") -> TimeWindow:
        midnight, zone = dt.datetime.combine(day, dt.time()), self._calendar.zone
        hours = (midnight + dt.timedelta(hours=h) for h in _DAY_PARTS[part.lower()]) if part else ()
        whole = self._days(day, day + dt.timedelta(days=1))
        return TimeWindow(*(round(h.replace(tzinfo=zone).timestamp() * 1000) for h in hours)) if part else whole

    def _period(self, unit: str, back: int) -> TimeWindow:
        """The day, week, month or year so many before the current one."""
        day = self._today
        if unit == "day":
            return self._day(day - dt.timedelta(days=back))
        if unit == "week":
            monday = day - dt.timedelta(days=day.weekday() + 7 * back)
            return self._days(monday, monday + _WEEK)
        return self._months(day.year, day.month - back, 1) if unit == "month" else self._months(day.year - back, 1, 12)

    def _rolling(self, unit: str, count: int) -> TimeWindow:
        """From so long ago up to and with today."""
        day = self._today
        if unit in {"day", "week"}:
            first = day - dt.timedelta(days=count * (7 if unit == "week" else 1))
        else:
            month = _month(day.year, day.month - count * (12 if unit == "year" else 1))
            first = min(month + dt.timedelta(days=day.day - 1), _month(month.year, month.month + 1) - dt.timedelta(days=1))
        return self._days(first, day + dt.timedelta(days=1))

    def iso(self, m: re.Match[str], _lead: str) -> TimeWindow:
        """2026-01-30, 2026-W04, 2026-01."""
        year, part = int(m["iso"]), m["part"]
        if part[:1] in "wW":
            monday = dt.date.fromisocalendar(year, int(part[1:]), 1)
            return self._days(monday, monday + _WEEK)
        return self._months(year, int(part), 1) if len(part) == 2 else self._day(dt.date.fromisoformat(f"{year}-{part}"))

    def days(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Jan 30, January 30th, 2026, 30 January, the 3rd to the 5th of January: the latest such day when no year is said."""
        month = self._month(m["m"], is_sure=bool(lead or m["n"] or (m["fixed"] and m["m"].lower() in _MONTHS)))
        first, last = (int(re.sub(r"\D", "", text)) for text in (m["d"], m["e"] or m["d"]))
        if not month or last < first:
            return None
        year = self._year(m["fixed"]) if m["fixed"] else self._begun(month, first)
        return self._days(dt.date(year, month, first), dt.date(year, month, last) + dt.timedelta(days=1))

    def month(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """January 2026, in January, late January, March last year: the latest begun when no year is said."""
        name, part = m["m"].lower(), (m["part"] or "").lower()
        is_led = part or (lead in _PERIOD_LEADS and not (lead == "from" and name in _ALSO_NAMES))
        is_sure = lead in _PLAIN_LEADS
        if m["fixed"]:
            is_led, is_sure = True, bool(lead) or (name in _MONTHS and m["fixed"].isdigit())
        elif name not in _MONTHS:
            is_led = lead in _PAIR_LEADS or (lead in _PLAIN_LEADS and m["m"].istitle())
        number = self._month(m["m"], is_sure=is_sure) if is_led else 0
        if not number:
            return None
        begin, end = _MONTH_PARTS.get(part, (1, 31))
        first = dt.date(self._year(m["fixed"]) if m["fixed"] else self._begun(number, begin), number, begin)
        after = min(first.replace(day=1) + dt.timedelta(days=end), _month(first.year, number + 1))
        return self._days(first, after)

    def _month(self, name: str, *, is_sure: bool) -> int:
        """Nought for an ordinary word, written as one, that nothing makes a month."""
        word = name.lower()
        is_doubtful = word in _ALSO_WORDS and not is_sure and not name.istitle()
        return 0 if is_doubtful else _MONTHS.get(word) or _SHORT_MONTHS[word]

    def _year(self, text: str) -> int:
        return int(text) if text.isdigit() else self._today.year - _SHIFTS[text.lower().split()[0]]

    def _begun(self, month: int, day: int = 1) -> int:
        """The latest year in which that date exists and has come."""
        now = self._today
        years = (y for y in range(now.year - 8, now.year + 1) if day <= (_month(y, month + 1) - _month(y, month)).days)
        return max(y for y in years if (y, month, day) <= (now.year, now.month, now.day))

    def quarter(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Q3 2025, 2025-Q3; in Q3: the latest begun."""
        month = int(m["q"]) * 3 - 2
        year = self._year(m["fixed"]) if m["fixed"] else self._begun(month)
        return self._months(year, month, 3) if m["fixed"] or lead in _PERIOD_LEADS else None

    def year(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """In 2025; a year to come is a number."""
        year = int(m["fixed"])
        return self._months(year, 1, 12) if lead in _PERIOD_LEADS and year <= self._today.year else None

    def named(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Today, yesterday evening, last night."""
        words = " ".join(m["words"].lower().split())
        back, part = _NAMED_DAYS[words]
        is_last = words.startswith("last") and self._has_the(m)
        return None if is_last else self._day(self._today - dt.timedelta(days=back), part or m["part"])

    def ago(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Three weeks ago, the week before last: the whole week."""
        return self._period(m["u"].lower(), _count(m["n"]) if m["n"] else 2) if lead not in {"over", "within"} else None

    def shifted(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """Last week, this week; the last three weeks, the past week, "in the last week": the days up to now."""
        word, unit = m["w"].lower().split()[-1], m["u"].lower()
        if m["n"]:
            return self._rolling(unit, _count(m["n"])) if word != "this" else None
        the_last = word == "last" and self._has_the(m)
        if (the_last or unit == "day") and lead not in _SPAN_LEADS:
            return None  # "the last week we deployed", "this day"
        if word == "past" or the_last:
            return self._rolling(unit, 1)
        return self._period(unit, _SHIFTS[word]) if unit != "day" else None

    def shifted_month(self, m: re.Match[str], _lead: str) -> TimeWindow | None:
        """Last March: the latest that is over."""
        number = self._month(m["m"], is_sure=False)
        is_before = _SHIFTS[m["w"].lower()] > 0 and number >= self._today.month
        return self._months(self._today.year - is_before, number, 1) if number else None

    def weekday(self, m: re.Match[str], lead: str) -> TimeWindow | None:
        """On Tuesday, last Tuesday: the latest past one; this Tuesday: the one of this week."""
        number, word = _WEEKDAYS[m["name"].lower()], (m["fixed"] or "").lower()
        if not (word or m["part"] or self._text.startswith(_POSSESSIVES, m.end()) or lead in _WEEKDAY_LEADS):
            return None
        ahead = number - self._today.weekday()
        return self._day(self._today + dt.timedelta(days=ahead if word == "this" else ahead % 7 - 7), m["part"])

    def _has_the(self, m: re.Match[str]) -> bool:
        return bool(_THE_BEFORE.search(self._text[max(0, m.start() - _BACK) : m.start()]))


def _month(year: int, month: int) -> dt.date:
    """First day of a month; months beyond a year's end or beginning count on."""
    index = year * 12 + month - 1
    return dt.date(index // 12, index % 12 + 1, 1)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else max(_NUMBERS.get(word, 0) for word in text.lower().split())


#: Each form of a point and what resolves it; the longer of two comes first.
_FORMS: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str], str], TimeWindow | None]], ...] = (
    (_form(r"{named}(?P<iso>{yyyy})-(?P<part>\d\d-\d\d|w\d\d|(?:0[1-9]|1[0-2])(?!-))"), _Reader.iso),
    (_form("{named}(?P<m>{month}) (?P<d>{day}){to_day}{of_year}(?! {counted})"), _Reader.days),
    (_form("{named}(?P<d>{day})(?:(?:{joint}| and )(?:the )?(?P<e>{day}))? (?:of )?(?P<m>{month}){of_year}"), _Reader.days),
    (_form(r"(?:(?P<part>early|mid|late)[-\s])?(?P<m>{month}){of_year}"), _Reader.month),
    (_form(r"(?P<fixed>{yyyy})[-\s]q(?P<q>[1-4])"), _Reader.quarter),
    (_form("q(?P<q>[1-4]){of_year}"), _Reader.quarter),
    (_form("(?P<fixed>{year})"), _Reader.year),
    (_form("(?:(?P<fixed>{shift}) )?(?P<name>{weekday}){part}{not_of}{not_beside}"), _Reader.weekday),
    (_form(f"(?P<words>{_any(_NAMED_DAYS)}){{part}}{{not_of}}"), _Reader.named),
    (_form("(?P<n>{number}) (?P<u>{unit})s? ago"), _Reader.ago),
    (_form("(?P<n>)(?P<u>week|month|year) before last(?: (?P=u))?{goes_on}"), _Reader.ago),
    (_form("(?P<w>{shift}) (?:(?P<n>{number}) )?(?P<u>{unit})(?(n)s?){not_of}"), _Reader.shifted),
    (_form(f"(?P<w>this|last|previous) (?P<m>{_any(_MONTHS)})(?! {{yyyy}}){{not_of}}"), _Reader.shifted_month),
)
