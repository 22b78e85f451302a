"""A text as it looks: what reads alike is spelled alike, so that a word in it is found however it was written. Pure.

Look-alikes of the letters of one word are known, `LETTERS`; every other letter counts as some letter.
"""

import re
import unicodedata
from functools import lru_cache

#: The letters whose look-alikes are known.
LETTERS = "abcdelmnopry"
#: Stands for a letter that is none of `LETTERS`.
_OTHER = "z"
#: Characters that look like each of `LETTERS`, and like an opening bracket, once they are decomposed and in lower case: from
#: the table of confusables of the Unicode standard (UTS #39), small capitals, letters with strokes, and turned ones.
_ALIKE = {
    "a": "\u0250\u0251\u03b1\u0430\u15c5\u1d00\u2c65\ua4ee\uab30\uab7a\U000102a0\U00016f40",
    "b": "\u0180\u0185\u0253\u0299\u03b2\u0432\u044c\u13fc\u1472\u15af\u15f7\ua4d0\ua7b5\uab9f\U00010282\U000102a1\U00010301",
    "c": "\u0188\u023c\u03c2\u0441\u1d04\u2184\u2ca5\ua4da\uabaf\U000102a2\U00010302\U0001043d\U0001051c\U000118e9\U000118f2",
    "d": "\xf0\u0111\u0256\u0257\u0501\u146f\u15de\u15ea\u1d05\ua4d2\ua4d3\uab70\uabb7",
    "e": "\u01dd\u0247\u0258\u0259\u025b\u03b5\u0435\u0454\u04bd\u1d07\u2d39\ua4f0\uab32\uab7c\U00010286\U000118c6\U000118ce",
    "l": (
        "\u0131\u0142\u019a\u01c0\u0269\u026b\u026d\u029f\u03b9\u0456\u04cf\u06f1\u14aa\u16c1\u2c93\u2cd1\u2d4f\ua4e1"
        "\ua4f2\uabae\U0001028a\U00010309\U00010320\U00010443\U00010526\U000118c3\U000118d2\U00016f16\U00016f28"
    ),
    "m": "\u0271\u03bc\u03fb\u043c\u15f0\u16d6\u1d0d\u2c99\ua4df\uab87\U000102b0\U00010311",
    "n": "\u014b\u019e\u0272\u0274\u03bd\u0438\u0578\u057c\u2c9b\ua4e0\U00010513",
    "o": (
        "\xf8\u0275\u03bf\u03c3\u043e\u04e9\u0585\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20"
        "\u0d66\u0e50\u0ed0\u101d\u1040\u10ff\u12d0\u1d0f\u1d11\u2c9f\u2d54\u3007\ua4f3\uab3d\U00010292\U000102ab"
        "\U0001042c\U000104ea\U00010516\U000114d0\U000118c8\U000118d5\U000118d7\U000118e0"
    ),
    "p": "\xfe\u01a5\u03c1\u0440\u146d\u1d18\u1d7d\u2ca3\ua4d1\uabb2\U00010295",
    "r": "\u024d\u0279\u027e\u0280\u0281\u0433\u044f\u1587\u1d26\u2c85\ua4e3\uab47\uab48\uab71\uab81\uaba2\U000104dc\U00016f35",
    "y": (
        "\u01b4\u024f\u0263\u028f\u03b3\u03c5\u0443\u0447\u04af\u10e7\u1d8c\u1eff\u2ca9\ua4ec\uab5a\uab79\uab8d"
        "\U000102b2\U000118c4\U000118dc\U00016f43"
    ),
    "<": "\xab\u02c2\u1438\u16b2\u2039\u204c\u226a\u227a\u2282\u276c\u276e\u2770\u27e8\u27ea\u29fc\u2aa1\u3008\u300a\U0001d236",
}
_AS = {ord(one): letter for letter, several in _ALIKE.items() for one in several}
#: The letters in squares and circles that decompose into nothing, and those of flags, by the code point of their A.
_DRAWN = (0x1F150, 0x1F170, 0x1F1E6)
#: Characters of tags, which nobody sees, stand for ASCII.
_TAGS = range(0xE0000, 0xE0080)
# Characters outside ASCII; and those that are written by their number or name: as entities, in strings, in addresses.
_ODD = re.compile(
    r"[^\x00-\x7f]|&(?:amp;)*(?:\#\d{1,7}|\#x[0-9a-f]{1,6}|[a-z]{1,31}\b);?"
    r"|\\u(?:[0-9a-f]{4}|\{[0-9a-f]{1,6}\})|\\x[0-9a-f]{2}|%[0-9a-f]{2}",
    re.I,
)


def folded(text: str) -> str:
    """`text` in lower case, every look-alike as what it looks like; what is no letter stays, or becomes a blank."""
    return _ODD.sub(lambda found: _plain(found[0]), text).lower()


def places(text: str) -> list[int]:
    """For each character of `folded(text)`, and for its end, the index in `text` of what it was made of."""
    found: list[int] = []
    end = 0
    for odd in _ODD.finditer(text):
        found += range(end, odd.start())
        found += [odd.start()] * len(_plain(odd[0]))
        end = odd.end()
    return [*found, *range(end, len(text) + 1)]


@lru_cache(maxsize=4096)
def _plain(written: str) -> str:
    """What one character stands for, however it is written: ASCII in lower case."""
    if len(written) == 1:
        return _of(written)
    return "".join(c.lower() if c.isascii() else _of(c) for c in _decoded(written))


def _decoded(written: str) -> str:
    if written[0] == "&":
        # Loads a table of names, which few texts need.
        from html import unescape

        return unescape("&" + written.lower().replace("amp;", "").lstrip("&"))
    code = int(written.strip("\\uUxX%{}"), 16)
    return chr(code) if code <= 0x10FFFF else " "


def _of(char: str) -> str:
    code = ord(char)
    if code in _TAGS:
        return chr(code - _TAGS.start).lower()
    for first in _DRAWN:
        if first <= code < first + 26:
            return chr(ord("a") + code - first)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).lower())
    return "".join(_letter(c) for c in decomposed) or " "


def _letter(char: str) -> str:
    if (known := _AS.get(ord(char))) is not None:
        return known
    if char.isascii():
        return char
    return _OTHER if char.isalnum() else " "
