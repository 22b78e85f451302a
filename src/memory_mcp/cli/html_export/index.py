"""The search index inside an HTML file: from texts of numbered segments to JSON safe within a script element (pure).

Invariants
1. `web/static/file_words.js` takes the words of a query apart by the same rules: what is changed here is changed there, and a
   test compares them.
2. A word gives itself without case, accents and plural ending, and its parts where it is a name of code; a run of CJK
   characters gives its bigrams, as in `memory_mcp.base.text`.

Change here: what an HTML export shows.
"""

import json
import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memory_mcp.base.text import MAX_TOKEN, STOPWORDS

#: Voiced sounds of kana are marks to Unicode, and letters to a reader.
_KEPT_MARKS = (0x3099, 0x309A)


class _WithoutMarks(dict[int, int | None]):
    """A table for `str.translate` that removes marks, filled when used.

    A whole one takes 0.6 s to make.
    """

    def __missing__(self, code: int) -> int | None:
        is_mark = unicodedata.category(chr(code)).startswith("M") and code not in _KEPT_MARKS
        return self.setdefault(code, None if is_mark else code)


_MARKS = _WithoutMarks()
_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"(?P<cjk>[{_CJK}]+)|[^\W{_CJK}]+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+")
_PLAIN = re.compile(r"[a-z]{4,}")


def terms(text: str) -> set[str]:
    """Return the distinct terms of a text."""
    all_terms: set[str] = set()
    # A repeated line is taken apart once.
    for line in dict.fromkeys(text.split("\n")):
        for group in groups(line):
            all_terms.update(group)
    return all_terms


def groups(text: str) -> Iterator[list[str]]:
    """Yield the terms of each word of a text.

    The word, then its parts if it has several; of a run of CJK its bigrams. A word longer than MAX_TOKEN is left out.
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
    low = word.lower().replace("\u00df", "ss").replace("\u03c2", "\u03c3")
    if not _PLAIN.fullmatch(low) or not low.endswith("s"):
        return low
    if low.endswith("ies") and low[-4] not in "ae":
        return low[:-3] + "y"
    if low.endswith("es") and low[-3] not in "aeo":
        return low[:-1]
    return low if low[-2] in "us" or low.endswith("es") else low[:-1]


#: Words that tell no text from another, as terms.
_STOP = frozenset().union(*map(terms, STOPWORDS))
#: Terms on one line of the file.
_TERMS_A_LINE = 200
#: What ends a script, a comment or a line in HTML or JavaScript, as JSON may write it.
_MEANS = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class SearchIndex:
    """Postings: numbers of the segments that contain each term."""

    def __init__(self) -> None:
        self._postings: dict[str, array[int]] = {}

    def add_text(self, number: int, text: str) -> None:
        """Add the terms of a text; segment numbers must never decrease."""
        for term in terms(text) - _STOP:
            numbers = self._postings.setdefault(term, array("I"))
            if not numbers or numbers[-1] != number:
                numbers.append(number)

    def json_lines(self, segment_anchors: Sequence[str]) -> Iterator[str]:
        """Yield the index as one JSON object, in pieces.

        Its fields: of (the root's id), segments (anchors by number), stop (stop words), and terms, by term the number of
        its first segment and the difference of each further one to the one before, terms sorted.
        """
        stop_words = _as_data(sorted(_STOP))
        yield f'{{"of":"toc:root","segments":{_as_data(list(segment_anchors))},\n"stop":{stop_words},\n"terms":{{\n'
        names = sorted(self._postings)
        for start in range(0, len(names), _TERMS_A_LINE):
            row = []
            for name in names[start : start + _TERMS_A_LINE]:
                numbers = self._postings[name]
                steps = [numbers[0], *(number - previous for previous, number in pairwise(numbers))]
                row.append(f"{_as_data(name)}:{_as_data(steps)}")
            yield ",".join(row) + (",\n" if start + _TERMS_A_LINE < len(names) else "\n")
        yield "}}"


def _as_data(value: object) -> str:
    """Nothing in it ends a script element or begins a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_MEANS)
