"""Fence recalled text so that it cannot end its own fence. Pure.

Invariants
1. Between `OPEN` and `CLOSE` is nothing that could be read as either of them, however it is spelled: `neutralize` is the
   last step of every text that leaves, fenced or not.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.lookalikes import iter_readings, strip_disguise
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN

#: Replaces a tag of ours that a text spells.
_MARK_SUBSTITUTE = "[our mark]"
#: Most rounds of removing marks, since the rest may spell a new one; then every character that could begin a tag is removed.
_ROUNDS = 8
# Between two letters of the mark: whatever is no letter, and markup, which somebody may take out later. Each character can be
# read in one way only, so that no text makes the search slow.
_GAP = r"(?:<private>[^<]*</private>|<(?!private>[^<]*</private>)[^<>]*>|[^a-z0-9<]|<(?![^<>]*>))*?"
#: Digits, signs and pairs of letters that look like a letter.
_SHAPES = {"l": "[l1i|!]", "o": "[o0]", "e": "[e3]", "a": "[a4@]", "m": "(?:m|rn)", "d": "(?:d|cl)"}
_MARK_PATTERN = lazy_pattern(_GAP.join(_SHAPES.get(c, c) for c in MARK if c.isalpha()))
# What may stand between the bracket and the mark: signs, and the name of a space of names.
_NAMESPACE = lazy_pattern(r"(?:\A|[^a-z0-9])[a-z][a-z0-9]{0,40}\Z")
# What begins a citation.
_CITATION = lazy_pattern(r"\[(?=G{0,99}gG{0,99}rG{0,99}[il1|!]G{0,99}pG{0,99}:)".replace("G", r"[^\[\]a-z0-9]"))


def fence_text(text: str) -> str:
    """Return `text`, neutralized, between the lines `OPEN` and `CLOSE`."""
    return f"{OPEN}\n{neutralize(text)}\n{CLOSE}"


def refence_text(text: str) -> str:
    """Return fenced text fenced again; other text is only neutralized."""
    return fence_text(strip_fence(text)) if text.strip().startswith(OPEN) else neutralize(text)


def strip_fence(text: str) -> str:
    """Return the text inside our fence; other text unchanged.

    The end of the fence may be missing.
    """
    stripped = text.strip()
    return stripped.removeprefix(OPEN).removesuffix(CLOSE).strip("\n") if stripped.startswith(OPEN) else text


def neutralize(text: str) -> str:
    """Return `text` with every spelling of our tag replaced.

    Also one in another case, with look-alikes, gaps, entities or markup. If 8 rounds still leave one, every character that
    could begin a tag or citation becomes "(".
    """
    for _ in range(_ROUNDS):
        tag_spans = _find_tags(text)
        if not tag_spans:
            return text
        text = _replace_spans(text, tag_spans, _MARK_SUBSTITUTE)
    return strip_disguise(text) if _find_tags(text) else text


def neutralize_json(value: Any) -> Any:
    """Return a copy of a JSON value with all texts and keys neutralized.

    Also where several texts, a line apart, together spell a tag; if 8 rounds each found one, every character that could
    begin a tag becomes "(". Tuples become lists.
    """
    clean = _map_texts(neutralize, value)
    for _ in range(_ROUNDS):
        texts = list(_iter_texts(clean))
        tag_spans = _find_tags("\n".join(texts))
        if not tag_spans:
            return clean
        parts: list[str] = []
        start = 0
        for text in texts:
            end = start + len(text)
            spans = [(max(a, start) - start, min(b, end) - start) for a, b in tag_spans if a < end and b > start]
            parts.append(_replace_spans(text, spans, _MARK_SUBSTITUTE))
            start = end + 1
        remaining = iter(parts)
        clean = _map_texts(lambda _, remaining=remaining: next(remaining), clean)  # type: ignore[misc]
    return _map_texts(strip_disguise, clean)


def _map_texts(convert: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, Mapping):
        return {convert(name): _map_texts(convert, item) for name, item in value.items()}
    return [_map_texts(convert, item) for item in value] if isinstance(value, list | tuple) else value


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _iter_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iter_texts(item)


def break_citations(text: str) -> str:
    """Return text in which nothing reads as a citation of ours.

    The bracket of "[grip:" becomes "(", found through look-alikes and disguise; after 8 rounds that each found one, every
    character that could begin a tag or citation does.
    """
    for _ in range(_ROUNDS):
        spans = _find_spans(text, lambda folded: [m.span() for m in _CITATION.finditer(folded)])
        if not spans:
            return text
        text = _replace_spans(text, spans, "(")
    return strip_disguise(text)


def _find_tags(text: str) -> list[tuple[int, int]]:
    return _find_spans(text, _find_marks)


def _find_marks(folded: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = 0
    while (match := _MARK_PATTERN.search(folded, position)) is not None:
        opens = _follows_bracket(folded, match.start())
        if opens:
            spans.append(match.span())
        # A mark that opens nothing may hold a tag between two of its letters.
        position = match.end() if opens else match.start() + 1
    return spans


def _find_spans(text: str, search: Callable[[str], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return spans in `text` of what `search` finds in its first matching reading."""
    return next((reading.original_spans(spans) for reading in iter_readings(text) if (spans := search(reading.folded))), [])


def _replace_spans(text: str, spans: list[tuple[int, int]], replacement: str) -> str:
    for start, end in reversed(spans):
        text = f"{text[:start]}{replacement}{text[end:]}"
    return text


def _follows_bracket(folded: str, start: int) -> bool:
    """Return whether a bracket or slash precedes the mark at `start`.

    Only signs or the name of a namespace may be between them.
    """
    position = start
    while position and not folded[position - 1].isalnum():
        position -= 1
        if folded[position] in "</":
            return True
        if folded[position] == ":" and (namespace := _NAMESPACE.search(folded, max(0, position - 42), position)):
            position = namespace.start() + (not folded[namespace.start()].isalnum())
    return False
