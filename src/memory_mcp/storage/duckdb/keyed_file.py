"""A SQLite file with copies of rows by key; knows nothing of the store they come from.

Events are compressed in blocks of 8 that arrived together, as answers read a message with its neighbours. At 48,000 events the
file has 39 MB, with blocks of 32 33 MB; 25 events by id take 2.4 ms of CPU, with blocks of 32 7.6, from DuckDB 14. Keys are
128-bit integers, stored as 16 bytes in order.
"""

import json
import os
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.model.ids import HASH_MASK
from memory_mcp.storage.trigrams import SIZE, list_bits, make_signature, select_groups

Row = tuple[Any, ...]
#: A stream with the first and the last position (time, key) of a stretch.
Span = tuple[int, tuple[int, int], tuple[int, int]]
#: Index of the text in a row of an event.
_TEXT = 12
EVENTS, GRIPS, PAIRS, SEGMENTS, NODES = "event", "grip", "pair", "segment", "node"
#: Raise it when the tables change: a file of another version is filled again.
_VERSION = 1
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE block (number INTEGER PRIMARY KEY, rows INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE signatures (number INTEGER PRIMARY KEY, newest BLOB NOT NULL, bits BLOB NOT NULL);
CREATE TABLE event (id BLOB PRIMARY KEY, stream INTEGER NOT NULL, ts INTEGER NOT NULL, line INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX event_order ON event (stream, ts, id);
CREATE TABLE grip (tail BLOB NOT NULL, id BLOB NOT NULL, event_start BLOB NOT NULL, event_end BLOB NOT NULL,
  span_start INTEGER NOT NULL, span_end INTEGER NOT NULL, quote_hash INTEGER NOT NULL, ts INTEGER NOT NULL,
  segment INTEGER NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (tail, id)) WITHOUT ROWID;
CREATE INDEX grip_start ON grip (event_start);
CREATE INDEX grip_end ON grip (event_end) WHERE event_end <> event_start;
CREATE TABLE pair (hidden BLOB PRIMARY KEY, shown BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX pair_shown ON pair (shown);
CREATE TABLE segment (key INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE node (key INTEGER PRIMARY KEY, value BLOB NOT NULL);
"""
#: Events and characters of a block at most; decoded blocks that are kept.
_BLOCK_ROWS, _BLOCK_CHARS, _CACHED_BLOCKS = 8, 16_000, 64
#: Blocks of a group, which has one signature (`storage.trigrams`).
_GROUP = 2
#: Groups of a row of signatures; the time of one without events.
_GROUPS, _NEVER = 16, -(1 << 63)
#: A line is its block's number times this, plus its place in the block.
_LINES = 64
#: The next levels halve the speed for a tenth of the size.
_LEVEL = 3
#: Parameters of one statement at most.
_MANY = 500


def pack_key(key: int) -> bytes:
    """Return a key as 16 bytes that sort as it does."""
    return key.to_bytes(16, "big")


def _unpack_key(packed: bytes) -> int:
    return int.from_bytes(packed, "big")


class KeyedFile:
    """The open file. Not thread-safe; methods raise sqlite3.Error, OSError, or ValueError for damaged bytes."""

    def __init__(self, path: Path) -> None:
        """Open the file; it is made if it is missing, or made again if it has another version."""
        self._path = path
        self._blocks: OrderedDict[int, list[bytes]] = OrderedDict()
        # Not its parents: a data directory that was moved away is not made again.
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink():
            raise OSError(f"{path} is a link")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._con = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        if self._con.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            self._con.close()
            remove_file(path)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._con = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._con.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        # A process that is killed leaves whole transactions; a power loss may take the last ones, which is noticed.
        self._con.execute("PRAGMA journal_mode = WAL")
        self._con.execute("PRAGMA synchronous = NORMAL")
        self._con.execute("PRAGMA cache_size = -2000")
        self._con.execute("PRAGMA mmap_size = 268435456")

    def close(self) -> None:
        """Close the file; its log is taken in."""
        self._con.close()

    @contextmanager
    def begin_transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        self._con.execute("BEGIN")
        try:
            yield
            self._con.execute("COMMIT")
        except BaseException:
            self._blocks.clear()
            with suppress(sqlite3.Error):
                self._con.execute("ROLLBACK")
            raise

    def read_meta(self, name: str) -> Any:
        """Return what `write_meta` stored under a name; None for nothing."""
        row = self._con.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        return json.loads(row[0]) if row else None

    def write_meta(self, name: str, value: Any) -> None:
        """Store a value as JSON."""
        self._con.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, json.dumps(value)])

    def add_events(self, rows: Sequence[tuple[int, Row]]) -> None:
        """Add events: (stream, row); a row begins with key and time. The last block is filled first."""
        last = self._con.execute("SELECT number, rows, body FROM block ORDER BY number DESC LIMIT 1").fetchone()
        number, lines = (
            (last[0], _unpack_lines(last[2])) if last and last[1] < _BLOCK_ROWS else ((last[0] if last else 0) + 1, [])
        )
        size = sum(map(len, lines))
        places: list[tuple[bytes, int, int, int]] = []
        added: list[Row] = []
        for stream, row in rows:
            line = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode("ascii")
            if lines and (len(lines) == _BLOCK_ROWS or size + len(line) > _BLOCK_CHARS):
                self._write_block(number, lines, added)
                number, lines, size, added = number + 1, [], 0, []
            places.append((pack_key(row[0]), stream, row[1], number * _LINES + len(lines)))
            lines.append(line)
            added.append(row)
            size += len(line)
        self._write_block(number, lines, added)
        self._con.executemany("INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)", places)

    def _write_block(self, number: int, lines: list[bytes], added: Sequence[Row]) -> None:
        """Write all lines of a block, and add its new rows to the signature of its group."""
        self._blocks.pop(number, None)
        if added:
            self._add_signature(number // _GROUP, added)
        body = zlib.compress(b"\n".join(lines), _LEVEL)
        self._con.execute("INSERT OR REPLACE INTO block VALUES (?, ?, ?)", [number, len(lines), body])

    def _add_signature(self, group: int, rows: Sequence[Row]) -> None:
        number, index = divmod(group, _GROUPS)
        stored = self._con.execute("SELECT newest, bits FROM signatures WHERE number = ?", [number]).fetchone()
        newest = np.frombuffer(stored[0], "<i8").copy() if stored else np.full(_GROUPS, _NEVER, "<i8")
        bits = bytearray(stored[1] if stored else bytes(_GROUPS * SIZE))
        part = slice(index * SIZE, (index + 1) * SIZE)
        newest[index] = max(int(newest[index]), *(row[1] for row in rows))
        bits[part] = make_signature((row[_TEXT] for row in rows), bytes(bits[part]))
        self._con.execute("INSERT OR REPLACE INTO signatures VALUES (?, ?, ?)", [number, newest.tobytes(), bytes(bits)])

    def find_groups(self, words: Sequence[str], spans: Sequence[Span] | None) -> list[tuple[int, int]] | None:
        """Return the groups of events that may hold all words: number and newest time, newest first.

        With `spans` only those with an event of one. None if the words are too short to tell.
        """
        bits = list_bits(words)
        if not len(bits):
            return None
        span_groups = None if spans is None else self._list_groups(spans)
        if span_groups is None:
            rows = self._con.execute("SELECT number, newest, bits FROM signatures").fetchall()
        else:
            sql = "SELECT number, newest, bits FROM signatures WHERE number IN ({})"
            rows = self._fetch_many(sql, sorted({number // _GROUPS for number in span_groups}))
        newest = np.frombuffer(b"".join(row[1] for row in rows), "<i8")
        indices = select_groups(b"".join(row[2] for row in rows), bits).tolist()
        groups = [(rows[i // _GROUPS][0] * _GROUPS + i % _GROUPS, int(newest[i])) for i in indices]
        return sorted((g for g in groups if span_groups is None or g[0] in span_groups), key=lambda group: -group[1])

    def _list_groups(self, spans: Sequence[Span]) -> set[int]:
        sql = "SELECT DISTINCT line / ? FROM event WHERE stream = ? AND (ts, id) BETWEEN (?, ?) AND (?, ?)"
        numbers: set[int] = set()
        for stream, (start, start_key), (end, end_key) in spans:
            parameters = [_LINES * _GROUP, stream, start, pack_key(start_key), end, pack_key(end_key)]
            numbers.update(number for (number,) in self._con.execute(sql, parameters))
        return numbers

    def read_groups(self, numbers: Iterable[int], probes: Sequence[bytes]) -> list[Row]:
        """Return the rows of groups in whose stored form all probes are, lower-case letters and digits."""
        sql = "SELECT body FROM block WHERE number BETWEEN ? AND ?"
        rows: list[Row] = []
        for number in numbers:
            for (body,) in self._con.execute(sql, [number * _GROUP, (number + 1) * _GROUP - 1]):
                text = _decompress(body)
                lowered = text.lower()
                if all(probe in lowered for probe in probes):
                    lines = zip(text.split(b"\n"), lowered.split(b"\n"), strict=True)
                    rows += [tuple(json.loads(line)) for line, low in lines if all(probe in low for probe in probes)]
        return rows

    def read_events(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of those events that are here."""
        places = self._fetch_many("SELECT id, line FROM event WHERE id IN ({})", map(pack_key, keys))
        return [self._read_line(packed, line) for packed, line in places]

    def read_neighbours(self, stream: int, position: tuple[int, int], later: bool, limit: int, offset: int) -> list[Row]:
        """Return a stream's rows next to a position (time, key), nearest first, leaving out the nearest `offset`."""
        than, order = (">", "ASC") if later else ("<", "DESC")
        sql = f"""SELECT id, line FROM event WHERE stream = ? AND (ts, id) {than} (?, ?)
                  ORDER BY ts {order}, id {order} LIMIT ? OFFSET ?"""
        rows = self._con.execute(sql, [stream, position[0], pack_key(position[1]), limit, offset]).fetchall()
        return [self._read_line(packed, line) for packed, line in rows]

    def _read_line(self, packed: bytes, line: int) -> Row:
        number, place = divmod(line, _LINES)
        lines = self._blocks.get(number)
        if lines is None:
            (body,) = self._con.execute("SELECT body FROM block WHERE number = ?", [number]).fetchone() or (b"",)
            lines = self._blocks[number] = _unpack_lines(body)
            while len(self._blocks) > _CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        row = tuple(json.loads(lines[place])) if place < len(lines) else (None,)
        if row[0] != _unpack_key(packed):
            raise ValueError("another event is in the block")
        return row

    def add_rows(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows of any other table; they replace those with their keys.

        Grips: key, keys of first and last event, and five integers. Pairs: hidden and shown key. Segments: key and the rest of
        the row. Nodes: key and value; None removes the node.
        """
        if table == GRIPS:
            packed = ((_pack_tail(r[0]), *map(pack_key, r[:3]), *r[3:], _checksum(r)) for r in rows)
            self._con.executemany("INSERT OR REPLACE INTO grip VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", packed)
        elif table == PAIRS:
            self._add_pairs([(pack_key(hidden), pack_key(shown)) for hidden, shown in rows])
        elif table == SEGMENTS:
            self._put_values(table, [(key, json.dumps(values).encode("ascii")) for key, *values in rows])
        else:
            self._put_values(table, rows)

    def _add_pairs(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Add pairs; what a newly hidden event hid is hidden by its shown one from now on."""
        self._con.executemany("UPDATE pair SET shown = ? WHERE shown = ?", [(shown, hidden) for hidden, shown in pairs])
        self._con.executemany("INSERT OR REPLACE INTO pair VALUES (?, ?)", pairs)

    def _put_values(self, table: str, rows: Sequence[Row]) -> None:
        packed = [(key, zlib.compress(value, _LEVEL)) for key, value in rows if value is not None]
        self._con.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", packed)
        self._con.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key, value in rows if value is None])

    def read_values(self, table: str, keys: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return key and value of those segments or nodes that are here; a segment's value is a JSON list."""
        rows = self._fetch_many(f"SELECT key, value FROM {table} WHERE key IN ({{}})", keys)
        return [(key, _decompress(value)) for key, value in rows]

    def read_grips(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of those grips that are here."""
        by_tail = {_pack_tail(key): pack_key(key) for key in keys}
        sql = "SELECT * FROM grip WHERE tail IN ({})"
        return [_unpack_grip(row) for row in self._fetch_many(sql, by_tail) if row[1] == by_tail[row[0]]]

    def read_event_grips(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of grips that begin or end in these events, by first event and span."""
        packed = list(map(pack_key, keys))
        rows = {*self._fetch_many("SELECT * FROM grip WHERE event_start IN ({})", packed)}
        rows |= {*self._fetch_many("SELECT * FROM grip WHERE event_end IN ({}) AND event_end <> event_start", packed)}
        return sorted(map(_unpack_grip, rows), key=lambda row: (row[1], row[3], row[4]))

    def find_grip(self, tail: int) -> Row | None:
        """Return the row of a grip by the lower 80 bits of its key."""
        row = self._con.execute("SELECT * FROM grip WHERE tail = ?", [_pack_tail(tail)]).fetchone()
        return _unpack_grip(row) if row else None

    def read_pairs(self, keys: Iterable[int]) -> list[tuple[int, int]]:
        """Return the pairs (hidden, shown) with one of `keys`."""
        packed = list(map(pack_key, keys))
        pairs = {*self._fetch_many("SELECT hidden, shown FROM pair WHERE hidden IN ({})", packed)}
        pairs |= {*self._fetch_many("SELECT hidden, shown FROM pair WHERE shown IN ({})", packed)}
        return [(_unpack_key(hidden), _unpack_key(shown)) for hidden, shown in pairs]

    def clear_table(self, name: str) -> None:
        """Empty a table, for events also their blocks."""
        for table in (EVENTS, "block", "signatures") if name == EVENTS else (name,):
            self._con.execute(f"DELETE FROM {table}")
        self._blocks.clear()

    def _fetch_many(self, sql: str, parameters: Iterable[bytes | int]) -> list[Row]:
        every, rows = list(parameters), list[Row]()
        for start in range(0, len(every), _MANY):
            some = every[start : start + _MANY]
            rows += self._con.execute(sql.format(",".join("?" * len(some))), some).fetchall()
        return rows


def remove_file(path: Path) -> None:
    """Remove a file with its logs; nothing if it is missing."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _pack_tail(key: int) -> bytes:
    return (key & HASH_MASK).to_bytes(10, "big")


def _unpack_grip(row: Row) -> Row:
    grip = (*map(_unpack_key, row[1:4]), *row[4:9])
    if _checksum(grip) != row[9]:
        raise ValueError("a damaged grip")
    return grip


def _checksum(row: Row) -> int:
    return zlib.crc32(repr(row).encode("ascii"))


def _unpack_lines(body: bytes) -> list[bytes]:
    return _decompress(body).split(b"\n")


def _decompress(body: bytes) -> bytes:
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(f"a damaged block: {error}") from error
