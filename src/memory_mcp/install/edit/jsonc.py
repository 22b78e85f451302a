"""Parses a JSON text that may hold comments and trailing commas, with the place of every value. Pure.

Readers of Python (json5, commentjson, jsonc-parser) give values without positions, or write the whole text again; what is
needed here are positions, so that a text is changed at one of them and kept to the byte elsewhere.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # in no stub, in every version
from typing import Any

from memory_mcp.base.dataclass import dataclass

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}


class Broken(ValueError):
    """The text cannot be read or changed as wanted."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it is: text[start:end]."""

    start: int
    end: int
    value: Any
    #: Of an object its members, of an array its items, in order; a key that comes twice counts the second time.
    parts: tuple["Part", ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A member with its key, or an item (key "").

    From `start` to `end`; `comma` is the offset of the one after it, or -1.
    """

    key: str
    start: int
    node: Node
    comma: int

    @property
    def end(self) -> int:
        """The offset after its value."""
        return self.node.end


def parse(text: str) -> Node:
    """Return the value of a text, with its place and parts.

    Raises Broken where there is no value or more than one, where it is not JSON with comments and trailing
    commas, or nested too deeply.
    """
    try:
        node, at = _value(text, skip(text, 0))
    except RecursionError:
        raise Broken("nested too deeply", 0) from None
    end = skip(text, at)
    if end < len(text):
        raise Broken("something after the end", end)
    return node


def is_blank(text: str) -> bool:
    """Whether a text is only spaces, tabs and line breaks."""
    return not text.strip(" \t\r\n")


def skip(text: str, at: int) -> int:
    """Return the first offset that is neither blank nor comment."""
    while True:
        at = _blank(text, at)
        if text.startswith("//", at):
            at = line_end(text, at)
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise Broken("a comment without an end", at)
            at = end + 2
        else:
            return at


def comments(text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each comment in text[at:end]."""
    while (at := _blank(text, at)) < end:
        stop = line_end(text, at) if text.startswith("//", at) else text.index("*/", at + 2) + 2
        yield at, stop
        at = stop


def line_end(text: str, at: int) -> int:
    """Return the next CR's or LF's offset, else the length."""
    ends = [offset for offset in (text.find("\r", at), text.find("\n", at)) if offset >= 0]
    return min(ends, default=len(text))


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Node, int]:
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, opening)
    if opening == '"':
        value, end = _string(text, at)
        return Node(at, end, value), end
    for word, meant in _WORDS.items():
        if text.startswith(word, at):
            return Node(at, at + len(word), meant), at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        raise Broken("a value is missing", at)
    return Node(at, number.end(), json.loads(number[0])), number.end()


def _string(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise Broken("a key in double quotes is missing", at)
    try:
        value, end = scanstring(text, at + 1, True)
    except json.JSONDecodeError as error:
        raise Broken("a text without an end, or with a character that must be escaped", error.pos) from None
    return value, end


def _container(text: str, start: int, opening: str) -> tuple[Node, int]:
    """Of a key that comes twice the second value counts."""
    closing = "}" if opening == "{" else "]"
    parts: list[Part] = []
    at = skip(text, start + 1)
    while text[at : at + 1] != closing:
        if parts and parts[-1].comma < 0:
            raise Broken("a comma is missing", at)
        begin, key = at, ""
        if opening == "{":
            key, at = _string(text, at)
            at = skip(text, at)
            if text[at : at + 1] != ":":
                raise Broken("a colon is missing", at)
            at = skip(text, at + 1)
        node, at = _value(text, at)
        at = skip(text, at)
        comma = at if text[at : at + 1] == "," else -1
        parts.append(Part(key, begin, node, comma))
        at = skip(text, at + 1) if comma >= 0 else at
    value: Any = {p.key: p.node.value for p in parts} if opening == "{" else [p.node.value for p in parts]
    return Node(start, at + 1, value, tuple(parts)), at + 1
