"""Split a query into words: folded, with their places and the clause of each. Pure.

Invariants
1. Case and accents do not count; an apostrophe or a hyphen ends a word; 200ms is a number and a word.
2. Scripts without spaces give one word per character, so that a phrase of theirs is a sequence of words as well.
"""

from collections.abc import Sequence
from typing import NamedTuple

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import fold
from memory_mcp.question.exact import LiteralPiece

#: What a word's key is where its text does not count.
CODE, QUOTE, NUMBER = "<code>", "<quote>", "<number>"

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = lazy_pattern(
    rf"(?P<plain>[A-Za-z]++(?![^\W{_CJK}]|[\u0300-\u036f]))|(?P<number>\d+(?:[.,]\d+)*)|(?P<word>[{_CJK}]|[^\W\d{_CJK}][^\W{_CJK}\u0300-\u036f]*(?:[\u0300-\u036f]+[^\W{_CJK}]*)*)"
    r"|(?P<sign>[<>≤]=?)|(?P<stop>[,;.?!()\[\]{}\n–—、。，？！：；（）]|:(?!\s?\d)|(?<=\s)--?(?=\s))"
)


class Word(NamedTuple):
    """A word: the form it is compared by, its place, and its clause."""

    key: str
    start: int
    end: int
    clause: int


def split_words(text: str, literal: Sequence[LiteralPiece] = ()) -> list[Word]:
    """Return the words of a text in order.

    A literal piece is one word, whatever it holds. `literal` pieces must be in order. Punctuation is no word, and begins a new
    clause.
    """
    found_words: list[Word] = []
    clause = at = 0
    for piece in literal:
        clause = _add_words(text, at, piece.start, clause, found_words)
        found_words.append(Word(QUOTE if piece.kind == "quote" else CODE, piece.start, piece.end, clause))
        at = piece.end
    _add_words(text, at, len(text), clause, found_words)
    return found_words


def _add_words(text: str, start: int, end: int, clause: int, scanned: list[Word]) -> int:
    for match in _WORD.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "stop":
            clause += 1
        else:
            scanned.append(Word(NUMBER if kind == "number" else fold(match[0]), *match.span(), clause))
    return clause
