"""Fence recalled text so that it cannot end its own fence. Pure.

Invariants
1. Between `OPEN` and `CLOSE` is nothing that could be read as either of them, however it is spelled: `neutralize` is the
   last step of every text that leaves, fenced or not.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.lookalikes import fold_text, is_disguised, iter_readings, strip_disguise
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
# What begins a disguise by which any character can be written; others only hide what stands between.
_ANY_CHARACTER = r"&%=\\\u202e"
# One of these is in every text that spells a tag, or a citation: its bracket or slash, one that looks like it, or a character
# that is written in another way. Most texts have none, and are not looked at any closer.
TAG_SIGNS = lazy_pattern(
    rf"[</{_ANY_CHARACTER}\xab\xbc-\xbe\u02c2\u1438\u16b2\u1735\u2039-\u204c\u2100-\u2106\u2150-\u215f\u2189\u2215\u226a-\u2284"
    r"\u2329\u2571\u276c-\u2770\u27cb-\u27ea\u29f8-\u29fc\u2aa1\u2f03\u3008-\u300a\u3033\u30ce\u31d3\u32e8-\u33df\u4e3f"
    r"\ufe3d-\ufe3f\ufe64\uff0f-\uff1c\uff89\U0001d236-\U0001d23a\U000e002f-\U000e003c]"
)
CITATION_SIGNS = lazy_pattern(
    rf"[\[{_ANY_CHARACTER}\u2045\u2772\u27e6\u2983-\u298f\u3010-\u301a\ufe17\ufe39-\ufe5d\uff3b\U0001f12a\U0001f240-\U0001f248"
    r"\U000e005b]"
)
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
    """Return a JSON value with all texts and keys neutralized; the value itself if none could spell a tag.

    Also where several texts, a line apart, together spell a tag; if 8 rounds each found one, every character that could
    begin a tag becomes "(". In a copy tuples become lists.
    """
    if _is_harmless("\n".join(_list_texts(value))):
        return value
    clean = _map_texts(neutralize, value)
    for _ in range(_ROUNDS):
        texts = _list_texts(clean)
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


def _is_harmless(text: str) -> bool:
    """Return whether no tag can be in a text, nor in any of its lines alone.

    Most answers are: one look at all of their texts takes a third of the time of one at each.
    """
    if is_disguised(text):
        return False
    folded = fold_text(text)
    # Without a bracket a spelling of the mark depends on nothing around it.
    return "<" not in folded and not _find_marks(folded)


def _map_texts(convert: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, Mapping):
        return {convert(name): _map_texts(convert, item) for name, item in value.items()}
    return [_map_texts(convert, item) for item in value] if isinstance(value, list | tuple) else value


def _list_texts(value: Any) -> list[str]:
    """Return all texts and keys of a JSON value, in order."""
    texts: list[str] = []
    _collect_texts(value if isinstance(value, list | tuple) else (value,), texts)
    return texts


def _collect_texts(values: Iterable[Any], texts: list[str]) -> None:
    # Every answer is read so: generators within each other take three times as long.
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list | tuple):
            _collect_texts(value, texts)
        elif isinstance(value, dict | Mapping):
            _collect_texts(chain.from_iterable(value.items()), texts)


def break_citations(text: str) -> str:
    """Return text in which nothing reads as a citation of ours.

    The bracket of "[grip:" becomes "(", found through look-alikes and disguise; after 8 rounds that each found one, every
    character that could begin a tag or citation does.
    """
    for _ in range(_ROUNDS):
        spans = _find_spans(text, _find_citations) if CITATION_SIGNS.search(text) else []
        if not spans:
            return text
        text = _replace_spans(text, spans, "(")
    return strip_disguise(text)


def _find_tags(text: str) -> list[tuple[int, int]]:
    return _find_spans(text, _find_marks) if TAG_SIGNS.search(text) else []


def _find_citations(folded: str) -> list[tuple[int, int]]:
    return [match.span() for match in _CITATION.finditer(folded)]


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
