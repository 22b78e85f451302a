"""Look up a token's key, spelling and weight.

Invariants
1. The same token gives the same `Word` in every process: the background table ships with the package and never grows.
2. What is shown was in the text: a path is shown by its last component, nothing is completed or corrected.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from importlib.resources import files

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import STOPWORDS, stem, terms
from memory_mcp.tree.summarize.kinds import ANY_CUE, TRIGGERS

#: Runs of word characters and of the punctuation inside code and names; an apostrophe ends a word. Punctuation at the end is
#: stripped when the token is learned: matching one character class takes half the time of the exact form.
TOKEN = lazy_pattern(r"\w[\w.\-/:@+\\#]*")
# The same for ASCII text, in two thirds of the time.
_ASCII_TOKEN = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.\-/:@+\\#]*")
#: Most characters of a keyword.
MAX_SHOWN = 36
_CACHE_LIMIT = 100_000
_LEVELS = 9.0
#: Weights of words that are not in the background table, and of identifiers.
_UNKNOWN = 1.0
_CODE = 0.95

_NO_NAMES = frozenset(("e.g", "i.e", "a.k.a", "u.s", "p.m", "a.m", "and/or", "he/she", "w/o"))
_WITH_TAIL = frozenset(("C++", "c++", "C#", "c#", "F#", "f#"))
_POSITION = lazy_pattern(r"(?::\d+)+$")
_HEX = lazy_pattern(r"^(?=.*\d)[0-9a-f]{6,}$|^[0-9a-f]{8}-[0-9a-f-]{20,}$", re.I)
_DIGITS = lazy_pattern(r"^[\d.,:\-/+x%]+[a-z]{0,3}$", re.I)
_CAMEL = lazy_pattern(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]")
_LETTER = lazy_pattern(r"[^\W_]")
_HYPHENATED = lazy_pattern(r"[A-Za-z]+(?:-[A-Za-z]+)*\Z")
_EXTENSION = lazy_pattern(r"\.[A-Za-z]\w{0,9}$")
_ADDRESS = lazy_pattern(r"^(?:https?|ftp|file|mailto)[:/]|^www\.", re.I)
_CJK = lazy_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff66-\uff9f]")
# One range is faster to search than many; dashes and quotation marks are not in it.
_FAR = lazy_pattern(r"[\u3040-\uffff]")
# Runs of one script: ideographs without the commonest function characters, katakana, hangul.
_CJK_WORD = lazy_pattern(
    r"[\u30a1-\u30fa\u30fc]{2,}|[\uac00-\ud7af]{2,}"
    r"|(?:(?![的了是在我你他她它们們这這那和与與就都也不有一个個吗嗎呢吧把被对對从從到会會要可以很])[\u3400-\u4dbf\u4e00-\u9fff]){2,6}"
)

# Every two characters side by side that a word may be of.
_CJK_PAIR = lazy_pattern(f"(?=({_CJK_WORD.pattern.replace('{2,6}', '{2}').replace('{2,}', '{2}')}))")

#: Exponent of a word's weight (chosen on the tuning half of bench/titles.py).
RARITY = 0.3
#: Exponent of a word's length: titles have room for 120 characters.
BREVITY = 0.25
#: Least total weight of words that say something ("look at the changes in this branch" does not), and least weight of each.
_MIN_SAYING, _MIN_WEIGHT = 1.1, 0.15


# Not frozen: freezing makes construction four times as slow, and one is made per distinct token of an import.
@dataclass(slots=True, eq=False)
class Word:
    """A token's properties; `weight` is 0 to 1, `key` "" if not counted.

    Never changed once made. Compared by identity, so that counting words costs as little as counting numbers; equal keys mean
    the same word.
    """

    key: str
    spelling: str
    weight: float
    #: Whether it is written like code: a file, an identifier, a dotted or underscored name.
    code: bool
    #: Whether it begins with a capital, as names and sentences do.
    capital: bool
    #: The cues it can trigger (`kinds.TRIGGERS`).
    cues: int = 0
    #: Weight of one occurrence.
    rarity: float = field(init=False)
    #: Preference as a keyword: short words before long ones, and before adverbs and participles.
    appeal: float = field(init=False)

    def __post_init__(self) -> None:
        self.rarity = _rarity_of(self.weight)
        tail = not self.capital and not self.code and len(self.spelling) > 5 and self.spelling.endswith(("ed", "ly"))
        self.appeal = _appeal_of(len(self.spelling), tail)


# Cached mainly to share one float between all words of the same weight.
@cache
def _rarity_of(weight: float) -> float:
    return float(weight**RARITY)


@cache
def _appeal_of(length: int, tail: bool) -> float:
    appeal = float((length + 2) ** -BREVITY)
    return appeal * 0.75 if tail else appeal


NOTHING = Word("", "", 0.0, False, False)


class _WordCache(dict[str, Word]):
    """Cache of words by token; a full one is emptied."""

    def __missing__(self, token: str) -> Word:
        if len(self) > _CACHE_LIMIT:
            self.clear()
        cues = TRIGGERS.get(token.lower().rstrip(".:-/"), 0) if token.isascii() or not _CJK.search(token) else ANY_CUE
        word = _classify_token(token)
        if cues:
            word = Word(word.key, word.spelling, word.weight, word.code, word.capital, cues)
        self[token] = word
        return word


_known = _WordCache()
#: Returns the `Word` of a token as `TOKEN` matches it; cached.
lookup_word = _known.__getitem__


def is_vague(words: Iterable[Word]) -> bool:
    """Return whether words say next to nothing."""
    return sum({word.key: word.weight for word in words if word.weight > _MIN_WEIGHT}.values()) < _MIN_SAYING


def read_words(text: str) -> list[Word]:
    """Return a text's words, "" as key without meaning, then its CJK runs."""
    tokens = tokens_of(text)
    if has_cjk(text):
        tokens += cjk_runs(text)
    return list(map(lookup_word, tokens))


