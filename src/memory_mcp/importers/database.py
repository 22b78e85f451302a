"""SQLite databases of clients: opened while the client has them open, and asked which tables they have.

Invariants
1. Nothing is written, neither into the database nor next to it: where SQLite would have to make its shared memory file,
   a copy in a private temporary folder is opened instead, or the file is read as it is when no one has it open.
2. Tables and columns are asked for, never assumed: what a version lacks costs only itself.
"""

import shutil
import sqlite3
import tempfile
import zlib
from abc import abstractmethod
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.base import Growth, ImportReport
from memory_mcp.importers.client_importer import ClientImporter

#: How a file of SQLite begins, and where its header says whether changes go to a log next to it (2) or not (1).
MAGIC = b"SQLite format 3\x00"
_JOURNAL_BYTE, _LOGGED = 18, 2
#: How long to wait for the client, seconds.
_PATIENCE = 5.0
#: How the name of a column begins that says which conversation a row is of, and names of those with words.
_OF_TALK = ("session", "message", "conversation", "thread", "chat", "composer")
_WORDS = frozenset("data text content content_json body role parts message payload prompt response value".split())


class DatabaseImporter(ClientImporter):
    """Base of importers of clients that keep a database."""

    growth = Growth.DATABASE

    def unread_tables(self, file: Path) -> Sequence[str]:
        """Return the tables of a conversation that are not read.

        Raises OSError when the database cannot be read.
        """
        if not is_database(file):
            return ()
        with open_database(file) as con:
            return find_unread(con, self.read_tables(con))

    @abstractmethod
    def read_tables(self, con: sqlite3.Connection) -> Container[str]:
        """Return tables that are read or known to hold no conversation."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns."""

    name: str
    columns: frozenset[str]

    @property
    def sql(self) -> str:
        """The name as an identifier of SQL."""
        return '"' + self.name.replace('"', '""') + '"'

    def column_sql(self, name: str) -> str:
        """Return a column for a query; NULL if there is none."""
        return name if name in self.columns else "NULL"


def is_database(file: Path) -> bool:
    """Return whether a file is a database; raises OSError."""
    with foreign_files.open_file(file) as stream:
        return stream.read(len(MAGIC)) == MAGIC


@contextmanager
def open_database(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, without writing anything.

    Raises OSError when it cannot be read, also for errors of SQLite in the block.
    """
    with ExitStack() as stack:
        path, options = _readable_path(file, stack)
        try:
            con = _connect_to(path, options)
            stack.callback(con.close)
            try:
                con.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            except sqlite3.OperationalError as error:
                if _is_locked(error):
                    raise
                # Its journal cannot be opened in a folder that cannot be written: the newest changes may lack.
                con.close()
                con = _connect_to(path, "immutable=1")
                stack.callback(con.close)
            con.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield con
        except sqlite3.Error as error:
            raise OSError(describe_error(error)) from None


def _connect_to(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)


def list_tables(con: sqlite3.Connection) -> list[Table]:
    """Return the tables with numbered rows, by name; raises sqlite3.Error."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%WITHOUT ROWID%' ORDER BY name"
    tables = [Table(name, frozenset()) for (name,) in con.execute(sql)]
    return [Table(t.name, frozenset(str(row[1]) for row in con.execute(f"PRAGMA table_info({t.sql})"))) for t in tables]


def find_unread(con: sqlite3.Connection, read_tables: Container[str]) -> list[str]:
    """Return unread tables with rows of a conversation; raises sqlite3.Error."""
    talks = (t for t in list_tables(con) if t.name not in read_tables and _is_talk(t.columns))
    return [t.name for t in talks if con.execute(f"SELECT 1 FROM {t.sql} LIMIT 1").fetchone()]


def report_unread(names: Sequence[str], report: ImportReport, file: Path) -> None:
    """Count each unread table as a record left out."""
    for name in names:
        report.lines += 1
        report.skip_record(f"unknown table {name}", file, 0, name)


def row_checksum(value: object) -> int:
    """Return 32 bits by which a row is known again."""
    return zlib.crc32(str(value).encode("utf-8", "surrogatepass"))


def _is_talk(columns: frozenset[str]) -> bool:
    return any(name.lower().startswith(_OF_TALK) for name in columns) and bool(_WORDS & columns)


def _readable_path(file: Path, stack: ExitStack) -> tuple[Path, str]:
    """Return the path to open, and the options of opening it.

    A copy in a temporary folder, removed by `stack`, where SQLite would have to make a file. Raises OSError if it is not a
    SQLite database.
    """
    with foreign_files.open_file(file) as stream:
        header = stream.read(100)
    if not header.startswith(MAGIC) or len(header) <= _JOURNAL_BYTE:
        raise OSError("not a SQLite database")
    if header[_JOURNAL_BYTE] != _LOGGED:
        return file, "mode=ro"
    log, shared = (file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))
    if log.exists() and shared.exists():
        return file, "mode=ro"
    if not log.exists():
        # Closed, with all its changes inside: opened in the usual way, SQLite would create both files again.
        return file, "mode=ro&immutable=1"
    private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-mcp-")))
    for part in (file, log):
        shutil.copyfile(part, private / part.name)
    return private / file.name, "mode=ro"


def _is_locked(error: Exception) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def describe_error(error: Exception) -> str:
    """Return what an error of SQLite says to a user."""
    if _is_locked(error):
        return "the client has its database locked; close it, or run the command again"
    return f"the database cannot be read: {error}"
