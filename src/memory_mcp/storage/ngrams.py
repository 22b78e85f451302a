"""Which groups of texts may hold a piece of text, by hashed 4-grams. Pure.

A signature is a set of 16,256 bits, one for each four bytes in a row of its texts in lower case: a piece of text is in the
group only if all of its bits are. A group is as large as sets a third of them. With trigrams in 8,192 bits a name
that no text holds was looked for in seven times as many groups: its parts are in other names (measured). Letters outside ASCII
that have a case are left out of what is looked for, white space too: both match in more than one form.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

#: Eight signatures with their times fill a page of 16 kB.
_BITS = 16_256
#: Bytes of a signature.
SIZE = _BITS // 8
#: Multiplies a 4-gram into its bit: odd, with its bits spread.
_SPREAD = 0x9E3779B1


def make_signature(texts: Iterable[str], old: bytes = b"") -> bytes:
    """Return the signature of texts, joined with an `old` one."""
    marks = np.zeros(_BITS, dtype=bool)
    # Only ASCII letters change: the others keep their bytes, and what is looked for leaves them out if they have a case.
    marks[_hash_grams("\n".join(texts).encode("utf-8", "surrogatepass").lower())] = True
    bits = np.packbits(marks, bitorder="little")
    return (bits | np.frombuffer(old, np.uint8) if old else bits).tobytes()


def list_bits(words: Iterable[str]) -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the distinct bits that a text with all words has, `(n,)`; none for words of less than four characters."""
    bits = [_hash_grams(piece) for word in words for piece in _list_pieces(word)]
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *bits]))


def select_groups(signatures: bytes, bits: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the indices of those of some joined signatures that have all bits, ascending."""
    table = np.frombuffer(signatures, np.uint8).reshape(-1, SIZE)
    return np.flatnonzero(((table[:, bits >> 3] >> (bits & 7).astype(np.uint8)) & 1).all(axis=1))


def _list_pieces(word: str) -> list[bytes]:
    """Return the stretches of a word whose bytes are the same in every text that holds it, in lower case."""
    plain = "".join(c if not c.isspace() and (c.isascii() or c.lower() == c.upper() == c) else " " for c in word)
    return [piece.encode("utf-8", "surrogatepass").lower() for piece in plain.split()]


def _hash_grams(text: bytes) -> "np.ndarray[Any, np.dtype[Any]]":
    codes = np.frombuffer(text, np.uint8).astype(np.uint32)
    grams = codes[:-3] << 24 | codes[1:-2] << 16 | codes[2:-1] << 8 | codes[3:]
    return ((((grams * np.uint32(_SPREAD)) >> np.uint32(16)) * np.uint32(_BITS)) >> np.uint32(16)).astype(np.int64)
