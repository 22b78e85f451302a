"""German: its words for times, and the forms of its phrases."""

from memory_mcp.question.timehints.language import CLOCK, Language, any_of, compile_template

_MONTH_NAMES = "januar februar märz april mai juni juli august september oktober november dezember".split()
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)} | {"jänner": 1}
_WEEKDAYS = {name: n for n, name in enumerate("montag dienstag mittwoch donnerstag freitag samstag sonntag".split())}
_WEEKDAYS |= {"sonnabend": 5}
_NUMBERS = {name: n for n, name in enumerate("eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(), 1)}
_NUMBERS |= {"einer": 1, "einem": 1, "ein paar": 3, "paar": 3}
_ORDINALS = {stem + end: n for n, stem in enumerate(("erste", "zweite", "dritte", "vierte"), 1) for end in ("", "n", "s")}
_DAY_PARTS = {"morgen": (5, 12), "früh": (5, 12), "vormittag": (5, 12), "mittag": (11, 14), "nachmittag": (12, 18)}
_DAY_PARTS |= {"abend": (18, 24), "nacht": (18, 30)}
_NAMED_DAYS = {"heute": (0, ""), "gestern": (1, ""), "vorgestern": (2, ""), "letzte nacht": (1, "night")}
_THIRDS = {"anfang": 0, "mitte": 1, "ende": 2}
_SEASONS = {"frühling": 3, "frühjahr": 3, "sommer": 6, "herbst": 9, "winter": 12}
_STEMS = {"dies": 0, "letzt": 1, "vorig": 1, "vergangen": 1, "vorletzt": 2}
_SHIFTS = {stem + end: n for stem, n in _STEMS.items() for end in ("e", "en", "er", "es", "em")}
_UNIT_WORDS = {"second": "sekunde sekunden", "minute": "minute minuten", "hour": "stunde stunden", "day": "tag tage tagen"}
_UNIT_WORDS |= {"week": "woche wochen", "month": "monat monats monate monaten"}
_UNIT_WORDS |= {"quarter": "quartal quartals quartale quartalen", "year": "jahr jahres jahre jahren"}
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_SIDES = {"nach": 1, "vor": -1}
_BOUNDS = {"seit": "since", "ab": "since", "vor": "before", "nach": "after"}
_BOUNDS |= {"bis": "until", "bis zum": "until", "bis zur": "until"}
_LEADS = {"in": "in", "im": "in", "am": "on", "an": "on", "vom": "from", "von": "from"}
_LEADS |= {"während": "during", "zwischen": "between"}
_PAIRS = {"zwischen": "between", "von": "from", "vom": "from", "seit": "from", "ab": "from"}

_PIECES = {
    "in_year": ",? (?P<fixed>{year}|{shift} jahres)",
    "month": any_of(_MONTHS),
    "weekday": any_of(_WEEKDAYS),
    "shift": any_of(_SHIFTS),
    "unit": any_of(name for name in _UNITS if not name.endswith("n")),
    "number": rf"(?:[1-9]\d{{0,2}}|{any_of([*_NUMBERS, *_ORDINALS])})",
    "counting": rf"(?P<n>[1-9]\d{{0,2}}|{any_of(_NUMBERS)}) (?P<u>{any_of(_UNITS)})",
    "joint": r"(?: bis (?:zu[mr] )?| ?(?:-|–|\.\.) ?)",
    "day": r"(?:3[01]|[12]\d|0?[1-9])\.",
    "clock": rf"(?:(?P<clock>{CLOCK})(?: uhr)?|(?P<hour>(?:2[0-3]|1\d|\d) uhr))",
}

_PHRASES = (
    ("iso", ["0000"], r"(?P<iso>{yyyy})-(?P<part>\d\d-\d\d|w\d\d(?:-[1-7])?|(?:0[1-9]|1[0-2])(?!-))"),
    ("numeric", ["0"], r"(?P<y>)(?P<d>\d\d?)(?P<by>\.)(?P<m>\d\d?)\.(?P<year>{yyyy})"),
    (
        "beside",
        ["0", *_NUMBERS, *_ORDINALS, *_WEEKDAYS, *_UNITS, "wochenende"],
        f"(?:(?P<n>{{number}}) )?(?P<u>{{weekday}}|{any_of(_UNITS)}|wochenende) (?P<side>{any_of(_SIDES)})",
    ),
    (
        "days",
        ["0", *_WEEKDAYS],
        "(?P<n>{weekday},? (?:de[nm] )?)?(?P<d>{day})(?:(?:{joint}| und )(?:dem )?(?P<e>{day}))? (?P<m>{month}){of_year}",
    ),
    ("third", _THIRDS, "(?P<third>)(?P<of>anfang|mitte|ende)"),
    ("month", _MONTHS, "(?P<m>{month}){of_year}"),
    ("quarter", ["q"], "q(?P<q>[1-4]){of_year}"),
    ("quarter", _ORDINALS, f"(?P<q>{any_of(_ORDINALS)}) quartal{{of_year}}"),
    ("week", ["kw", "kalenderwoche", "woche"], r"(?:kw|kalenderwoche|(?P<plain>woche)) (?P<k>\d\d?)(?: (?P<y>{year}))?(?!\w)"),
    ("year", ["0000", "jahr"], "(?P<word>jahr )?(?P<fixed>{year})"),
    ("season", _SEASONS, f"(?P<bare>)(?P<s>{any_of(_SEASONS)}){{in_year}}"),
    ("shifted_season", _SHIFTS, f"(?P<w>{{shift}}) (?P<s>{any_of(_SEASONS)})"),
    ("week_and_day", _WEEKDAYS, "(?P<name>{weekday})(?= {shift} woche)"),
    (
        "weekday",
        [*_SHIFTS, *_WEEKDAYS, *(day + part for day in _WEEKDAYS for part in _DAY_PARTS)],
        f"(?P<before>)(?:(?P<fixed>{{shift}}) )?(?P<name>{{weekday}})(?: ?(?P<part>{any_of(_DAY_PARTS)}))?",
    ),
    ("weekend", [*_SHIFTS, "wochenende"], "(?:(?P<w>{shift}) )?wochenende"),
    ("named", _NAMED_DAYS, f"(?P<words>{any_of(_NAMED_DAYS)})(?: (?P<part>{any_of(_DAY_PARTS)}))?"),
    ("ago", ["vor"], "vor {counting}"),
    ("lasting", ["0", *_NUMBERS], "{counting}"),
    ("shifted", _SHIFTS, "(?P<w>{shift}) {counting}"),
    ("shifted", _SHIFTS, "(?P<w>{shift})(?P<n>) (?P<u>{unit})"),
    ("shifted_month", _SHIFTS, f"(?P<w>{{shift}}) (?P<m>{any_of(_MONTHS)})(?! {{yyyy}})"),
    ("inside_unit", _UNITS, r"(?<=des\s)(?P<u>monats|quartals|jahres)"),
)

GERMAN = Language(
    months=_MONTHS,
    weekdays=_WEEKDAYS,
    numbers=_NUMBERS,
    ordinals=_ORDINALS,
    named_days=_NAMED_DAYS,
    day_parts=_DAY_PARTS | {"night": (18, 30)},
    thirds=_THIRDS,
    seasons=_SEASONS,
    shifts=_SHIFTS,
    units=_UNITS,
    sides=_SIDES,
    leads=_LEADS,
    bounds=_BOUNDS,
    pairs=_PAIRS,
    negations=frozenset("nicht außer ohne kein keine keinen".split()),
    blockers=frozenset(
        "jeden jede jedes nächsten nächste nächster nächstes kommenden kommende kommendes alle seit vor nach bis".split()
    ),
    articles=compile_template("(?:(?:de[mnrs]|die|das) )?"),
    joint=compile_template("{joint}", _PIECES),
    conjunction=compile_template(" und "),
    clock=compile_template(",? (?P<around>gegen )?(?:um )?{clock}" + r"(?!\w)", _PIECES),
    phrases=_PHRASES,
    pieces=_PIECES,
    article_words="dem der den die das des",
)
