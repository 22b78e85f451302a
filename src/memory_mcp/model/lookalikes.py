"""Normalize a text to what it looks like, however it is written. Pure.

A text has several readings: as it is, and with one layer after the other removed of what represents something else, such as
escapes, comments and commands to a terminal. A reader may remove none, some or all of them.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from memory_mcp.base.patterns import lazy_pattern

#: The letters whose look-alikes are known.
LETTERS = "abcdeglmnopry"
#: Stands for a letter that is none of `LETTERS`.
_OTHER = "z"
#: Characters that look like each of `LETTERS`, and like the signs of tags and citations, once they are decomposed and in lower
#: case: from the table of confusables of the Unicode standard (UTS #39), small capitals, letters with strokes, and turned ones.
_ALIKE = {
    "a": "\u237a\u0250\u0251\u03b1\u0430\u15c5\u1d00\u2c65\ua4ee\uab30\uab7a\U000102a0\U00016f40",
    "b": "\u0180\u0185\u0253\u0299\u03b2\u0432\u044c\u13fc\u1472\u15af\u15f7\ua4d0\ua7b5\uab9f\U00010282\U000102a1\U00010301",
    "c": (
        "\u0188\u023c\u03c2\u03f2\u0441\u1d04\u2184\u2ca5\ua4da\uabaf\U000102a2\U00010302\U0001043d\U0001051c\U000118e9"
        "\U000118f2\U0001f74c"
    ),
    "d": "\xf0\u0111\u0256\u0257\u0501\u146f\u15de\u15ea\u1d05\ua4d2\ua4d3\uab70\uabb7",
    "e": (
        "\u212e\u22ff\u01dd\u0247\u0258\u0259\u025b\u03b5\u0435\u0454\u04bd\u1d07\u2d39\ua4f0\uab32\uab7c\U00010286"
        "\U000118c6\U000118ce"
    ),
    "g": "\u018d\u0260\u0261\u0262\u050d\u0581\u13f3\u1d83\ua4d6\uab36\uab92",
    "l": (
        "\u05c0\u05d5\u05df\u0627\u0661\u07ca\u2223\u23fd\uffe8\U0001d22a\U0001e8c7"
        "\u0131\u0142\u019a\u01c0\u0269\u026b\u026d\u029f\u03b9\u0456\u04cf\u06f1\u14aa\u16c1\u2c93\u2cd1\u2d4f\ua4e1"
        "\ua4f2\uabae\U0001028a\U00010309\U00010320\U00010443\U00010526\U000118c3\U000118d2\U00016f16\U00016f28"
    ),
    "m": "\u0271\u03bc\u03fb\u043c\u15f0\u16d6\u1d0d\u2c99\ua4df\uab87\U000102b0\U00010311",
    "n": "\u014b\u019e\u0272\u0274\u03bd\u0438\u0578\u057c\u2c9b\ua4e0\U00010513",
    "o": (
        "\u05e1\u0647\u0665\u06be\u06c1\u06d5\u07c0\u0c02\u0c82\u0d02\u0d82"
        "\xf8\u0275\u03bf\u03c3\u043e\u04e9\u0585\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20"
        "\u0d66\u0e50\u0ed0\u101d\u1040\u10ff\u12d0\u1d0f\u1d11\u2c9f\u2d54\u3007\ua4f3\uab3d\U00010292\U000102ab"
        "\U0001042c\U000104ea\U00010516\U000114d0\U000118c8\U000118d5\U000118d7\U000118e0"
    ),
    "p": "\u2374\xfe\u01a5\u03c1\u0440\u146d\u1d18\u1d7d\u2ca3\ua4d1\uabb2\U00010295",
    "r": (
        "\U0001d216\u024d\u0279\u027e\u0280\u0281\u0433\u044f\u1587\u1d26\u2c85\ua4e3\uab47\uab48\uab71\uab81\uaba2"
        "\U000104dc\U00016f35"
    ),
    "y": (
        "\u01b4\u024f\u0263\u028f\u03b3\u03c5\u0443\u0447\u04af\u10e7\u1d8c\u1eff\u2ca9\ua4ec\uab5a\uab79\uab8d"
        "\U000102b2\U000118c4\U000118dc\U00016f43"
    ),
    "<": "\xab\u02c2\u1438\u16b2\u2039\u204c\u226a\u227a\u2282\u276c\u276e\u2770\u27e8\u27ea\u29fc\u2aa1\u3008\u300a\U0001d236",
    "/": "\u1735\u2041\u2044\u2215\u2571\u27cb\u29f8\u2cc6\u3033\u30ce\u31d3\u4e3f\U0001d23a",
    "[": "\u2045\u2772\u27e6\u2983\u298b\u298d\u298f\u3010\u3014\u3016\u3018\u301a",
    ":": "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789",
}
_FOLDED = {ord(char): letter for letter, chars in _ALIKE.items() for char in chars}
#: Letters by the book that show nothing.
_BLANK = "\u115f\u1160"
#: The letters in squares and circles that decompose into nothing, and those of flags, by the code point of their A.
_DRAWN = (0x1F150, 0x1F170, 0x1F1E6)
#: Invisible tag characters, each of which spells an ASCII character.
_TAGS = range(0xE0000, 0xE0080)
#: Most layers that are removed. Each makes the text shorter, and no reader decodes a text that is escaped more often.
_LAYERS = 12
_FOREIGN = lazy_pattern(r"[^\x00-\x7f]")
# What stands for something else: characters by number or name as in HTML, addresses, mail and strings of programs; what a
# terminal obeys; the other direction of writing; comments and the marks of plain text in XML. One set of characters begins them
# all, which is what makes the search quick; and each part has a bound or ends where it fails, so that no text makes it slow.
_WRITTEN = lazy_pattern(
    r"[&%=\\\x1b\x90\x98\x9b\x9d-\x9f\u202e<\u2039\uff1c\]](?:"
    r"(?<=&)(?:(?:amp|\#0{0,9}38|\#x0{0,9}26);)*(?:\#\d{1,99}|\#x[0-9a-f]{1,99}|[a-z][a-z0-9]{1,31});?"
    r"|(?<=%)(?:25)*[0-9a-f]{2}(?:%(?:25)*[0-9a-f]{2})*|(?<==)(?-i:[0-9A-F]{2}(?:=[0-9A-F]{2})*)"
    r"|(?<=\\)\\*+(?:(?-i:U)[0-9a-f]{8}|u(?:d[89ab][0-9a-f]{2}\\++ud[c-f][0-9a-f]{2}|[0-9a-f]{4}|\{[0-9a-f]{1,99}\})"
    r"|x[0-9a-f]{2}(?:\\++x[0-9a-f]{2})*|[0-7]{3}(?:\\++[0-7]{3})*|[nrtfv]|e(?=\[))?"
    r"|(?:(?<=\x1b)\[|(?<=\x9b))[0-?]{0,99}[ -/]{0,9}[@-~]|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))"
    r"[^\x07\x1b\x9c]{0,200}(?:\x07|\x1b\\|\x9c)|(?<=\x1b)[ -/]{0,9}[0-~]"
    r"|(?<=\u202e)[^\u202c\n]{0,999}\u202c?|(?<=[<\u2039\uff1c])!--.{0,400}?-->|(?<=[<\u2039\uff1c])!\[CDATA\[|(?<=\])\]>)",
    re.I | re.S,
)
_MIRRORED = str.maketrans("<>()[]", "><)([]")


class Reading:
    """A text with some layers of disguise removed."""

    def __init__(self, layers: tuple[str, ...]) -> None:
        """Take a text and what each removed layer made of it, in order."""
        self._layers = layers
        self.text = layers[-1]
        self.folded = fold_text(layers[-1])

    def original_spans(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the spans of the original text for spans of `folded`.

        They are in order; those that would overlap are merged.
        """
        steps = [_map_origins(self._layers[-1], _FOREIGN, fold_character)]
        steps += [_map_origins(layer, _WRITTEN, _decode_match) for layer in self._layers[-2::-1]]
        for origins in steps:
            spans = [(origins[start][0], origins[end - 1][1]) for start, end in spans]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def iter_readings(text: str) -> Iterator[Reading]:
    """Yield the text with ever more layers of disguise removed, at most 13."""
    layers = [text]
    while True:
        yield Reading(tuple(layers))
        stripped = _WRITTEN.sub(lambda match: _decode_match(match[0]), layers[-1])
        if stripped == layers[-1] or len(layers) > _LAYERS:
            return
        layers.append(stripped)


