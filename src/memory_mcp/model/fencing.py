"""Fence recalled text so that it cannot end its own fence.

Invariants
1. Between `OPEN` and `CLOSE` stands nothing that could be read as either of them, however it is spelled: `neutral` is the last
   step of every text that leaves, fenced or not.
Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory_mcp.model.lookalikes import bare, readings
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN

#: Replaces a tag of ours that a text spells.
_OURS = "[our mark]"
#: Most rounds of removing marks, since the rest may spell a new one; then every character that could begin a tag is removed.
_ROUNDS = 8
# Between two letters of the mark: whatever is no letter, and markup, which somebody may take out later. Each character can be
# read in one way only, so that no text makes the search slow.
_GAP = r"(?:<private>[^<]*</private>|<(?!private>[^<]*</private>)[^<>]*>|[^a-z0-9<]|<(?![^<>]*>))*?"
#: Digits, signs and pairs of letters that look like a letter.
_SHAPES = {"l": "[l1i|!]", "o": "[o0]", "e": "[e3]", "a": "[a4@]", "m": "(?:m|rn)", "d": "(?:d|cl)"}
_SPELLED = re.compile(_GAP.join(_SHAPES.get(c, c) for c in MARK if c.isalpha()))
# What may stand between the bracket and the mark: signs, and the name of a space of names.
_NAMED = re.compile(r"(?:\A|[^a-z0-9])[a-z][a-z0-9]{0,40}\Z")
# What begins a citation.
_CITED = re.compile(r"\[(?=G{0,99}gG{0,99}rG{0,99}[il1|!]G{0,99}pG{0,99}:)".replace("G", r"[^\[\]a-z0-9]"))


def fence(text: str) -> str:
    """Return `text` made neutral (see `neutral`) between the lines `OPEN` and `CLOSE`, which mark it as recalled data."""
    return f"{OPEN}\n{neutral(text)}\n{CLOSE}"


def refenced(text: str) -> str:
    """Return a text that begins with our fence fenced anew; any other text only made neutral, without a fence."""
    return fence(inside(text)) if text.strip().startswith(OPEN) else neutral(text)


def inside(text: str) -> str:
    """Return the text inside our fence, without line feeds around, also if its end is missing; other text unchanged."""
    whole = text.strip()
    return whole.removeprefix(OPEN).removesuffix(CLOSE).strip("\n") if whole.startswith(OPEN) else text


def neutral(text: str) -> str:
    """Return `text` with every spelling of our fence's tag replaced by "[our mark]"; the same text where there is none.

    Also one in another case, with look-alikes, gaps, entities or markup. After 8 rounds that still leave one, the text
    is made `bare`: all characters a tag or citation could begin with become "(".
    """
    for _ in range(_ROUNDS):
        spelled = _tags_in(text)
        if not spelled:
            return text
        text = _with(text, spelled, _OURS)
    return bare(text) if _tags_in(text) else text


def neutral_json(value: Any) -> Any:
    """Return a copy of a JSON value with every text and every name of a field in it `neutral`; numbers, booleans, null stay.

    Also where several texts, a line apart, together spell a tag: after 8 rounds that each found one, every text is made
    `bare`. Tuples become lists.
    """
    clean = _each(neutral, value)
    for _ in range(_ROUNDS):
        texts = list(_texts(clean))
        spelled = _tags_in("\n".join(texts))
        if not spelled:
            return clean
        parts: list[str] = []
        start = 0
        for text in texts:
            end = start + len(text)
            own = [(max(a, start) - start, min(b, end) - start) for a, b in spelled if a < end and b > start]
            parts.append(_with(text, own, _OURS))
            start = end + 1
        left = iter(parts)
        clean = _each(lambda _, left=left: next(left), clean)  # type: ignore[misc]
    return _each(bare, clean)


def _each(made: Callable[[str], str], value: Any) -> Any:
    """Return a copy of a JSON value with `made` applied to every text and field name, at any depth; tuples become lists."""
    if isinstance(value, str):
        return made(value)
    if isinstance(value, Mapping):
        return {made(name): _each(made, one) for name, one in value.items()}
    return [_each(made, one) for one in value] if isinstance(value, list | tuple) else value


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value, at any depth, in their order; a field's name comes before what is in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def uncited(text: str) -> str:
    """Return recorded words with the bracket of whatever reads as a citation of ours ("[grip:") replaced by "(".

    Found through look-alikes and disguise; after 8 rounds that each found one, the text is made `bare`: all characters
    a tag or citation could begin with become "(".
    """
    for _ in range(_ROUNDS):
        cited = _found(text, lambda shown: [m.span() for m in _CITED.finditer(shown)])
        if not cited:
            return text
        text = _with(text, cited, "(")
    return bare(text)


def _tags_in(text: str) -> list[tuple[int, int]]:
    """Return start and end of each spelling of the mark behind an opening bracket or a slash, in the text as it is."""
    return _found(text, _spelled)


def _spelled(shown: str) -> list[tuple[int, int]]:
    """Return the spans of `shown`, in lower case without look-alikes, at which the mark is spelled behind a bracket or slash."""
    found: list[tuple[int, int]] = []
    at = 0
    while (one := _SPELLED.search(shown, at)) is not None:
        opens = _opens(shown, one.start())
        if opens:
            found.append(one.span())
        # A mark that opens nothing may hold a tag between two of its letters.
        at = one.end() if opens else one.start() + 1
    return found


def _found(text: str, sought: Callable[[str], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return the spans, in the text itself, of what `sought` finds in the first of its readings that has any; [] if none has.

    Readings are the text with more and more layers of disguise removed (see `readings`).
    """
    return next((reading.places(spans) for reading in readings(text) if (spans := sought(reading.shown))), [])


def _with(text: str, spans: list[tuple[int, int]], instead: str) -> str:
    """Return the text with each of the spans, in order and not overlapping, replaced by `instead`."""
    for start, end in reversed(spans):
        text = f"{text[:start]}{instead}{text[end:]}"
    return text


def _opens(shown: str, start: int) -> bool:
    """Return whether a mark at `start` has a bracket or slash before it, with nothing between but signs or a namespace's name."""
    before = start
    while before and not shown[before - 1].isalnum():
        before -= 1
        if shown[before] in "</":
            return True
        if shown[before] == ":" and (named := _NAMED.search(shown, max(0, before - 42), before)):
            before = named.start() + (not shown[named.start()].isalnum())
    return False
