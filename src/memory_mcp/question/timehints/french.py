"""French: its words for times, and the forms of its phrases."""

from memory_mcp.question.timehints.language import CLOCK, Language, any_of, compile_template

_MONTH_NAMES = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)} | {"fevrier": 2, "aout": 8, "decembre": 12}
_WEEKDAYS = {name: n for n, name in enumerate("lundi mardi mercredi jeudi vendredi samedi dimanche".split())}
_NUMBERS = {name: n for n, name in enumerate("un deux trois quatre cinq six sept huit neuf dix onze douze".split(), 1)}
_NUMBERS |= {"une": 1, "quelques": 3}
_DAY_PARTS = {"matin": (5, 12), "soir": (18, 24), "après-midi": (12, 18)}
_DAY_PARTS |= {"night": (18, 30), "morning": (5, 12), "evening": (18, 24)}
_NAMED_DAYS = {"aujourd'hui": (0, ""), "aujourd’hui": (0, ""), "hier": (1, ""), "avant-hier": (2, "")}
_NAMED_DAYS |= {"ce matin": (0, "morning"), "ce soir": (0, "evening"), "la nuit dernière": (1, "night")}
_THIRDS = {"début": 0, "milieu": 1, "fin": 2}
_SEASONS = {"printemps": 3, "été": 6, "automne": 9, "hiver": 12}
_SHIFTS = {stem + end: 1 for stem in ("dernier", "passé", "précédent") for end in ("", "e", "s", "es")}
_SHIFTS |= {"dernière": 1, "dernières": 1, "ce": 0, "cet": 0, "cette": 0}
_UNIT_WORDS = {"second": "seconde secondes", "minute": "minute minutes", "hour": "heure heures", "day": "jour jours"}
_UNIT_WORDS |= {"week": "semaine semaines", "month": "mois", "quarter": "trimestre trimestres", "year": "an ans année années"}
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_PERIODS = [name for name in _UNITS if _UNITS[name] in {"week", "month", "quarter", "year"} and name not in {"ans", "années"}]
_SIDES = {"après": 1, "suivant": 1, "avant": -1, "précédant": -1}
_BOUNDS = {"depuis": "since", "à partir de": "since", "à partir du": "since", "avant": "before", "après": "after"}
_BOUNDS |= {"jusqu'au": "until", "jusqu'à": "until", "jusqu’au": "until", "jusqu’à": "until", "jusqu'en": "until"}
_LEADS = {"en": "in", "au": "in", "dans": "in", "pendant": "during", "durant": "during", "de": "from", "du": "from"}
_LEADS |= {"entre": "between"}
_PAIRS = {"entre": "between", "de": "from", "du": "from", "depuis": "from"}

_PIECES = {
    "in_year": " (?:de )?(?P<fixed>{year})",
    "month": any_of(_MONTHS),
    "weekday": any_of(_WEEKDAYS),
    "season": any_of(_SEASONS),
    "shift": any_of(word for word in _SHIFTS if word not in {"ce", "cet", "cette"}),
    "number": rf"(?:[1-9]\d{{0,2}}|{any_of(_NUMBERS)})",
    "counting": rf"(?P<n>{{number}}) (?P<u>{any_of(_UNITS)})",
    "joint": r"(?: (?:au|à) | ?(?:-|–|\.\.) ?)",
    "day": r"(?:1er|3[01]|[12]\d|[1-9])(?!\w)",
    "to_come": "(?! prochaine?)",
}
_COUNTS = ["0", *_NUMBERS]

_PHRASES = (
    ("iso", ["0000"], r"(?P<iso>{yyyy})-(?P<part>\d\d-\d\d|(?:0[1-9]|1[0-2])(?!-))"),
    (
        "beside",
        [*_COUNTS, *_WEEKDAYS, *_UNITS],
        f"(?:(?P<n>{{number}}) )?(?P<u>{{weekday}}|{any_of(_UNITS)}) (?P<side>{any_of(_SIDES)})",
    ),
    (
        "days",
        ["0", *_WEEKDAYS],
        "(?P<n>{weekday} )?(?P<d>{day})(?:(?:{joint}| et )(?:le )?(?P<e>{day}))? (?P<m>{month}){of_year}{to_come}",
    ),
    ("third", _THIRDS, f"(?P<third>)(?P<of>{any_of(_THIRDS)})(?: du| de)?"),
    ("month", [*_MONTHS, "mois"], "(?:mois de )?(?P<m>{month}){of_year}(?! derni){to_come}"),
    ("year", ["0000", "année"], "(?P<word>année )?(?P<fixed>{year})"),
    ("season", _SEASONS, "(?P<bare>)(?P<s>{season}){in_year}"),
    ("shifted_season", _SEASONS, "(?P<s>{season}) (?P<w>{shift})"),
    ("week_and_day", _WEEKDAYS, "(?P<name>{weekday}) de(?= la semaine {shift})"),
    ("weekday", _WEEKDAYS, "(?P<before>)(?P<part>)(?P<name>{weekday})(?: (?P<fixed>{shift}))?{to_come}"),
    ("week", ["semaine"], r"(?P<plain>semaine) (?P<k>\d\d?)(?: (?:de )?(?P<y>{year})|(?! d[eu]\b))(?!\w)"),
    ("weekend", ["week", "weekend"], "week-?end (?P<w>{shift})"),
    ("named", _NAMED_DAYS, f"(?P<words>{any_of(_NAMED_DAYS)})(?: (?P<part>matin|soir|après-midi))?"),
    ("ago", ["il"], "il y a {counting}"),
    ("lasting", _COUNTS, "{counting}"),
    ("shifted", _COUNTS, f"(?P<n>{{number}}) (?P<w>{{shift}}) (?P<u>{any_of(_UNITS)})"),
    ("shifted", _PERIODS, f"(?P<n>)(?P<u>{any_of(_PERIODS)}) (?P<w>{{shift}})"),
    ("shifted", ["ce", "cette"], f"(?P<w>cette|ce)(?P<n>) (?P<u>{any_of(_PERIODS)})(?:-ci)?"),
    ("shifted_month", _MONTHS, "(?P<m>{month}) (?P<w>{shift})"),
)

FRENCH = Language(
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
    doubtful_days=frozenset({"hier"}),
    speaks=compile_template(
        r"(?<!\w)(?:le|la|les|qu|que|qui|quoi|nous|avons|fait|est|était|cette|je|une|depuis|parlé|décidé|passé)(?!\w)"
    ),
    leads=_LEADS,
    bounds=_BOUNDS,
    pairs=_PAIRS,
    negations=frozenset("pas sauf hors".split()),
    blockers=frozenset("chaque tous toutes prochain prochaine".split()),
    articles=compile_template("(?:(?:la|les?|ces) |l['’])?"),
    the_before=compile_template(r"\b(?:la|les?|ces) \Z"),
    joint=compile_template("{joint}", _PIECES),
    conjunction=compile_template(" et "),
    clock=compile_template(" à (?P<around>(?!))?(?:(?P<clock>" + CLOCK + r")|(?P<hour>(?:2[0-3]|1\d|\d) ?h(?:eures)?))(?!\w)"),
    phrases=_PHRASES,
    pieces=_PIECES,
    article_words="la le les ces l",
)
