"""Spanish: its words for times, and the forms of its phrases."""

from memory_mcp.question.timehints.language import CLOCK, Language, any_of, compile_template

_MONTH_NAMES = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)} | {"setiembre": 9}
_WEEKDAYS = {name: n for n, name in enumerate("lunes martes miércoles jueves viernes sábado domingo".split())}
_WEEKDAYS |= {"miercoles": 2, "sabado": 5}
_NUMBERS = {name: n for n, name in enumerate("un dos tres cuatro cinco seis siete ocho nueve diez once doce".split(), 1)}
_NUMBERS |= {"una": 1, "unos": 3, "unas": 3}
_DAY_PARTS = {"mañana": (5, 12), "tarde": (12, 20), "noche": (18, 30), "night": (18, 30), "morning": (5, 12)}
_NAMED_DAYS = {"hoy": (0, ""), "ayer": (1, ""), "anteayer": (2, ""), "antes de ayer": (2, ""), "anoche": (1, "night")}
_NAMED_DAYS |= {"esta mañana": (0, "mañana"), "esta tarde": (0, "tarde"), "esta noche": (0, "noche")}
_THIRDS = {"principios": 0, "comienzos": 0, "mediados": 1, "finales": 2, "fines": 2}
_SEASONS = {"primavera": 3, "verano": 6, "otoño": 9, "invierno": 12}
_SHIFTS = {stem + end: 1 for stem in ("pasad", "últim", "ultim") for end in ("o", "a", "os", "as")}
_SHIFTS |= {"anterior": 1, "este": 0, "esta": 0}
_UNIT_WORDS = {"second": "segundo segundos", "minute": "minuto minutos", "hour": "hora horas", "day": "día días dia dias"}
_UNIT_WORDS |= {"week": "semana semanas", "month": "mes meses", "quarter": "trimestre trimestres", "year": "año años"}
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_PERIODS = ["semana", "mes", "trimestre", "año"]
_SIDES = {"después": 1, "siguiente": 1, "posterior": 1, "antes": -1, "anterior": -1}
_BOUNDS = {"desde": "since", "antes de": "before", "antes del": "before", "después de": "after", "después del": "after"}
_BOUNDS |= {"hasta": "until"}
_LEADS = {"en": "in", "durante": "during", "entre": "between", "de": "from", "del": "from"}
_PAIRS = {"entre": "between", "de": "from", "del": "from", "desde": "from"}

_PIECES = {
    "in_year": " (?:del? )?(?P<fixed>{year})",
    "month": any_of(_MONTHS),
    "weekday": any_of(_WEEKDAYS),
    "season": any_of(_SEASONS),
    "back": "(?:pasad[oa]|anterior)",
    "number": rf"(?:[1-9]\d{{0,2}}|{any_of(_NUMBERS)})",
    "counting": rf"(?P<n>{{number}}) (?P<u>{any_of(_UNITS)})",
    "joint": r"(?: (?:al?|hasta) | ?(?:-|–|\.\.) ?)",
    "day": r"(?:3[01]|[12]\d|[1-9])(?!\w)",
    "to_come": "(?! (?:próxim[oa]|que viene))",
}
_COUNTS = ["0", *_NUMBERS]

_PHRASES = (
    ("iso", ["0000"], r"(?P<iso>{yyyy})-(?P<part>\d\d-\d\d|(?:0[1-9]|1[0-2])(?!-))"),
    (
        "beside",
        [*_COUNTS, *_WEEKDAYS, *_UNITS],
        f"(?:(?P<n>{{number}}) )?(?P<u>{{weekday}}|{any_of(_UNITS)}) (?P<side>{any_of(_SIDES)}) (?:del?|al?)",
    ),
    (
        "days",
        ["0", *_WEEKDAYS],
        "(?P<n>{weekday},? )?(?P<d>{day})(?:(?:{joint}| y )(?:el )?(?P<e>{day}))? de (?P<m>{month}){of_year}{to_come}",
    ),
    ("third", _THIRDS, f"(?P<third>)(?P<of>{any_of(_THIRDS)}) del?"),
    ("month", [*_MONTHS, "mes"], "(?:mes de )?(?P<m>{month}){of_year}(?! pasado){to_come}"),
    ("year", ["0000", "año"], "(?P<word>año )?(?P<fixed>{year})"),
    ("season", _SEASONS, "(?P<bare>)(?P<s>{season}){in_year}"),
    ("shifted_season", _SEASONS, "(?P<s>{season}) (?P<w>pasad[oa])"),
    ("week_and_day", _WEEKDAYS, "(?P<name>{weekday}) de(?= la semana {back})"),
    ("weekday", _WEEKDAYS, "(?P<before>)(?P<part>)(?P<name>{weekday})(?: (?P<fixed>pasado))?{to_come}"),
    ("week", ["semana"], r"(?P<plain>semana) (?P<k>\d\d?)(?: (?:del? )?(?P<y>{year})|(?! del?\b))(?!\w)"),
    ("weekend", ["fin"], "fin de semana (?P<w>{back})"),
    ("named", _NAMED_DAYS, f"(?P<words>{any_of(_NAMED_DAYS)})(?: (?:por|en) la (?P<part>mañana|tarde|noche))?"),
    ("ago", ["hace"], "hace {counting}"),
    ("shifted", ["últimos", "últimas"], "(?P<w>últim[oa]s) {counting}"),
    ("shifted", _PERIODS, f"(?P<n>)(?P<u>{any_of(_PERIODS)}) (?P<w>{{back}})"),
    ("shifted", ["este", "esta"], f"(?P<w>esta|este)(?P<n>) (?P<u>{any_of(_PERIODS)})"),
    ("shifted_month", _MONTHS, "(?P<m>{month}) (?P<w>pasado)"),
)

SPANISH = Language(
    months=_MONTHS,
    weekdays=_WEEKDAYS,
    numbers=_NUMBERS,
    named_days=_NAMED_DAYS,
    day_parts=_DAY_PARTS,
    thirds=_THIRDS,
    seasons=_SEASONS,
    shifts=_SHIFTS,
    units=_UNITS,
    sides=_SIDES,
    leads=_LEADS,
    bounds=_BOUNDS,
    pairs=_PAIRS,
    negations=frozenset("no excepto salvo".split()),
    blockers=frozenset("cada todos todas próximo próxima".split()),
    articles=compile_template("(?:(?:el|la|los|las) )?"),
    the_before=compile_template(r"\b(?:el|la|los|las) \Z"),
    no_bound="(?!antes de ayer)",
    joint=compile_template("{joint}", _PIECES),
    conjunction=compile_template(" y "),
    clock=compile_template(rf" a las? (?P<around>(?!))?(?:(?P<clock>{CLOCK})|(?P<hour>(?!)))" + r"(?!\w)"),
    phrases=_PHRASES,
    pieces=_PIECES,
    article_words="el la los las",
)
