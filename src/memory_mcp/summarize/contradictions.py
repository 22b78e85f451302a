"""Two statements about one thing in, whether the newer says that the older holds no more out: few, and sure. Pure.

Three ways to say so are known: the same words with another value in the place of one ("uses Postgres" and "uses MySQL"), a
value given up in so many words ("MySQL instead of Postgres"), and the same words denied ("never", "disabled").

Invariants
1. Statements that may both hold contradict nothing: another subject, purpose or day, one more thing beside another.
2. What is asked, doubted or only planned contradicts nothing, and nothing contradicts it.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from memory_mcp.model.toc import MemoryKind
from memory_mcp.summarize.kinds import Cue, cues_of
from memory_mcp.text import term_set

#: Kinds of statement that are to hold until something else is said.
FIRM = frozenset((MemoryKind.DECISION, MemoryKind.CONSTRAINT, MemoryKind.PREFERENCE))
#: Words of a statement that is read, fewest and most: shorter ones name nothing, longer ones say several things.
_FEWEST, _MOST = 3, 45
#: Words of a value, and words between it and what gives it its place.
_VALUE, _APART = 4, 3
#: Terms that two statements share beside the value, where nothing but its words says that a statement holds further.
_SHARED = 2
#: Terms that two decisions or rules share beside a number where they are the same in all else.
_NEARLY_ALL = 3
#: Share of words that a denial has in common with what it denies, and the fewest of them that name something.
_NAMED = 2

#: Share of what a statement is about that one who gives its value up must name.
_COVERED = 0.6
#: Words that set a value and name nothing.
_SETTING = ("use", "uses", "used", "using", "switch", "switched", "decided", "agreed", "go", "went", "default", "defaults")

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:[.\-/:@+'’]+[^\W\u3400-\u9fff]+)*%?|[#=]|[,;:，；：]")
_CJK = re.compile("[\u3400-\u9fff]")
_NUMBER = re.compile(r"v?\d[\d.,:]*(?:%|[a-z]{1,3})?$|[零一二两三四五六七八九十百千半]$")
_NUMBER_WORDS = frozenset("one two three four five six seven eight nine ten twelve fifteen twenty thirty sixty hundred".split())
#: What names one thing, in any case: code, versions, names that begin with a capital.
_NAME = re.compile(r"[^\W\d_]*[\d_./:@+\-]|[A-Z]")
_STOPS = frozenset(",;:，；：")
_CHOOSES, _EQUALS = "=use", "=is"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement as it is compared."""

    #: Its words in order, without those that say nothing of what holds; what sets a value is one word.
    words: tuple[str, ...]
    #: As they were written.
    raw: tuple[str, ...]
    #: Whether it is a decision, a rule or a preference.
    firm: bool
    #: Whether it says that something is so from now on, or that there is one only.
    sole: bool
    #: Whether it holds on its day only.
    passing: bool
    #: Values that it gives up, as words.
    gone: tuple[tuple[str, ...], ...]
    #: What it names.
    terms: frozenset[str]
    #: Its words without what denies or affirms, and whether they are denied.
    said: tuple[str, ...]
    denied: bool


@dataclass(frozen=True, slots=True)
class _Phrases:
    """Rows of words by their first word, the longest first, each with what it is."""

    by_first: dict[str, tuple[tuple[tuple[str, ...], str], ...]]

    def at(self, words: Sequence[str], place: int) -> tuple[int, str]:
        """How many words a phrase takes here and what it is; (0, "") for none."""
        for phrase, group in self.by_first.get(words[place], ()):
            if tuple(words[place : place + len(phrase)]) == phrase:
                return len(phrase), group
        return 0, ""


@dataclass(frozen=True, slots=True)
class _Table:
    structure: _Phrases
    doubts: _Phrases
    passing: _Phrases
    states: _Phrases
    news: _Phrases
    rules: _Phrases
    only: _Phrases
    polar: _Phrases
    bounds: frozenset[str]
    scopes: frozenset[str]
    labels: frozenset[str]
    dates: frozenset[str]
    replaces: tuple[re.Pattern[str], ...]


def read(text: str, kind: MemoryKind) -> Claim | None:
    """The statement as it is compared; None where it says nothing that something else could contradict."""
    table = _table()
    raw = _tokens(text)
    if not _FEWEST <= len(raw) <= _MOST or cues_of(text, Cue.QUESTION) & Cue.QUESTION or text.rstrip().endswith((":", "：")):
        return None
    lower = [word.lower().replace("’", "'") for word in raw]
    firm = kind in FIRM or _any(table.rules, lower)
    if not firm and not _any(table.states, lower):
        return None
    words, written = _structured(lower, raw)
    if _any(table.doubts, words):
        return None
    gone = tuple(_value(old) for old in _given_up(text.lower().replace("’", "'")))
    sole = firm or _any(table.news, lower) or _any(table.only, lower)
    return Claim(words, written, firm, sole, _any(table.passing, lower), gone, frozenset(term_set(text)), *_unpolar(words))


