"""Recognizes a text that says again the greater part of a forgotten one, by keyed hashes of its windows of words.

Invariants
1. Of a forgotten text so many hashes and the number of its windows are kept; neither a word nor the hash of a single one.
2. Case, white space, punctuation, look-alikes, invisible characters, numbers of lines, escapes and entities do not count.
3. One line of several in common is no restatement: the greater part of both texts has to be the same, or so much of the forgotten
   one as no line holds.
"""

import base64
import hashlib
import re
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.respelling import normalize_key
from memory_mcp.importers.decoding import LAYERS, decode_layer

if TYPE_CHECKING:
    import numpy as np

#: Words of a window; of scripts without spaces a character is a word.
_WINDOW = 3
#: Hashes kept of one text, and bytes of each.
_SKETCH_HASHES, _HASH_BYTES = 64, 6
#: Share of the forgotten text's windows that a restatement holds, and share of its own windows that these are.
_COVERED_SHARE, _OWN_SHARE = 0.6, 0.5
#: Share of the windows outside a line that has half of all, which a restatement holds as well.
_OUTSIDE_SHARE = 0.4
#: Windows besides its longest line from which on a text has several lines; "ok" below a line adds one or two.
_SEVERAL = 5
#: More windows than a line of 120 characters has; so many of them in common are a quotation also as this share of a text.
_LINE, _QUOTED = 24, 0.2
#: Letters and digits of a text that says something by itself; a character of a script without spaces counts as three.
LETTERS = 32
#: Words whose hashes are cached.
_CACHED_WORDS = 50_000
#: Scripts that write no spaces between words: Thai and Lao, Burmese, Khmer, kana, ideographs.
_UNSPACED = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u30ff"), ("\u3400", "\u9fff"))
_LINE_NUMBER = re.compile(r"^[^\w\n]*\d{1,7}(?!\w)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sketch:
    """The smallest hashes of one forgotten text's windows.

    `counts`: how many windows are its own, and how many others hold.
    """

    counts: tuple[int, int]
    own_hashes: "np.ndarray"
    common_hashes: "np.ndarray"
    #: Of its own those outside a line that has half of them or more; none without such a line.
    outside_hashes: "np.ndarray"

    @classmethod
    def from_windows(cls, text: "Windows", is_own: "np.ndarray") -> "Sketch | None":
        """Return a text's sketch; None if its own windows say nothing.

        `is_own`: which windows no other text holds.
        """
        import numpy as np

        hashes, lines = text.hashes[is_own], text.lines[is_own]
        if not len(hashes) or (len(hashes) < _SEVERAL and 2 * len(hashes) < len(is_own)):
            return None
        names, counts = np.unique(lines[lines >= 0], return_counts=True)
        longest = counts.argmax() if len(counts) else 0
        is_beside = lines != (names[longest] if len(counts) else -2)
        if not _SEVERAL <= is_beside.sum() <= _OWN_SHARE * len(hashes):
            is_beside[:] = False
        common = text.hashes[~is_own]
        return cls(
            (len(hashes), len(common)), hashes[:_SKETCH_HASHES], common[:_SKETCH_HASHES], hashes[is_beside][:_SKETCH_HASHES]
        )

    def encode(self) -> list[int | str]:
        """Return it as it is on disk, with hashes in base64."""
        return [*self.counts, _pack_hashes(self.own_hashes), _pack_hashes(self.common_hashes), _pack_hashes(self.outside_hashes)]

    @classmethod
    def decode(cls, own_count: int, common_count: int, own: str, common: str, beside: str) -> "Sketch":
        """Return the sketch that `encode` wrote. Raises ValueError for another text."""
        return cls((own_count, common_count), _unpack_hashes(own), _unpack_hashes(common), _unpack_hashes(beside))


def _pack_hashes(hashes: "np.ndarray") -> str:
    octets = hashes.astype(">u8").view("u1").reshape(-1, 8)[:, 8 - _HASH_BYTES :]
    return base64.b64encode(octets.tobytes()).decode("ascii")


def _unpack_hashes(packed: str) -> "np.ndarray":
    """Return `(n,) uint64`. Raises ValueError for another text."""
    import numpy as np

    raw = np.frombuffer(base64.b64decode(packed, validate=True), dtype="u1").reshape(-1, _HASH_BYTES)
    octets = np.zeros((len(raw), 8), dtype="u1")
    octets[:, 8 - _HASH_BYTES :] = raw
    return octets.view(">u8").ravel().astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a text, by hash.

    Hashes ascend, `(n,) uint64`; lines say in which line each is, -1 across lines, `(n,) int64`.
    """

    hashes: "np.ndarray"
    lines: "np.ndarray"


class WindowHasher:
    """Hashes the windows of words of texts under one key."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._words: dict[str, int] = {}
        raw = hashlib.blake2b(b"window", key=key, digest_size=16).digest()
        self._bases = tuple(int.from_bytes(raw[at : at + 8], "big") | 1 for at in (0, 8))

    def hash_windows(self, text: str, letters: int = LETTERS) -> Windows:
        """Return the windows of a text to forget, each once.

        None of a text of fewer letters.
        """
        import numpy as np

        lines = [line for line in map(str.split, _plain_words(text).splitlines()) if line]
        words = [word for line in lines for word in line]
        if _count_letters(words) < letters:
            words = []
        hashes, first = np.unique(self._hash_words(words), return_index=True)
        numbers = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
        last = np.minimum(first + _WINDOW - 1, max(len(numbers) - 1, 0))
        return Windows(hashes, np.where(numbers[first] == numbers[last], numbers[first], -1) if len(hashes) else first)

    def hash_text(self, text: str, letters: int = LETTERS) -> "np.ndarray":
        """Return the hashes of a text's windows, ascending: `(n,) uint64`.

        None of a text of fewer letters.
        """
        import numpy as np

        words = _plain_words(text).split()
        return np.unique(self._hash_words([] if letters and _count_letters(words) < letters else words))

    def _hash_words(self, words: list[str]) -> "np.ndarray":
        """Fewer words than a window has are one window."""
        import numpy as np

        codes = np.fromiter(map(self._hash_word, words), dtype=np.uint64, count=len(words))
        width = min(_WINDOW, len(codes))
        count = len(codes) - width + 1
        total = codes[:count].copy()
        for step in range(1, width):
            total = total * np.uint64(self._bases[step - 1]) + codes[step : step + count]
        # Close sums lie far apart then, so that the smallest hashes are a fair sample.
        total ^= total >> np.uint64(31)
        total *= np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
        hashes: np.ndarray = total >> np.uint64(64 - 8 * _HASH_BYTES)
        return hashes

    def _hash_word(self, word: str) -> int:
        if (code := self._words.get(word)) is None:
            if len(self._words) >= _CACHED_WORDS:
                self._words.clear()
            looks = normalize_key(word) or word
            code = int.from_bytes(hashlib.blake2b(looks.encode("utf-8", "replace"), key=self.key, digest_size=8).digest(), "big")
            self._words[word] = code
        return code


class RestatementIndex:
    """Recognizes restatements by sketches, which are added before.

    Any thread may ask.
    """

    def __init__(self) -> None:
        self._sketches: list[Sketch] = []

    def __bool__(self) -> bool:
        return bool(self._sketches)

    def add_sketch(self, sketch: Sketch) -> None:
        """Recognize restatements of one more text."""
        self._sketches.append(sketch)

    @cached_property
    def _index(self) -> "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]":
        """All hashes, ascending; of each its list; of each list hashes and windows.

        The three lists of a text take turns.
        """
        import numpy as np

        lists = [
            hashes for sketch in self._sketches for hashes in (sketch.own_hashes, sketch.common_hashes, sketch.outside_hashes)
        ]
        sizes = np.array([len(hashes) for hashes in lists], dtype=np.int64)
        hashes = np.concatenate(lists)
        order = np.argsort(hashes, kind="stable")
        windows = np.array([count for sketch in self._sketches for count in (*sketch.counts, 0)], dtype=np.int64)
        return hashes[order], np.repeat(np.arange(len(sizes)), sizes)[order], sizes, windows

    def matches_hashes(self, hashes: "np.ndarray") -> bool:
        """Return whether a text with these hashes restates one of the texts."""
        import numpy as np

        if not len(hashes) or not self:
            return False
        all_hashes, lists, sizes, windows = self._index
        first, last = (np.searchsorted(all_hashes, hashes, side) for side in ("left", "right"))
        if not (last > first).any():
            return False
        positions = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True) if b > a])
        covered = (np.bincount(lists[positions], minlength=len(sizes)) / np.maximum(sizes, 1)).reshape(-1, 3)
        # Hashes are a sample of the windows: what holds of them, holds of all.
        windows = windows.reshape(-1, 3)
        shared = (covered * windows).sum(axis=1)
        share = shared / len(hashes)
        covers = (covered[:, 0] >= _COVERED_SHARE) & (shared >= _COVERED_SHARE * windows.sum(axis=1))
        covers &= (covered[:, 2] >= _OUTSIDE_SHARE) | (sizes.reshape(-1, 3)[:, 2] == 0)
        return bool((covers & ((share >= _OWN_SHARE) | ((shared > _LINE) & (share >= _QUOTED)))).any())


def _plain_words(text: str) -> str:
    for _ in range(LAYERS):
        inner = decode_layer(text)
        if inner == text:
            break
        text = inner
    return _LINE_NUMBER.sub("", text).translate(_ASCII if text.isascii() else _SPACED)


def _count_letters(words: list[str]) -> int:
    """A character of a script without spaces counts as three."""
    joined = "".join(words)
    if joined.isascii():
        return len(joined)
    # A syllable of Hangul is its letters.
    return len(unicodedata.normalize("NFD", joined)) + 2 * sum(len(word) == 1 and _is_unspaced(word) for word in words)


def _is_unspaced(character: str) -> bool:
    return any(first <= character <= last for first, last in _UNSPACED)


class _SpacingTable(dict[int, str]):
    """For `str.translate`: spaces for what ends a word, nothing for the invisible."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if _is_unspaced(character) and character.isalnum():
            spaced = f" {character} "
        elif character.isalnum() or character == "\n":
            spaced = character
        else:
            spaced = "" if unicodedata.category(character) in ("Cf", "Mn", "Me") else " "
        self[code] = spaced
        return spaced


_SPACED = _SpacingTable()
_ASCII = {code: chr(code) if chr(code).isalnum() or chr(code) == "\n" else " " for code in range(128)}
