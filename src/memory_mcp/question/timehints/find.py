"""Find the first phrase of a question that is a time, its window, and the question without it.

Change here: which words mean a time.
"""

import datetime as dt
import re

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.question.timehints import cjk
from memory_mcp.question.timehints.english import ENGLISH
from memory_mcp.question.timehints.french import FRENCH
from memory_mcp.question.timehints.german import GERMAN
from memory_mcp.question.timehints.language import CLOCK, DATE, OFFSET, YEAR, any_of, compile_template, head_of
from memory_mcp.question.timehints.reading import TimeReader
from memory_mcp.question.timehints.spanish import SPANISH
from memory_mcp.question.timehints.windows import Windows

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH)

_OPENING, _CLOSING = '([{"“„¿¡', ")]}\"”“'’,.;:!?…"
_END = lazy_pattern(rf"\Z|[\s{re.escape(_CLOSING)}](?!onwards?\b)")
_QUOTED = lazy_pattern(r'"[^"]*"|`[^`]*`|“[^“”]*”|„[^„“]*“')
_STAMP = rf"{DATE}t{CLOCK}(?::\d\d)?(?:[.,]\d{{1,9}})?{OFFSET}?"
_ISO = rf"{_STAMP}|{YEAR}(?:-\d\d-\d\d|-w\d\d-[1-7]|-(?:0[1-9]|1[0-2]|w\d\d|q[1-4]))?"
_NUMBER = rf"{CLOCK}(?:[ap]m)?|\d{{1,3}}(?:st|nd|rd|th|[ap]m|[a-z]{{1,7}})?"
_NUMERIC = rf"{YEAR}/\d\d/\d\d|\d\d?/\d\d?/{YEAR}|\d\d?-\d\d?-{YEAR}|\d\d?\.\d\d?\.{YEAR}"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_ACCENTED = "äöüßàâçéèêëîïôûùáíóúñœ"
_LETTERS = f"[a-z{_ACCENTED}{_ACCENTED.upper()}]+"
#: Words of French with a hyphen or an apostrophe.
_JOINED = rf"aujourd['’]hui|avant-hier|après-midi|week-end|mois-ci|jusqu['’](?:au|à|en)|[ld]['’]{_LETTERS}"
#: A word that a phrase may be made of; any other (a path, a version, a name in code) is no word of a language.
_WORD = rf"(?:{_JOINED}|{_ISO}|{_NUMERIC}|(?:(?:early|mid|late)-)?(?:{_LETTERS}|{YEAR})|[qh][1-4]|{_NUMBER})"
_PLAIN = lazy_pattern(
    rf"{_WORD}(?:(?:\.\.|–){_WORD})?(?:['’]s)?|(?:{_ISO})/(?:{_ISO})|{_DAY}[-–]{_DAY}|-|–|\.\.", re.I | re.A
)  #: Words before a time, in any language: a question may mix them.
_LEADS, _NEGATIONS = any_of(w for x in LANGUAGES for w in x.leads), any_of(w for x in LANGUAGES for w in x.negations)
_BLOCKERS, _ARTICLES = any_of(w for x in LANGUAGES for w in x.blockers), "(?:the|de[mnr]|die|das|l[ae]s?|el|los) "
_BLOCKED = compile_template(rf"(?<![^\s(])(?:{_NEGATIONS} (?:{_LEADS} )?(?:{_ARTICLES})?|{_BLOCKERS} (?:{_ARTICLES})?)\Z")
_BEGINS = frozenset[str]().union(*(x.begins for x in LANGUAGES))
#: What reading may cost, counted in forms tried: 4,000 characters of prose cost at most 830 (300 samples of three corpora).
#: Behind that the text is no question; words that look like times, and are none, would make reading it long.
MOST_EFFORT = 3000
_BACK = 40  # the longest stretch looked back over


@dataclass(frozen=True, slots=True)
class TimeHint:
    """The window meant, or None.

    The phrase as written, less a preposition that adds nothing; the question without both.
    """

    window: TimeWindow | None
    words: str
    rest: str


def find_time(query: str, now_ms: int, calendar: Calendar) -> TimeHint:
    """Return the first time that the question names.

    Relative to `now_ms` (UTC milliseconds) on the user's calendar. Without one `window` is None, `words` "" and `rest` the
    question with single blanks. Where several languages read a phrase at the same place, the longest is taken. A text that
    costs more than `MOST_EFFORT` is not read to its end.
    """
    text, starts = _remove_code(query)
    windows = Windows(calendar, now_ms, dt.date.fromisoformat(calendar.day_of(now_ms)))
    other = cjk.find_phrase(query, windows)
    readers = [TimeReader(text, windows, language) for language in LANGUAGES]
    last_end = 0
    for start, head in starts:
        if head not in _BEGINS or start < last_end:
            continue
        if other and other.start <= start:
            break
        if sum(r.effort for r in readers) > MOST_EFFORT:
            break
        found_phrases = [f for r in readers if head in r.begins and (f := r.read_time(start, head)) and _END.match(text, f.end)]
        if not found_phrases:
            continue
        best = max(found_phrases, key=lambda f: f.end)
        if _BLOCKED.search(text[max(0, start - _BACK) : start]):
            last_end = best.end
        else:
            return TimeHint(best.window, query[best.start : best.end], _without(query, start, best.end))
    if other:
        return TimeHint(other.window, query[other.start : other.end], _without(query, other.start, other.behind))
    return TimeHint(None, "", " ".join(query.split()))


def _remove_code(query: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the question, blanked but for plain words, and these words.

    At the same length; words are (start, head). Quotations are blanked unless they are all of it.
    """
    text = re.sub(r"\s", " ", query)
    if not _QUOTED.fullmatch(text.strip()):
        text = _QUOTED.sub(lambda m: "\0" * len(m.group()), text)
    chars, starts = list(text), list[tuple[int, str]]()
    for chunk in re.finditer(r"\S+", text):
        core = chunk.group().lstrip(_OPENING)
        start = chunk.end() - len(core)
        core = core.rstrip(_CLOSING)
        if _PLAIN.fullmatch(core):
            starts.append((start, head_of(core)))
        else:
            chars[start : start + len(core)] = "\0" * len(core)
    return "".join(chars), starts


def _without(query: str, start: int, end: int) -> str:
    text_before, right = query[:start].rstrip(), query[end:].lstrip()
    if text_before.endswith("(") and right.startswith(")"):
        text_before, right = text_before[:-1].rstrip(), right[1:].lstrip()
    if not text_before or not text_before[-1].isalnum():
        right = right.lstrip(",;: ")
    is_tail = right[:1] in tuple(_CLOSING) and not right[1:2].isalnum()
    joined = text_before.rstrip(",;: ") + right if is_tail else f"{text_before} {right}"
    return " ".join(joined.split()) if any(c.isalnum() for c in joined) else ""
