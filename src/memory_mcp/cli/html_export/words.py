"""The terms of a text as the index in an HTML file holds them (pure); `static/words.js` has the same rules for the query.

Invariants
1. Both give the same terms for the same text: what is changed here is changed there, and a test compares them.
2. A word gives itself without case, accents and plural ending, and its parts where it is a name of code; a run of CJK
   characters gives its bigrams, as in `memory_mcp.base.text`.
"""

import re
import unicodedata
from collections.abc import Iterator

from memory_mcp.base.text import MAX_TOKEN

#: Voiced sounds of kana are marks to Unicode, and letters to a reader.
_KEPT_MARKS = (0x3099, 0x309A)


class _WithoutMarks(dict[int, int | None]):
    """For `str.translate`: each character once met, and None for marks; a table of all takes 0.6 s to make."""

    def __missing__(self, code: int) -> int | None:
        """Keep and return the character itself, or None for a mark."""
        is_mark = unicodedata.category(chr(code)).startswith("M") and code not in _KEPT_MARKS
        return self.setdefault(code, None if is_mark else code)


_MARKS = _WithoutMarks()
_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"(?P<cjk>[{_CJK}]+)|[^\W{_CJK}]+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+")
_PLAIN = re.compile(r"[a-z]{4,}")


def terms(text: str) -> set[str]:
    """Return the distinct terms of a text: those of `groups` of each of its lines."""
    found: set[str] = set()
    # A repeated line is taken apart once.
    for line in dict.fromkeys(text.split("\n")):
        for group in groups(line):
            found.update(group)
    return found


def groups(text: str) -> Iterator[list[str]]:
    """Yield the terms of each word of a text: the word, then its parts if it has several; of a run of CJK its bigrams.

    In lower case and without plural endings, see `_folded`. A word that is longer than MAX_TOKEN is left out.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).translate(_MARKS))
    for match in _PIECE.finditer(text):
        piece = match[0]
        if match.lastgroup == "cjk":
            yield [piece] if len(piece) == 1 else [piece[at : at + 2] for at in range(len(piece) - 1)]
        elif (word := piece.strip("_")) and len(word) <= MAX_TOKEN:
            parts = _PARTS.findall(word) if word.isascii() else [part for part in word.split("_") if part]
            yield [_folded(word), *map(_folded, parts if len(parts) > 1 else [])]


def _folded(word: str) -> str:
    """Return a word in lower case and, where it is of at least four plain letters, without its plural ending."""
    low = word.lower().replace("\u00df", "ss").replace("\u03c2", "\u03c3")
    if not _PLAIN.fullmatch(low) or not low.endswith("s"):
        return low
    if low.endswith("ies") and low[-4] not in "ae":
        return low[:-3] + "y"
    if low.endswith("es") and low[-3] not in "aeo":
        return low[:-1]
    return low if low[-2] in "us" or low.endswith("es") else low[:-1]
