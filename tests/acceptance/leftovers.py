"""Where some words are left on disk: every byte of every file in each way of writing them, archives unpacked, columns read."""

import base64
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from memory_mcp.capture.respelling import normalize_key
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Damaged
from tests.files import read_at_rest

#: What pages of a database are padded with; an even number of bytes, so that two-byte letters behind them stay whole.
_ZEROS = re.compile(rb"(?:\0\0){2,}")


def holding(roots: Sequence[Path], words: str) -> dict[str, int]:
    """Files below some folders that hold `words` in any spelling once all is at rest, by their place; with how often."""
    found: dict[str, int] = {}
    for root in roots:
        for path, content in read_at_rest(root).items():
            name = str(path.relative_to(root))
            count = max(_mentions(raw, words) for raw in (_unpacked(path.suffix, content), name.encode()))
            if count:
                found[name] = count
    return found


def cells(database: Path, words: str) -> dict[str, int]:
    """Columns of a database that nobody has open which hold `words`, by table and column: the engine compresses text."""
    with tempfile.TemporaryDirectory() as folder:
        for file, content in read_at_rest(database.parent).items():
            if file.parent == database.parent and file.name.startswith(database.name):
                Path(folder, file.name).write_bytes(content)
        with duckdb.connect(str(Path(folder, database.name))) as con:
            columns = con.execute(
                """SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal
                   AND (data_type LIKE 'VARCHAR%' OR data_type LIKE '%BLOB%')"""
            ).fetchall()
            counts = {}
            for table, column in columns:
                rows = con.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
                counts[f"{table}.{column}"] = sum(bool(_mentions(_raw(value), words)) for (value,) in rows)
    return {name: count for name, count in counts.items() if count}


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _unpacked(suffix: str, content: bytes) -> bytes:
    if suffix != ".archive":
        return content
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with Archive(Path(file.name)) as archive:
            rows = [str(row) for b in archive if not isinstance(b, Damaged) for row in b.mappings()]
    return "\n".join(rows).encode("utf-8", "replace") + content


def _mentions(raw: bytes, words: str) -> int:
    key, raw = normalize_key(words), _ZEROS.sub(b"\0\0", raw)
    texts = [raw.decode(code, "ignore") for code in ("utf-8", "utf-16-le")]
    texts.append(re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), texts[0]))
    plain = max(normalize_key(text).count(key) for text in set(texts))
    return plain + sum(raw.count(coded) for coded in _in_base64(words))


def _in_base64(words: str) -> Iterator[bytes]:
    """How the words stand in base64: by where they begin in a group of three bytes, without the letters that others share."""
    raw = words.encode()
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + raw)
        first, last = (0, 2, 3)[before], (before + len(raw)) * 8 // 6
        yield whole[first:last]
