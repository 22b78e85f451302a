"""Cut the elements that clients and agents put around a person's words: `<name ...>...</name>`, whatever their name.

Decided by position: an element counts where a text begins or ends with it, or where it has lines of its own and a name that no
page has (`ide_selection`, `hook-output`). HTML's own elements are what a person shows. Pure; linear in the text's length but for
the nesting of one name.
"""

import re
from bisect import bisect_left
from collections.abc import Container
from itertools import islice
from typing import NamedTuple

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.sentinel import MARK

_NAME = r"[A-Za-z][\w.:-]{0,63}"
#: What is between a tag's name and its end; a quoted value may hold anything.
_ATTRIBUTES = r"""(?:\s(?:=\s?"[^"]{0,2000}"|=\s?'[^']{0,2000}'|[^<>]){0,2000}+)?/?"""
_OPENING = lazy_pattern(rf"<({_NAME}){_ATTRIBUTES}>")
_CLOSING = lazy_pattern(rf"</({_NAME})(?:\s[^<>]{{0,100}})?>\s*\Z")
_OWN_LINES = lazy_pattern(rf"^<({_NAME}){_ATTRIBUTES}>", re.M)
_BLANK_TO_END = lazy_pattern(r"[^\S\n]*(?:\n|\Z)")
_FENCED = lazy_pattern(r"^[ \t]*(?:```|~~~)", re.M)
#: Elements that stay: of HTML and SVG, a closed vocabulary, which no client wraps its words in, and our own, which the gate
#: knows by its tags.
_NEVER_CUT = frozenset(
    "a abbr article aside audio b blockquote body br button canvas code del div em embed fieldset figure footer form g h1 h2 h3"
    " h4 h5 h6 head header hr html i iframe img input kbd label li link main mark nav object ol option p path pre q s script"
    " section select small span strong style sub sup svg table tbody td template textarea th thead tr u ul video".split()
) | {MARK}
#: Elements that are cut at most, tags inside a text that are looked at, and tags of one name for the end of one.
_MOST, _MOST_OPENINGS, _MOST_TAGS = 50, 200, 400


class Element(NamedTuple):
    """An element's name and content; of an empty one its attributes."""

    name: str
    content: str


def cut_elements(text: str, unclosed: Container[str] = ()) -> tuple[str, list[Element]]:
    """Return a text without its elements, and these in order.

    One whose name is in `unclosed` may lack its end: it goes to the end of the text.
    """
    first: list[Element] = []
    last: list[Element] = []
    words = text.strip()
    while len(first) < _MOST and (match := _OPENING.match(words)) and match[1].lower() not in _NEVER_CUT:
        end = _end_of(words, match)
        if not end and match[1] not in unclosed:
            break
        first.append(_make_element(match, words[: end or len(words)]))
        words = words[end or len(words) :].lstrip()
    while len(last) < _MOST and (match := _CLOSING.search(words[-300:])) and match[1].lower() not in _NEVER_CUT:
        start = _start_of(words, match[1])
        if start < 0:
            break
        opening = _OPENING.match(words, start)
        assert opening is not None
        last.insert(0, _make_element(opening, words[start:]))
        words = words[:start].rstrip()
    words, inner = _cut_inner(words)
    return words, [*first, *inner, *last]


def _cut_inner(text: str) -> tuple[str, list[Element]]:
    elements: list[Element] = []
    pieces: list[str] = []
    position = 0
    fences = [fence.start() for fence in _FENCED.finditer(text)]
    tags = (tag for tag in _OWN_LINES.finditer(text) if {"_", "-"} & set(tag[1]) and tag[1] not in _NEVER_CUT)
    for opening in islice(tags, _MOST_OPENINGS):
        if opening.start() < position or len(elements) >= _MOST or bisect_left(fences, opening.start()) % 2:
            continue
        end = _end_of(text, opening)
        if end and _BLANK_TO_END.match(text, end):
            elements.append(_make_element(opening, text[opening.start() : end]))
            pieces.append(text[position : opening.start()].rstrip())
            position = end
    return "\n".join(filter(None, (*pieces, text[position:].strip()))), elements


def _make_element(opening: re.Match[str], text: str) -> Element:
    if opening[0].endswith("/>"):
        return Element(opening[1], opening[0][len(opening[1]) + 1 : -2].strip())
    closing = _CLOSING.search(text[-300:])
    inner = text[opening.end() - opening.start() :]
    if closing and closing[1] == opening[1]:
        inner = inner[: len(inner) - (min(len(text), 300) - closing.start())]
    return Element(opening[1], inner.strip())


def _end_of(text: str, opening: re.Match[str]) -> int:
    """Return the position after an element's end; 0 without one."""
    depth = 0
    tags = re.compile(rf"<(/?){re.escape(opening[1])}{_ATTRIBUTES}>")
    if opening[0].endswith("/>"):
        return opening.end()
    for number, tag in enumerate(tags.finditer(text, opening.start())):
        depth += -1 if tag[1] else not tag[0].endswith("/>")
        if not depth:
            return tag.end()
        if number > _MOST_TAGS:
            break
    return 0


def _start_of(text: str, name: str) -> int:
    """Return where the last element begins a line; -1 for none."""
    depth = 0
    tags = [*re.finditer(rf"<(/?){re.escape(name)}{_ATTRIBUTES}>", text)][-_MOST_TAGS:]
    for tag in reversed([tag for tag in tags if not tag[0].endswith("/>")]):
        depth += 1 if tag[1] else -1
        if not depth:
            return tag.start() if not text[text.rfind("\n", 0, tag.start()) + 1 : tag.start()].strip() else -1
    return -1
