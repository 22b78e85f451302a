"""Read what is whole in broken JSON: records after a half one, and a document that breaks off.

Invariants
1. Nothing half is ever given: a value is whole, or the one around it is cut off before it.
2. Time is bounded, whatever the text.
"""

import json
import re
from collections.abc import Sequence
from typing import BinaryIO

from memory_mcp.importers.window import MAX_RECORD

#: Places of a broken text where a record is looked for, and the characters read there in all.
_RESTARTS, _REREAD = 1000, 8 * MAX_RECORD
_FIRST_FIELD = re.compile(r'\s*\{\s*"((?:[^"\\]|\\.)*+)"')
#: A whole string, the beginning of one that is not, and what nests values.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\],]', re.S)
_CLOSING = {"{": "}", "[": "]"}
#: How many times a document is cut shorter until what is left is whole.
_ATTEMPTS = 5
_decode = json.JSONDecoder().raw_decode


def find_glued(text: str, samples: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the objects after half a record that end a text.

    Where they may also be values of the half one, they must look like a record of `samples`: most of their fields are of those,
    or they begin with the same one, or as the half one does.
    """
    fields = {name for sample in samples for name in sample}
    first_fields = {next(iter(sample), "") for sample in samples}
    if match := _FIRST_FIELD.match(text):
        first_fields.add(match[1])
    position, unread = 0, _REREAD
    for _ in range(_RESTARTS):
        position = text.find('{"', position + 1)
        if position < 0 or unread < 0:
            break
        values, end = [], position
        try:
            while end < len(text):
                value, end = _decode(text, end)
                values.append(value)
        except json.JSONDecodeError as error:
            unread -= error.pos - position
            continue
        except (ValueError, RecursionError):
            unread -= len(text) - position
            continue
        is_value = text[:position].rstrip().endswith((":", ",", "["))
        looks_alike = 2 * len(values[0].keys() & fields) > len(values[0]) or next(iter(values[0]), "") in first_fields
        if all(isinstance(value, dict) for value in values) and (looks_alike or not is_value):
            return values
    return []


def salvage_object(stream: BinaryIO, start: int) -> dict[str, object]:
    """Return what is whole of an object that breaks off.

    It begins at a byte offset; of a list or object in it, what it holds before the item that breaks off. {} for none.
    """
    stream.seek(start)
    text = stream.read(MAX_RECORD).decode("utf-8-sig", "replace").strip("\0 \t\r\n")
    for _ in range(_ATTEMPTS if text.startswith("{") else 0):
        try:
            value = json.loads(_close_brackets(text))
        except json.JSONDecodeError as error:
            text = text[: min(error.pos, len(text) - 1)]
        except (ValueError, RecursionError):
            break
        else:
            has_items = isinstance(value, dict) and any(isinstance(items, dict | list) and items for items in value.values())
            return value if has_items else {}
    return {}


def _close_brackets(text: str) -> str:
    """Return a text that breaks off, cut after a whole item, closed."""
    opened: list[str] = []
    #: Where the last whole item of the outermost value, and of the one inside it, ends.
    ends = [0, 0]
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign == '"':
            break
        if sign in _CLOSING:
            opened.append(sign)
            if len(opened) <= len(ends):
                ends[len(opened) - 1] = token.end()
        elif sign in "}]":
            opened[-1:] = []
            if not opened:
                return text[: token.end()]
            if len(opened) <= len(ends):
                ends[len(opened) - 1] = token.end()
        elif sign == "," and len(opened) <= len(ends):
            ends[len(opened) - 1] = token.start()
    depth = min(len(opened), len(ends))
    return text[: ends[depth - 1]] + "".join(_CLOSING[sign] for sign in reversed(opened[:depth]))
