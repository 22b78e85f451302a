"""Reads what can be read of a damaged database file, and of entries of its log.

A damaged block is read all the same where a wrong value would be noticed by a hash, since DuckDB reads 2,048 rows at a time
and would give up all of them. What comes back has the hashes that it was stored with; see `doubtful` for what no hash
covers.
"""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import duckdb

from memory_mcp.base.children import Child
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import StorageError
from memory_mcp.model.event import Event, stream_key
from memory_mcp.storage.duckdb import blocks, logs, migrations
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.doubtful import COLUMNS, KnownStreams, make_event
from memory_mcp.storage.duckdb.files import log_path, make_copy_config

log = logging.getLogger(__name__)

_READER = "memory_mcp.storage.duckdb.damaged_reader"
#: Tables, besides events, that are not derived; each is kept as far as it can be read.
_KEPT = (
    *("audit", "superseded", "spending", "usage", "topic", "topic_label", "pin"),
    *("alias", "project_alias", "project_split"),
)
#: DuckDB reads so many rows at a time, whatever is asked for.
_STRETCH = 2048
#: Rows that are given up together; after so many failures, whole stretches.
_LEAST = 32
_FAILURES = 300
#: Tables, besides events, whose rows in the log are stored again: rows are only ever added to them.
APPENDED = ("audit", "superseded", "spending", "usage", "pin")
#: Ending of the file beside a copy that says which rows of which columns lie in damaged blocks.
_DOUBTS = ".doubtful"
_STREAMS = "SELECT stream, session_id, project, thread, min(agent), max(agent) FROM segment_cut GROUP BY ALL"
_LAYOUT = """SELECT row_group_id, column_name, start, count, block_id, additional_block_ids FROM pragma_storage_info('event')
             WHERE segment_type <> 'VALIDITY' ORDER BY row_group_id, column_name, start"""
_MEMORY_MB = 64


class DamagedReader:
    """Reads rows of a damaged file in a child process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._child: Child | None = None
        #: Queries that could not be answered: each may have ended the child, which takes half a second to begin anew.
        self.failures = 0
        #: The file cannot even be opened; nothing more is tried, as each try begins a child.
        self.is_unreadable = False

    def fetch_rows(self, sql: str) -> list[Row] | None:
        """Return a query's rows; None, which is counted, if it fails."""
        if self.is_unreadable:
            return None
        try:
            if self._child is None:
                self._child = Child(_READER, str(self._file))
            rows = cast("list[Row] | None", self._child.ask(sql))
        except (OSError, EOFError, ArithmeticError, ValueError, MemoryError, UnpicklingError):
            # What ends the engine may write into the answer before.
            self.stop()
            rows = None
        self.failures += rows is None
        return rows

    def stop(self) -> None:
        """End the child process; the next query starts another."""
        if self._child is not None:
            self._child.end()
            self._child = None


def iter_tables(file: Path) -> Iterator[tuple[str, list[Row], int]]:
    """Yield each kept table's readable rows, and how many are not.

    Without meta's schema version.
    """
    with _open_reader(file) as reader:
        for table in ("meta", *_KEPT):
            where = "name <> 'schema_version'" if table == "meta" else "true"
            rows = [row for batch in _iter_stretches(reader, table, where) for row in batch]
            ((total,),) = reader.fetch_rows(f"SELECT count(*) FROM {table} WHERE {where}") or [(len(rows),)]
            if rows or total:
                yield table, rows, max(total - len(rows), 0)


def iter_events(file: Path) -> Iterator[list[Event]]:
    """Yield a file's events by arrival, up to 2048 at a time.

    Values in damaged blocks are checked by hashes or left empty; too uncertain events are left out.
    """
    doubts: list[DoubtfulRows] = []
    with suppress(OSError, ValueError, TypeError):
        doubts = [DoubtfulRows(*fields) for fields in json.loads(file.with_name(file.name + _DOUBTS).read_text(encoding="ascii"))]
    with _open_reader(file) as reader:
        # What the cuts say of streams, as far as their keys fit.
        stream_rows = [row for row in reader.fetch_rows(_STREAMS) or () if stream_key(*row[1:4]) == row[0]] if doubts else []
        known_streams = KnownStreams(
            {row[0]: row[1:4] for row in stream_rows}, {row[0]: row[4] for row in stream_rows if row[4] == row[5]}
        )
        ((last,),) = reader.fetch_rows("SELECT coalesce(max(rowid), -1) FROM event") or [(-1,)]
        for start in range(0, last + 1, _STRETCH):
            doubtful = frozenset(d.column for d in doubts if d.first < start + _STRETCH and start <= d.last)
            rows = _iter_rows(reader, start, doubtful)
            yield [event for row in rows if (event := make_event(row, doubtful, known_streams)) is not None]


