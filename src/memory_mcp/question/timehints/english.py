"""English: its words for times, and the forms of its phrases."""

import re

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.question.timehints.language import CLOCK, DATE, OFFSET, Language, any_of, compile_template

_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)}
_SHORT_MONTHS = {name[:3]: n for name, n in _MONTHS.items() if name != "may"} | {"sept": 9}
_WEEKDAYS = {name: n for n, name in enumerate("monday tuesday wednesday thursday friday saturday sunday".split())}
_NUMBERS = {name: n for n, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "couple": 2, "few": 3}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "last": -1}
_DAY_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
_NAMED_DAYS = {"today": (0, ""), "yesterday": (1, ""), "day before yesterday": (2, ""), "tonight": (0, "night")}
_NAMED_DAYS |= {"last night": (1, "night"), "last evening": (1, "evening"), "night before last": (2, "night")}
_NAMED_DAYS |= {f"this {part}": (0, part) for part in ("morning", "afternoon", "evening")}
_THIRDS = {"early": 0, "mid": 1, "late": 2, "beginning": 0, "start": 0, "middle": 1, "end": 2}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_SHIFTS = {"this": 0, "last": 1, "previous": 1, "past": 1, "this past": 1}
_UNIT_NAMES = "second minute hour day week fortnight month quarter year".split()
_UNITS = {name + s: name for name in _UNIT_NAMES for s in ("", "s")}
_UNITS |= {"sec": "second", "secs": "second", "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour"}
_UNITS |= {"h": "hour", "d": "day", "w": "week"}
_SIDES = {"after": 1, "following": 1, "before": -1, "preceding": -1}
_BOUNDS = {"since": "since", "before": "before", "prior to": "before", "earlier than": "before"}
_BOUNDS |= {"after": "after", "later than": "after", "until": "until", "till": "until", "up to": "until"}
_LEADS = {word: word for word in "in on at during of from for over within throughout between earlier".split()}
_PAIRS = {"between": "between", "from": "from", "since": "from"}
#: After "the week before last"; a noun ("last release") would make it something else.
_GOES_ON = """about and or but for from in on at with to we i you he she they it that when where who what which how why was
    were is are did do had has have regarding concerning""".split()

_PIECES = {
    "in_year": ",? (?:of )?(?P<fixed>{year}|(?:this|last|previous) year)",
    "day": r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?(?!\w)",
    "to_day": "(?:(?:{joint}| and )(?:the )?(?P<e>{day})(?! {month}))?",
    "month": any_of(_MONTHS | _SHORT_MONTHS),
    "weekday": any_of(_WEEKDAYS),
    "season": any_of(_SEASONS),
    "named": "(?P<n>(?:{shift} )?{weekday},? (?:the )?)?",
    "shift": any_of(_SHIFTS),
    "unit": any_of(_UNIT_NAMES),
    "units": any_of(_UNITS),
    "number": r"(?:[1-9]\d{0,2}|an?|(?:an? )?(?:couple(?: of)?|few)|" + any_of(_NUMBERS) + ")",
    "counting": r"(?P<n>{number})(?: |(?<=\d))(?P<u>{units})",
    "joint": r"(?: (?:to|through|until|till) | ?(?:-|–|\.\.) ?)",
    "part": f"(?: (?P<part>{any_of(_DAY_PARTS)}))?",
    "clock": rf"(?:(?P<clock>{CLOCK}(?: ?[ap]m)?)|(?P<hour>(?:1[0-2]|[1-9]) ?[ap]m|noon))",
    "not_of": r"(?! of (?:the|this|that|last|each|every|an?|{month}|{yyyy}|q[1-4])(?!\w))",
    "not_beside": "(?! (?:in )?(?:the )?(?:(?:{shift}|{number}) {unit}|{unit} before))",
    "goes_on": rf"(?=['’,.;:!?)]| ?$| {any_of(_GOES_ON)}(?!\w))",
}
_YEAR, _ANY_MONTH, _COUNTS = ["0000"], [*_MONTHS, *_SHORT_MONTHS], ["0", *_NUMBERS]
_THIRD = any_of(word for word in _THIRDS if word not in {"early", "mid", "late"})

