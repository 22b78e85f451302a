"""Decide whether a newer statement contradicts an older one: few contradictions, and certain ones. Pure.

Three forms are recognized: the same words with another value ("uses Postgres" and "uses MySQL"), a value explicitly given up
("MySQL instead of Postgres"), and the same words negated ("never", "disabled").

Invariants
1. Statements that may both hold do not contradict: another subject, purpose or day, one thing in addition to another.
2. Questions, doubts and plans contradict nothing, and nothing contradicts them.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import term_set
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.kinds import Cue, cues_of

#: Of the rules: results that are saved with another count as none.
VERSION = 1
#: Kinds of statement that hold until revoked.
FIRM = frozenset((MemoryKind.DECISION, MemoryKind.CONSTRAINT, MemoryKind.PREFERENCE))
#: Fewest and most words of a statement that is compared: shorter ones name nothing, longer ones say several things.
_MIN_WORDS, _MAX_WORDS = 3, 45
#: Most words of a value, and most words between it and the word that sets it.
_MAX_VALUE, _MAX_GAP = 4, 3
#: Least terms two statements share besides the value, unless both are of a kind in `FIRM`.
_MIN_SHARED = 2
#: Least terms two decisions or rules share besides a number that is not set explicitly.
_NEARLY_ALL = 3
#: Least terms of a statement that is negated.
_MIN_NAMED = 2
#: Least share of an older statement's terms in the newer one that gives its value up.
_MIN_COVERED = 0.6
#: Words that set a value and name nothing.
_SETTING_WORDS = ("use", "uses", "used", "using", "switch", "switched", "decided", "agreed", "go", "went", "default", "defaults")

_TOKEN = lazy_pattern(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:[.\-/:@+'’]+[^\W\u3400-\u9fff]+)*%?|[#=]|[,;:，；：]")
_CJK = lazy_pattern("[\u3400-\u9fff]")
_NUMBER = lazy_pattern(r"v?\d[\d.,:]*(?:%|[a-z]{1,3})?$|[零一二两三四五六七八九十百千半]$")
_NUMBER_WORDS = frozenset("one two three four five six seven eight nine ten twelve fifteen twenty thirty sixty hundred".split())
#: Names of one thing: code, versions, words with a capital.
_NAME = lazy_pattern(r"[^\W\d_]*[\d_./:@+\-]|[A-Z]")
_STOPS = frozenset(",;:，；：")
_CHOOSES, _EQUALS = "=use", "=is"
#: Phrases by their first word, longest first, each with its group.
_Phrases = dict[str, tuple[tuple[tuple[str, ...], str], ...]]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement prepared for comparison."""

    #: Its words in order, without filler; an expression that sets a value is one word.
    words: tuple[str, ...]
    #: The same words as written.
    raw: tuple[str, ...]
    #: Whether it is a decision, a rule or a preference.
    is_firm: bool
    #: Whether its value holds from now on, or is the only one.
    is_sole: bool
    #: Whether it holds only on the day it was said.
    is_passing: bool
    #: Values that it explicitly gives up, as words.
    given_up: tuple[tuple[str, ...], ...]
    #: Its terms.
    terms: frozenset[str]
    #: Its words without negations and affirmations, and whether they are negated.
    neutral_words: tuple[str, ...]
    is_denied: bool


def parse_claim(text: str, kind: MemoryKind) -> Claim | None:
    """Return a statement for comparison, None if unsuitable.

    None for a question, a doubt, fewer than 3 or more than 45 words, and for what is neither a decision, rule or
    preference nor says how things are.
    """
    raw = _TOKEN.findall(text)
    if (
        not _MIN_WORDS <= len(raw) <= _MAX_WORDS
        or cues_of(text, Cue.QUESTION) & Cue.QUESTION
        or text.rstrip().endswith((":", "："))
    ):
        return None
    lower = [word.lower().replace("’", "'") for word in raw]
    firm = kind in FIRM or _has_phrase("rules", lower)
    if not firm and not _has_phrase("states", lower):
        return None
    words, written = _mark_values(lower, raw)
    if _has_phrase("doubts", words):
        return None
    folded = text.lower().replace("’", "'")
    given_up = []
    for match in (occurrence for pattern in _replacement_patterns() for occurrence in pattern.finditer(folded)):
        # A value goes up to its purpose or place ("for", "in"), without articles.
        value = [word for word in _TOKEN.findall(match["old"]) if word not in ("the", "a", "an", "using")]
        end = next((at for at, word in enumerate(value) if at and word in _word_list("scopes")), len(value))
        given_up.append(tuple(value[:end]))
    sole = firm or _has_phrase("news", lower) or _has_phrase("only", lower)
    passing, terms = _has_phrase("passing", lower), frozenset(term_set(text))
    return Claim(words, written, firm, sole, passing, tuple(given_up), terms, *_strip_polarity(words))


