"""Look up what is known of a token: its key, how to show it, and how much it tells.

Invariants
1. The same token gives the same `Word` in every process: the background table ships with the package and never grows.
2. What is shown was in the text: a path is shown by its last component, nothing is completed or corrected.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from memory_mcp.base.text import STOPWORDS, stem, terms
from memory_mcp.summarize.kinds import ANY_CUE, TRIGGERS

#: Runs of word characters and of the punctuation inside code and names; an apostrophe ends a word. Punctuation at the end is
#: stripped when the token is learned: matching one character class takes half the time of the exact form.
TOKEN = re.compile(r"\w[\w.\-/:@+\\#]*")
# The same for ASCII text, in two thirds of the time.
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/:@+\\#]*")
#: Most characters of a keyword.
MAX_SHOWN = 36
_CACHE_LIMIT = 100_000
_LEVELS = 9.0
#: Weights of words that are not in the background table, and of identifiers.
_UNKNOWN = 1.0
_CODE = 0.95

_NO_NAMES = frozenset(("e.g", "i.e", "a.k.a", "u.s", "p.m", "a.m", "and/or", "he/she", "w/o"))
_WITH_TAIL = frozenset(("C++", "c++", "C#", "c#", "F#", "f#"))
_POSITION = re.compile(r"(?::\d+)+$")
_HEX = re.compile(r"^(?=.*\d)[0-9a-f]{6,}$|^[0-9a-f]{8}-[0-9a-f-]{20,}$", re.I)
_DIGITS = re.compile(r"^[\d.,:\-/+x%]+[a-z]{0,3}$", re.I)
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]")
_LETTER = re.compile(r"[^\W_]")
_HYPHENATED = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*\Z")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,9}$")
_ADDRESS = re.compile(r"^(?:https?|ftp|file|mailto)[:/]|^www\.", re.I)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff66-\uff9f]")
# One range is faster to search than many; dashes and quotation marks are not in it.
_FAR = re.compile(r"[\u3040-\uffff]")
# Runs of one script: ideographs without the commonest function characters, katakana, hangul.
_CJK_WORD = re.compile(
    r"[\u30a1-\u30fa\u30fc]{2,}|[\uac00-\ud7af]{2,}"
    r"|(?:(?![的了是在我你他她它们們这這那和与與就都也不有一个個吗嗎呢吧把被对對从從到会會要可以很])[\u3400-\u4dbf\u4e00-\u9fff]){2,6}"
)

# Every two characters side by side that a word may be of.
_CJK_PAIR = re.compile(f"(?=({_CJK_WORD.pattern.replace('{2,6}', '{2}').replace('{2,}', '{2}')}))")

#: Exponent of a word's weight (chosen on the tuning half of bench/titles.py).
RARITY = 0.3
#: Exponent of a word's length: titles have room for 120 characters.
BREVITY = 0.25
#: Least total weight of words that say something ("look at the changes in this branch" does not), and least weight of each.
_SAYING, _QUIET = 1.1, 0.15


# Not frozen: freezing makes construction four times as slow, and one is made per distinct token of an import.
@dataclass(slots=True, eq=False)
class Word:
    """What is known of one token. `weight` runs from 0 (says nothing) to 1; `key` is "" if it must not be counted.

    Never changed once made. Compared by identity, so that counting words costs as little as counting numbers; equal keys mean
    the same word.
    """

    key: str
    shown: str
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
        """Compute what every stretch needs from weight and form: rarity and appeal."""
        self.rarity = _rarity(self.weight)
        tail = not self.capital and not self.code and len(self.shown) > 5 and self.shown.endswith(("ed", "ly"))
        self.appeal = _appeal(len(self.shown), tail)


# Cached mainly to share one float between all words of the same weight.
@cache
def _rarity(weight: float) -> float:
    """Return the weight of one occurrence of a word: its weight, 0..1, to the power 0.3."""
    return float(weight**RARITY)


@cache
def _appeal(length: int, tail: bool) -> float:
    """Return the preference for a keyword of this length: the longer, the lower, and three quarters of that for a `tail`.

    A tail is a word that ends as adverbs and participles do.
    """
    appeal = float((length + 2) ** -BREVITY)
    return appeal * 0.75 if tail else appeal


NOTHING = Word("", "", 0.0, False, False)


class _Known(dict[str, Word]):
    """A cache of words by token."""

    def __missing__(self, token: str) -> Word:
        """Return, and keep, what `_judge` says of a token, with the cues it can trigger (CJK: all); first empty a full cache."""
        if len(self) > _CACHE_LIMIT:
            self.clear()
        cues = TRIGGERS.get(token.lower().rstrip(".:-/"), 0) if token.isascii() or not _CJK.search(token) else ANY_CUE
        found = _judge(token)
        if cues:
            found = Word(found.key, found.shown, found.weight, found.code, found.capital, cues)
        self[token] = found
        return found


_known = _Known()
#: Returns the `Word` of a token as `TOKEN` matches it; cached.
learn = _known.__getitem__


def is_vague(found: Iterable[Word]) -> bool:
    """Return whether these words say next to nothing: no names, only common words. Each word counts once."""
    return sum({word.key: word.weight for word in found if word.weight > _QUIET}.values()) < _SAYING


def words(text: str) -> list[Word]:
    """Return the words of a text in order, including those without meaning (key ""), then those of its CJK runs."""
    found = tokens_of(text)
    if has_cjk(text):
        found += cjk_runs(text)
    return list(map(learn, found))


def keys_of(text: str) -> set[str]:
    """Return the keys of a text's words that count, such as stems; words without meaning have none."""
    return {word.key for word in words(text) if word.key}


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text in order, as `TOKEN` matches them, with any punctuation at their ends."""
    return _ASCII_TOKEN.findall(text) if text.isascii() else TOKEN.findall(text)


def cjk_runs(text: str) -> list[str]:
    """Return runs of one script as tokens: 2 or more of katakana or hangul, 2 to 6 ideographs between function characters."""
    return _CJK_WORD.findall(text)


def has_cjk(text: str) -> bool:
    """Return whether a text has Chinese, Japanese or Korean characters; only then can `cjk_runs` find runs."""
    return not text.isascii() and _FAR.search(text) is not None and _CJK.search(text) is not None


def cjk_pairs(text: str) -> list[str]:
    """Return every two characters side by side, of scripts without blanks, that a word of a text may be of."""
    return _CJK_PAIR.findall(text) if has_cjk(text) else []


def _judge(token: str) -> Word:
    """Return the word of a token: a plain word, an identifier, or `NOTHING` for addresses, numbers and hashes."""
    # Most tokens are plain words. One that begins with x may be a size (x4), see `_DIGITS`.
    if token.isalpha() and token.isascii() and token[1:].islower() and token[0] not in "xX":
        return _prose(token)
    shown = token.strip("_") if token in _WITH_TAIL else token.strip("_").rstrip("._-/:@+\\#")
    if not shown or _ADDRESS.match(shown):
        return NOTHING
    if not shown.isascii() and _CJK.search(shown):
        # As short as a word; longer runs are split by `cjk_runs`.
        return Word(shown, shown, 0.8, False, False) if _CJK_WORD.fullmatch(shown) else NOTHING
    if ":" in shown:
        shown = _POSITION.sub("", shown)
    shown = shown.strip("_")
    if len(shown) < 2 or _HEX.match(shown) or _DIGITS.match(shown):
        return NOTHING
    if shown.isalpha() and not _CAMEL.search(shown):
        return _prose(shown)
    return _identifier(shown)


def _prose(shown: str) -> Word:
    """Return a plain word with its weight from the background table, 1 if it is not there, at most 0.2 for two letters.

    `NOTHING` for a stop word, one over 36 characters and one of weight 0.
    """
    folded = shown.lower()
    if folded in STOPWORDS or len(shown) > MAX_SHOWN:
        return NOTHING
    key = stem(folded) if folded.isascii() else (terms(shown) or [folded])[0]
    weight = _background().get(key, _UNKNOWN)
    if len(shown) <= 2:
        weight = min(weight, 0.2)
    capital = shown[0].isupper()
    # One string for both if equal: most words of an import are kept in memory.
    return Word(shown if key == shown else key, shown, weight, False, capital) if weight > 0 else NOTHING


def _identifier(shown: str) -> Word:
    """Return a name in code, shown by its last component, with a weight by its form.

    Hyphenated words have that of their weightiest part; `NOTHING` for numbers, hashes and names of one or over 36 characters.
    """
    if shown.lower() in _NO_NAMES:
        return NOTHING
    name = shown.replace("\\", "/").rpartition("/")[2].partition("@")[0].strip("_:-+.") or shown
    if not 2 <= len(name) <= MAX_SHOWN or not _LETTER.search(name) or _HEX.match(name) or _DIGITS.match(name):
        return NOTHING
    if _HYPHENATED.match(name) and not _CAMEL.search(name):
        inner = [_prose(part) for part in name.split("-")]
        weight = max((word.weight for word in inner), default=0.0)
        if "-" not in name:
            return inner[0]
        return Word(name.lower(), name, weight, False, name[0].isupper()) if weight > 0.1 else NOTHING
    if ":" in name or sum(map(str.isdigit, name)) > len(name) / 2:
        return Word(name.lower(), name, 0.4, True, False)
    weight = _CODE if "_" in name or _EXTENSION.search(name) or _CAMEL.search(name) else 0.6
    return Word(name.lower(), name, weight, True, False)


@cache
def _background() -> dict[str, float]:
    """Return the weight of each known stem, 0 to 1, read once from the tables of the package; everyday words lower it."""
    weights: dict[str, float] = {}
    for line in _lines("background.txt"):
        level, *stems = line.split()
        weights.update(dict.fromkeys(stems, 0.08 + 0.92 * int(level) / _LEVELS))
    for line in _lines("everyday.txt"):
        percent, *everyday = line.split()
        for word in everyday:
            for term in terms(word):
                weights[term] = min(weights.get(term, 1.0), int(percent) / 100)
    return weights


def _lines(name: str) -> list[str]:
    """Return the lines of a table in the package, without comments and empty ones."""
    text = files("memory_mcp.summarize").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
