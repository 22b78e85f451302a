"""Normalize letters and digits to what they look like, and keep the place of each in the original text.

Case, accents, compatibility forms, look-alikes of other scripts, white space, punctuation and invisible characters do not
count. Other words for the same do.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from memory_mcp.base.dataclass import dataclass

#: Letters and digits that look alike within ASCII.
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l"})
#: Characters that Unicode calls letters and that show nothing: fillers of Hangul.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0")
#: Letters that Unicode does not fold and names by the letter they are: small capitals, white on black, of flags.
_NAMED = re.compile(r"(?:LATIN LETTER SMALL CAPITAL|NEGATIVE (?:SQUARED|CIRCLED) LATIN CAPITAL LETTER|SYMBOL LETTER) ([A-Z])$")
#: Characters of a value that is known also as parts of two words, as in an identifier.
JOINS_WORDS = 12
#: Looks like a letter and is none.
_SIGNS = {"|": "l"}


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text's letters and digits."""

    key: str
    #: For each character of `key` the place of the character it comes from.
    positions: tuple[int, ...]
    #: For each the number of its word: how many runs of white space and punctuation stand before it.
    words: tuple[int, ...]


def normalize_key(text: str) -> str:
    """Return the letters and digits of `text` as they look, folded in case.

    0 as "o", 1 and i as "l"; without all else.
    """
    if text.isascii():
        # A tenth of the time, and most text is.
        return text.encode("ascii").translate(*_load_ascii_table()).decode("ascii")
    return text.translate(_load_table())


def normalize_text(text: str) -> NormalizedText:
    """Return the key of a text with places and word numbers.

    White space and punctuation end a word, invisible characters and marks do not.
    """
    table = _load_table()
    parts: list[str] = []
    places: list[int] = []
    words: list[int] = []
    word, inside = 0, False
    for index, character in enumerate(text):
        form = table[ord(character)]
        if form:
            parts.append(form)
            places += [index] * len(form)
            words += [word] * len(form)
            inside = True
        elif inside and (character.isspace() or (character not in _BLANK and unicodedata.category(character)[0] not in "CM")):
            word, inside = word + 1, False
    return NormalizedText("".join(parts), tuple(places), tuple(words))


class _FormTable(dict[int, str]):
    def __missing__(self, code: int) -> str:
        form = self[code] = _normalize_character(chr(code))
        return form


@cache
def _load_table() -> _FormTable:
    return _FormTable()


@cache
def _load_ascii_table() -> tuple[bytes, bytes]:
    """Return (table, dropped bytes) for `bytes.translate`."""
    forms = [_normalize_character(chr(code)) for code in range(128)]
    dropped = bytes(code for code, form in enumerate(forms) if not form)
    return "".join(form or " " for form in forms).encode("ascii") + bytes(128), dropped


def _normalize_character(character: str) -> str:
    if character in _BLANK:
        return ""
    if character in _SIGNS:
        return _SIGNS[character]
    if (digit := unicodedata.decimal(character, None)) is not None:
        return str(digit).translate(_ALIKE)
    if named_letter := _NAMED.search(unicodedata.name(character, "")):
        character = named_letter[1]
    out: list[str] = []
    # Compatibility forms, folded in case and without accents.
    for part in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold()):
        if unicodedata.combining(part):
            continue
        # Of some letters only the capital looks like another script's.
        look_alike = part if part.isascii() else _load_look_alikes().get(part) or _load_look_alikes().get(part.upper()) or part
        if look_alike.isalnum() and look_alike not in _BLANK:
            out.append(look_alike.translate(_ALIKE))
    return "".join(out)


@cache
def _load_look_alikes() -> dict[str, str]:
    """Return ASCII letters and digits by their look-alikes of other scripts."""
    latin_of: dict[str, str] = {}
    for line in Path(__file__).with_name("look_alikes.txt").read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            latin, *code_points = line.split()
            latin_of |= {chr(int(code_point, 16)): latin for code_point in code_points}
    return latin_of


def count_runs(text: str) -> int:
    """Return the number of runs of letters and digits in a text."""
    words = normalize_text(text).words
    return words[-1] + 1 if words else 0


def replace_spans(
    text: str, spelled_text: NormalizedText, key_spans: Iterable[tuple[int, int, int]], mark: str, ends_at: Sequence[int] = ()
) -> str:
    """Return a text with spans of its key replaced by `mark`.

    A span of under `JOINS_WORDS` characters that joins parts of words is left alone. `spelled_text` is the text's key with its
    places, `key_spans` start, end and words in the key; `ends_at`: where each character ends in the text, if not after itself.
    """
    places, words = spelled_text.positions, spelled_text.words
    spans: list[tuple[int, int]] = []
    for start, end, tokens in sorted(key_spans):
        first, last = places[start], ends_at[end - 1] if ends_at else places[end - 1] + 1
        begins = start == 0 or words[start - 1] != words[start]
        ends = end == len(words) or words[end] != words[end - 1]
        if end - start < JOINS_WORDS and words[end - 1] - words[start] + 1 != tokens and not (begins and ends):
            continue
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    out: list[str] = []
    at = 0
    for first, end in spans:
        out += text[at:first], mark
        at = end
    return "".join([*out, text[at:]])