@cache
def comparable_pattern() -> str:
    """Return a pattern (RE2, lower case) that comparable statements match.

    All but those of `FIRM` kinds match it; others may match it too.
    """
    rows = sorted(_word_list("rules") | _word_list("states"))
    spoken = "|".join(r"\W+".join(row.replace("'", "['’]").split()) for row in rows if not _CJK.match(row))
    return rf"\b(?:{spoken})\b|" + "|".join(row for row in rows if _CJK.match(row))


def contradicts(newer: Claim, older: Claim, is_other_day: bool) -> bool:
    """Return whether only the newer statement can hold.

    `is_other_day`: they are of different days, where what holds for its day contradicts nothing.
    """
    if newer.words == older.words or len(newer.terms & older.terms) == 0:
        return False
    if is_other_day and (newer.is_passing or older.is_passing):
        return False
    if _other_value(newer, older) or _gives_up(newer, older):
        return True
    # Both say the same, one of them negated, as decisions, rules or preferences or of a default, and name two things.
    lasting = (newer.is_firm and older.is_firm) or bool({"default", "默"} & set(newer.words) & set(older.words))
    same = newer.is_denied != older.is_denied and newer.neutral_words == older.neutral_words
    return same and lasting and len(_content_terms(newer.neutral_words)) >= _MIN_NAMED


def _other_value(newer: Claim, older: Claim) -> bool:
    """Return whether they differ in one exclusive value.

    Numbers must be set as a measure (a word for setting or a bound within 4 words, or %), or by decisions or rules that share
    nearly all else; names by a word for choosing or being. The rest of the clause must share terms.
    """
    most = min(len(newer.words), len(older.words))
    start = next((i for i in range(most) if newer.words[i] != older.words[i]), most)
    end = next((i for i in range(most - start) if newer.words[-1 - i] != older.words[-1 - i]), most - start)
    new, old = newer.words[start : len(newer.words) - end], older.words[start : len(older.words) - end]
    if not (new and old) or len(new) > _max_value_length(new) or len(old) > _max_value_length(old):
        return False
    # The clause around the value.
    leading, trailing = newer.words[:start], newer.words[len(newer.words) - end :]
    leading = leading[next((len(leading) - back for back, word in enumerate(reversed(leading)) if word in _STOPS), 0) :]
    trailing = trailing[: next((at for at, word in enumerate(trailing) if word in _STOPS), len(trailing))]
    shared = _content_terms((*leading, *trailing))
    enough = (newer.is_firm and older.is_firm) or len(shared) >= _MIN_SHARED
    numbers = _is_number(new), _is_number(old)
    if any(numbers):
        version = len(leading) > 1 and leading[-2] == _CHOOSES and "." in new[0] and "." in old[0]
        if not (shared and leading and all(numbers)):
            return False
        # Numbers that only number something (step 3, PR 12), or are of a day, month or hour.
        if leading[-1] in _word_list("labels") or leading[-1] == "#" or not _word_list("dates").isdisjoint(trailing[:2]):
            return False
        near = leading[-_MAX_GAP - 1 :]
        is_set = any(word in (_CHOOSES, _EQUALS, "=") or word in _word_list("bounds") for word in near) or trailing[:1] == ("%",)
        return version or (enough and is_set) or (newer.is_firm and older.is_firm and len(shared) >= _NEARLY_ALL)
    if not shared or not enough:
        return False
    if newer.is_firm and older.is_firm and len(leading) > 2 and (leading[-3], leading[-1]) == (_EQUALS, "by"):
        return True
    return newer.is_sole and _sets_name(leading, newer.raw[start : start + len(new)], older.raw[start : start + len(old)])


def _max_value_length(value: Sequence[str]) -> int:
    """Of Chinese characters each is a word."""
    return 2 * _MAX_VALUE if all(_CJK.match(word) for word in value) else _MAX_VALUE


def _is_number(value: Sequence[str]) -> bool:
    return _NUMBER.match(value[0]) is not None or value[0] in _NUMBER_WORDS


