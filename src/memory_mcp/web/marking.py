"""Marks the words of a question in a quotation. Pure."""

import re
from collections.abc import Iterator, Set

from markupsafe import Markup

from memory_mcp.base.text import placed_terms, query_terms, term_set
from memory_mcp.web.rendering import plain

_WORD = re.compile(r"\w+")
#: What a quotation is searched for at most: a page marks the words that are looked for first.
_MOST = 200


def terms_to_mark(question: str, but: str = "") -> frozenset[str]:
    """Return the first 200 terms of a question, without `but`'s."""
    return frozenset(query_terms(question)[:_MOST]) - (term_set(but) if but else set())


def mark_terms(text: str, terms: Set[str]) -> Markup:
    """Return a text as markup with each word of the terms marked."""
    # What steers a page is replaced first: between two elements it would not be known again.
    text = plain(text)
    # Those that overlap or touch are one.
    joined = list[tuple[int, int]]()
    for start, end in sorted(_places(text, terms)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    pieces, at = [], 0
    for start, end in joined:
        pieces += [Markup.escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*pieces, Markup.escape(text[at:])])


def _places(text: str, terms: Set[str]) -> Iterator[tuple[int, int]]:
    """Of a path or dotted name only the words in it that are terms by themselves, or all its words where none is."""
    for start, end in {(start, end) for start, end, term in placed_terms(text) if term in terms}:
        words = [(start + word.start(), start + word.end()) for word in _WORD.finditer(text[start:end])]
        yield from [span for span in words if not term_set(text[slice(*span)]).isdisjoint(terms)] or words
