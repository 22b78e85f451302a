"""ArchiveStore on PostgreSQL: rows as the engine `duckdb` gives them, so that what one of them gave can be put into the other.

Invariants
1. Tables are found in the catalogue, so that a new one is never forgotten. Tenant, space and what only orders rows stay here.
2. How far the deriver got, which is kept in `head`, is a row of `checkpoint`; zone and identity of the space are rows of `meta`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.archive import DERIVED, ROWS, SHARED, LoadCounts, TableRows, get_empty_value
from memory_mcp.storage.records import DERIVER
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.connection import Connection, Reader, Writer, own
from memory_mcp_team.postgres.database import uuid_of
from memory_mcp_team.postgres.memories import Memory

#: Columns that are not carried: whose a row is, and those that only order rows.
_UNCARRIED_COLUMNS = frozenset({"tenant", "space", "number", "place"})
#: Conditions for rows that are carried: of the tree only texts that the summarizer has not written.
_REFINED_NODES = f"(key, version) IN (SELECT key, version FROM node WHERE {own()} AND current AND author <> '{EXTRACTIVE}')"
_CARRIED_ROWS = {"node": _REFINED_NODES, "bullet": _REFINED_NODES, "bullet_grip": _REFINED_NODES}
#: Rows handed out at once.
_SLICE = 500
_META = "meta"
_META_COLUMNS = ("name", "value")
_COLUMNS = """SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%(tables)s) AND a.attnum > 0 AND NOT a.attisdropped
  ORDER BY a.attnum"""
_BITS = "bit_xor(('x' || replace({key}::text, '-', ''))::bit(128))::text"
_EVENT_PRINT = f"""SELECT count(*), {_BITS.format(key="event_id")}, NULL FROM event
  WHERE {own()} AND seq BETWEEN %(first)s AND %(last)s"""
_GRIP_PRINT = f"""SELECT count(*), {_BITS.format(key="grip_id")}, bit_xor(segment) FROM grip
  WHERE {own()} AND grip_id BETWEEN %(first)s::uuid AND %(last)s::uuid"""
_NO_EVENT = f"NOT EXISTS (SELECT 1 FROM event e WHERE {own('e')} AND e.event_id = {{column}})"
#: Rows that speak of events that are not there, after a loss; in this order, since each leaves what the next one looks at.
_DANGLING = (
    f"""DELETE FROM segment_cut c WHERE {own("c")} AND NOT EXISTS (
           SELECT 1 FROM event e WHERE {own("e")} AND e.stream = c.stream AND e.ts BETWEEN c.start_ts AND c.end_ts)""",
    f"""DELETE FROM duplicate d WHERE {own("d")}
           AND ({_NO_EVENT.format(column="d.event_id")} OR {_NO_EVENT.format(column="d.canonical")})""",
    f"""DELETE FROM grip g WHERE {own("g")}
           AND ({_NO_EVENT.format(column="g.event_start")} OR {_NO_EVENT.format(column="g.event_end")})""",
    f"""DELETE FROM bullet_grip b WHERE {own("b")}
           AND NOT EXISTS (SELECT 1 FROM grip g WHERE {own("g")} AND g.grip_id = b.grip_id)""",
)
_LAST_EVENT = f"""SELECT coalesce(max(seq), 0), (SELECT event_id FROM event WHERE {own()} ORDER BY event_id DESC LIMIT 1)
  FROM event WHERE {own()}"""
#: Letters that the database cannot keep: NUL, and halves of characters.
_UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")
#: Tables of which no row is carried; tombstones go with what is next to a store (`archive/beside.py`).
_UNCARRIED_TABLES = {"head", "tombstone", "tombstone_key"}


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    #: Names and types of its columns, in order.
    types: Mapping[str, str]
    #: What its rows are ordered by.
    order: str
    #: Whether rows with the same key are numbered by `place`.
    has_places: bool


class PostgresSnapshot:
    """One memory at one moment, as rows of the engine `duckdb`; a `Snapshot`."""

    def __init__(self, reader: Reader, memory: Memory) -> None:
        self._reader = reader
        self._tables = _list_tables(reader)
        space_row = reader.row(f"SELECT timezone, store_id FROM space WHERE {own()}")
        self._timezone, self.store_id = space_row or (memory.timezone, memory.store_id)
        self.schema = ROWS
        head = reader.row(f"SELECT last_event, derived FROM head WHERE {own()}")
        self.last_seq, self._derived = (int(head[0]), int(head[1])) if head else (0, 0)

    def last_key(self, table: str) -> int:
        if table == "event":
            return self.last_seq
        row = self._reader.row(f"SELECT grip_id FROM grip WHERE {own()} ORDER BY grip_id DESC LIMIT 1")
        return int(row[0]) if row else 0

    def fingerprint(self, table: str, first: int, last: int) -> tuple[int, str]:
        if table == "event":
            row = self._reader.row(_EVENT_PRINT, first=first, last=last)
        else:
            row = self._reader.row(_GRIP_PRINT, first=uuid_of(first), last=uuid_of(last))
        count, bits, segments = row or (0, None, None)
        return int(count), "" if bits is None else f"{int(bits, 2) ^ int(segments or 0):x}"

    def iter_shared(self, table: str, after: int) -> Iterator[TableRows]:
        where, lower_bound = ("seq > %(after)s", after) if table == "event" else ("grip_id > %(after)s::uuid", uuid_of(after))
        yield from self._iter_slices(self._tables[table], where, after=lower_bound)

    def iter_others(self) -> Iterator[TableRows]:
        yield TableRows(_META, _META_COLUMNS, [("timezone", self._timezone), ("store_id", self.store_id)])
        if self._derived:
            yield TableRows("checkpoint", ("name", "value"), [(DERIVER, str(self._derived))])
        for name, table in self._tables.items():
            if name not in SHARED and name not in DERIVED:
                yield from self._iter_slices(table, _CARRIED_ROWS.get(name, "true"))

    def _iter_slices(self, table: _Table, where: str, **parameters: Any) -> Iterator[TableRows]:
        columns = tuple(table.types)
        sql = f"SELECT {', '.join(columns)} FROM {table.name} WHERE {own()} AND {where} ORDER BY {table.order}"
        for rows in self._reader.iter_slices(sql, _SLICE, **parameters):
            yield TableRows(table.name, columns, rows)


class PostgresArchive:
    """Reads one memory as rows, and fills it with rows; an `ArchiveStore`."""

    def __init__(self, con: Connection, memory: Memory, reread: Callable[[], None]) -> None:
        self._con, self._memory = con, memory
        #: Called when rows were put in past every cache.
        self._reread = reread

    @contextmanager
    def open_snapshot(self) -> Iterator[PostgresSnapshot]:
        with self._con.open_reader() as reader:
            yield PostgresSnapshot(reader, self._memory)

    def load_rows(self, slices: Iterable[TableRows], without_cuts: bool = False, replace_all: bool = False) -> LoadCounts:
        with self._con.open_reader() as reader:
            tables = _list_tables(reader)
        rows: Counter[str] = Counter()
        unknown: set[str] = set()
        places: Counter[tuple[Any, ...]] = Counter()
        with self._con.open_writer() if replace_all else nullcontext() as single_writer:
            if single_writer:
                for name in tables.keys() - {"event"}:
                    single_writer.execute(f"DELETE FROM {name} WHERE {own()}")
                single_writer.head.derived = 0
            for part in slices:
                if part.table != _META and (part.table not in tables or part.table in DERIVED):
                    unknown.add(part.table)
                    continue
                with nullcontext(single_writer) if single_writer else self._con.open_writer() as writer:
                    _insert_slice(writer, part, tables.get(part.table), places)
                rows[part.table] += len(part.rows)
            with nullcontext(single_writer) if single_writer else self._con.open_writer() as writer:
                if without_cuts or not writer.head.derived:
                    # Every event is derived again.
                    writer.execute(f"DELETE FROM segment_cut WHERE {own()}")
                    writer.head.derived = 0
                dangling = sum(writer.execute(statement) for statement in _DANGLING)
                count_events(writer)
                writer.head.resets += 1
        self._reread()
        return LoadCounts(dict(rows), dangling, tuple(sorted(unknown)))


def count_events(writer: Writer) -> None:
    """Write the highest event number and id into the head.

    For events that were inserted or removed by hand.
    """
    last, newest = writer.row(_LAST_EVENT) or (0, None)
    writer.head.last_event, writer.head.newest = int(last), -1 if newest is None else int(newest)


def _list_tables(reader: Reader) -> dict[str, _Table]:
    names = sorted(set(migrations.list_tables()) - _UNCARRIED_TABLES)
    columns: dict[str, dict[str, str]] = {name: {} for name in names}
    for name, column, kind in reader.rows(_COLUMNS, tables=names):
        columns[name][column] = kind
    tables: dict[str, _Table] = {}
    for name, types in columns.items():
        keys = [column for column in types if column not in ("tenant", "space")]
        # The first columns of every table are its key; of a shared one the first alone.
        order = keys[:1] if name in SHARED else ["number"] if "number" in keys else keys[:3]
        placed = ["place"] if "place" in keys else []
        carried = {column: kind for column, kind in types.items() if column not in _UNCARRIED_COLUMNS}
        tables[name] = _Table(name, carried, ", ".join([*order, *placed]), bool(placed))
    return tables


def _insert_slice(writer: Writer, part: TableRows, table: _Table | None, places: Counter[tuple[Any, ...]]) -> None:
    """Insert rows by the names of their columns.

    A later column is empty, one that no longer exists is left out. `table` is None for rows of `meta`; `places` numbers rows with
    one key.
    """
    rows = [dict(zip(part.columns, row, strict=True)) for row in part.rows]
    if table is None:
        meta_values = {row["name"]: row["value"] for row in rows}
        for name in {"timezone", "store_id"} & meta_values.keys():
            writer.execute(f"UPDATE space SET {name} = %(value)s WHERE {own()}", value=meta_values[name])
        return
    if table.name == "checkpoint":
        writer.head.derived = next((int(row["value"]) for row in rows if row["name"] == DERIVER), writer.head.derived)
        rows = [row for row in rows if row["name"] != DERIVER]
    names, types = list(table.types), list(table.types.values())
    lists = [[_convert_value(row.get(name, get_empty_value(kind)), kind) for row in rows] for name, kind in table.types.items()]
    if table.has_places:
        key = [name for name in names if name in ("key", "version", "pos")]
        names, types = [*names, "place"], [*types, "integer"]
        numbers: list[int] = []
        for row in rows:
            of = tuple(row[column] for column in key)
            numbers.append(places[of])
            places[of] += 1
        lists.append(numbers)
    writer.insert_rows(table.name, ", ".join(names), types, lists)
    if table.name == "event":
        head = writer.head
        head.last_event = max(head.last_event, *(int(row["seq"]) for row in rows))
        head.newest = max(head.newest, *(int(row["event_id"]) for row in rows))


def _convert_value(value: Any, kind: str) -> Any:
    """Return a value as a column of type `kind` takes it.

    In texts NUL and lone surrogates become U+FFFD.
    """
    if kind == "uuid":
        return uuid_of(int(value))
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else value.translate(_UNSTORABLE)
    return [_convert_value(item, "text") for item in value] if kind.endswith("[]") else value
