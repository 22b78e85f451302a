"""How rows are packed in the keyed file: events in blocks, each compressed for itself with a preset dictionary. Pure.

A dictionary of pieces of older rows makes a block of 4 a fifth smaller and takes no longer to read. Session, agent, project and
thread are stored once for each stream.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from memory_mcp.model.ids import HASH_MASK

Row = tuple[Any, ...]
#: The key of an event, and a JSON list of the rest of its row.
PackedRow = tuple[bytes, bytes]
#: The next levels halve the speed for a hundredth of the size.
_LEVEL = 6
#: Bits of a key below its time.
_HASH_BITS = 80
#: Bytes of a key, of a checksum, and of a dictionary at most: what deflate looks back to.
_KEY, _CHECKSUM, _WINDOW = 16, 4, 32_768
#: Deflate without a head, whose checksum would be that of the dictionary, for each block again.
_RAW = -15
#: Rows in a dictionary at most, and bytes of each.
_PIECES, _PIECE = 60, 600
#: Of a row: what its stream has in common, and how many values follow.
_NAMES, _REST = slice(2, 6), 8
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode_json = json.JSONDecoder().raw_decode


def pack_key(key: int) -> bytes:
    """Return a key as 16 bytes that sort as it does."""
    return key.to_bytes(_KEY, "big")


def unpack_key(packed: bytes) -> int:
    """Return the key of `pack_key`."""
    return int.from_bytes(packed, "big")


class BlockPacker:
    """Packs and unpacks blocks with one dictionary. Raises ValueError for damaged bytes."""

    def __init__(self, dictionary: bytes) -> None:
        """`dictionary` may be empty."""
        self._dictionary = dictionary
        # Copies of these are made in 3 and 0.4 us.
        self._compressor: Any = None
        self._decompressor: Any = zlib.decompressobj(_RAW, zdict=dictionary) if dictionary else zlib.decompressobj(_RAW)

    def pack(self, rows: Sequence[PackedRow]) -> bytes:
        """Return a block: the keys, a checksum of them and of the rest of the rows, and this rest, compressed."""
        if self._compressor is None:
            options = (_LEVEL, zlib.DEFLATED, _RAW)
            self._compressor = (
                zlib.compressobj(*options, zdict=self._dictionary) if self._dictionary else zlib.compressobj(*options)
            )
        text, compressor = b"\n".join(line for _, line in rows), self._compressor.copy()
        keys = b"".join(key for key, _ in rows)
        return b"".join([keys, _sum_block(keys, text), compressor.compress(text), compressor.flush()])

    def unpack_text(self, count: int, body: bytes) -> tuple[list[bytes], bytes]:
        """Return the keys of a block of `count` rows, and the rest of the rows, a line each."""
        start = _KEY * count
        try:
            text: bytes = self._decompressor.copy().decompress(body[start + _CHECKSUM :])
        except zlib.error as error:
            raise ValueError(f"a damaged block: {error}") from error
        if _sum_block(body[:start], text) != body[start : start + _CHECKSUM]:
            raise ValueError("a damaged block: another checksum")
        return [body[at : at + _KEY] for at in range(0, start, _KEY)], text

    def unpack(self, count: int, body: bytes) -> list[PackedRow]:
        """Return the rows of a block of `count` rows."""
        keys, text = self.unpack_text(count, body)
        return list(zip(keys, text.split(b"\n"), strict=True))


def _sum_block(keys: bytes, text: bytes) -> bytes:
    return zlib.adler32(text, zlib.adler32(keys)).to_bytes(_CHECKSUM, "big")


def pack_names(names: Sequence[str]) -> str:
    """Return what a stream's rows have in common, with a checksum."""
    text = json.dumps(names)
    return f"{zlib.crc32(text.encode('ascii')):08x}{text}"


def unpack_names(packed: str) -> tuple[str, ...]:
    """Return the names of `pack_names`; raises ValueError if they are damaged."""
    checksum, text = packed[:8], packed[8:]
    if not text.isascii() or f"{zlib.crc32(text.encode('ascii')):08x}" != checksum:
        raise ValueError("damaged names of a stream")
    return tuple(json.loads(text))


def make_dictionary(lines: Sequence[bytes]) -> bytes:
    """Return a dictionary of the beginnings of some of these rows."""
    some = lines[:: max(1, len(lines) // _PIECES)]
    return b"\n".join(line[:_PIECE] for line in some)[-_WINDOW:]


def pack_row(row: Row, stream: int, names: Sequence[str]) -> PackedRow:
    """Pack a row of an event: its stream's number and names are those of `unpack_row`."""
    rest = row[_NAMES.stop :] if row[_NAMES] == names else row[_NAMES.start :]
    values = (row[1] - (row[0] >> _HASH_BITS), stream, *rest)
    return pack_key(row[0]), _encode_json(values).encode("utf-8", "surrogatepass")


def unpack_row(packed: bytes, line: bytes, read_names: Callable[[int], Sequence[str]]) -> Row:
    """Return the row; `read_names` returns session, agent, project and thread of a stream by its number."""
    key, ((delay, stream, *rest), _) = unpack_key(packed), _decode_json(line.decode("utf-8", "surrogatepass"))
    if len(rest) == _REST:
        return key, (key >> _HASH_BITS) + delay, *read_names(stream), *rest
    return key, (key >> _HASH_BITS) + delay, *rest


def pack_tail(key: int) -> bytes:
    """Return the lower 80 bits of a key."""
    return (key & HASH_MASK).to_bytes(10, "big")


def pack_grip(row: Row) -> Row:
    """Pack a row of a grip: key, keys of first and last event, and five integers."""
    key, first, last, span_start, span_end, quote_hash, timestamp, segment = row
    time, events = key >> _HASH_BITS, (pack_key(first), None if first == last else pack_key(last))
    delay = time - (first >> _HASH_BITS)
    return pack_tail(key), delay, *events, span_start, span_end, quote_hash, timestamp - time, segment, _checksum(row)


def unpack_grip(row: Row) -> Row:
    """Return the row; raises ValueError if it is damaged."""
    tail, delay, start, end, span_start, span_end, quote_hash, ts_delay, segment, checksum = row
    first = unpack_key(start)
    time, last = (first >> _HASH_BITS) + delay, first if end is None else unpack_key(end)
    grip = (time << _HASH_BITS | unpack_key(tail), first, last, span_start, span_end, quote_hash, time + ts_delay, segment)
    if _checksum(grip) != checksum:
        raise ValueError("a damaged grip")
    return grip


def _checksum(row: Row) -> int:
    return zlib.crc32(repr(row).encode("ascii"))


def pack_value(value: bytes) -> bytes:
    """Return a value as it is stored."""
    return zlib.compress(value, _LEVEL)


def unpack_value(body: bytes) -> bytes:
    """Return the value of `pack_value`; raises ValueError if it is damaged."""
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(f"a damaged value: {error}") from error
