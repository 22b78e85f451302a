"""A SQLite file with copies of rows by key; knows nothing of the store they come from.

Events are compressed in blocks of 4 that arrived together, as answers read a message with its neighbours: 25 events by id take
2.2 ms of CPU, with blocks of 8 2.7, of 32 7.6, from DuckDB 14; blocks of 8 would save 2 % of the file. Blocks are in groups
that have a signature each (`storage.ngrams`): as many as make some 6 kB, so that as many bits are set in each. Keys are
128-bit integers, stored as 16 bytes in order, and begin with a time: the times of events and grips are stored as what they are
more than that, mostly 0.
"""

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.model.ids import HASH_MASK, make_key
from memory_mcp.storage.duckdb.keyed_packing import (
    BlockPacker,
    PackedRow,
    Row,
    make_dictionary,
    pack_grip,
    pack_key,
    pack_names,
    pack_row,
    pack_tail,
    pack_value,
    unpack_grip,
    unpack_key,
    unpack_names,
    unpack_row,
    unpack_value,
)
from memory_mcp.storage.duckdb.keyed_schema import open_file
from memory_mcp.storage.ngrams import SIZE, list_bits, make_signature, select_groups

#: A stream with the first and the last position (time, key) of a stretch.
Span = tuple[int, tuple[int, int], tuple[int, int]]
#: Of a row of an event: the index of its text, and what its stream has in common.
_TEXT, _NAMES = 12, slice(2, 6)
EVENTS, GRIPS, PAIRS, SEGMENTS, NODES = "event", "grip", "pair", "segment", "node"
#: Events and characters of a block at most; decoded blocks and streams that are kept.
_BLOCK_ROWS, _BLOCK_CHARS, _CACHED_BLOCKS, _CACHED_STREAMS = 4, 16_000, 64, 2000
#: Blocks of a group at most, and compressed bytes that end one: a third of the bits of its signature are set then.
_GROUP, _GROUP_BYTES = 16, 6000
#: Groups of a row of signatures, which fills a page; the time of one without events.
_GROUPS, _NEVER = 8, -(1 << 63)
#: A line is its block's number times this, plus its place in the block.
_LINES = 64
#: A dictionary is made at this group, and again at so many times its number, of as many groups before.
_FIRST_DICTIONARY, _NEXT_DICTIONARY, _DICTIONARY_GROUPS = 8, 4, 60
#: Bits of a key below its time; which bytes of an event's key find the grips that begin in it.
_HASH_BITS, _START = 80, slice(6, 11)
#: Whether an event has another time than its key begins with.
_DELAYED = "delayed"
_STREAM = "(SELECT code FROM stream WHERE key = ?)"
#: Rows that are committed together, those of some 50 events that come alone: an event changes five pages and more, most of them
#: the same as the one before. A kill takes those that wait, as if they had not been copied yet.
_COMMIT_AFTER = 500
#: Parameters of one statement at most.
_MANY = 500


