"""Reads DuckDB's write-ahead log: its entries, which are damaged, and the rows after the damage.

A log is a header without a checksum, then entries: length (8 bytes), checksum (8), content. The third byte of a content is
its kind; entries of a transaction end with a flush. What follows a torn end was never acknowledged; DuckDB leaves it out.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.storage.duckdb.blocks import HEADER, HEADERS, Mend, checksum, find_mend

_FRAME = struct.Struct("<QQ")
#: Bytes before the content of an entry.
FRAME = _FRAME.size
#: How contents begin that name a table, add rows to it, and end a transaction.
_USE_TABLE, _INSERT, FLUSH = b"\x64\x00\x19", b"\x64\x00\x1a", b"\x64\x00\x64"
_KINDS = b"\x64\x00"
#: Where a file's own number lies in it and how long it is; where each of its headers counts the checkpoints (measured).
ID, ID_BYTES, _ITERATION = 124, 16, 8
#: How the header of a log begins, before the number of its file, and what lies between that and the count of checkpoints.
_BEGIN, _ROUND = b"d\0be\0\2f\0" + bytes([ID_BYTES]), b"g\0"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry: offset of its frame, and content if its checksum fits."""

    offset: int
    content: bytes | None
    mend: Mend | None = None


def is_whole(log: bytes, expected: bytes) -> bool:
    """Return whether a log's header and lengths are right.

    Checksums are left to DuckDB.
    """
    offset = len(expected)
    if log[:offset] != expected:
        return False
    while offset + FRAME <= len(log):
        (size,) = struct.unpack_from("<Q", log, offset)
        offset += FRAME + size
    return offset == len(log)


def make_header(file: Path) -> bytes:
    """Return the bytes with which the log of this file begins.

    From its number and count of checkpoints.
    """
    with file.open("rb") as opened:
        top = opened.read(HEADER * HEADERS)
    rounds = [read_round(top[at : at + HEADER]) for at in (HEADER, 2 * HEADER)]
    number = b"".join(_encode_varint(value) for value in top[ID : ID + ID_BYTES])
    return _BEGIN + number + _ROUND + _encode_varint(max(rounds)) + b"\xff\xff"


def read_round(header: bytes) -> int:
    """Return how many checkpoints the second or the third header of a file counts."""
    return int.from_bytes(header[_ITERATION : _ITERATION + 8], "little")


def parse_header(log: bytes) -> tuple[bytes, int] | None:
    """Return the number of the file that a log belongs to, and its count of checkpoints; None for no whole header."""
    if not log.startswith(_BEGIN):
        return None
    values, at = list[int](), len(_BEGIN)
    for _ in range(ID_BYTES):
        value, at = _decode_varint(log, at)
        values.append(value)
    count, end = _decode_varint(log, at + len(_ROUND))
    is_whole = log[at : at + len(_ROUND)] == _ROUND and log[end : end + 2] == b"\xff\xff" and max(values) <= 0xFF
    return (bytes(values), count) if is_whole else None


def iter_entries(log: bytes, start: int) -> Iterator[LogEntry]:
    """Yield each entry from an offset on, damaged ones without content.

    After one that cannot be mended, reading goes on at the next whole entry; without one it ends. A last entry that is cut
    short is not yielded.
    """
    offset = start
    while offset + FRAME <= len(log):
        size, stored = _FRAME.unpack_from(log, offset)
        content = log[offset + FRAME : offset + FRAME + size]
        if len(content) == size and checksum(content) == stored:
            yield LogEntry(offset, content)
            offset += FRAME + size
            continue
        mend = _find_mend(log, offset, size, stored)
        if mend is not None:
            fixed = bytearray(log[offset : offset + FRAME])
            yield LogEntry(offset, None, mend)
            if mend.offset < offset + 8:
                fixed[mend.offset - offset] = mend.becomes
            offset += FRAME + _FRAME.unpack_from(fixed)[0]
            continue
        later = _find_next(log, offset + 1)
        if later is not None or len(content) == size:
            yield LogEntry(offset, None)
        if later is None:
            return
        offset = later


def extract_rows(log: bytes, start: int, tables: Sequence[str]) -> bytes:
    """Return rows that whole entries add to some tables, as one transaction.

    An insert counts only if the entry that names its table was read before it, with no damage or end of a transaction between.
    """
    names = [b"f\0" + bytes([len(name)]) + name.encode("ascii") for name in tables]
    contents, is_selected = list[bytes](), False
    for entry in iter_entries(log, start):
        content = entry.content
        if content is None or content.startswith(FLUSH):
            is_selected = False
        elif content.startswith(_USE_TABLE):
            is_selected = any(name in content for name in names)
            if is_selected:
                contents.append(content)
        elif is_selected and content.startswith(_INSERT):
            contents.append(content)
    contents += [FLUSH + b"\xff\xff"] if contents else []
    return b"".join(_FRAME.pack(len(content), checksum(content)) + content for content in contents)


def _find_mend(log: bytes, offset: int, size: int, stored: int) -> Mend | None:
    """Return the one byte that makes the entry at `offset` whole, or None."""
    content = log[offset + FRAME : offset + FRAME + size]
    if len(content) == size and content.startswith(_KINDS) and (change := find_mend(stored, content)):
        at = offset + 8 + change[0]
        return Mend(at, change[1])
    for index in range(8):
        for value in range(256):
            other = size & ~(0xFF << (8 * index)) | value << (8 * index)
            end = offset + FRAME + other
            # The next entry tells cheaply whether that length may be right.
            fits = end == len(log) or (end < len(log) and log[end + FRAME : end + FRAME + 2] == _KINDS)
            if fits and checksum(log[offset + FRAME : end]) == stored:
                return Mend(offset + index, value)
    return None


def _find_next(log: bytes, start: int) -> int | None:
    at = start
    while (frame_start := log.find(_KINDS, at + FRAME)) >= 0:
        at = frame_start - FRAME
        size, stored = _FRAME.unpack_from(log, at)
        if size <= len(log) - frame_start and checksum(log[frame_start : frame_start + size]) == stored:
            return at
        at += 1
    return None


def _decode_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset behind it; a number that is cut short ends with the content."""
    value = shift = 0
    while at < len(content):
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if not byte & 0x80:
            break
    return value, at


def _encode_varint(value: int) -> bytes:
    """Return a number as DuckDB writes it: 7 bits a byte, low first."""
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)