def _sets_name(leading: Sequence[str], new: Sequence[str], old: Sequence[str]) -> bool:
    for back, word in enumerate(reversed(leading)):
        if word == _CHOOSES:
            return True
        if word == _EQUALS:
            is_only = _has_phrase("only", leading)
            return back == 0 and (is_only or (_NAME.match(new[0]) is not None and _NAME.match(old[0]) is not None))
        if word in _word_list("scopes") or word in _word_list("labels") or back >= _MAX_GAP:
            return False
    return False


def _gives_up(newer: Claim, older: Claim) -> bool:
    """The newer must share most terms and hold from now on."""
    for value in newer.given_up if newer.is_sole else ():
        if not value or len(value) > _max_value_length(value):
            continue
        if any(_find_run(value, former) is not None or _find_run(former, value) is not None for former in older.given_up):
            continue
        at, value_terms = _find_run(value, older.words), _content_terms(value)
        if at is None or not value_terms:
            continue
        near = (*older.words[max(0, at - 2) : at], *older.words[at + len(value) : at + len(value) + 2])
        if not any(word in (_CHOOSES, _EQUALS, "default", "默", "认") for word in near):
            continue
        about = older.terms - value_terms - _content_terms(_SETTING_WORDS)
        same = about & newer.terms
        if len(same) >= _MIN_COVERED * len(about) and len(same) >= (1 if newer.is_firm and older.is_firm else _MIN_SHARED):
            return True
    return False


def _find_run(part: Sequence[str], words: Sequence[str]) -> int | None:
    size = len(part)
    return next((i for i in range(len(words) - size + 1) if tuple(words[i : i + size]) == tuple(part)), None)


def _strip_polarity(words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    polar_phrases = _phrase_table("denies", "affirms")
    neutral_words: list[str] = []
    denials, index = 0, 0
    while index < len(words):
        size, group = _phrase_at(polar_phrases, words, index)
        if size:
            denials += group == "denies"
        elif words[index] not in (_CHOOSES, _EQUALS):
            neutral_words.append(words[index])
        index += size or 1
    return tuple(neutral_words), denials % 2 == 1


def _content_terms(words: Sequence[str]) -> set[str]:
    """Adjacent Chinese characters are read as one text."""
    content_words = [word for word in words if word not in (_CHOOSES, _EQUALS)]
    if not any(_CJK.match(word) for word in content_words):
        return term_set(" ".join(content_words))
    return term_set("".join(word if _CJK.match(word) else f" {word} " for word in content_words))


def _mark_values(lower: Sequence[str], raw: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace expressions that set values by marks, in lower case and as written."""
    structure = _phrase_table("whole", "chooses", "equals", "frame")
    words: list[str] = []
    written: list[str] = []
    index = 0
    while index < len(lower):
        size, group = _phrase_at(structure, lower, index)
        if group in ("chooses", "equals"):
            words.append(_CHOOSES if group == "chooses" else _EQUALS)
            written.append(words[-1])
        elif group != "frame":
            words += lower[index : index + (size or 1)]
            written += raw[index : index + (size or 1)]
        index += size or 1
    return tuple(words), tuple(written)


def _has_phrase(name: str, words: Sequence[str]) -> bool:
    phrases = _phrase_table(name)
    return any(_phrase_at(phrases, words, index)[0] for index in range(len(words)))


def _phrase_at(phrases: _Phrases, words: Sequence[str], index: int) -> tuple[int, str]:
    for phrase, group in phrases.get(words[index], ()):
        if tuple(words[index : index + len(phrase)]) == phrase:
            return len(phrase), group
    return 0, ""


@cache
def _load_lists() -> dict[str, Any]:
    source = files("memory_mcp.tree.summarize") / "contradictions.toml"
    return tomllib.loads(source.read_text(encoding="utf-8"))


def _split_rows(text: str) -> list[str]:
    return [row for row in text.replace("\n", "|").split("|") if row]


@cache
def _word_list(name: str) -> frozenset[str]:
    return frozenset(_split_rows(_load_lists()[name]))


@cache
def _replacement_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, _load_lists()["replaces"]["patterns"]))


@cache
def _phrase_table(*groups: str) -> _Phrases:
    group_of_phrase: dict[tuple[str, ...], str] = {}
    for group in groups:
        for row in _split_rows(_load_lists()[group]):
            if words := tuple(_TOKEN.findall(row)):
                group_of_phrase.setdefault(words, group)
    by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for words, group in sorted(group_of_phrase.items(), key=lambda item: -len(item[0])):
        by_first.setdefault(words[0], []).append((words, group))
    return {first: tuple(rows) for first, rows in by_first.items()}
