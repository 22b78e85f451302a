"""Cuts out the part of a long text that holds most of a question's words. Pure.

Every word as it was typed counts alike, also the small ones: of 60 questions about coding sessions the answer's own words were in
27 default answers, with stems weighed by rarity in 21. Stems are used where none of the words occurs as it was typed.

Invariants
1. What lies between two ellipses is an exact part of the text.
2. A cut falls between words where white space or punctuation is near, and never inside a character.
3. A text that fits is returned unchanged.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from memory_mcp.base.text import iter_terms, placed_terms, query_terms, term_hash
from memory_mcp.requests.plain import size_of

if TYPE_CHECKING:  # numpy, behind it, would double the time to the handshake
    from memory_mcp.tree.derive.terms import Frequencies

#: Marks a cut.
ELLIPSIS = "…"
#: Characters given up at most to cut at white space, and at the end of a word without any.
_TO_SPACE, _TO_WORD_END = 24, 48
#: Share of the free room that stands before the words found: what follows them says more.
_BEFORE = 0.3
#: Characters before the first of the words as typed, and the share of the room that they may take.
_LEAD, _LEAD_SHARE = 80, 0.4
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s")
#: Characters of words in lower-case ASCII text.
_ASCII_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
#: What stands between words of ASCII, as a table of `str.translate`.
_BLANKS = {number: " " for number in range(128) if chr(number) not in _ASCII_LETTERS and not chr(number).isupper()}
#: Share of a stretch's weight below which a term at its end is given up.
_LIGHT = 0.1
_EQUAL = 1e-9
#: Letters of a script without spaces that are read as one letter of another: a word is 6 letters with its space there, 2 here.
_UNSPACED = 3
#: Characters of a text that tell whether its script has spaces, and those of a word on average from which it has none.
_SAMPLE, _LONG_WORDS = 400, 20
#: Weight of a keyword's term, as a share of that of the question's own.
_KEYWORD = 0.5
_ZERO_WIDTH_JOINER = "\u200d"
_COMBINING_IOTA = "\u0345"


def term_weights(
    query: str, frequencies: "Frequencies", segments: int, project: str | None, keywords: Sequence[str] = ()
) -> dict[str, float]:
    """Weigh a query's terms, rare ones more.

    `segments` is how many segments the project has (None: all projects); a weight is log(1 + (segments + 1) /
    (1 + holding)), and `_KEYWORD` of it for a term of `keywords` alone.
    """
    question_terms = query_terms(query)
    shares = dict.fromkeys(iter_terms("\n".join(keywords)), _KEYWORD) | dict.fromkeys(question_terms, 1.0)
    return {
        term: share * math.log(1 + (segments + 1) / (1 + frequencies.segment_count(term_hash(term), project)))
        for term, share in shares.items()
    }


def width_in(text: str, letters: int) -> int:
    """Return how many characters say as much as `letters` letters: fewer without spaces."""
    sample = text[:_SAMPLE]
    if sample.isascii() or len(sample) <= _LONG_WORDS * len(sample.split()):
        return letters
    unspaced = sum(unicodedata.category(character) == "Lo" for character in sample)
    return letters // _UNSPACED if 2 * unspaced > len(sample) else letters


def words_typed(query: str, keywords: Sequence[str] = ()) -> frozenset[str]:
    """Return the words of a question and its keywords, case folded."""
    return frozenset(_WORD.findall(" ".join((query, *keywords)).casefold()))


class Excerpt:
    """A text, searched once for words and weighted terms, that can be cut to any width."""

    def __init__(self, text: str, weights: Mapping[str, float], words: Set[str] = frozenset()) -> None:
        self.text = text.strip()
        self._weights = weights
        self._words = words
        self._found: Sequence[tuple[int, int, str]] | None = None
        #: Starts, ends and words as typed, in order; none reaches into another.
        self._typed: tuple[list[int], list[int], list[str]] | None = None

    def cut(self, width: int) -> str:
        """Return at most `width` characters where most of the words are.

        Without any of them it is around the heaviest terms. A text that fits is returned whole; one without any of the terms
        is cut at its end.
        """
        if len(self.text) <= width:
            return self.text
        room = max(width - 2 * len(ELLIPSIS), 1)
        lead = min(_LEAD, int(room * _LEAD_SHARE))
        if (stretch := self._fullest(room - lead) if self._words else None) is not None:
            start = max(min(stretch[0] - lead, len(self.text) - room), 0)
            return cut_out(self.text, start, min(start + room, len(self.text)), stretch)
        first, last = self._densest(room) if self._weights else (0, 0)
        start = max(min(first - int((room - (last - first)) * _BEFORE), len(self.text) - room), 0)
        end = min(start + room, len(self.text))
        return cut_out(self.text, start, end, (first, last))

    def _fullest(self, room: int) -> tuple[int, int] | None:
        """Return the first stretch with most distinct words; None without any."""
        if self._typed is None:
            placements = _find_words(self.text, self._words)
            self._typed = (
                [start for start, _, _ in placements],
                [end for _, end, _ in placements],
                [word for _, _, word in placements],
            )
        starts, ends, words = self._typed
        count, distinct = len(starts), len({*words})
        best: tuple[int, int] | None = None
        most, after = 0, 0
        for at, start in enumerate(starts):
            limit, counted_to = start + room, after
            while after < count and ends[after] <= limit:
                after += 1
            # One that only lost a word, or has too few of them, holds no more than those before it.
            if after > counted_to and after - at > most and (word_count := len({*words[at:after]})) > most:
                most, best = word_count, (start, ends[after - 1])
                if most == distinct:
                    break
        return best

    def _densest(self, room: int) -> tuple[int, int]:
        """Return the stretch of `room` characters whose terms weigh most.

        Of stretches that weigh the same it is the first; (0, 0) where the text holds none of the terms. Given up are terms at its
        ends that occur in it again, or weigh less than `_LIGHT` of it; at least one stays.
        """
        if self._found is None:
            placed = placed_terms(self.text) if self._weights else ()
            self._found = [entry for entry in placed if entry[2] in self._weights]
        placements, counts = self._found, Counter[str]()
        best, most, weight, first_index = (0, 0), 0.0, 0.0, 0
        for right, (_, end, term) in enumerate(placements):
            weight += 0.0 if counts[term] else self._weights[term]
            counts[term] += 1
            while end - placements[first_index][0] > room and first_index < right:
                counts[placements[first_index][2]] -= 1
                weight -= 0.0 if counts[placements[first_index][2]] else self._weights[placements[first_index][2]]
                first_index += 1
            if weight > most + _EQUAL:
                most, best = weight, (first_index, right + 1)
        low, high = best
        counts = Counter(term for _, _, term in placements[low:high])

        def spare(index: int) -> bool:
            """Return whether the term at a place is dispensable, and if so count it as gone."""
            term = placements[index][2]
            light = counts[term] > 1 or self._weights[term] < _LIGHT * most
            counts[term] -= light
            return light

        while high - low > 1 and spare(low):
            low += 1
        while high - low > 1 and spare(high - 1):
            high -= 1
        return (placements[low][0], min(placements[high - 1][1], placements[low][0] + room)) if high else (0, 0)


def _find_words(text: str, words: Set[str]) -> list[tuple[int, int, str]]:
    """Return start, end and word of all whole words that are in `words`, in order."""
    folded = text.casefold() if words else ""
    if len(folded) != len(text) or _COMBINING_IOTA in text:
        # A character that is folded to several moves what follows; a combining iota becomes a letter.
        return [(m.start(), m.end(), word) for m in _WORD.finditer(text) if (word := m[0].casefold()) in words] if words else []
    # Looking for each word takes half the time of looking at all words of the text.
    if folded.isascii():
        return _find_words_in_ascii(folded, words)
    placed, framed, letters = list[tuple[int, int, str]](), f" {folded} ", _ASCII_LETTERS
    for word in words:
        start = framed.find(word)
        while start >= 0:
            end = start + len(word)
            left, right = framed[start - 1], framed[end]
            # With a letter on either side it is part of another word. A function for this would take longer than the search.
            is_part = left in letters or right in letters or (left > "\x7f" and left.isalnum())
            if not is_part and not (right > "\x7f" and right.isalnum()):
                placed.append((start - 1, end - 1, word))
            start = framed.find(word, end)
    return sorted(placed)


def _find_words_in_ascii(folded: str, words: Set[str]) -> list[tuple[int, int, str]]:
    """Return the same of a text of ASCII in lower case: with blanks in place of all signs nothing has to be looked at."""
    blanked, placed = f" {folded} ".translate(_BLANKS), list[tuple[int, int, str]]()
    for word in words:
        framed_word, size = f" {word} ", len(word)
        start = blanked.find(framed_word)
        while start >= 0:
            placed.append((start, start + size, word))
            # Its last blank may be the first of the next.
            start = blanked.find(framed_word, start + size + 1)
    return sorted(placed)


class SizedCuts:
    """A text that is cut to several widths before one of them is shown: each cut is made and measured once."""

    def __init__(self, cut: Callable[[int], str], name: str) -> None:
        """Take what cuts the text to a width, and the name of the field that shows it."""
        self._cut = cut
        self._name_size = len(f'"{name}":,')
        self._cuts: dict[int, tuple[str, int]] = {}

    def at(self, width: int) -> tuple[str, int]:
        """Return the text cut to a width, and the bytes that it adds to its object."""
        cut = self._cuts.get(width)
        if cut is None:
            text = self._cut(width)
            cut = self._cuts[width] = text, self._name_size + size_of(text) if text else 0
        return cut


def cut_out(text: str, start: int, end: int, fixed_span: tuple[int, int] | None = None) -> str:
    """Return the part from `start` to `end`, cut at words.

    Its ends move inwards to the ends of words, but not into `fixed_span`, a (start, end) inside the part; without it an end may
    move through the whole part. Ellipses mark cuts.
    """
    first, last = fixed_span or (end, start)
    if start > 0:
        most = min(first, end)
        at = _find_space_after(text, start, most)
        start = _find_cut(text, range(start, most + 1), most) if at is None else at
    if end < len(text):
        least = max(last, start)
        at = _find_space_before(text, end, least)
        end = _find_cut(text, range(end, least - 1, -1), least) if at is None else at
    piece = text[start:end].strip()
    return f"{ELLIPSIS if start > 0 else ''}{piece}{ELLIPSIS if end < len(text) else ''}"


def head_and_tail(text: str, width: int) -> str:
    """Return a long text's beginning and end, in about `width` characters.

    How many more it has is noted between them. Three fifths of the room are for the beginning. A text that fits is returned
    whole; both ends are cut between words.
    """
    text = text.strip()
    if len(text) <= width:
        return text
    note = f" {ELLIPSIS} [{len(text) - width:,} characters] {ELLIPSIS} "
    room = max(width - len(note), 2)
    head = cut_out(text, 0, room * 3 // 5).removesuffix(ELLIPSIS)
    tail = cut_out(text, len(text) - room * 2 // 5, len(text)).removeprefix(ELLIPSIS)
    return f"{head}{note}{tail}"


def _find_space_after(text: str, start: int, most: int) -> int | None:
    """Return the first place at white space from `start` > 0 to `most`, within `_TO_SPACE` places; None without one."""
    last = min(start + _TO_SPACE, most)
    if last >= start and (space := _SPACE.search(text, start - 1, last + 1)):
        return max(space.start(), start)
    return len(text) if start <= len(text) <= last else None


def _find_space_before(text: str, end: int, least: int) -> int | None:
    """None without white space within `_TO_SPACE` places; `end` is inside the text."""
    first = max(end - _TO_SPACE, least)
    if first > end:
        return None
    near = text[max(first - 1, 0) : end]
    if not near or near[-1].isspace() or text[end].isspace():
        return end
    word = near.rsplit(None, 1)[-1]
    if len(word) < len(near):
        return end - len(word)
    return 0 if first == 0 else None


def _find_cut(text: str, places: range, otherwise: int) -> int:
    """Between words within `_TO_WORD_END` places, else characters, else `otherwise`."""
    for at in places[: _TO_WORD_END + 1]:
        if at < len(text) and _between_characters(text, at) and not (_joins(text[at - 1]) and _joins(text[at])):
            return at
    return next((at for at in places if _between_characters(text, at)), otherwise)


def _joins(character: str) -> bool:
    return character == "_" or (character.isalnum() and unicodedata.category(character) != "Lo")


def _between_characters(text: str, at: int) -> bool:
    """Return whether a cut here splits no character."""
    if at <= 0 or at >= len(text):
        return True
    previous, following = text[at - 1], text[at]
    joined = _ZERO_WIDTH_JOINER in (previous, following) or "\U0001f3fb" <= following <= "\U0001f3ff"
    return not (joined or unicodedata.category(following).startswith("M"))
