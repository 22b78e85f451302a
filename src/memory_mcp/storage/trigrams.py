"""Which groups of texts may hold a piece of text, by hashed trigrams. Pure.

A signature is a set of 8,192 bits, one for each three bytes in a row of its texts in lower case: a piece of text is in the
group only if all of its bits are. Sixteen events of coding sessions set two fifths of them, so that a word of ten letters
is looked for in one group of a thousand in vain. Letters outside ASCII that have a case are left out of what is looked for,
white space too: both match in more than one form.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

_BITS = 8192
#: Bytes of a signature.
SIZE = _BITS // 8
#: Multiplies a trigram into its bit: odd, with its bits spread.
_SPREAD = 0x9E3779B1


def make_signature(texts: Iterable[str], old: bytes = b"") -> bytes:
    """Return the signature of texts, joined with an `old` one."""
    marks = np.zeros(_BITS, dtype=bool)
    for text in texts:
        # Only ASCII letters change: the others keep their bytes, and what is looked for leaves them out if they have a case.
        marks[_hash_trigrams(text.encode("utf-8", "surrogatepass").lower())] = True
    bits = np.packbits(marks, bitorder="little")
    return (bits | np.frombuffer(old, np.uint8) if old else bits).tobytes()


def list_bits(words: Iterable[str]) -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the distinct bits that a text with all words has, `(n,)`; none for words of less than three characters."""
    bits = [_hash_trigrams(piece) for word in words for piece in _list_pieces(word)]
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *bits]))


def select_groups(signatures: bytes, bits: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the indices of those of some joined signatures that have all bits, ascending."""
    table = np.frombuffer(signatures, np.uint8).reshape(-1, SIZE)
    return np.flatnonzero(((table[:, bits >> 3] >> (bits & 7).astype(np.uint8)) & 1).all(axis=1))


def _list_pieces(word: str) -> list[bytes]:
    """Return the stretches of a word whose bytes are the same in every text that holds it, in lower case."""
    plain = "".join(c if not c.isspace() and (c.isascii() or c.lower() == c.upper() == c) else " " for c in word)
    return [piece.encode("utf-8", "surrogatepass").lower() for piece in plain.split()]


def _hash_trigrams(text: bytes) -> "np.ndarray[Any, np.dtype[Any]]":
    codes = np.frombuffer(text, np.uint8).astype(np.uint32)
    trigrams = codes[:-2] << 16 | codes[1:-1] << 8 | codes[2:]
    return ((trigrams * np.uint32(_SPREAD)) >> np.uint32(19)).astype(np.int64)
