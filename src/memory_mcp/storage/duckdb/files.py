"""Names and form of a DuckDB database's files, and whether an open one is still in its place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from memory_mcp.base import paths
from memory_mcp.base.errors import StorageError, StorageMoved

#: How DuckDB ends the names of one database's files: itself, its log, and its logs during a checkpoint and after a crash in one.
FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
#: Oldest file format that costs nothing: DuckDB 1.5 can still read the file.
STORAGE_FORMAT = "v1.5.0"
#: Bytes of a block of a new file, or of one that is rewritten: with DuckDB's 262,144 an empty store has 274 kB, not 78, and that
#: of 48,000 events 29.4 MB, not 26.9; reads take as long. A file says what its blocks have (`blocks.read_block_size`).
BLOCK_SIZE = 65_536
_NEW_FILE = f"STORAGE_VERSION '{STORAGE_FORMAT}', BLOCK_SIZE {BLOCK_SIZE}"
#: Settings of the engine: those that decide what it writes, and nothing loaded or looked up by itself.
FILE_OPTIONS = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "storage_compatibility_version": STORAGE_FORMAT,
    # The log grows so far before the file takes it in: a checkpoint rewrites what it touches, and with 16 MB an import of 48,000
    # events left a file of 78 MB, with this one of 58.
    "checkpoint_threshold": "64MB",
    # Mean length (bytes) from which strings may be packed by Zstandard, in place of 4096: a file of 48,000 events has 29 MB, not
    # 79. Writing them takes 0.25 s of CPU more, a scan of all texts 40 ms, not 12.
    "zstd_min_string_length": 64,
}


def log_path(file: Path) -> Path:
    """Return the path of a database file's write-ahead log."""
    return file.with_name(file.name + ".wal")


def write_log_path(file: Path) -> Path:
    """Return the path of the log of writes that a database file does not hold yet."""
    return file.with_name(file.name + ".writes")


def compact_path(path: Path) -> Path:
    """Return the path where a compacted copy is made."""
    return path.with_name(path.name + ".compact")


def remove_compact_copy(path: Path) -> None:
    """Remove the copy that a compaction made, with its logs."""
    copy = compact_path(path)
    for end in FILES:
        copy.with_name(copy.name + end).unlink(missing_ok=True)


def create_database(path: Path) -> None:
    """Create an empty database file."""
    with duckdb.connect(":memory:", config=make_copy_config()) as con:
        con.execute(f"ATTACH '{_quote(path)}' AS fresh ({_NEW_FILE})")


def copy_database(cursor: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Copy the database of a cursor densely to a new file, and compare all rows of both (0.1 s of CPU for 48,000 events).

    Raises StorageError if they differ.
    """
    (name,) = cursor.execute("SELECT current_database()").fetchall()[0]
    for options, statements in (
        (_NEW_FILE, [f'COPY FROM DATABASE "{name}" TO fresh', "CHECKPOINT fresh"]),
        # What is compared is read from the file.
        ("READ_ONLY", []),
    ):
        cursor.execute(f"ATTACH '{_quote(path)}' AS fresh ({options})")
        try:
            for statement in statements:
                cursor.execute(statement)
            if not statements and _sum_rows(cursor, name) != _sum_rows(cursor, "fresh"):
                raise StorageError("the compacted copy of the database differs from it; nothing was changed")
        finally:
            cursor.execute("DETACH fresh")


def _quote(path: Path) -> str:
    return str(path).replace("'", "''")


def _sum_rows(cursor: duckdb.DuckDBPyConnection, database: str) -> list[tuple[str, int, int | None]]:
    """Return each table with the number of its rows and the sum of their hashes."""
    sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY table_name"
    tables = [name for (name,) in cursor.execute(sql, [database]).fetchall()]
    sums = (f'SELECT \'{t}\', count(*), sum(hash(r)) FROM "{database}"."{t}" r' for t in tables)
    return sorted(cursor.execute(" UNION ALL ".join(sums)).fetchall())


class FileIdentity:
    """Whether an open store is still the one at its path.

    What is committed to one that was moved or deleted, no one finds.
    """

    def __init__(self, path: Path | None) -> None:
        """Note which file is at a path now; None is never checked."""
        self._path = path
        self._identity = paths.identity(str(path)) if path else []
        self._surroundings = _folder_identities(path) if path else []

    def require_in_place(self, write_anew: Callable[[], object]) -> None:
        """Call `write_anew` if the file alone is gone.

        Raises StorageMoved where its folder or another file is in its place. The folder is still this process's as long as
        the lock in it is: then no other process can have begun a store there.
        """
        if self._path is None or (current := paths.identity(str(self._path))) == self._identity:
            return
        if not current and _folder_identities(self._path) == self._surroundings:
            write_anew()
            return
        raise StorageMoved(
            f"{self._path.parent} was moved or deleted while it was open, and what you sent is stored nowhere",
            "Put it back, or ask again: the next process takes what is there by then.",
        )


def _folder_identities(path: Path) -> list[list[int]]:
    return [paths.identity(str(folder)) for folder in (path.parent, path.with_name("lock"))]


def make_copy_config() -> dict[str, Any]:
    """Return the settings for a file that was set aside."""
    return {"threads": 1, "memory_limit": "256MB", "python_enable_replacements": False, "autoinstall_known_extensions": False}