def keys_of(text: str) -> set[str]:
    """Return the keys of the words that count."""
    return {word.key for word in read_words(text) if word.key}


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    return _ASCII_TOKEN.findall(text) if text.isascii() else TOKEN.findall(text)


def cjk_runs(text: str) -> list[str]:
    """Return runs of one script as tokens.

    They are 2 or more of katakana or hangul, 2 to 6 ideographs between function characters.
    """
    return _CJK_WORD.findall(text)


def has_cjk(text: str) -> bool:
    """Return whether a text has Chinese, Japanese or Korean characters."""
    return not text.isascii() and _FAR.search(text) is not None and _CJK.search(text) is not None


def cjk_pairs(text: str) -> list[str]:
    """Return adjacent characters that a CJK word may have."""
    return _CJK_PAIR.findall(text) if has_cjk(text) else []


def _classify_token(token: str) -> Word:
    # Most tokens are plain words. One that begins with x may be a size (x4), see `_DIGITS`.
    if token.isalpha() and token.isascii() and token[1:].islower() and token[0] not in "xX":
        return _plain_word(token)
    spelling = token.strip("_") if token in _WITH_TAIL else token.strip("_").rstrip("._-/:@+\\#")
    if not spelling or _ADDRESS.match(spelling):
        return NOTHING
    if not spelling.isascii() and _CJK.search(spelling):
        # As short as a word; longer runs are split by `cjk_runs`.
        return Word(spelling, spelling, 0.8, False, False) if _CJK_WORD.fullmatch(spelling) else NOTHING
    if ":" in spelling:
        spelling = _POSITION.sub("", spelling)
    spelling = spelling.strip("_")
    if len(spelling) < 2 or _HEX.match(spelling) or _DIGITS.match(spelling):
        return NOTHING
    if spelling.isalpha() and not _CAMEL.search(spelling):
        return _plain_word(spelling)
    return _identifier_word(spelling)


def _plain_word(spelling: str) -> Word:
    folded = spelling.lower()
    if folded in STOPWORDS or len(spelling) > MAX_SHOWN:
        return NOTHING
    key = stem(folded) if folded.isascii() else (terms(spelling) or [folded])[0]
    weight = _background_weights().get(key, _UNKNOWN)
    if len(spelling) <= 2:
        weight = min(weight, 0.2)
    capital = spelling[0].isupper()
    # One string for both if equal: most words of an import are kept in memory.
    return Word(spelling if key == spelling else key, spelling, weight, False, capital) if weight > 0 else NOTHING


def _identifier_word(spelling: str) -> Word:
    if spelling.lower() in _NO_NAMES:
        return NOTHING
    name = spelling.replace("\\", "/").rpartition("/")[2].partition("@")[0].strip("_:-+.") or spelling
    if not 2 <= len(name) <= MAX_SHOWN or not _LETTER.search(name) or _HEX.match(name) or _DIGITS.match(name):
        return NOTHING
    if _HYPHENATED.match(name) and not _CAMEL.search(name):
        inner = [_plain_word(part) for part in name.split("-")]
        weight = max((word.weight for word in inner), default=0.0)
        if "-" not in name:
            return inner[0]
        return Word(name.lower(), name, weight, False, name[0].isupper()) if weight > 0.1 else NOTHING
    if ":" in name or sum(map(str.isdigit, name)) > len(name) / 2:
        return Word(name.lower(), name, 0.4, True, False)
    weight = _CODE if "_" in name or _EXTENSION.search(name) or _CAMEL.search(name) else 0.6
    return Word(name.lower(), name, weight, True, False)


@cache
def _background_weights() -> dict[str, float]:
    weights: dict[str, float] = {}
    for line in _table_lines("background.txt"):
        level, *stems = line.split()
        weights.update(dict.fromkeys(stems, 0.08 + 0.92 * int(level) / _LEVELS))
    for line in _table_lines("everyday.txt"):
        percent, *everyday = line.split()
        for word in everyday:
            for term in terms(word):
                weights[term] = min(weights.get(term, 1.0), int(percent) / 100)
    return weights


def _table_lines(name: str) -> list[str]:
    text = files("memory_mcp.tree.summarize").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


#: Exponent of rarity: the best term of 240 items is in about 50 of them, of ten items in three.
_SHARED_SHARPNESS = 1.5


def shared_term_weight(holders: int, total: int) -> float:
    """Return a term's weight, above 0, higher for rarer terms."""
    return float(math.log((total + 1) / holders) ** _SHARED_SHARPNESS)