_PHRASES = (
    ("instant", _YEAR, rf"(?P<stamp>{DATE}(?:t| ){CLOCK}(?::[0-5]\d)?)(?:[.,]\d{{1,9}})?(?P<zone>{OFFSET})?"),
    (
        "iso",
        ["0000", *_WEEKDAYS, *_SHIFTS],
        r"{named}(?P<iso>{yyyy})-(?P<part>\d\d-\d\d|w\d\d(?:-[1-7])?|(?:0[1-9]|1[0-2])(?!-))",
    ),
    (
        "numeric",
        ["0", "0000"],
        r"(?P<y>{yyyy})/(?P<b>\d\d)/(?P<a>\d\d)|(?P<d>\d\d?)(?P<by>[./-])(?P<m>\d\d?)(?P=by)(?P<year>{yyyy})",
    ),
    ("clocked", ["0", "noon", "around", "about"], "(?:(?P<around>around|about) )?{clock}"),
    ("days", [*_ANY_MONTH, *_WEEKDAYS, *_SHIFTS], "{named}(?P<m>{month}) (?P<d>{day}){to_day}{of_year}(?! {counted})"),
    (
        "days",
        ["0", *_WEEKDAYS, *_SHIFTS],
        "{named}(?P<d>{day})(?:(?:{joint}| and )(?:the )?(?P<e>{day}))? (?:of )?(?P<m>{month}){of_year}",
    ),
    ("nth", ["0", *_ORDINALS], f"(?P<n>{any_of(_ORDINALS)}) (?P<u>day|week|half|quarter|{{weekday}}) of"),
    ("nth_day", ["0"], r"(?P<d>\d\d?(?:st|nd|rd|th))(?! (?:and|or) \d){goes_on}"),
    ("third", _THIRDS, f"(?P<third>early|mid|late)(?: in)?|(?P<of>{_THIRD}) of"),
    ("month", _ANY_MONTH, "(?P<m>{month}){of_year}"),
    ("quarter", _YEAR, r"(?P<fixed>{yyyy})[-\s]q(?P<q>[1-4])"),
    ("quarter", ["q"], "q(?P<q>[1-4]){of_year}"),
    ("half", ["h"], "h(?P<h>[12]){in_year}"),
    ("week_of", ["week", "weekend"], "week(?P<end>end)? of"),
    ("part_of", _DAY_PARTS, f"(?P<part>{any_of(_DAY_PARTS)}) of"),
    (
        "beside",
        ["0", *_NUMBERS, *_ORDINALS, *_WEEKDAYS, *_UNITS, "weekend"],
        f"(?:(?P<n>{{number}}|{any_of(_ORDINALS)}) )?(?P<u>{{weekday}}|{{units}}|weekend) (?P<side>{any_of(_SIDES)})",
    ),
    ("week", ["week", "calendar"], r"(?:calendar week|(?P<plain>week)) (?P<k>\d\d?)(?:,?(?: of)? (?P<y>{year})|(?! of\b))(?!\w)"),
    ("year", ["0000", "year"], "(?P<word>year )?(?P<fixed>{year})"),
    ("season", _SEASONS, "(?P<s>{season}){in_year}|(?P<bare>{season}){goes_on}"),
    ("shifted_season", _SHIFTS, "(?P<w>{shift}) (?P<s>{season}){goes_on}"),
    ("week_and_day", _WEEKDAYS, "(?P<name>{weekday}),?(?: of| in)?(?= (?:the )?(?:{shift}|{number}|week) )"),
    ("weekday", _WEEKDAYS, "(?P<fixed>)(?P<part>)(?P<name>{weekday})(?P<before> before last){goes_on}"),
    ("weekday", [*_WEEKDAYS, *_SHIFTS], "(?:(?P<fixed>{shift}) )?(?P<name>{weekday}){part}{not_of}{not_beside}(?P<before>)?"),
    ("weekend", [*_SHIFTS, "weekend"], "(?P<w>{shift}) weekend{not_of}|weekend{goes_on}"),
    ("named", _NAMED_DAYS, f"(?P<words>{any_of(_NAMED_DAYS)}){{part}}{{not_of}}"),
    ("ago", _COUNTS, "{counting} ago"),
    ("ago", _UNIT_NAMES, "(?P<n>)(?P<u>week|month|quarter|year) before last(?: (?P=u))?{goes_on}"),
    ("shifted", _SHIFTS, "(?P<w>{shift}) {counting}{not_of}"),
    ("shifted", _SHIFTS, "(?P<w>{shift})(?P<n>) (?P<u>{unit}){not_of}"),
    ("shifted_month", _SHIFTS, f"(?P<w>this|last|previous) (?P<m>{any_of(_MONTHS)})(?! {{yyyy}}){{not_of}}"),
    ("inside_unit", _UNIT_NAMES, r"(?<=the\s)(?P<u>week|month|quarter|year)"),
)

ENGLISH = Language(
    months=_MONTHS,
    short_months=_SHORT_MONTHS,
    weekdays=_WEEKDAYS,
    numbers=_NUMBERS,
    ordinals=_ORDINALS,
    named_days=_NAMED_DAYS,
    day_parts=_DAY_PARTS,
    thirds=_THIRDS,
    seasons=_SEASONS,
    shifts=_SHIFTS,
    units=_UNITS,
    sides=_SIDES,
    noons=frozenset({"noon"}),
    leads=_LEADS,
    bounds=_BOUNDS,
    pairs=_PAIRS,
    doubtful_months=frozenset("may march mar dec oct sep".split()),
    named_months=frozenset({"april", "may", "june"}),
    doubtful_seasons=frozenset({"spring", "fall"}),
    negations=frozenset("by not except excluding than half".split()),
    blockers=frozenset("next every each over within black version revision since before after until till".split()),
    articles=compile_template("(?:the )?"),
    the_before=compile_template(r"\bthe \Z"),
    owner_before=compile_template(r"\b(?:the|an?|this|that|my|your|his|her|its|our|their) \Z"),
    unit_before=compile_template(rf"\b(?:{any_of(_UNIT_NAMES)}s?|{any_of(_DAY_PARTS)}) \Z"),
    joint=lazy_pattern(compile_template("{joint}", _PIECES).pattern + rf"|(?<=\d)/(?={DATE})", re.I),
    conjunction=compile_template(" and "),
    clock=compile_template(",? (?:(?P<around>around|about) |at )?{clock}" + r"(?!\w)", _PIECES),
    phrases=_PHRASES,
    pieces=_PIECES,
    article_words="the",
)
