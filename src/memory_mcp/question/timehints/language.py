"""The tables of a language's words for times; the forms of its phrases are patterns over these tables."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern

#: A year; not the epoch's: that is what a missing time looks like.
YEAR = r"(?:197[1-9]|19[89]\d|20\d\d)"
DATE = YEAR + r"-\d\d-\d\d"
#: An offset from UTC, as far as zones go.
OFFSET = r"(?:z|[+-](?:0\d|1[0-4]):?[0-5]\d)"
CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d"


def any_of(words: Iterable[str]) -> str:
    """Return a pattern text of any of the words, longer ones first."""
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


#: Nouns that make a number a count, of all languages: other languages use the English ones for what is in a file.
COUNTED = (
    any_of(
        """ms s secs? seconds? minutes? hours? h am pm days? weeks? months? times bytes? [kmg]b chars? tokens? words? lines?
    rows? files? items? entry entries events? messages? records? requests? query queries tests? errors? bugs? commits?
    sekunden? minuten? stunden? tagen? wochen? monaten? mal zeilen? zeichen wörter dateien? einträgen? fehlern?
    anfragen? nachrichten?""".split()
    )
    + r"(?!\w)"
)


#: Pieces of the templates of all languages; each adds what it calls a year behind a day (`in_year`).
_SHARED = {"year": YEAR + r"(?! {counted})(?!\w)", "yyyy": YEAR, "counted": COUNTED, "of_year": "(?:{in_year})?"}


def expand_template(template: str, pieces: Mapping[str, str] = _SHARED) -> str:
    """Return a template as pattern text.

    A space is white space, " ?" may be missing, {piece} is one of `pieces` or of those of all languages.
    """
    text = re.sub(r"\{([a-z_]+)\}", lambda m: expand_template({**_SHARED, **pieces}[m[1]], pieces), template)
    return text.replace(" ?", r"\s*").replace(" ", r"\s+")


def compile_template(template: str, pieces: Mapping[str, str] = _SHARED) -> re.Pattern[str]:
    """Return an expanded template as a pattern; KeyError for an unknown piece."""
    return lazy_pattern(expand_template(template, pieces), re.I)


_NEVER = compile_template("(?!)")


@dataclass(frozen=True, slots=True)
class Form:
    """A form of phrases that are points in time."""

    #: The words that a phrase may begin with, as `head_of` returns them.
    heads: frozenset[str]
    #: The pattern; its group `fixed` (a year, "last") tells which Friday or January is meant.
    text: str
    #: The method of `Points` that computes the window from a match.
    resolver: str


@cache
def compile_form(text: str) -> Callable[[str, int], re.Match[str] | None]:
    """Return a function that matches a form at a text's place.

    It returns None where the form does not match. Compiled once, on first use, as all forms take a tenth of a second.
    """
    return re.compile(text, re.I).match


_HEAD = lazy_pattern(r"[^\W\d_]+|\d{4}|\d")


def head_of(text: str, i: int = 0) -> str:
    """Return the lower-case letters at a place of a text.

    "0000" for four digits or more, "0" for fewer, "" for neither.
    """
    m = _HEAD.match(text, i)
    return "" if not m else "0" * len(m.group()) if m.group().isdigit() else m.group().lower()


def make_form(resolver: str, heads: Iterable[str], template: str, pieces: Mapping[str, str]) -> Form:
    """Return a form that ends where a word ends.

    Of a head of several words the first counts. `template` is expanded with `pieces` (see `expand`); `resolver` names a method
    of `Points`.
    """
    firsts = frozenset(map(head_of, heads))
    return Form(firsts, expand_template(f"(?:{template})" + r"(?!\w)", pieces), resolver)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words of a language, in lower case, longer ones first, and its forms."""

    months: Mapping[str, int]
    short_months: Mapping[str, int] = field(default_factory=dict)
    #: From Monday, 0.
    weekdays: Mapping[str, int]
    numbers: Mapping[str, int]
    #: Which one of several in a row; the last is -1.
    ordinals: Mapping[str, int] = field(default_factory=dict)
    #: Days back, with a part of the day where the word has one.
    named_days: Mapping[str, tuple[int, str]]
    #: Local hours, from and up to; the night ends on the next day.
    day_parts: Mapping[str, tuple[int, int]]
    #: Beginning, middle and end of a period: 0, 1, 2.
    thirds: Mapping[str, int]
    #: First month.
    seasons: Mapping[str, int]
    #: Periods before the current one.
    shifts: Mapping[str, int]
    units: Mapping[str, str]
    #: The words of "the Saturday after" and "two days before": 1 for after, -1 for before.
    sides: Mapping[str, int]
    #: Noon.
    noons: frozenset[str] = frozenset()
    #: Words for a day that mean something else in another language, and a word that tells the two apart.
    doubtful_days: frozenset[str] = frozenset()
    speaks: re.Pattern[str] = _NEVER
    #: Prepositions that lead a time and add nothing to it, each as the English one.
    leads: Mapping[str, str]
    bounds: Mapping[str, str]
    #: Between and from, where they open a range.
    pairs: Mapping[str, str]
    #: Shortened and ordinary words that are months only where something makes them one; months that are also names.
    doubtful_months: frozenset[str] = frozenset()
    named_months: frozenset[str] = frozenset()
    #: Seasons that need a year or a word such as "last".
    doubtful_seasons: frozenset[str] = frozenset()
    #: Before a time or its preposition these turn it round.
    negations: frozenset[str]
    #: Right before a time these make it another thing.
    blockers: frozenset[str]
    articles: re.Pattern[str]
    #: An article that makes the latest of "the last" one of many.
    the_before: re.Pattern[str] = _NEVER
    #: A word before a noun, at the end, behind which a day's name is part of a longer name: "the today widget".
    owner_before: re.Pattern[str] = _NEVER
    #: A unit of time, at the end; by default any of `units`.
    unit_before: re.Pattern[str] = field(default=_NEVER)
    #: A pattern of what no bound may begin with.
    no_bound: str = ""
    joint: re.Pattern[str]
    conjunction: re.Pattern[str]
    #: A clock time behind a day.
    clock: re.Pattern[str]
    #: Resolver, heads and template of each form, see `form`; `pieces` are what the templates are made of.
    phrases: Sequence[tuple[str, Iterable[str], str]]
    pieces: Mapping[str, str]
    #: Articles that a phrase may begin with.
    article_words: str = ""
    # What follows is computed from the fields above.
    #: The forms by the words that they may begin with.
    forms: Mapping[str, tuple[Form, ...]] = field(init=False)
    #: A side of `sides`, after a space.
    side: re.Pattern[str] = field(init=False)
    lead: re.Pattern[str] = field(init=False)
    bound: re.Pattern[str] = field(init=False)
    pair: re.Pattern[str] = field(init=False)
    #: Words of leads, bounds and pairs that a phrase may begin with; the heads of the forms and the articles are the others.
    openers: frozenset[str] = field(init=False)
    begins: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the patterns and sets that follow from the tables."""
        openers = frozenset(
            words.replace("’", "'").split()[0].split("'")[0] for words in (*self.leads, *self.bounds, *self.pairs)
        )
        forms: dict[str, tuple[Form, ...]] = {}
        for resolver, heads, template in self.phrases:
            phrase_form = make_form(resolver, heads, template, self.pieces)
            for head in phrase_form.heads:
                forms[head] = (*forms.get(head, ()), phrase_form)
        computed: dict[str, object] = {
            "forms": forms,
            "side": compile_template(f" {any_of(self.sides)}" + r"(?!\w)"),
            "lead": compile_template(f"({any_of(self.leads)}) "),
            "bound": compile_template(f"{self.no_bound}({any_of(self.bounds)}) "),
            "pair": compile_template(f"({any_of(self.pairs)}) "),
            "openers": openers,
            "begins": openers.union(forms, self.article_words.split()),
        }
        if self.unit_before is _NEVER:
            computed["unit_before"] = compile_template(rf"\b{any_of(self.units)} \Z")
        for name, value in computed.items():
            object.__setattr__(self, name, value)