@cache
def words_pattern() -> str:
    """A pattern without which, in lower case, no statement is read that is not told as a decision, rule or preference (RE2)."""
    data = _data()
    rows = sorted({row for name in ("rules", "states") for row in _rows(data[name])})
    spoken = "|".join(r"\W+".join(row.replace("'", "['’]").split()) for row in rows if not _CJK.match(row))
    return rf"\b(?:{spoken})\b|" + "|".join(row for row in rows if _CJK.match(row))


def contradicts(newer: Claim, older: Claim, apart: bool) -> bool:
    """Whether both cannot hold, and the newer is what does; `apart`: they were said on different days."""
    if newer.words == older.words or len(newer.terms & older.terms) == 0:
        return False
    if apart and (newer.passing or older.passing):
        return False
    return _other_value(newer, older) or _gives_up(newer, older) or _denies(newer, older)


def _other_value(newer: Claim, older: Claim) -> bool:
    """Whether one value alone differs, and it stands where only one can."""
    start, end = _same_ends(newer.words, older.words)
    new, old = newer.words[start : len(newer.words) - end], older.words[start : len(older.words) - end]
    if not (new and old) or len(new) > _length(new) or len(old) > _length(old):
        return False
    before, after = _clause(newer.words[:start], newer.words[len(newer.words) - end :])
    shared = _content((*before, *after))
    enough = (newer.firm and older.firm) or len(shared) >= _SHARED
    numbers = _is_number(new), _is_number(old)
    if any(numbers):
        version = len(before) > 1 and before[-2] == _CHOOSES and "." in new[0] and "." in old[0]
        if not (shared and before and all(numbers)) or _is_label(before) or _is_date(after):
            return False
        return version or (enough and _sets_number(before, after)) or (newer.firm and older.firm and len(shared) >= _NEARLY_ALL)
    if not shared or not enough:
        return False
    if newer.firm and older.firm and len(before) > 2 and (before[-3], before[-1]) == (_EQUALS, "by"):
        return True
    return newer.sole and _sets_name(before, newer.raw[start : start + len(new)], older.raw[start : start + len(old)])


