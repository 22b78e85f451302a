"""Chinese and Japanese: times in text without spaces. Only shapes whose reading is certain are read."""

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Mapping

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.question.timehints.windows import DAY, SECONDS, Windows

#: Number of false times from which a text is no question.
_MOST_BLOCKED = 8
_YEAR_MS = 364 * 86_400_000
_HAS_CJK = lazy_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_KANA = lazy_pattern("[\u3040-\u30ff]")
#: Titles and quotations: times in them mean nothing.
_QUOTED = lazy_pattern('「[^」]*」|『[^』]*』|“[^”]*”|《[^》]*》|"[^"]*"|`[^`]*`')
_NUMERALS = {c: n for n, c in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2, "兩": 2}
_WEEKDAYS = {c: n for n, c in enumerate("一二三四五六日")} | {c: n for n, c in enumerate("月火水木金土")} | {"天": 6}
_BACK = {"上上": 2, "先々": 2, "上": 1, "先": 1, "这": 0, "這": 0, "本": 0, "今": 0}
_YEARS_BACK = {"一昨": 2, "去": 1, "昨": 1, "今": 0}
_DAYS_BACK = {"大前天": 3, "前天": 2, "一昨日": 2, "おととい": 2}
_DAYS_BACK |= {"昨天": 1, "昨日": 1, "昨晚": 1, "昨夜": 1, "昨晩": 1, "きのう": 1}
_DAYS_BACK |= {"今天": 0, "今日": 0, "今早": 0, "今朝": 0, "今晚": 0, "今晩": 0}
_PARTS = {"早": (5, 12), "朝": (5, 12), "上午": (5, 12), "午前": (5, 12), "下午": (12, 18), "午後": (12, 18)}
_PARTS |= {"晚": (18, 24), "晩": (18, 24), "夜": (18, 24)}
_SEASONS = {"春": 3, "夏": 6, "秋": 9, "冬": 12}
_THIRDS = {"初": 0, "上旬": 0, "中旬": 1, "下旬": 2, "底": 2, "末": 2}
_UNITS = {"天": "day", "日": "day", "周": "week", "週": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year"}
_UNITS |= {"小时": "hour", "小時": "hour", "時間": "hour", "分": "minute", "秒": "second"}


def _any_of(words: Mapping[str, object]) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


#: Before a counted month or week.
_COUNTER = "(?:个|個|か|カ|ヶ|ヵ|ケ)"
_PIECES = {
    "year": r"(?<!\d)(?:(?P<y>(?:19[89]|20\d)\d|二[〇零一二三四五六七八九]{3})|(?P<yb>" + _any_of(_YEARS_BACK) + "))年的?の?",
    "month": "(?<![0-9個个か月ヶ第])(?P<m>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月(?!間|间|曜)",
    "day": "(?P<d>3[01]|[12][0-9]|0?[1-9]|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])[日号號](?!間|间|曜)",
    "third": f"(?P<third>{_any_of(_THIRDS)})",
    "week": "(?:个|個)?(?:周|週|星期|礼拜|禮拜)",
    "back": f"(?<![日基根以])(?P<back>{_any_of(_BACK)})",
    "number": r"(?<![\d第一二三四五六七八九十])(?P<n>[1-9]\d{0,2}|[一二三四五六七八九两兩]|十[一二三四五六七八九]?)",
    "unit": f"(?:{_COUNTER}?(?P<u>天|日|周|週|星期|礼拜|年|小时|小時|時間|分|秒)|{_COUNTER}(?P<mu>月))(?:間|间|钟|鐘)?",
    "part": f"(?:の?(?P<part>{_any_of(_PARTS)})(?![餐饭飯会會])[上晨间間]?)?",
    "wd": "(?:(?:的|の)?(?P<wj>[月火水木金土日])曜日?|(?P<w>[一二三四五六日天])(?![共起直定样些次个個下本点段])|(?P<end>末))?",
}


@dataclass(frozen=True, slots=True)
class TimePhrase:
    """A window, the places of its words, and where the question goes on."""

    window: TimeWindow
    start: int
    end: int
    behind: int


def _compile_template(template: str) -> re.Pattern[str]:
    return lazy_pattern(re.sub(r"\{([a-z]+)\}", lambda m: _PIECES[m[1]], template))


def _parse_number(text: str) -> int:
    """Return the number written as 12, 十二 or 二〇二三; ValueError or KeyError else."""
    if text.isdigit() and text.isascii():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return _NUMERALS.get(tens, 1) * 10 + _NUMERALS.get(ones, 0)
    return int("".join(str(_NUMERALS[c]) for c in text))


def _year_of(m: re.Match[str], on: Windows) -> int | None:
    """Return a match's year, in figures or relative (去年)."""
    return _parse_number(m["y"]) if m["y"] else on.today.year - _YEARS_BACK[m["yb"]] if m["yb"] else None


def _read_date(m: re.Match[str], on: Windows) -> TimeWindow:
    """Return the day of 2023年10月28日 or 10月28日, or its part."""
    month, day = _parse_number(m["m"]), _parse_number(m["d"])
    return on.day_window(dt.date(_year_of(m, on) or on.latest_year(month, day), month, day), _hours_of(m))


def _read_iso(m: re.Match[str], on: Windows) -> TimeWindow:
    """Raises ValueError for an impossible date."""
    return on.day_window(dt.date(int(m["y"]), int(m["m"]), int(m["d"])))


def _read_month(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the month, or its third, of 2026年1月 or 1月."""
    month = _parse_number(m["m"])
    return _take_third(on.months_window(_year_of(m, on) or on.latest_year(month), month, 1), m, on)


def _take_third(window: TimeWindow, m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return a window's beginning, middle or end, where named."""
    return on.third_of(window, _THIRDS[m["third"]]) if m["third"] else window


def _read_season(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the season of 2025年夏 or 去年夏; None without a year."""
    year = _year_of(m, on)
    return on.months_window(year, _SEASONS[m["s"]], 3) if year else None


def _read_year(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the year, or its third, of 2025年 or 去年."""
    year = _year_of(m, on)
    return _take_third(on.months_window(year, 1, 12), m, on) if year and year <= on.today.year else None


def _read_week(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the week of 上周, or a day of it."""
    week = on.period_window("week", _BACK[m["back"]])
    if m["end"]:
        return on.weekend_window(_BACK[m["back"]])
    name = m["w"] or m["wj"]
    return on.nth_within(week, "day", _WEEKDAYS[name] + 1) if name else week


def _read_month_back(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the month, or its third, of 上个月 or 先月."""
    return _take_third(on.period_window("month", _BACK[m["back"]]), m, on)


def _find_named_day(m: re.Match[str], on: Windows) -> TimeWindow:
    """Return the day of 昨天, or a part of it."""
    word = m["word"]
    part = next((hours for name, hours in _PARTS.items() if word.endswith(name)), None)
    return on.day_window(on.today - dt.timedelta(days=_DAYS_BACK[word]), part or _hours_of(m))


def _hours_of(m: re.Match[str]) -> tuple[int, int] | None:
    """Return the hours (first, after the last) of a day's part."""
    return _PARTS[m["part"]] if m["part"] else None


def _read_ago(m: re.Match[str], on: Windows) -> TimeWindow | None:
    """Return the period of 三天前, the time around 2時間前."""
    unit = _UNITS[m["u"] or m["mu"]]
    if m["u"] == "日" and not _KANA.search(m.string):
        return None
    return on.window_ago(unit, _parse_number(m["n"])) if unit in SECONDS else on.period_window(unit, _parse_number(m["n"]))


def _read_rolling(m: re.Match[str], on: Windows) -> TimeWindow:
    """Return the window of 最近三天, up to today or now."""
    return on.rolling_window(_UNITS[m["u"] or m["mu"]], _parse_number(m["n"]))


_Resolver = Callable[[re.Match[str], Windows], TimeWindow | None]
#: The longer of two that begin at one place first.
_FORMS: tuple[tuple[re.Pattern[str], _Resolver], ...] = (
    (
        _compile_template(r"(?<![0-9A-Za-z_.\-/])(?P<y>20\d\d)[-/](?P<m>[01]?\d)[-/](?P<d>[0-3]?\d)(?![0-9A-Za-z.\-/:])"),
        _read_iso,
    ),
    (_compile_template("(?:{year})?{month}{day}{part}"), _read_date),
    (_compile_template("(?:{year})?{month}(?![0-9]{1,2}[日号號])份?(?:(?:的|の)?{third})?"), _read_month),
    (_compile_template("{year}(?P<s>[春夏秋冬])[天季]?"), _read_season),
    (_compile_template("{year}(?![0-9一二三四五六七八九十]+月){third}?"), _read_year),
    (_compile_template("{back}{week}(?!期)(?!年|刊){wd}"), _read_week),
    (_compile_template("{back}(?:个|個)?月(?!曜){third}?"), _read_month_back),
    (_compile_template(f"(?P<word>{_any_of(_DAYS_BACK)})(?<!今日(?=本)){{part}}"), _find_named_day),
    (_compile_template("{number}{unit}(?:之|以)?前(?!後|后)"), _read_ago),
    (_compile_template("(?:最近|过去|過去|近|这|這|ここ|直近|この)(?:的|の)?{number}{unit}(?!前)"), _read_rolling),
)
#: Before a time these make it another one, or turn it round.
_BLOCKED = lazy_pattern("(?:不是|除了|并非|非|[每毎]年?|下|来|來|翌|明)$")
_RANGE_END = lazy_pattern("(?:まで|为止|為止|之间|之間|の間)")
_SINCE = lazy_pattern("(?:自从|自從|自|从|從)$")
_UNTIL = lazy_pattern("(?:到|截至|截止)$")
_BESIDE = lazy_pattern(
    "(?:(?:之|以)?[后後]|の次)(?:的|の)?(?:第一个|第一個|那个|那個|最初の)?(?:(?:周|週|星期|礼拜)(?P<w>[一二三四五六日天])|(?P<wj>[月火水木金土日])曜日?)"
)
_BOUNDS = (
    (lazy_pattern("(?:以来|以來|以降|から(?!い)|起|开始|開始)"), "since"),
    (lazy_pattern("(?:之后|以后|之後|以後|より後)"), "after"),
    (lazy_pattern("(?:之前|以前|より前)"), "before"),
    (lazy_pattern("(?:まで|为止|為止)"), "until"),
)
_JOINT = lazy_pattern("(?:から|到|至|～|〜|~|和|与|與|と)")
_PARTICLE = lazy_pattern("[的のには、，]*")


def find_phrase(query: str, on: Windows) -> TimePhrase | None:
    """Return the first time that a Chinese or Japanese text names.

    None for any other text. One that a word before it denies or moves is skipped; after 8 of them the text is no question.
    """
    if query.isascii() or not _HAS_CJK.search(query):
        return None
    text = "".join(n if len(n := unicodedata.normalize("NFKC", c)) == 1 else c for c in query)
    text = _QUOTED.sub(lambda m: "\0" * len(m.group()), text)
    next_start = 0
    for _ in range(_MOST_BLOCKED):
        match = _find_next(text, next_start, on)
        if not match:
            return None
        window, start, end = match
        if not _BLOCKED.search(text[max(0, start - 2) : start]):
            return _extend_phrase(text, window, start, end, on)
        next_start = end
    return None


def _find_next(text: str, at: int, on: Windows) -> tuple[TimeWindow, int, int] | None:
    """Return the first possible time at or after a place."""
    matches = [(m.start(), number, m) for number, (form, _) in enumerate(_FORMS) if (m := form.search(text, at))]
    for start, number, m in sorted(matches, key=lambda f: f[:2]):
        try:
            window = _FORMS[number][1](m, on)
        except (ValueError, OverflowError, OSError):
            continue
        if window is not None:
            return window, start, m.end()
    return None


def _extend_phrase(text: str, window: TimeWindow, start: int, end: int, on: Windows) -> TimePhrase:
    """Return the phrase of a time with what is around it."""
    neighbour = _BESIDE.match(text, end)
    weekday = _WEEKDAYS[neighbour["w"] or neighbour["wj"]] if neighbour else 0
    if neighbour and (near := on.window_beside(window, weekday, 1, 1, as_span=False)):
        return _make_phrase(text, near, start, neighbour.end())
    joined = _read_range(text, window, start, end, on)
    if joined:
        return joined
    kind, last = next(((kind, m.end()) for form, kind in _BOUNDS if (m := form.match(text, end))), ("", end))
    previous = text[max(0, start - 2) : start]
    led = _SINCE.search(previous) or _UNTIL.search(previous)
    if led and kind in {"", "since"}:
        kind = kind or ("since" if _SINCE.search(previous) else "until")
        start -= len(led.group())
    tomorrow = on.calendar.midnight_of(on.today + DAY)
    first = {"since": window.start_ms, "after": window.end_ms, "": window.start_ms}.get(kind, 0)
    after = {"before": window.start_ms, "until": window.end_ms, "": window.end_ms}.get(kind, tomorrow)
    return _make_phrase(text, TimeWindow(first, after), start, last) if first < after else _make_phrase(text, window, start, end)


def _read_range(text: str, window: TimeWindow, start: int, end: int, on: Windows) -> TimePhrase | None:
    """Return the range of 从3月到5月 or 3月から5月まで."""
    joint = _JOINT.match(text, end)
    other = _find_next(text, joint.end(), on) if joint else None
    if not joint or not other or other[1] != joint.end():
        return None
    second = text[joint.end() : other[2]]
    if "年" in text[start:end] and "月" in second and "年" not in second:
        other = _find_next(text, joint.end(), on.seen_from(min(window.start_ms + _YEAR_MS, on.now_ms))) or other
    if other[0].end_ms <= window.start_ms:
        return None
    closing = _RANGE_END.match(text, other[2])
    start -= bool(_SINCE.search(text[max(0, start - 1) : start]))
    return _make_phrase(text, TimeWindow(window.start_ms, other[0].end_ms), start, closing.end() if closing else other[2])


def _make_phrase(text: str, window: TimeWindow, start: int, end: int) -> TimePhrase:
    """Return a phrase and the place after its particles."""
    particle = _PARTICLE.match(text, end)
    return TimePhrase(window, start, end, particle.end() if particle else end)