class KeyedFile:
    """The open file. Not thread-safe; methods raise sqlite3.Error, OSError, or ValueError for damaged bytes."""

    def __init__(self, path: Path) -> None:
        """Open the file; it is made if it is missing, or made again if it has another version."""
        #: The number of changes at the last commit.
        self._committed = 0
        self._blocks: OrderedDict[int, list[PackedRow]] = OrderedDict()
        #: By dictionary; and what streams have in common, by their numbers.
        self._packers: dict[int, BlockPacker] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._con = open_file(path)
        #: What the last one to close it noted, None for nothing. It is not noted any more, on disk too.
        self.version: int | None = self.read_meta("version")
        self.write_meta("version", None)
        # A kill leaves whole transactions; a power loss may take the last ones, which is noticed.
        self._con.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Commit, and close the file; its log is taken in."""
        try:
            self.commit()
        finally:
            self._con.close()

    @contextmanager
    def begin_transaction(self) -> Iterator[None]:
        """Write what the block writes, which is committed with what follows, or nothing of it."""
        if not self._con.in_transaction:
            self._con.execute("BEGIN")
            self._committed = self._con.total_changes
        self._con.execute("SAVEPOINT part")
        try:
            yield
            self._con.execute("RELEASE part")
            if self._con.total_changes - self._committed >= _COMMIT_AFTER:
                self.commit()
        except BaseException:
            self._clear_caches()
            with suppress(sqlite3.Error):
                self._con.execute("ROLLBACK TO part")
                self._con.execute("RELEASE part")
            raise

    def commit(self) -> None:
        """Commit what was written."""
        if self._con.in_transaction:
            self._con.execute("COMMIT")

    def read_meta(self, name: str) -> Any:
        """Return what `write_meta` stored under a name; None for nothing."""
        row = self._con.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        return json.loads(row[0]) if row else None

    def write_meta(self, name: str, value: Any) -> None:
        """Store a value as JSON."""
        self._con.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, json.dumps(value)])

    def add_events(self, rows: Sequence[tuple[int, Row]]) -> None:
        """Add events: (stream, row); a row begins with key and time. The last block is filled first."""
        streams = self._add_streams(rows)
        last = self._con.execute("SELECT number, rows, dictionary, body FROM block ORDER BY number DESC LIMIT 1").fetchone()
        number, block = (last[0], self._packer(last[2]).unpack(last[1], last[3])) if last else (0, [])
        dictionary = self._choose_dictionary(number // _GROUP)
        packer = self._packer(dictionary)
        sql = "SELECT total(length(body)) FROM block WHERE number >= ? AND number < ?"
        [group_size] = self._con.execute(sql, [number // _GROUP * _GROUP, number]).fetchone()
        size = sum(len(line) for _, line in block)
        places, blocks = list[tuple[bytes, int, int, int]](), list[Row]()
        rows_by_group: dict[int, list[Row]] = {}
        for stream, row in rows:
            code, names = streams[stream]
            key, line = pack_row(row, code, names)
            if block and (len(block) == _BLOCK_ROWS or size + len(line) > _BLOCK_CHARS):
                blocks.append((number, len(block), dictionary, packer.pack(block)))
                group_size += len(blocks[-1][-1])
                number, block, size = number + 1, [], 0
                if group_size >= _GROUP_BYTES or number % _GROUP == 0:
                    number, group_size = -(-number // _GROUP) * _GROUP, 0
            places.append((key, code, row[1], number * _LINES + len(block)))
            block.append((key, line))
            rows_by_group.setdefault(number // _GROUP, []).append(row)
            size += len(line)
        blocks.append((number, len(block), dictionary, packer.pack(block)))
        # The first may have been decoded before it was filled.
        self._blocks.pop(blocks[0][0], None)
        self._con.executemany("INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?)", blocks)
        self._add_signatures(rows_by_group)
        self._con.executemany("INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)", places)
        if any(row[1] != row[0] >> _HASH_BITS for _, row in rows):
            self.write_meta(_DELAYED, True)

    def _add_streams(self, rows: Sequence[tuple[int, Row]]) -> dict[int, tuple[int, tuple[str, ...]]]:
        """Return number and names of the rows' streams; a new one has the names of its first row."""
        names = {stream: pack_names(row[_NAMES]) for stream, row in reversed(rows)}
        self._con.executemany("INSERT OR IGNORE INTO stream (key, names) VALUES (?, ?)", names.items())
        stored = self._fetch_many("SELECT key, code, names FROM stream WHERE key IN ({})", names)
        return {key: (code, unpack_names(text)) for key, code, text in stored}

    def _read_names(self, code: int) -> tuple[str, ...]:
        names = self._names.get(code)
        if names is None:
            stored = self._con.execute("SELECT names FROM stream WHERE code = ?", [code]).fetchone()
            if stored is None:
                raise ValueError("a stream is missing")
            if len(self._names) >= _CACHED_STREAMS:
                self._names.clear()
            names = self._names[code] = unpack_names(stored[0])
        return names

    def _packer(self, dictionary: int) -> BlockPacker:
        packer = self._packers.get(dictionary)
        if packer is None:
            stored = self._con.execute("SELECT body FROM dictionary WHERE number = ?", [dictionary]).fetchone()
            if dictionary and stored is None:
                raise ValueError("a dictionary is missing")
            packer = self._packers[dictionary] = BlockPacker(stored[0] if stored else b"")
        return packer

    def _choose_dictionary(self, group: int) -> int:
        """Return the dictionary of new blocks by the group at which it was made, 0 for none."""
        newest = int(self._con.execute("SELECT coalesce(max(number), 0) FROM dictionary").fetchone()[0])
        if group < max(newest * _NEXT_DICTIONARY, _FIRST_DICTIONARY):
            return newest
        numbers = {newest + (group - newest) * n // _DICTIONARY_GROUPS for n in range(_DICTIONARY_GROUPS)}
        sql = "SELECT rows, dictionary, body FROM block WHERE number IN ({})"
        blocks = self._fetch_many(sql, (number * _GROUP for number in numbers))
        lines = [line for rows, dictionary, body in blocks for _, line in self._packer(dictionary).unpack(rows, body)]
        self._con.execute("INSERT INTO dictionary VALUES (?, ?)", [group, make_dictionary(lines)])
        return group

    def _add_signatures(self, rows_by_group: Mapping[int, Sequence[Row]]) -> None:
        """Add new rows to the signatures of their groups, which ascend."""
        for number, groups in groupby(rows_by_group, key=lambda group: group // _GROUPS):
            stored = self._con.execute("SELECT newest, bits FROM signatures WHERE number = ?", [number]).fetchone()
            newest = np.frombuffer(stored[0], "<i8").copy() if stored else np.full(_GROUPS, _NEVER, "<i8")
            bits = bytearray(stored[1] if stored else bytes(_GROUPS * SIZE))
            for group in groups:
                rows, index = rows_by_group[group], group % _GROUPS
                part = slice(index * SIZE, (index + 1) * SIZE)
                newest[index] = max(int(newest[index]), *(row[1] for row in rows))
                bits[part] = make_signature((row[_TEXT] for row in rows), bytes(bits[part]))
            self._con.execute("INSERT OR REPLACE INTO signatures VALUES (?, ?, ?)", [number, newest.tobytes(), bytes(bits)])

    def find_groups(
        self, words: Sequence[str], spans: Sequence[Span] | None, times: tuple[int, int] | None
    ) -> list[tuple[int, int]] | None:
        """Return the groups of events that may hold all words: number and newest time, newest first.

        Only those with an event of one of `spans`, or else of these `times`. None if the words are too short to tell.
        """
        bits = list_bits(words)
        if not len(bits):
            return None
        chosen = self._list_groups(spans) if spans is not None else None if times is None else self._list_groups_at(times)
        if chosen is None:
            rows = self._con.execute("SELECT number, newest, bits FROM signatures").fetchall()
        else:
            sql = "SELECT number, newest, bits FROM signatures WHERE number IN ({})"
            rows = self._fetch_many(sql, sorted({number // _GROUPS for number in chosen}))
        newest = np.frombuffer(b"".join(row[1] for row in rows), "<i8")
        indices = select_groups(b"".join(row[2] for row in rows), bits).tolist()
        groups = [(rows[i // _GROUPS][0] * _GROUPS + i % _GROUPS, int(newest[i])) for i in indices]
        return sorted((g for g in groups if chosen is None or g[0] in chosen), key=lambda group: -group[1])

    def _list_groups(self, spans: Sequence[Span]) -> set[int]:
        sql = f"SELECT DISTINCT line / ? FROM event WHERE stream = {_STREAM} AND (ts, id) BETWEEN (?, ?) AND (?, ?)"
        numbers: set[int] = set()
        for stream, (start, start_key), (end, end_key) in spans:
            rows = self._con.execute(sql, [_LINES * _GROUP, stream, start, pack_key(start_key), end, pack_key(end_key)])
            numbers.update(number for (number,) in rows)
        return numbers

    def _list_groups_at(self, times: tuple[int, int]) -> set[int]:
        column, ends = "ts", list[bytes | int](times)
        if not self.read_meta(_DELAYED):
            # Keys are in order.
            column, ends = "id", [pack_key(make_key(time, tail)) for time, tail in zip(times, (0, HASH_MASK), strict=True)]
        rows = self._con.execute(f"SELECT DISTINCT line / ? FROM event WHERE {column} BETWEEN ? AND ?", [_LINES * _GROUP, *ends])
        return {number for (number,) in rows}

    def read_groups(self, numbers: Iterable[int], probes: Sequence[bytes]) -> list[Row]:
        """Return the rows of groups in whose stored form all probes are, in lower case."""
        sql = "SELECT rows, dictionary, body FROM block WHERE number BETWEEN ? AND ?"
        rows: list[Row] = []
        for number in numbers:
            for count, dictionary, body in self._con.execute(sql, [number * _GROUP, (number + 1) * _GROUP - 1]).fetchall():
                keys, text = self._packer(dictionary).unpack_text(count, body)
                lowered = text.lower()
                if all(probe in lowered for probe in probes):
                    lines = zip(keys, text.split(b"\n"), lowered.split(b"\n"), strict=True)
                    matching = [(key, line) for key, line, low in lines if all(probe in low for probe in probes)]
                    rows += [unpack_row(key, line, self._read_names) for key, line in matching]
        return rows

    def read_events(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of those events that are here."""
        return self._read_lines(self._fetch_many("SELECT id, line FROM event WHERE id IN ({})", map(pack_key, keys)))

    def read_neighbours(self, stream: int, position: tuple[int, int], later: bool, limit: int, offset: int) -> list[Row]:
        """Return a stream's rows next to a position (time, key), nearest first, leaving out the nearest `offset`."""
        than, order = (">", "ASC") if later else ("<", "DESC")
        sql = f"""SELECT id, line FROM event WHERE stream = {_STREAM} AND (ts, id) {than} (?, ?)
                  ORDER BY ts {order}, id {order} LIMIT ? OFFSET ?"""
        rows = self._con.execute(sql, [stream, position[0], pack_key(position[1]), limit, offset]).fetchall()
        return self._read_lines(rows)

    def read_span(self, span: Span) -> list[Row]:
        """Return the rows of a stretch of a stream, in order."""
        stream, (start, start_key), (end, end_key) = span
        sql = f"SELECT id, line FROM event WHERE stream = {_STREAM} AND (ts, id) BETWEEN (?, ?) AND (?, ?) ORDER BY ts, id"
        rows = self._con.execute(sql, [stream, start, pack_key(start_key), end, pack_key(end_key)]).fetchall()
        return self._read_lines(rows)

    def _read_lines(self, places: Sequence[tuple[bytes, int]]) -> list[Row]:
        """Return the rows of events by key and line, in this order."""
        blocks = self._read_blocks({line // _LINES for _, line in places})
        rows: list[Row] = []
        for packed, line in places:
            block, place = blocks.get(line // _LINES, ()), line % _LINES
            if place >= len(block) or block[place][0] != packed:
                raise ValueError("another event is in the block")
            rows.append(unpack_row(*block[place], self._read_names))
        return rows

    def _read_blocks(self, numbers: set[int]) -> dict[int, list[PackedRow]]:
        blocks = {number: self._blocks[number] for number in numbers if number in self._blocks}
        for number in blocks:
            self._blocks.move_to_end(number)
        sql = "SELECT number, rows, dictionary, body FROM block WHERE number IN ({})"
        for number, rows, dictionary, body in self._fetch_many(sql, sorted(numbers.difference(blocks))):
            blocks[number] = self._blocks[number] = self._packer(dictionary).unpack(rows, body)
        while len(self._blocks) > _CACHED_BLOCKS:
            self._blocks.popitem(last=False)
        return blocks

    def add_rows(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows of any other table, in order; they replace those with their keys.

        Grips: key, keys of first and last event, and five integers. Pairs: hidden and shown key. Segments: key and the rest of
        the row. Nodes: key and value; None removes the node.
        """
        if table == GRIPS:
            self._con.executemany("INSERT OR REPLACE INTO grip VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(pack_grip, rows))
        elif table == PAIRS:
            for hidden, shown in (map(pack_key, pair) for pair in rows):
                # What a newly hidden event hid is hidden by its shown one from now on.
                self._con.execute("UPDATE pair SET shown = ? WHERE shown = ?", [shown, hidden])
                self._con.execute("INSERT OR REPLACE INTO pair VALUES (?, ?)", [hidden, shown])
        elif table == SEGMENTS:
            self._put_values(table, {key: json.dumps(values).encode("ascii") for key, *values in rows})
        else:
            self._put_values(table, dict(rows))

    def _put_values(self, table: str, values: Mapping[int, bytes | None]) -> None:
        packed = [(key, pack_value(value)) for key, value in values.items() if value is not None]
        self._con.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", packed)
        self._con.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key, value in values.items() if value is None])

    def read_values(self, table: str, keys: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return key and value of those segments or nodes that are here; a segment's value is a JSON list."""
        rows = self._fetch_many(f"SELECT key, value FROM {table} WHERE key IN ({{}})", keys)
        return [(key, unpack_value(value)) for key, value in rows]

    def read_grips(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of those grips that are here."""
        wanted = set(keys)
        rows = map(unpack_grip, self._fetch_many("SELECT * FROM grip WHERE tail IN ({})", map(pack_tail, wanted)))
        return [row for row in rows if row[0] in wanted]

    def read_event_grips(self, keys: Iterable[int]) -> list[Row]:
        """Return the rows of grips that begin or end in these events, by first event and span."""
        packed = {*map(pack_key, keys)}
        # By a part of the key, which takes a third of the room.
        sql = "SELECT * FROM grip WHERE substr(event_start, 7, 5) IN ({})"
        rows = {row for row in self._fetch_many(sql, {key[_START] for key in packed}) if row[2] in packed}
        rows |= {*self._fetch_many("SELECT * FROM grip WHERE event_end IN ({})", packed)}
        return sorted(map(unpack_grip, rows), key=lambda row: (row[1], row[3], row[4]))

    def find_grip(self, tail: int) -> Row | None:
        """Return the row of a grip by the lower 80 bits of its key."""
        row = self._con.execute("SELECT * FROM grip WHERE tail = ?", [pack_tail(tail)]).fetchone()
        return unpack_grip(row) if row else None

    def read_pairs(self, keys: Collection[int]) -> list[tuple[int, int]]:
        """Return the pairs (hidden, shown) with one of `keys`."""
        packed = list(map(pack_key, keys))
        pairs = self._fetch_many("SELECT hidden, shown FROM pair WHERE shown IN ({})", packed)
        return list({**self.read_hidden(keys), **{unpack_key(hidden): unpack_key(shown) for hidden, shown in pairs}}.items())

    def read_hidden(self, keys: Iterable[int]) -> dict[int, int]:
        """Return those of `keys` that are hidden, with the shown key of each."""
        pairs = self._fetch_many("SELECT hidden, shown FROM pair WHERE hidden IN ({})", map(pack_key, keys))
        return {unpack_key(hidden): unpack_key(shown) for hidden, shown in pairs}

    def clear_table(self, name: str) -> None:
        """Empty a table, for events also their blocks."""
        for table in (EVENTS, "stream", "block", "dictionary", "signatures") if name == EVENTS else (name,):
            self._con.execute(f"DELETE FROM {table}")
        self._clear_caches()

    def _clear_caches(self) -> None:
        for cache in (self._blocks, self._packers, self._names):
            cache.clear()

    def _fetch_many(self, sql: str, parameters: Iterable[bytes | int]) -> list[Row]:
        every, rows = list(parameters), list[Row]()
        for some in (every[start : start + _MANY] for start in range(0, len(every), _MANY)):
            rows += self._con.execute(sql.format(",".join("?" * len(some))), some).fetchall()
        return rows
