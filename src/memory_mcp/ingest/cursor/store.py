"""Cursor's SQLite databases, read while the client has them open; nothing of SQLite is known outside.

Invariants
1. Nothing is written, neither into the database nor beside it: where SQLite would have to make its shared memory file,
   a copy in a private temporary folder is opened instead, or the file is read as it lies when nobody has it open.
2. The client never waits long: every question is asked on its own, so that no lock outlives it.
3. Memory holds one value, and none larger than `MAX_RECORD`.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from memory_mcp import foreign_files
from memory_mcp.ingest.window import MAX_RECORD

#: How a file of SQLite begins, and where its header says whether changes go to a log beside it (2) or not (1).
MAGIC = b"SQLite format 3\x00"
_JOURNAL_BYTE, _LOGGED = 18, 2
#: How long to wait for the client, seconds.
_PATIENCE = 5.0
#: The key-value tables: of conversations, and of the editor.
CHATS, ITEMS, HEADERS = "cursorDiskKV", "ItemTable", "composerHeaders"


class Store:
    """One open database."""

    def __init__(self, con: sqlite3.Connection) -> None:
        """Note the names of the database's tables. Raises OSError when it cannot be read."""
        self._con = con
        self.tables = {str(row[0]) for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query at once; [] for values that no database can hold.

        Raises OSError when the database cannot be read or stays locked for 5 s.
        """
        try:
            return self._con.execute(sql, values).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []  # asked for what no database can hold
        except sqlite3.Error as error:
            raise OSError(_message(error)) from None

    def text(self, table: str, key: str) -> str:
        """Return the value of a key; "" if the table or key is missing or the value is larger than `MAX_RECORD`."""
        if table not in self.tables:
            return ""
        sql = f"SELECT value FROM {table} WHERE key = ? AND length(value) <= {MAX_RECORD}"
        return next((as_text(row[0]) for row in self.rows(sql, [key])), "")

    def top(self) -> int:
        """Return the highest row of the conversations' table, 0 without one.

        A rewritten value gets a new row above all others.
        """
        return int(self.rows(f"SELECT coalesce(max(rowid), 0) FROM {CHATS}")[0][0]) if CHATS in self.tables else 0

    def changed(self, above: int) -> dict[str, int]:
        """Return the lowest row above a position for each conversation that has such rows, by the conversation's id.

        In order of these rows; {} without the table.
        """
        if CHATS not in self.tables:
            return {}
        sql = f"""
SELECT composer, min(row) FROM (
  SELECT substr(key, 10, instr(substr(key, 10), ':') - 1) AS composer, rowid AS row FROM {CHATS}
  WHERE key >= 'bubbleId:' AND key < 'bubbleId;' AND rowid > ?
  UNION ALL
  SELECT substr(key, 14), rowid FROM {CHATS} WHERE key >= 'composerData:' AND key < 'composerData;' AND rowid > ?
) WHERE composer <> '' GROUP BY composer ORDER BY min(row), composer"""
        return {str(composer): int(row) for composer, row in self.rows(sql, [above, above])}

    def bubbles(self, composer: str, above: int) -> set[str]:
        """Return the ids of a conversation's messages whose rows are above a position.

        Raises OSError when the table is missing or cannot be read.
        """
        start = f"bubbleId:{composer}:"
        sql = f"SELECT substr(key, ?) FROM {CHATS} WHERE key >= ? AND key < ? AND rowid > ?"
        return {str(row[0]) for row in self.rows(sql, [len(start) + 1, start, f"bubbleId:{composer};", above])}

    def names(self) -> set[str]:
        """Return the ids of all conversations that have messages in rows of their own; none without the table."""
        if CHATS not in self.tables:
            return set()
        sql = f"""
SELECT DISTINCT substr(key, 10, instr(substr(key, 10), ':') - 1) FROM {CHATS} WHERE key >= 'bubbleId:' AND key < 'bubbleId;'"""
        return {str(row[0]) for row in self.rows(sql)}


@contextmanager
def open_store(file: Path) -> Iterator[Store]:
    """Open a database for reading, without writing anything beside it; closed at the end of the block.

    Raises OSError when it cannot be read.
    """
    with ExitStack() as stack:
        place, how = _place(file, stack)
        try:
            con = sqlite3.connect(f"{place.absolute().as_uri()}?{how}", uri=True, timeout=_PATIENCE, isolation_level=None)
        except (sqlite3.Error, ValueError) as error:
            raise OSError(_message(error)) from None
        stack.callback(con.close)
        con.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield Store(con)


def _place(file: Path, stack: ExitStack) -> tuple[Path, str]:
    """Return the path at which a database is opened, and the options of opening it ("mode=ro", perhaps "&immutable=1").

    A copy in a temporary folder, removed by `stack`, where SQLite would have to make a file. Raises OSError for what is
    no SQLite database.
    """
    with foreign_files.open_file(file) as stream:
        header = stream.read(100)
    if not header.startswith(MAGIC) or len(header) <= _JOURNAL_BYTE:
        raise OSError("it is no SQLite database")
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


def as_text(value: object) -> str:
    """Return a stored value as text: values are kept as text or as its bytes; "" for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _message(error: Exception) -> str:
    """Return what an error of SQLite says to a user.

    That is to close the client where the database is locked, else that it cannot be read, with SQLite's words.
    """
    text = str(error)
    if "locked" in text or "busy" in text:
        return "the client has its database locked; close it, or run the command again"
    return f"the database cannot be read: {text}"
