"""What this program said, cut out of what it is given: it never comes back as a memory. Pure."""

import json
import re
from collections.abc import Mapping

from memory_mcp.model.sentinel import CLOSE, MARK, OPEN, opens_own_session

# A line's end, as it stands and as it is written inside of JSON.
_END = r"(?:\s|\\+[nrt])"
_FENCED = re.compile(rf"{re.escape(OPEN)}(?={_END}).*?{re.escape(CLOSE)}", re.S)
# One that lost its end reaches to the text's; where its lines were joined, it is known by beginning a line.
_ENDLESS = re.compile(rf"{re.escape(OPEN)}(?:[\r\n]|\\+n|\Z).*|^[^\S\n]*{re.escape(OPEN)}\s.*", re.S | re.M)
# What is left of a fence that lost its beginning.
_HEADLESS = re.compile(rf"\A.*(?:[\r\n]|\\+n)\s*{re.escape(CLOSE)}", re.S)
# An answer of ours in its structured form: as JSON, inside of other JSON, as Python or YAML write it.
_QUOTE = r"\\*[\"']"
_ANSWER = re.compile(
    rf"\{{?\s*{_QUOTE}origin{_QUOTE}\s*:\s*{_QUOTE}{re.escape(MARK)}{_QUOTE}|^\s*origin: {re.escape(MARK)}\s*$", re.M
)


def is_answer(value: object) -> bool:
    """Whether a JSON value holds a structured answer of ours, itself or in a text."""
    if isinstance(value, str):
        return MARK in value and _ANSWER.search(value) is not None
    if isinstance(value, Mapping):
        return value.get("origin") == MARK or any(map(is_answer, value.values()))
    return isinstance(value, list | tuple) and any(map(is_answer, value))


def without_ours(text: str) -> str:
    """`text` without what this program produced: fenced recalls, structured answers, a summarizer's prompt; "" if that is all.

    A text in which such an answer cannot be told apart is ours as a whole.
    """
    if MARK not in text:
        return text
    if opens_own_session(text) or is_answer(_json_of(text)):
        return ""
    kept = _HEADLESS.sub("", _ENDLESS.sub("", _FENCED.sub("", text))).strip()
    while (found := _ANSWER.search(kept)) is not None:
        end = _end_of_object(kept, found.start())
        if not end:
            return ""
        kept = (kept[: found.start()] + kept[end:]).strip()
    return kept


def _json_of(text: str) -> object:
    """The JSON value that a text is as a whole; None for any other text."""
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _end_of_object(text: str, start: int) -> int:
    """Where the JSON object that begins at `start` ends; 0 where none does."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1] if text[start] == "{" else 0
    except (ValueError, RecursionError):
        return 0
