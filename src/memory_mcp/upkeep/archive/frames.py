"""The parts of an archive file: what a block says of itself, and how values are spelled in it (pure)."""

import base64
import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from memory_mcp.base.dataclass import dataclass

MAGIC = b"memory-mcp archive 1\n"
#: Bytes that text compressed by zlib or written as JSON holds by chance once in 2^128.
MARK = bytes.fromhex("f5c89b1e07d24a6fb30e5d91a27c64f8")
INDEX = bytes.fromhex("f6a1427de90b4c358e12f0c47b9ad503")
FRAME = struct.Struct(">I32s")
TAIL = struct.Struct(">Q")
#: A block ends with whichever comes first: a slice that holds the interpreter for a few milliseconds, and what a damaged
#: byte costs.
MAX_ROWS, MAX_BYTES = 500, 256_000
#: Longest head or index that is believed (bytes): a damaged length must not be read as one.
MAX_HEAD = 64_000_000
#: Several rows of a block unpack to at most this (bytes), four times what is written today; and so do what a file is about and
#: an index above the bytes of its file, which holds every head in clear.
MAX_UNPACKED = 1_000_000
#: The longest single row that is believed (bytes), of any table, and of the table of events: 1 MiB of text, each character
#: escaped, and its metadata. Nonsense of small lists takes 24 times its length when it is parsed.
LONGEST_ROW, LONGEST_EVENT = 64_000_000, 16_000_000

Row = list[Any]


@dataclass(frozen=True, slots=True)
class Head:
    """What a block says of itself. On disk: fields may be added, never given another meaning."""

    number: int
    table: str
    columns: tuple[str, ...]
    rows: int
    #: Compressed (bytes), and what those add up to.
    size: int
    sha256: str
    #: Lowest and highest `seq` of the rows; 0 where the table has none.
    first: int = 0
    last: int = 0
    #: Lowest and highest `ts`, `at_ms`, `start_ts` or `start_ms`, UTC ms; 0 where the table has none.
    from_ms: int = 0
    to_ms: int = 0
    #: Rows by their `source`.
    sources: Mapping[str, int] = field(default_factory=dict)
    #: What `print_of` says of the rows: the same rows give the same.
    ids: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """An undamaged block."""

    head: Head
    rows: list[Row]

    def mappings(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dictionary by the names of its columns."""
        for row in self.rows:
            yield dict(zip(self.head.columns, row, strict=True))


@dataclass(frozen=True, slots=True)
class Damaged:
    """Something that cannot be read, as far as it is known: `head` is None where nothing says what it was."""

    why: str
    head: Head | None = None
    #: Whether rows are lost; damage of what the file holds twice costs none.
    lost: bool = True
    #: What lay before and behind it, where `head` is None.
    between: tuple[Head | None, Head | None] = (None, None)
    #: Its checksum holds and its content is none of ours: no byte was damaged, somebody else wrote it.
    malformed: bool = False


def pack_value(value: Any) -> Any:
    """Return a value for JSON: bytes as {"b64": text}."""
    return {"b64": base64.b64encode(value).decode("ascii")} if isinstance(value, (bytes, bytearray, memoryview)) else value


def unpack_value(value: Any) -> Any:
    """Return the value that was packed for JSON."""
    return base64.b64decode(value["b64"]) if isinstance(value, dict) and list(value) == ["b64"] else value


def encode_json(value: Any) -> bytes:
    """Return a value as compact JSON in ASCII."""
    # Lone surrogates, which a store may hold, are no UTF-8: they stay escaped.
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def make_head(number: int, table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]], body: bytes) -> Head:
    """Return the head of some rows, whose compressed form is `body`."""

    def column(*names: str) -> list[Any]:
        """Return the values of the first existing one of these columns."""
        name = next((n for n in names if n in columns), None)
        return [row[columns.index(name)] for row in rows] if name else []

    seqs, times = column("seq"), column("ts", "at_ms", "start_ts", "start_ms")
    return Head(
        number=number,
        table=table,
        columns=columns,
        rows=len(rows),
        size=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        first=min(seqs, default=0),
        last=max(seqs, default=0),
        from_ms=min(times, default=0),
        to_ms=max(times, default=0),
        sources=dict(Counter(column("source"))),
        ids=fingerprint_rows(table, columns, rows),
    )


def fingerprint_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return the XOR of rows' ids, in hexadecimal, or "".

    Of events, or of grips and their segments; the order of rows does not matter; `Snapshot.fingerprint` gives the same.
    """
    if table == "grip":
        grip, segment = columns.index("grip_id"), columns.index("segment")
        return xor_hex(f"{int(row[grip]) ^ int(row[segment]):x}" for row in rows)
    if "event_id" not in columns:
        return ""
    index = columns.index("event_id")
    return xor_hex(f"{row[index]:x}" for row in rows)


def xor_hex(ids: Iterable[str]) -> str:
    """Return the XOR of hexadecimal numbers; "" for none."""
    total, has_any = 0, False
    for text in ids:
        if text:
            total, has_any = total ^ int(text, 16), True
    return f"{total:x}" if has_any else ""


def make_frame(head: Head) -> bytes:
    """Return the bytes that precede a block's body."""
    head_bytes = encode_json(asdict(head))
    return MARK + FRAME.pack(len(head_bytes), hashlib.sha256(head_bytes).digest()) + head_bytes


def parse_head(document: Mapping[str, Any]) -> Head:
    """Return a head from its JSON; unknown fields are left out.

    Raises KeyError or TypeError where one is missing.
    """
    fields = {name: document[name] for name in Head.__dataclass_fields__ if name in document}
    return Head(**fields | {"columns": tuple(fields["columns"])})
