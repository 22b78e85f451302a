"""Decide whether a newer statement contradicts an older one: few contradictions, and certain ones. Pure.

Three forms are recognized: the same words with another value ("uses Postgres" and "uses MySQL"), a value explicitly given up
("MySQL instead of Postgres"), and the same words negated ("never", "disabled").

Invariants
1. Statements that may both hold do not contradict: another subject, purpose or day, one thing more beside another.
2. Questions, doubts and plans contradict nothing, and nothing contradicts them.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from memory_mcp.base.text import term_set
from memory_mcp.model.toc import MemoryKind
from memory_mcp.summarize.kinds import Cue, cues_of

#: Kinds of statement that hold until revoked.
FIRM = frozenset((MemoryKind.DECISION, MemoryKind.CONSTRAINT, MemoryKind.PREFERENCE))
#: Fewest and most words of a statement that is compared: shorter ones name nothing, longer ones say several things.
_FEWEST, _MOST = 3, 45
#: Most words of a value, and most words between it and the word that sets it.
_VALUE, _APART = 4, 3
#: Least terms two statements share beside the value, unless both are of a kind in `FIRM`.
_SHARED = 2
#: Least terms two decisions or rules share beside a number that is not set explicitly.
_NEARLY_ALL = 3
#: Least terms of a statement that is negated.
_NAMED = 2
#: Least share of an older statement's terms in the newer one that gives its value up.
_COVERED = 0.6
#: Words that set a value and name nothing.
_SETTING = ("use", "uses", "used", "using", "switch", "switched", "decided", "agreed", "go", "went", "default", "defaults")

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:[.\-/:@+'’]+[^\W\u3400-\u9fff]+)*%?|[#=]|[,;:，；：]")
_CJK = re.compile("[\u3400-\u9fff]")
_NUMBER = re.compile(r"v?\d[\d.,:]*(?:%|[a-z]{1,3})?$|[零一二两三四五六七八九十百千半]$")
_NUMBER_WORDS = frozenset("one two three four five six seven eight nine ten twelve fifteen twenty thirty sixty hundred".split())
#: Names of one thing: code, versions, words with a capital.
_NAME = re.compile(r"[^\W\d_]*[\d_./:@+\-]|[A-Z]")
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
    firm: bool
    #: Whether its value holds from now on, or is the only one.
    sole: bool
    #: Whether it holds only on the day it was said.
    passing: bool
    #: Values that it explicitly gives up, as words.
    gone: tuple[tuple[str, ...], ...]
    #: Its terms.
    terms: frozenset[str]
    #: Its words without negations and affirmations, and whether they are negated.
    said: tuple[str, ...]
    denied: bool


def read(text: str, kind: MemoryKind) -> Claim | None:
    """Return a statement prepared for comparison; None if nothing could contradict it.

    None for a question, a doubt, fewer than 3 or more than 45 words, and for what is neither a decision, rule or
    preference nor says how things are.
    """
    raw = _TOKEN.findall(text)
    if not _FEWEST <= len(raw) <= _MOST or cues_of(text, Cue.QUESTION) & Cue.QUESTION or text.rstrip().endswith((":", "：")):
        return None
    lower = [word.lower().replace("’", "'") for word in raw]
    firm = kind in FIRM or _any("rules", lower)
    if not firm and not _any("states", lower):
        return None
    words, written = _structured(lower, raw)
    if _any("doubts", words):
        return None
    folded = text.lower().replace("’", "'")
    gone = []
    for match in (found for pattern in _replaces() for found in pattern.finditer(folded)):
        # A value goes up to its purpose or place ("for", "in"), without articles.
        value = [word for word in _TOKEN.findall(match["old"]) if word not in ("the", "a", "an", "using")]
        end = next((at for at, word in enumerate(value) if at and word in _listed("scopes")), len(value))
        gone.append(tuple(value[:end]))
    sole = firm or _any("news", lower) or _any("only", lower)
    passing, terms = _any("passing", lower), frozenset(term_set(text))
    return Claim(words, written, firm, sole, passing, tuple(gone), terms, *_unpolar(words))


@cache
def words_pattern() -> str:
    """Return a pattern (RE2, lower case) that all comparable statements but `FIRM` kinds match; others may match it too."""
    rows = sorted(_listed("rules") | _listed("states"))
    spoken = "|".join(r"\W+".join(row.replace("'", "['’]").split()) for row in rows if not _CJK.match(row))
    return rf"\b(?:{spoken})\b|" + "|".join(row for row in rows if _CJK.match(row))


def contradicts(newer: Claim, older: Claim, apart: bool) -> bool:
    """Return whether only the newer can hold; `apart`: of different days, where what holds for its day contradicts nothing."""
    if newer.words == older.words or len(newer.terms & older.terms) == 0:
        return False
    if apart and (newer.passing or older.passing):
        return False
    if _other_value(newer, older) or _gives_up(newer, older):
        return True
    # Both say the same, one of them negated, as decisions, rules or preferences or of a default, and name two things.
    lasting = (newer.firm and older.firm) or bool({"default", "默"} & set(newer.words) & set(older.words))
    same = newer.denied != older.denied and newer.said == older.said
    return same and lasting and len(_content(newer.said)) >= _NAMED


def _other_value(newer: Claim, older: Claim) -> bool:
    """Return whether only one value differs, where only one value can hold: one that something is set to or chosen.

    Numbers must be set as a measure (a word for setting or a bound within 4 words, or %), or by decisions or rules that share
    nearly all else; names by a word for choosing or being. The rest of the clause must share terms.
    """
    most = min(len(newer.words), len(older.words))
    start = next((i for i in range(most) if newer.words[i] != older.words[i]), most)
    end = next((i for i in range(most - start) if newer.words[-1 - i] != older.words[-1 - i]), most - start)
    new, old = newer.words[start : len(newer.words) - end], older.words[start : len(older.words) - end]
    if not (new and old) or len(new) > _length(new) or len(old) > _length(old):
        return False
    # The clause around the value.
    before, after = newer.words[:start], newer.words[len(newer.words) - end :]
    before = before[next((len(before) - back for back, word in enumerate(reversed(before)) if word in _STOPS), 0) :]
    after = after[: next((at for at, word in enumerate(after) if word in _STOPS), len(after))]
    shared = _content((*before, *after))
    enough = (newer.firm and older.firm) or len(shared) >= _SHARED
    numbers = _is_number(new), _is_number(old)
    if any(numbers):
        version = len(before) > 1 and before[-2] == _CHOOSES and "." in new[0] and "." in old[0]
        if not (shared and before and all(numbers)):
            return False
        # Numbers that only number something (step 3, PR 12), or are of a day, month or hour.
        if before[-1] in _listed("labels") or before[-1] == "#" or not _listed("dates").isdisjoint(after[:2]):
            return False
        near = before[-_APART - 1 :]
        is_set = any(word in (_CHOOSES, _EQUALS, "=") or word in _listed("bounds") for word in near) or after[:1] == ("%",)
        return version or (enough and is_set) or (newer.firm and older.firm and len(shared) >= _NEARLY_ALL)
    if not shared or not enough:
        return False
    if newer.firm and older.firm and len(before) > 2 and (before[-3], before[-1]) == (_EQUALS, "by"):
        return True
    return newer.sole and _sets_name(before, newer.raw[start : start + len(new)], older.raw[start : start + len(old)])


def _length(value: Sequence[str]) -> int:
    """Return how many words a value may have at most: 4, or 8 where all are Chinese characters, of which each is a word."""
    return 2 * _VALUE if all(_CJK.match(word) for word in value) else _VALUE


def _is_number(value: Sequence[str]) -> bool:
    """Return whether a value begins with a number, in figures or as a word."""
    return _NUMBER.match(value[0]) is not None or value[0] in _NUMBER_WORDS


def _sets_name(before: Sequence[str], new: Sequence[str], old: Sequence[str]) -> bool:
    """Return whether `before` sets the name after it: "use" within 4 words, no purpose between, or "is" right before names."""
    for back, word in enumerate(reversed(before)):
        if word == _CHOOSES:
            return True
        if word == _EQUALS:
            one = _any("only", before)
            return back == 0 and (one or (_NAME.match(new[0]) is not None and _NAME.match(old[0]) is not None))
        if word in _listed("scopes") or word in _listed("labels") or back >= _APART:
            return False
    return False


def _gives_up(newer: Claim, older: Claim) -> bool:
    """Return whether the newer gives up a value ("instead of X") that the older had set, of the same thing.

    The newer must share most terms of the older, and hold from now on.
    """
    for value in newer.gone if newer.sole else ():
        if not value or len(value) > _length(value):
            continue
        if any(_place(value, own) is not None or _place(own, value) is not None for own in older.gone):
            continue
        at, named = _place(value, older.words), _content(value)
        if at is None or not named:
            continue
        near = (*older.words[max(0, at - 2) : at], *older.words[at + len(value) : at + len(value) + 2])
        if not any(word in (_CHOOSES, _EQUALS, "default", "默", "认") for word in near):
            continue
        about = older.terms - named - _content(_SETTING)
        same = about & newer.terms
        if len(same) >= _COVERED * len(about) and len(same) >= (1 if newer.firm and older.firm else _SHARED):
            return True
    return False


def _place(part: Sequence[str], words: Sequence[str]) -> int | None:
    """Return the first place of `part` in `words` as one run; None for nowhere."""
    size = len(part)
    return next((i for i in range(len(words) - size + 1) if tuple(words[i : i + size]) == tuple(part)), None)


def _unpolar(words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the words without negations and affirmations, and whether an odd number of negations was among them."""
    polar = _phrases("denies", "affirms")
    kept: list[str] = []
    denials, place = 0, 0
    while place < len(words):
        size, group = _at(polar, words, place)
        if size:
            denials += group == "denies"
        elif words[place] not in (_CHOOSES, _EQUALS):
            kept.append(words[place])
        place += size or 1
    return tuple(kept), denials % 2 == 1


