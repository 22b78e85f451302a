"""Checks DuckDB's checksums, and computes from them what one damaged byte of a block was.

A checksum is the XOR of each 8-byte word times an odd constant (measured equal on files and logs of DuckDB 2.0). So for each
word there is one value that would make it fit, and a byte changes no bit of the sum below its own place. Where the sum is wrong
in its low bits, that another word could be mended in one byte by chance is less likely than one in 500 at its worst, and that
only after damage of several bytes; where it is not, or two words would do, nothing is mended.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base.dataclass import dataclass

#: Three headers, then blocks; each begins with its checksum.
HEADER, HEADERS = 4096, 3
#: Offsets in the file of the size of its blocks, which the second and the third header have, and what it can be.
_SIZE_OFFSETS, BLOCK_SIZES = (HEADER + 40, 2 * HEADER + 40), tuple(1 << n for n in range(14, 19))
_MULTIPLY, _ALL = 0xBF58476D1CE4E5B9, (1 << 64) - 1
_INVERSE = pow(_MULTIPLY, -1, 1 << 64)
_SEED, _TAIL_SEED, _TAIL_MULTIPLY = 5381, 0xE17A1465, 0xC6A4A7935BD1E995
_SUM = 8
#: Bytes of a header that may be in use (measured: 140 and 64).
_USED = 256
#: So many bits less those of the number of words: where none of the low ones is wrong, another word may fit by chance.
_SURE = 48
#: Words on either side of a damaged byte that have to be 0 where nothing is stored.
_NEAR = 32

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Mend:
    """A byte to change: offset in the file, and new value."""

    offset: int
    becomes: int


@dataclass(frozen=True, slots=True)
class DamagedBlock:
    """A damaged block: offset, size, and its mend if certain."""

    offset: int
    size: int
    mend: Mend | None


def checksum(content: bytes) -> int:
    """Return DuckDB's 64-bit checksum of some bytes.

    The up to 7 bytes after the last whole 8-byte word count too.
    """
    words, tail = _split_words(content)
    words_sum = int(np.bitwise_xor.reduce(_multiply_words(words))) if len(words) else 0
    return _SEED ^ words_sum ^ (_hash_tail(tail) if tail else 0)


def find_mend(stored: int, content: bytes) -> tuple[int, int] | None:
    """Return position and right value of the one damaged byte.

    None if that is not certain, or if two bytes would do. `stored` is the checksum on disk, `content` the bytes after it.
    The position is counted from the first byte of the checksum, which may be damaged itself.
    """
    if _is_header(content) and len(unused := [_USED + n for n, value in enumerate(content[_USED:]) if value]) == 1:
        # The one byte of a header's unused part that is not 0.
        [odd] = unused
        mended = content[:odd] + b"\0" + content[odd + 1 :]
        return (_SUM + odd, 0) if checksum(mended) == stored else None
    words, tail = _split_words(content)
    delta = stored ^ checksum(content)
    if (alone := _alone(words, delta)) is not None:
        return _SUM + 8 * alone[0] + alone[1], 0
    if not delta & ((1 << (_SURE - len(words).bit_length())) - 1):
        return None
    fitting = (_multiply_words(words) ^ np.uint64(delta)) * np.uint64(_INVERSE)
    differ = (fitting ^ words).view(np.uint8).reshape(-1, 8) != 0
    candidates = [(_SUM + 8 * i + int(np.flatnonzero(differ[i])[0]), i) for i in np.flatnonzero(differ.sum(axis=1) == 1).tolist()]
    mends = [(position, int(fitting[i]) >> (8 * (position % 8)) & 0xFF) for position, i in candidates]
    if _is_header(content):
        # The high bytes of its small numbers are nought, and few words are in use: fewer bits do.
        mends = [m for m in mends if m[1] == 0]
    if tail:
        target_hash = _hash_tail(tail) ^ delta
        tails = ((p, v) for p in range(len(tail)) for v in range(256))
        mends += [
            (_SUM + 8 * len(words) + p, v) for p, v in tails if _hash_tail(tail[:p] + bytes([v]) + tail[p + 1 :]) == target_hash
        ]
    if (position := _find_one_byte(delta)) is not None:
        mends.append((position, ((stored ^ delta) >> (8 * position)) & 0xFF))
    return mends[0] if len(mends) == 1 else None


def find_word(stored: int, content: bytes, index: int) -> int:
    """Return the value of the 8-byte word at `index` of a content with which its checksum would be `stored`."""
    word = int.from_bytes(content[8 * index : 8 * index + 8], "little")
    return ((word * _MULTIPLY ^ stored ^ checksum(content)) * _INVERSE) & _ALL


def _alone(words: Words, delta: int) -> tuple[int, int] | None:
    """Return the one damaged byte amid zeros, as (word, byte).

    None if there is none, or if more than one would do. `words` are the content as 8-byte words, shape (n,) uint64; `delta`
    is the XOR of the stored and the computed checksum. Every word that is 0 would fit with what that byte became; that one
    of them was damaged, and became 0 just where another holds the same value alone, is too unlikely to be considered.
    """
    fitting = np.uint64((delta * _INVERSE) & _ALL)
    matches = []
    for index in np.flatnonzero(words == fitting).tolist():
        near = words[max(index - _NEAR, 0) : index + _NEAR + 1]
        if np.count_nonzero(near) == 1 and (byte := _find_one_byte(int(fitting))) is not None:
            matches.append((index, byte))
    return matches[0] if len(matches) == 1 else None


def _is_header(content: bytes) -> bool:
    return len(content) == HEADER - _SUM


def read_block_size(path: Path) -> int:
    """Return the bytes of a file's blocks; the engine's usual size if its headers do not agree on a possible one."""
    with path.open("rb") as file:
        head = file.read(HEADER * HEADERS)
    sizes = {int.from_bytes(head[at : at + 8], "little") for at in _SIZE_OFFSETS}.intersection(BLOCK_SIZES)
    return sizes.pop() if len(sizes) == 1 else BLOCK_SIZES[-1]


def iter_damaged(path: Path) -> Iterator[DamagedBlock]:
    """Yield every header and block whose checksum does not fit.

    In order; reads the whole file. Blocks of zeros and a last piece that is no whole number of words are passed over.
    """
    block_size = read_block_size(path)
    with path.open("rb") as file:
        offset = 0
        while content := file.read(HEADER if offset < HEADER * HEADERS else block_size):
            stored, payload = int.from_bytes(content[:_SUM], "little"), content[_SUM:]
            if len(payload) % 8 == 0 and any(payload) and checksum(payload) != stored:
                change = find_mend(stored, payload)
                mend = Mend(offset + change[0], change[1]) if change else None
                yield DamagedBlock(offset, len(content), mend)
            offset += len(content)


def write_checksum(path: Path, block: DamagedBlock, right: bool) -> None:
    """Write a checksum into a copy's block, unsynced.

    With `right` that of its content, else one that does not fit.
    """
    with path.open("rb+") as file:
        file.seek(block.offset)
        fitting = checksum(file.read(block.size)[_SUM:])
        file.seek(block.offset)
        file.write((fitting if right else fitting ^ 1).to_bytes(_SUM, "little"))


def _split_words(content: bytes) -> tuple[Words, bytes]:
    """Return 8-byte words, shape (n,) uint64, and the rest."""
    words_size = len(content) // 8 * 8
    return np.frombuffer(content[:words_size], dtype="<u8"), content[words_size:]


def _multiply_words(words: Words) -> Words:
    """Return each word times DuckDB's constant, modulo 2**64."""
    return words * np.uint64(_MULTIPLY)


def _find_one_byte(value: int) -> int | None:
    """Return which byte of a 64-bit number alone is not 0."""
    positions = [n for n in range(8) if (value >> (8 * n)) & 0xFF]
    return positions[0] if len(positions) == 1 else None


def _hash_tail(tail: bytes) -> int:
    """Return what the last bytes add to a checksum (MurmurHash64A's last step)."""
    mixed = (_TAIL_SEED ^ (len(tail) * _TAIL_MULTIPLY)) & _ALL
    mixed = ((mixed ^ int.from_bytes(tail, "little")) * _TAIL_MULTIPLY) & _ALL
    mixed = ((mixed ^ (mixed >> 47)) * _TAIL_MULTIPLY) & _ALL
    return mixed ^ (mixed >> 47)