def _iter_rows(reader: DamagedReader, start: int, doubtful: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield up to 2048 rows of events by column, from a rowid on.

    A value that cannot be read is None. `doubtful` are the columns suspected of it. Rows whose text cannot be read are left
    out and logged.
    """

    def ask(columns: Sequence[str], first: int, count: int) -> list[Row] | None:
        column_list = ", ".join(columns)
        return reader.fetch_rows(
            f"SELECT {column_list} FROM event WHERE rowid >= {first} AND rowid < {first + count} ORDER BY rowid"
        )

    def stretch(first: int, count: int, columns: Sequence[str], suspects: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield rows without unreadable columns, else in halves; log failures."""
        rows = ask(columns, first, count)
        if rows is not None:
            nothing = dict.fromkeys(COLUMNS)
            yield from (nothing | dict(zip(columns, row, strict=True)) for row in rows)
            return
        # Looked for in ever smaller parts, until that has taken long enough.
        least = _LEAST if reader.failures < _FAILURES else count
        # A column that fails at both ends is one whose stretch cannot be opened; else a few rows of it fail.
        ends = (first, first + count - _LEAST)
        bad = [c for c in suspects if ask([c], first, count) is None]
        gone = {c for c in bad if count <= least or all(ask([c], end, _LEAST) is None for end in ends)}
        remaining = [c for c in columns if c not in gone]
        # An event is its text: without it nothing else is asked for.
        if gone and "text" not in gone:
            yield from stretch(first, count, remaining, [c for c in bad if c not in gone])
        elif count > least and not gone:
            half = count // 2
            for begin in (first, first + half):
                yield from stretch(begin, half, columns, bad or suspects)
        else:
            log.warning("rows %d to %d of event cannot be read", first, first + count - 1)

    return stretch(start, _STRETCH, COLUMNS, [c for c in COLUMNS if c in doubtful])


@contextmanager
def _open_reader(file: Path) -> Iterator[DamagedReader]:
    """Yield a reader of a file that was set aside.

    With its log where that can be replayed; a log that keeps the file from opening is renamed. Where it still cannot be
    opened, the reader answers nothing.
    """
    reader = DamagedReader(file)
    try:
        log_file = log_path(file)
        if reader.fetch_rows("SELECT 1") is None and log_file.exists():
            log_file.rename(log_file.with_name(log_file.name + ".damaged"))
        if reader.fetch_rows("SELECT 1") is None:
            log.error("nothing can be read of %s", file)
            reader.is_unreadable = True
        yield reader
    finally:
        reader.stop()


@dataclass(frozen=True, slots=True)
class DoubtfulRows:
    """Rows of an event column that are in a damaged block: first, last rowid."""

    column: str
    first: int
    last: int


def accept_blocks(file: Path, is_older: bool) -> None:
    """Have damaged blocks with events read all the same; note doubtful values.

    Blocks that hold other tables get a checksum that does not fit again. Of a file that `is_older` than its blocks every text is
    doubtful. Done once: nothing where the note next to the copy exists.
    """
    notes = file.with_name(file.name + _DOUBTS)
    if notes.exists():
        return
    bad, block_size = list(blocks.iter_damaged(file)), blocks.read_block_size(file)
    for block in bad:
        blocks.write_checksum(file, block, right=True)
    numbers = {(block.offset - blocks.HEADER * blocks.HEADERS) // block_size: block for block in bad}
    with _open_reader(file) as reader:
        for table in ("meta", "segment_cut", *_KEPT):
            sql = f"SELECT DISTINCT block_id, additional_block_ids FROM pragma_storage_info('{table}')"
            for number, more in reader.fetch_rows(sql) or ():
                for wrong in numbers.keys() & {number, *(more or ())}:
                    blocks.write_checksum(file, numbers[wrong], right=False)
        block_count = (file.stat().st_size - blocks.HEADER * blocks.HEADERS) // block_size
        doubts = _find_doubtful(reader, set(numbers), block_count)
    if is_older:
        doubts.append(DoubtfulRows("text", 0, sys.maxsize))
    notes.write_text(json.dumps([astuple(doubt) for doubt in doubts]), encoding="ascii")


def _find_doubtful(reader: DamagedReader, wrong: set[int], block_count: int) -> list[DoubtfulRows]:
    """Return which rows and columns of events are in bad blocks.

    Blocks numbered `wrong`, or after the file's `block_count` blocks. All rows of all columns, where the blocks that say this are
    among them.
    """
    layout, metadata_blocks = reader.fetch_rows(_LAYOUT), reader.fetch_rows("SELECT block_id FROM pragma_metadata_info()")
    if layout is None or metadata_blocks is None or wrong & {row[0] for row in metadata_blocks}:
        return [DoubtfulRows(column, 0, sys.maxsize) for column in COLUMNS]
    doubtful_rows: list[DoubtfulRows] = []
    ends: dict[int, int] = {}
    begin, now = 0, None
    for group, column, start, count, number, more in layout:
        if group != now:
            # Each row group begins where the one before it ended.
            begin, now = ends.get(now, 0) if now is not None else 0, group
        ends[group] = max(ends.get(group, 0), begin + start + count)
        at = {number, *(more or ())} - {None}
        if wrong & at or max(at, default=0) >= block_count:
            doubtful_rows.append(DoubtfulRows(column, begin + start, begin + start + count - 1))
    return doubtful_rows


def _iter_stretches(reader: DamagedReader, table: str, where: str) -> Iterator[list[Row]]:
    """Yield readable rows of a table, 2048 or fewer at a time.

    A stretch that fails is halved down to 32 rows, which are then given up and logged.
    """
    ((last,),) = reader.fetch_rows(f"SELECT coalesce(max(rowid), -1) FROM {table}") or [(-1,)]
    waiting = [(start, _STRETCH) for start in reversed(range(0, last + 1, _STRETCH))]
    while waiting:
        start, size = waiting.pop()
        rows = reader.fetch_rows(
            f"SELECT * FROM {table} WHERE rowid >= {start} AND rowid < {start + size} AND {where} ORDER BY rowid"
        )
        if rows is not None:
            yield rows
        elif size > _LEAST:
            waiting += [(start + size // 2, size // 2), (start, size // 2)]
        else:
            log.warning("rows %d to %d of %s cannot be read", start, start + size - 1, table)


def read_log_rows(part: Path) -> Iterator[tuple[str, list[Event] | list[Row]]]:
    """Yield events and rows of log entries, replayed on an empty file."""
    content = part.read_bytes()
    if not content:
        return
    scratch = part.with_name("scratch.duckdb-replay")
    _remove_scratch(scratch)
    try:
        con = Connection(scratch, _MEMORY_MB, 1)
        with con.begin_transaction() as writer:
            migrations.create_tables(writer)
        con.close()
        log_path(scratch).write_bytes(logs.make_header(scratch) + content)
        with duckdb.connect(str(scratch), False, make_copy_config()) as replayed:
            rows = replayed.execute(f"SELECT {', '.join(COLUMNS)} FROM event ORDER BY seq").fetchall()
            columns_of_rows = (dict(zip(COLUMNS, row, strict=True)) for row in rows)
            yield (
                "event",
                [e for columns in columns_of_rows if (e := make_event(columns, frozenset({"text"}), KnownStreams())) is not None],
            )
            for table in APPENDED:
                yield table, replayed.execute(f"SELECT * FROM {table}").fetchall()
    except (duckdb.Error, StorageError) as error:
        log.warning("what followed the damage cannot be replayed: %s", str(error).splitlines()[0])
    finally:
        _remove_scratch(scratch)


def _remove_scratch(scratch: Path) -> None:
    for path in (scratch, log_path(scratch)):
        path.unlink(missing_ok=True)
