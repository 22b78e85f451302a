"""Recalled text as it leaves: fenced, and unable to end its own fence.

Invariants
1. Between `OPEN` and `CLOSE` stands nothing that could be read as either of them, however it is spelled: `neutral` is the last
   step of every text that leaves, fenced or not.
Pure.
"""

import re
from collections.abc import Mapping
from typing import Any

from memory_mcp.model.lookalikes import folded, places
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN

#: Stands where somebody's text spelled a tag of ours.
_OURS = "[our mark]"
#: Rounds in which what is left may spell the mark anew; then brackets go.
_ROUNDS = 8
# Between two letters of the mark: whatever is no letter, and markup, which somebody may take out later. Each character can be
# read in one way only, so that no text makes the search slow.
_GAP = r"(?:<private>[^<]*</private>|<(?!private>[^<]*</private>)[^<>]*>|[^a-z0-9<]|<(?![^<>]*>))*?"
#: Digits, signs and pairs of letters that look like a letter.
_SHAPES = {"l": "[l1i|!]", "o": "[o0]", "e": "[e3]", "a": "[a4@]", "m": "(?:m|rn)", "d": "(?:d|cl)"}
_SPELLED = re.compile(_GAP.join(_SHAPES.get(c, c) for c in MARK if c.isalpha()))
# What begins a citation, in brackets of any kind.
_CITED = re.compile(r"[\[\uff3b\u3010\u3014\u27e6](?=[^\w\]]*grip[^\w\]]*:)", re.I)


def fence(text: str) -> str:
    """`text` as recalled data: fenced, with its origin on the fence."""
    return f"{OPEN}\n{neutral(text)}\n{CLOSE}"


def refenced(text: str) -> str:
    """A text that was fenced elsewhere or long ago, fenced anew; another one is only made neutral."""
    return fence(inside(text)) if text.strip().startswith(OPEN) else neutral(text)


def inside(text: str) -> str:
    """A text without the fence around it, if it has one."""
    whole = text.strip()
    return whole.removeprefix(OPEN).removesuffix(CLOSE).strip("\n") if whole.startswith(OPEN) else text


def neutral(text: str) -> str:
    """`text` without anything that could be read as a tag of ours: other cases, look-alikes, gaps, entities, split by markup."""
    for _ in range(_ROUNDS):
        spelled = _tags_in(text)
        if not spelled:
            return text
        for start, end in reversed(spelled):
            text = f"{text[:start]}{_OURS}{text[end:]}"
    return "".join(map(_without_bracket, text)) if _tags_in(text) else text


def neutral_json(value: Any) -> Any:
    """A JSON value with every text in it `neutral`, names of fields too."""
    if isinstance(value, str):
        return neutral(value)
    if isinstance(value, Mapping):
        return {neutral(name): neutral_json(one) for name, one in value.items()}
    return [neutral_json(one) for one in value] if isinstance(value, list | tuple) else value


def uncited(text: str) -> str:
    """Recorded words without anything that could pass for a citation of ours."""
    return _CITED.sub("(", text)


def _tags_in(text: str) -> list[tuple[int, int]]:
    """Start and end of what spells the mark behind an opening bracket or a slash."""
    shown = folded(text)
    spans = [m.span() for m in _SPELLED.finditer(shown) if _opens(shown, m.start())]
    if not spans:
        return []
    at = places(text)
    # The last letter may be written with several characters: the span reaches to where the next begins.
    return [(at[start], max(at[end], at[end - 1] + 1)) for start, end in spans]


def _opens(shown: str, start: int) -> bool:
    before = start
    while before and not shown[before - 1].isalnum():
        before -= 1
        if shown[before] in "</":
            return True
    return False


def _without_bracket(char: str) -> str:
    return "(" if folded(char) == "<" else char
