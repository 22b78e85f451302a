"""What can be read of a database file that was set aside, and of entries of its log.

A damaged block is read all the same where a wrong value would be known by a hash, since DuckDB reads 2,048 rows at a time and
would give up all of them. What comes back has the hashes that it was stored with.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import duckdb

from memory_mcp.children import Child
from memory_mcp.errors import StorageError
from memory_mcp.model.event import Event, content_hash
from memory_mcp.model.ids import event_key
from memory_mcp.storage.duckdb import blocks, logs, migrations
from memory_mcp.storage.duckdb.connection import Connection, Row, copy_config
from memory_mcp.storage.duckdb.rows import EVENT, event_of

log = logging.getLogger(__name__)

_READER = "memory_mcp.storage.duckdb.damaged_reader"
#: What is true and derived from nothing else, besides events; each is kept whole or as far as it can be read.
_KEPT = (
    *("audit", "superseded", "spending", "usage", "topic", "topic_label", "pin"),
    *("alias", "project_alias", "project_split"),
)
#: DuckDB reads so many rows at a time, whatever is asked for.
_STRETCH = 2048
#: Rows that are given up together.
_LEAST = 32
#: Columns of events whose values are known to be right: by the hash of the text, by that of the stream, by the id's own time.
_HASHED = frozenset({"seq", "event_id", "ts", "stream", "session_id", "project", "thread", "content", "text"})
_HASH_BITS = 80
_MEMORY_MB = 64


def log_of(file: Path) -> Path:
    """The write-ahead log of a database file."""
    return file.with_name(file.name + ".wal")


class DamagedReader:
    """Rows of a damaged file, for as long as it can be read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._child: Child | None = None

    def rows(self, sql: str) -> list[Row] | None:
        """All rows of a query; None where it cannot be answered."""
        try:
            if self._child is None:
                self._child = Child(_READER, str(self._file))
                self._child.begin()
            return cast("list[Row] | None", self._child.ask(sql))
        except (OSError, EOFError):
            self.end()
            return None

    def end(self) -> None:
        """Let the child go."""
        if self._child is not None:
            self._child.end()
            self._child = None


def tables(file: Path) -> Iterator[tuple[str, list[Row]]]:
    """Tables that are kept, with every row that can be read."""
    with _reading(file) as reader:
        for table in ("meta", *_KEPT):
            where = "name <> 'schema_version'" if table == "meta" else "true"
            rows = [row for batch in _stretches(reader, f"SELECT * FROM {table}", table, where) for row in batch]
            if rows:
                yield table, rows


def events_of(file: Path) -> Iterator[list[Event]]:
    """Events of a file, in the order of arrival."""
    with _reading(file) as reader:
        for rows in _stretches(reader, f"SELECT content, stream, {EVENT} FROM event", "event", "true"):
            yield list(_unchanged(rows))


@contextmanager
def _reading(file: Path) -> Iterator[DamagedReader]:
    """A file that was set aside, with its log where that can be replayed."""
    reader = DamagedReader(file)
    try:
        rest = log_of(file)
        if reader.rows("SELECT 1") is None and rest.exists():
            rest.rename(rest.with_name(rest.name + ".damaged"))
        if reader.rows("SELECT 1") is None:
            log.error("nothing can be read of %s", file)
        yield reader
    finally:
        reader.end()


def accept(file: Path) -> None:
    """Have what damaged blocks of a copy hold read all the same, where a damaged value would be known by its hash."""
    bad = list(blocks.damaged(file))
    for block in bad:
        blocks.accept(file, block, right=True)
    numbers = {(block.offset - blocks.HEADER * blocks.HEADERS) // blocks.BLOCK: block for block in bad}
    with _reading(file) as reader:
        for table in ("event", "meta", *_KEPT):
            sql = f"SELECT DISTINCT block_id, column_name, additional_block_ids FROM pragma_storage_info('{table}')"
            for number, column, more in reader.rows(sql) or ():
                if table != "event" or column not in _HASHED:
                    for doubtful in numbers.keys() & {number, *(more or ())}:
                        blocks.accept(file, numbers[doubtful], right=False)


def _stretches(reader: DamagedReader, select: str, table: str, where: str) -> Iterator[list[Row]]:
    """Rows in the order of the file, but for stretches that cannot be read."""
    ((last,),) = reader.rows(f"SELECT coalesce(max(rowid), -1) FROM {table}") or [(-1,)]
    waiting = [(start, _STRETCH) for start in reversed(range(0, last + 1, _STRETCH))]
    while waiting:
        start, size = waiting.pop()
        rows = reader.rows(f"{select} WHERE rowid >= {start} AND rowid < {start + size} AND {where} ORDER BY rowid")
        if rows is not None:
            yield rows
        elif size > _LEAST:
            waiting += [(start + size // 2, size // 2), (start, size // 2)]
        else:
            log.warning("rows %d to %d of %s cannot be read", start, start + size - 1, table)


def _unchanged(rows: list[Row]) -> Iterator[Event]:
    for row in rows:
        with suppress(ValueError, KeyError):
            event = event_of(row[2:])
            own = (content_hash(event.text), event.stream, event_key(event.event_id) >> _HASH_BITS)
            if own == (row[0], row[1], event.timestamp):
                yield event


def events_in_log(part: Path) -> Iterator[list[Event]]:
    """Events of log entries, replayed on an empty file of today's tables."""
    content = part.read_bytes()
    if not content:
        return
    scratch = part.with_name("scratch.duckdb-replay")
    _clear(scratch)
    try:
        con = Connection(scratch, _MEMORY_MB, 1)
        with con.writing() as writer:
            migrations.create(writer)
        con.close()
        log_of(scratch).write_bytes(logs.header_for(scratch) + content)
        with duckdb.connect(str(scratch), False, copy_config()) as replayed:
            rows = replayed.execute(f"SELECT content, stream, {EVENT} FROM event ORDER BY seq").fetchall()
        yield list(_unchanged(rows))
    except (duckdb.Error, StorageError) as error:
        log.warning("what followed the damage cannot be replayed: %s", str(error).splitlines()[0])
    finally:
        _clear(scratch)


def _clear(scratch: Path) -> None:
    for path in (scratch, log_of(scratch)):
        path.unlink(missing_ok=True)
