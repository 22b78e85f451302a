"""ArchiveStore on DuckDB: every table but those that are derived or temporary, found in the catalogue so that none is missed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import duckdb

from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.archive import DERIVED, SHARED, LoadCounts, TableRows, get_empty_value
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.names import COLUMNS, join_names, select_lists
from memory_mcp.storage.records import DERIVER

#: Conditions for rows that are carried: of the tree only texts that the summarizer has not written.
_WRITTEN = f"SELECT key, version FROM node WHERE current AND author <> '{EXTRACTIVE}'"
_SOME = {
    "node": f"WHERE (key, version) IN ({_WRITTEN})",
    "bullet": f"WHERE (key, version) IN ({_WRITTEN})",
    "bullet_grip": f"WHERE (key, version) IN ({_WRITTEN})",
    "meta": "WHERE name <> 'schema_version'",
}
#: The key of each shared table, and the expression for its fingerprint: quotations may move to another segment.
_KEYS = {"event": ("seq", "event_id"), "grip": ("grip_id", "xor(grip_id, segment::HUGEINT)")}
#: Rows handed out at once, and events read at once: a slice of text stays small, and few row groups are visited twice.
_SLICE, _EVENTS = 500, 1000
#: Rows that speak of events that are not there, after a loss.
_DANGLING = (
    """DELETE FROM segment_cut c WHERE NOT EXISTS (
           SELECT 1 FROM event e WHERE e.stream = c.stream AND e.ts BETWEEN c.start_ts AND c.end_ts)""",
    "DELETE FROM duplicate WHERE event_id NOT IN (SELECT event_id FROM event) OR canonical NOT IN (SELECT event_id FROM event)",
    "DELETE FROM grip WHERE event_start NOT IN (SELECT event_id FROM event) OR event_end NOT IN (SELECT event_id FROM event)",
    "DELETE FROM bullet_grip WHERE grip_id NOT IN (SELECT grip_id FROM grip)",
)


class DuckSnapshot:
    """The store at one moment, read by a cursor in the caller's transaction."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read columns and facts; the first read fixes the moment."""
        self._cursor = cursor
        self._columns = _read_columns(cursor)
        meta = dict(cursor.execute("SELECT name, value FROM meta").fetchall())
        self.schema = int(meta["schema_version"])
        self.store_id = str(meta["store_id"])
        self.last_seq = int(self._fetch_row("SELECT coalesce(max(seq), 0) FROM event")[0])

    def _fetch_row(self, sql: str, parameters: list[Any] | None = None) -> Any:
        return self._cursor.execute(sql, parameters or []).fetchall()[0]

    def last_key(self, table: str) -> int:
        return int(self._fetch_row(f"SELECT coalesce(max({_KEYS[table][0]}), 0) FROM {table}")[0])

    def fingerprint(self, table: str, first: int, last: int) -> tuple[int, str]:
        key, expression = _KEYS[table]
        sql = f"SELECT count(*), bit_xor({expression}) FROM {table} WHERE {key} BETWEEN ?::HUGEINT AND ?::HUGEINT"
        rows, ids = self._fetch_row(sql, [first, last])
        return rows, "" if ids is None else f"{ids:x}"

    def iter_shared(self, table: str, after: int) -> Iterator[TableRows]:
        columns = tuple(self._columns[table])
        if table != "event":
            key = _KEYS[table][0]
            self._cursor.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {key} > ?::HUGEINT ORDER BY {key}", [after])
            yield from self._iter_slices(table, columns)
            return
        sql = f"SELECT {', '.join(columns)} FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
        for start in range(after, self.last_seq, _EVENTS):
            self._cursor.execute(sql, [start, min(start + _EVENTS, self.last_seq)])
            yield from self._iter_slices("event", columns)

    def iter_others(self) -> Iterator[TableRows]:
        """Yield tables by name; of the tree only texts not by the summarizer.

        Of nodes and bullets only current ones; of meta all but the schema version.
        """
        for table, types in self._columns.items():
            if table not in SHARED and table not in DERIVED:
                columns = tuple(types)
                selected = select_lists(columns) if table == "node" else ", ".join(columns)
                self._cursor.execute(f"SELECT {selected} FROM {table} {_SOME.get(table, '')} ORDER BY rowid")
                yield from self._iter_slices(table, columns)

    def _iter_slices(self, table: str, columns: tuple[str, ...]) -> Iterator[TableRows]:
        while rows := self._cursor.fetchmany(_SLICE):
            yield TableRows(table, columns, rows)