def is_disguised(text: str) -> bool:
    """Return whether a text holds characters that stand for others."""
    return _WRITTEN.search(text) is not None


def fold_text(text: str) -> str:
    """Return a text in lower case, each look-alike replaced by what it looks like.

    What is no letter stays, or becomes a blank.
    """
    return text.lower() if text.isascii() else _FOREIGN.sub(lambda match: fold_character(match[0]), text).lower()


def strip_disguise(text: str) -> str:
    """Return a text without disguise, tag-like signs replaced by "(".

    Those are characters that look like < / [ & % = or a backslash, and the escape character.
    """
    *_, last = iter_readings(text)
    return "".join("(" if fold_character(c) in "</[&%\\=\x1b" else c for c in last.text)


def _map_origins(text: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> list[tuple[int, int]]:
    """Return the source span of each character after matches are replaced.

    Each character of a replacement has the whole match's span.
    """
    spans: list[tuple[int, int]] = []
    end = 0
    for match in pattern.finditer(text):
        spans += [(index, index + 1) for index in range(end, match.start())]
        spans += [match.span()] * len(replace(match[0]))
        end = match.end()
    return [*spans, *((index, index + 1) for index in range(end, len(text)))]


def _decode_match(written: str) -> str:
    """Return what a match of `_WRITTEN` represents; "" for the invisible."""
    first = written[0]
    if first == "&":
        # Loads a table of names, which few texts need.
        from html import unescape

        bare = "&" + re.sub(r"^&(?:(?:amp|#0*38|#x0*26);)*", "", written, flags=re.I)
        decoded = unescape(bare)
        return unescape(bare.lower()) if decoded == bare else decoded
    if first in "%=":
        return _decode_bytes(bytes(int(code[-2:], 16) for code in re.findall(r"[%=](?:25)*[0-9a-f]{2}", written, re.I)))
    if first == "\u202e":
        return written.strip("\u202c\u202e")[::-1].translate(_MIRRORED)
    return _decode_escapes(written) if first == "\\" else ""


def _decode_escapes(written: str) -> str:
    """Return the characters of a string's escapes; backslashes alone stay.

    Control characters, except the escape character, and invalid codes become a blank.
    """
    parts = [part for part in written.split("\\") if part]
    if not parts:
        return written
    kind, digits = parts[0][0], [part.strip("uUxX{}") for part in parts]
    if kind in "xX":
        return _decode_bytes(bytes(int(code, 16) for code in digits))
    if kind.isdigit():
        return _decode_bytes(bytes(int(code, 8) & 0xFF for code in parts))
    if kind not in "uU":
        return "\x1b" if kind in "eE" else " "
    if len(parts) == 2:
        return "".join(chr(int(code, 16)) for code in digits).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    number = int(digits[0], 16)
    return chr(number) if number <= 0x10FFFF else " "


def _decode_bytes(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@lru_cache(maxsize=4096)
def fold_character(char: str) -> str:
    """Return what a character looks like, in lower case.

    One of `LETTERS`, ASCII, "z" for other letters, or a blank; maybe several.
    """
    code = ord(char)
    if code in _TAGS:
        return chr(code - _TAGS.start).lower()
    for first in _DRAWN:
        if first <= code < first + 26:
            return chr(ord("a") + code - first)
    if (folded := _FOLDED.get(ord(char.lower()[0]))) is not None:
        return folded
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).lower())
    parts = []
    for c in decomposed:
        other = _OTHER if c.isalnum() and c not in _BLANK else " "
        parts.append(_FOLDED.get(ord(c)) or (c if c.isascii() else other))
    return "".join(parts) or " "