def _content(words: Sequence[str]) -> set[str]:
    """Return the terms of words, without the marks of set values; adjacent Chinese characters are read as one text."""
    own = [word for word in words if word not in (_CHOOSES, _EQUALS)]
    if not any(_CJK.match(word) for word in own):
        return term_set(" ".join(own))
    return term_set("".join(word if _CJK.match(word) else f" {word} " for word in own))


def _structured(lower: Sequence[str], raw: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words without filler, each expression that sets a value as one mark; and the same as written."""
    structure = _phrases("whole", "chooses", "equals", "frame")
    words: list[str] = []
    written: list[str] = []
    place = 0
    while place < len(lower):
        size, group = _at(structure, lower, place)
        if group in ("chooses", "equals"):
            words.append(_CHOOSES if group == "chooses" else _EQUALS)
            written.append(words[-1])
        elif group != "frame":
            words += lower[place : place + (size or 1)]
            written += raw[place : place + (size or 1)]
        place += size or 1
    return tuple(words), tuple(written)


def _any(name: str, words: Sequence[str]) -> bool:
    """Return whether any phrase of a list of contradictions.toml is among the words."""
    phrases = _phrases(name)
    return any(_at(phrases, words, place)[0] for place in range(len(words)))


def _at(phrases: _Phrases, words: Sequence[str], place: int) -> tuple[int, str]:
    """Return the length in words and group of the longest phrase that begins at `place`; (0, "") for none."""
    for phrase, group in phrases.get(words[place], ()):
        if tuple(words[place : place + len(phrase)]) == phrase:
            return len(phrase), group
    return 0, ""


@cache
def _data() -> dict[str, Any]:
    """Return the parsed lists of words, read once from contradictions.toml."""
    source = files("memory_mcp.summarize") / "contradictions.toml"
    return tomllib.loads(source.read_text(encoding="utf-8"))


def _rows(text: str) -> list[str]:
    """Return the rows of a list, which bars or line ends part, without empty ones."""
    return [row for row in text.replace("\n", "|").split("|") if row]


@cache
def _listed(name: str) -> frozenset[str]:
    """Return the words of a list of contradictions.toml."""
    return frozenset(_rows(_data()[name]))


@cache
def _replaces() -> tuple[re.Pattern[str], ...]:
    """Return the patterns, for text in lower case, of an expression that gives up a value, which is their group `old`."""
    return tuple(map(re.compile, _data()["replaces"]["patterns"]))


@cache
def _phrases(*groups: str) -> _Phrases:
    """Return the phrases of lists of contradictions.toml, each with its list as group; the first list wins for equal ones."""
    found: dict[tuple[str, ...], str] = {}
    for group in groups:
        for row in _rows(_data()[group]):
            if words := tuple(_TOKEN.findall(row)):
                found.setdefault(words, group)
    by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for words, group in sorted(found.items(), key=lambda item: -len(item[0])):
        by_first.setdefault(words[0], []).append((words, group))
    return {first: tuple(rows) for first, rows in by_first.items()}