def _same_ends(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """How many words are the same from the start, and behind those from the end."""
    most = min(len(a), len(b))
    start = next((i for i in range(most) if a[i] != b[i]), most)
    end = next((i for i in range(most - start) if a[-1 - i] != b[-1 - i]), most - start)
    return start, end


def _clause(before: Sequence[str], after: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What stands before and after a value in its own clause: the next one is about something else."""
    start = next((len(before) - back for back, word in enumerate(reversed(before)) if word in _STOPS), 0)
    end = next((at for at, word in enumerate(after) if word in _STOPS), len(after))
    return before[start:], after[:end]


def _length(value: Sequence[str]) -> int:
    return 2 * _VALUE if all(_CJK.match(word) for word in value) else _VALUE


def _is_number(value: Sequence[str]) -> bool:
    return _NUMBER.match(value[0]) is not None or value[0] in _NUMBER_WORDS


def _sets_number(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a number behind `before` is a measure that is set, by the words around it."""
    near = before[-_APART - 1 :]
    return any(word in (_CHOOSES, _EQUALS, "=") or word in _table().bounds for word in near) or after[:1] == ("%",)


def _is_label(before: Sequence[str]) -> bool:
    """Whether a number behind these words only numbers something: step 3, PR 12."""
    return before[-1] in _table().labels or before[-1] == "#"


def _is_date(after: Sequence[str]) -> bool:
    """Whether a number before these words is that of a day, a month or an hour."""
    return not _table().dates.isdisjoint(after[:2])


def _sets_name(before: Sequence[str], new: Sequence[str], old: Sequence[str]) -> bool:
    """Whether a name behind `before` is what was chosen, with nothing between that would make it a purpose or a place."""
    table = _table()
    for back, word in enumerate(reversed(before)):
        if word == _CHOOSES:
            return True
        if word == _EQUALS:
            one = _any(table.only, before)
            return back == 0 and (one or (_NAME.match(new[0]) is not None and _NAME.match(old[0]) is not None))
        if word in table.scopes or word in table.labels or back >= _APART:
            return False
    return False


def _gives_up(newer: Claim, older: Claim) -> bool:
    """Whether the newer gives a value up in so many words that the older had set, of the same thing."""
    for value in newer.gone if newer.sole else ():
        if not value or len(value) > _length(value) or any(_meets(value, own) for own in older.gone):
            continue
        at, named = _place(value, older.words), _content(value)
        if at is None or not named or not _is_set(older, at, len(value)):
            continue
        about = older.terms - named - _content(_SETTING)
        same = about & newer.terms
        if len(same) >= _COVERED * len(about) and len(same) >= (1 if newer.firm and older.firm else _SHARED):
            return True
    return False


def _value(text: str) -> tuple[str, ...]:
    """The words of a value, up to where its purpose or place is said."""
    words = [word for word in _tokens(text) if word not in ("the", "a", "an", "using")]
    end = next((at for at, word in enumerate(words) if at and word in _table().scopes), len(words))
    return tuple(words[:end])


def _meets(a: Sequence[str], b: Sequence[str]) -> bool:
    return _place(a, b) is not None or _place(b, a) is not None


def _place(part: Sequence[str], words: Sequence[str]) -> int | None:
    """Where `part` stands in `words` in one run; None for nowhere."""
    size = len(part)
    return next((i for i in range(len(words) - size + 1) if tuple(words[i : i + size]) == tuple(part)), None)


def _is_set(claim: Claim, at: int, size: int) -> bool:
    """Whether the value at this place is what the statement chose."""
    near = (*claim.words[max(0, at - 2) : at], *claim.words[at + size : at + size + 2])
    return any(word in (_CHOOSES, _EQUALS, "default", "默", "认") for word in near)


def _denies(newer: Claim, older: Claim) -> bool:
    """Whether both say the same, one of them with a denial."""
    if newer.denied == older.denied or newer.said != older.said:
        return False
    lasting = (newer.firm and older.firm) or bool({"default", "默"} & set(newer.words) & set(older.words))
    return lasting and len(_content(newer.said)) >= _NAMED


def _unpolar(words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The words without what denies or affirms, and whether what is left is denied."""
    polar = _table().polar
    kept: list[str] = []
    denials, place = 0, 0
    while place < len(words):
        size, group = polar.at(words, place)
        if size:
            denials += group == "denies"
        elif words[place] not in (_CHOOSES, _EQUALS):
            kept.append(words[place])
        place += size or 1
    return tuple(kept), denials % 2 == 1


def _content(words: Sequence[str]) -> set[str]:
    """The terms of words, without what sets a value and what only bounds it."""
    own = [word for word in words if word not in (_CHOOSES, _EQUALS)]
    return term_set(" ".join(own)) if not any(map(_CJK.match, own)) else term_set("".join(_joined(own)))


def _joined(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        yield word if _CJK.match(word) else f" {word} "


def _structured(lower: Sequence[str], raw: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words without frame, what sets a value as one word; and the same as written."""
    structure = _table().structure
    words: list[str] = []
    written: list[str] = []
    place = 0
    while place < len(lower):
        size, group = structure.at(lower, place)
        if group in ("chooses", "equals"):
            words.append(_CHOOSES if group == "chooses" else _EQUALS)
            written.append(words[-1])
        elif group != "frame":
            words += lower[place : place + (size or 1)]
            written += raw[place : place + (size or 1)]
        place += size or 1
    return tuple(words), tuple(written)


def _given_up(text: str) -> Iterator[str]:
    for pattern in _table().replaces:
        for match in pattern.finditer(text):
            yield match["old"]


def _any(phrases: _Phrases, words: Sequence[str]) -> bool:
    return any(phrases.at(words, place)[0] for place in range(len(words)))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


@cache
def _table() -> _Table:
    data = _data()
    flat = {name: frozenset(_rows(data[name])) for name in ("bounds", "scopes", "labels", "dates")}
    return _Table(
        structure=_phrases(data, "whole", "chooses", "equals", "frame"),
        doubts=_phrases(data, "doubts"),
        passing=_phrases(data, "passing"),
        states=_phrases(data, "states"),
        news=_phrases(data, "news"),
        rules=_phrases(data, "rules"),
        only=_phrases(data, "only"),
        polar=_phrases(data, "denies", "affirms"),
        replaces=tuple(map(re.compile, data["replaces"]["patterns"])),
        **flat,
    )


def _data() -> dict[str, Any]:
    source = files("memory_mcp.summarize") / "contradictions.toml"
    return tomllib.loads(source.read_text(encoding="utf-8"))


def _rows(text: str) -> list[str]:
    return [row for row in text.replace("\n", "|").split("|") if row]


def _phrases(data: dict[str, Any], *groups: str) -> _Phrases:
    """The phrases of some groups; of two that are the same the first group's."""
    found: dict[tuple[str, ...], str] = {}
    for group in groups:
        for row in _rows(data[group]):
            if words := tuple(_tokens(row)):
                found.setdefault(words, group)
    by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for words, group in sorted(found.items(), key=lambda item: -len(item[0])):
        by_first.setdefault(words[0], []).append((words, group))
    return _Phrases({first: tuple(rows) for first, rows in by_first.items()})
