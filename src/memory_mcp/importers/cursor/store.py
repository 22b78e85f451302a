"""Cursor's databases: conversations and lists in tables of keys and values.

Invariants
1. The client never waits long: every question is asked on its own, so that no lock outlives it.
2. Memory holds one value, and none larger than `MAX_RECORD`.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_mcp.importers.database import Table, describe_error, find_unread, list_tables, open_database
from memory_mcp.importers.window import MAX_RECORD

#: Usual names of the tables of keys and values: of conversations, and of the editor.
CHATS, ITEMS = "cursorDiskKV", "ItemTable"
#: How the keys of conversations and of their messages begin.
KINDS = ("composerData", "bubbleId")


class Store:
    """One open database."""

    def __init__(self, con: sqlite3.Connection) -> None:
        """Find the tables by their columns and keys; raises OSError."""
        self._con = con
        try:
            tables = list_tables(con)
        except sqlite3.Error as error:
            raise OSError(describe_error(error)) from None
        pairs = [table for table in tables if {"key", "value"} <= table.columns]
        pairs.sort(key=lambda table: table.name != CHATS)
        self._chats = next((table for table in pairs if table.name == CHATS or self._has_chats(table)), None)
        pairs.sort(key=lambda table: table.name != ITEMS)
        self._items = next((table for table in pairs if table != self._chats), None)
        self._lists = next((table for table in tables if {"composerId", "value"} <= table.columns), None)

    def _has_chats(self, table: Table) -> bool:
        sql = f"SELECT 1 FROM {table.sql} WHERE key >= ? AND key < ? LIMIT 1"
        return any(self.fetch_rows(sql, [f"{kind}:", f"{kind};"]) for kind in KINDS)

    def read_tables(self) -> set[str]:
        """Return the names of the tables that are read."""
        return {table.name for table in (self._chats, self._items, self._lists) if table is not None}

    def unread_tables(self) -> list[str]:
        """Return unread tables with a conversation; raises sqlite3.Error."""
        return find_unread(self._con, self.read_tables())

    def list_conversations(self) -> list[tuple[str, object]]:
        """Return (id, value) of the listed conversations; [] without a list."""
        if self._lists is None:
            return []
        return [(str(name), value) for name, value in self.fetch_rows(f"SELECT composerId, value FROM {self._lists.sql}")]

    def fetch_rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query at once.

        [] for values that no database can hold. Raises OSError when the database cannot be read or stays locked for 5 s.
        """
        try:
            return self._con.execute(sql, values).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []  # asked for what no database can hold
        except sqlite3.Error as error:
            raise OSError(describe_error(error)) from None

    def chat_value(self, key: str) -> str:
        """Return a conversation's value, at most `MAX_RECORD`; "" for none."""
        return self._value_of(self._chats, key)

    def editor_value(self, key: str) -> str:
        """Return an editor's value, at most `MAX_RECORD`; "" for none."""
        return self._value_of(self._items, key)

    def _value_of(self, table: Table | None, key: str) -> str:
        if table is None:
            return ""
        sql = f"SELECT value FROM {table.sql} WHERE key = ? AND length(value) <= {MAX_RECORD}"
        return next((as_text(row[0]) for row in self.fetch_rows(sql, [key])), "")

    def highest_row(self) -> int:
        """Return the highest row of the conversations' table, 0 without one.

        A rewritten value gets a new row above all others.
        """
        return int(self.fetch_rows(f"SELECT coalesce(max(rowid), 0) FROM {self._chats.sql}")[0][0]) if self._chats else 0

    def changed_conversations(self, above: int) -> dict[str, int]:
        """Return the lowest row above a position by conversation id.

        In the order of these rows.
        """
        if self._chats is None:
            return {}
        sql = f"""
SELECT composer, min(row) FROM (
  SELECT substr(key, 10, instr(substr(key, 10), ':') - 1) AS composer, rowid AS row FROM {self._chats.sql}
  WHERE key >= 'bubbleId:' AND key < 'bubbleId;' AND rowid > ?
  UNION ALL
  SELECT substr(key, 14), rowid FROM {self._chats.sql} WHERE key >= 'composerData:' AND key < 'composerData;' AND rowid > ?
) WHERE composer <> '' GROUP BY composer ORDER BY min(row), composer"""
        return {str(composer): int(row) for composer, row in self.fetch_rows(sql, [above, above])}

    def bubble_ids(self, composer: str, above: int) -> set[str]:
        """Return the ids of a conversation's messages above a row."""
        if self._chats is None:
            return set()
        start = f"bubbleId:{composer}:"
        sql = f"SELECT substr(key, ?) FROM {self._chats.sql} WHERE key >= ? AND key < ? AND rowid > ?"
        return {str(row[0]) for row in self.fetch_rows(sql, [len(start) + 1, start, f"bubbleId:{composer};", above])}

    def conversation_ids(self) -> set[str]:
        """Return the ids of conversations with messages in own rows."""
        if self._chats is None:
            return set()
        sql = f"""
SELECT DISTINCT substr(key, 10, instr(substr(key, 10), ':') - 1) FROM {self._chats.sql}
WHERE key >= 'bubbleId:' AND key < 'bubbleId;'"""
        return {str(row[0]) for row in self.fetch_rows(sql)}


@contextmanager
def open_store(file: Path) -> Iterator[Store]:
    """Open a database for reading.

    Raises OSError when it cannot be read.
    """
    with open_database(file) as con:
        yield Store(con)


def as_text(value: object) -> str:
    """Return a stored value, a text or its bytes, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""