class DuckArchive:
    """Reads the whole store as rows, and fills it with rows."""

    def __init__(self, con: Connection, reread: Callable[[], None]) -> None:
        """Call `reread` after each load, since rows then changed."""
        self._con = con
        #: Called when rows were put in behind everybody's back.
        self._reread = reread

    @contextmanager
    def open_snapshot(self) -> Iterator[DuckSnapshot]:
        """Lend a read transaction to a block, rolled back after it."""
        with self._con.lend_long_cursor() as cursor:
            cursor.execute("BEGIN TRANSACTION")
            try:
                # The first read fixes the moment.
                yield DuckSnapshot(cursor)
            finally:
                cursor.execute("ROLLBACK")

    def load_rows(self, slices: Iterable[TableRows], without_cuts: bool = False, replace_all: bool = False) -> LoadCounts:
        """Store rows; then remove those that name missing events or grips.

        Each slice is a transaction; with `replace_all` all of it is one, and all tables but event and meta are emptied
        first. Rows of meta replace those of the same name. Without a position of the deriver all cuts are removed too.
        """
        with self._con.lend_cursor() as cursor:
            types_by_table = _read_columns(cursor)
        rows: dict[str, int] = {}
        unknown: set[str] = set()
        with self._con.begin_transaction() if replace_all else nullcontext() as transaction:
            if transaction:
                for table in types_by_table.keys() - {"event", "meta"}:
                    transaction.execute(f"DELETE FROM {table}")
            for table_rows in slices:
                if table_rows.table not in types_by_table or table_rows.table in DERIVED:
                    unknown.add(table_rows.table)
                    continue
                with nullcontext(transaction) if transaction else self._con.begin_transaction() as con:
                    _insert_rows(con, table_rows, types_by_table[table_rows.table])
                rows[table_rows.table] = rows.get(table_rows.table, 0) + len(table_rows.rows)
            with nullcontext(transaction) if transaction else self._con.begin_transaction() as con:
                if without_cuts or con.execute("SELECT 1 FROM checkpoint WHERE name = ?", [DERIVER]).fetchone() is None:
                    # Every event is derived again.
                    con.execute("DELETE FROM segment_cut")
                    con.execute("DELETE FROM checkpoint WHERE name = ?", [DERIVER])
                # Written in the order of the statements: each leaves what the next one looks at.
                dangling = sum(int((con.execute(sql).fetchone() or (0,))[0]) for sql in _DANGLING)
        self._reread()
        return LoadCounts(rows, dangling, tuple(sorted(unknown)))


def _read_columns(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """Return the types of columns by table, in the table's order."""
    columns: dict[str, dict[str, str]] = {}
    sql = """SELECT table_name, column_name, data_type FROM duckdb_columns()
             WHERE NOT internal AND database_name = current_database() ORDER BY table_name, column_index"""
    for table, column, kind in con.execute(sql).fetchall():
        columns.setdefault(table, {})[column] = kind
    return columns


def _insert_rows(con: duckdb.DuckDBPyConnection, table_rows: TableRows, types: dict[str, str]) -> None:
    """Insert rows by the names of their columns.

    A column that came later is empty, one that no longer exists is left out. Rows of meta replace those of the same name.
    """
    if table_rows.table == "meta":
        names = [row[table_rows.columns.index("name")] for row in table_rows.rows]
        con.execute("DELETE FROM meta WHERE name IN (SELECT unnest(?::VARCHAR[]))", [names])
    values: dict[str, list[Any]] = {
        name: [row[index] for row in table_rows.rows] for index, name in enumerate(table_rows.columns) if name in types
    }
    if table_rows.table == "node":
        values |= {name: list(map(join_names, values[name])) for name in values.keys() & COLUMNS}
    for name, kind in types.items():
        if name not in values:
            values[name] = [get_empty_value(kind)] * len(table_rows.rows)
    selected = ", ".join(f"unnest(?::{types[name]}[])" for name in values)
    con.execute(f"INSERT INTO {table_rows.table} ({', '.join(values)}) SELECT {selected}", list(values.values()))
