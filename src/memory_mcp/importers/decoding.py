"""Decode a text: entities, percent signs, escapes of JSON and programs, marks of terminals and pages.

Each stage takes one layer of wrapping away and says where every character was, so that what is found inside can be
taken out of the outside. Base64 and hexadecimal are unwrapped whole.
"""

import base64
import html
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import unquote

from memory_mcp.base.dataclass import dataclass

#: Layers that are taken off at most: JSON within JSON within a page.
LAYERS = 3
_WRAPPED = re.compile(
    r"""(?=[&%\\=<|\x1b\U000e0020-\U000e007e])(?:(?P<entity>&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31});)
    |(?P<percent>(?:%[0-9a-fA-F]{2})+)
    |(?P<hex>\\u\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2})
    |(?P<octal>\\[0-3][0-7]{2})
    |(?P<short>\\[nrtbfv"'/\\])
    |(?P<equals>(?:=[0-9A-F]{2})+)
    |(?P<nothing>\x1b\[[0-9;]*[A-Za-z]|</?[A-Za-z][^<>]{0,80}>)
    |(?P<bar>\|)
    |(?P<tag>[\U000e0020-\U000e007e]))""",
    re.VERBOSE,
)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v"}
#: Shorter stretches are words, and hold no value worth the look: 16 characters are 12 bytes.
_CODED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text, and where each character's wrapping begins and ends."""

    text: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def decode_layer(text: str) -> str:
    """Return the text with one layer of encoding taken away."""
    return _WRAPPED.sub(lambda match: _decode_piece(str(match.lastgroup), match[0]), text)


def decode_layers(text: str, layers: int) -> DecodedText:
    """Return the text without `layers` layers, with original positions."""
    begins, ends = tuple(range(len(text))), tuple(range(1, len(text) + 1))
    for _ in range(layers):
        parts: list[str] = []
        # Of each character of the inner text where its encoding begins and ends in the outer one.
        starts: list[int] = []
        stops: list[int] = []
        at = 0
        for match in _WRAPPED.finditer(text):
            plain = _decode_piece(str(match.lastgroup), match[0])
            parts += text[at : match.start()], plain
            starts += [*range(at, match.start()), *[match.start()] * len(plain)]
            stops += [*range(at + 1, match.start() + 1), *[match.end()] * len(plain)]
            at = match.end()
        starts += range(at, len(text))
        stops += range(at + 1, len(text) + 1)
        begins, ends = tuple(begins[i] for i in starts), tuple(ends[i - 1] for i in stops)
        text = "".join([*parts, text[at:]])
    return DecodedText(text, begins, ends)


def _decode_piece(kind: str, wrapped: str) -> str:
    if kind == "entity":
        return html.unescape(wrapped)
    if kind in ("percent", "equals"):
        return unquote(wrapped.replace("=", "%"), errors="replace")
    if kind in ("hex", "octal"):
        code = int(wrapped[1:], 8) if kind == "octal" else int(wrapped[2:].strip("{}"), 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"
    if kind == "short":
        return _SHORT.get(wrapped[1], wrapped[1])
    if kind == "tag":
        return chr(ord(wrapped) - 0xE0000)
    return " " if kind == "bar" else ""


def iter_encoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, content) of each base64 or hexadecimal text.

    Stretches of 16 or more characters that decode to UTF-8.
    """
    for match in _CODED.finditer(text):
        encoded = match[0]
        with suppress(ValueError):
            if _HEX.fullmatch(encoded):
                yield match.start(), match.end(), bytes.fromhex(encoded).decode()
                continue
            raw = encoded.rstrip("=").replace("-", "+").replace("_", "/")
            raw = raw[: len(raw) - (len(raw) % 4 == 1)]
            yield match.start(), match.end(), base64.b64decode(raw + "=" * (-len(raw) % 4)).decode()
