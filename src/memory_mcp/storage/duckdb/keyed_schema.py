"""The tables of the keyed file, and opening it as an SQLite database."""

import os
import sqlite3
from pathlib import Path

#: Raise it when the tables change: a file of another version is filled again.
_VERSION = 5
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE block (number INTEGER PRIMARY KEY, rows INTEGER NOT NULL, dictionary INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE dictionary (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE signatures (number INTEGER PRIMARY KEY, newest BLOB NOT NULL, bits BLOB NOT NULL);
CREATE TABLE stream (code INTEGER PRIMARY KEY, key INTEGER UNIQUE NOT NULL, names TEXT NOT NULL);
CREATE TABLE event (id BLOB PRIMARY KEY, stream INTEGER NOT NULL, ts INTEGER NOT NULL, line INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX event_order ON event (stream, ts, id);
CREATE TABLE grip (tail BLOB PRIMARY KEY, delay INTEGER NOT NULL, event_start BLOB NOT NULL, event_end BLOB,
  span_start INTEGER NOT NULL, span_end INTEGER NOT NULL, quote_hash INTEGER NOT NULL, ts INTEGER NOT NULL,
  segment INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX grip_start ON grip (substr(event_start, 7, 5));
CREATE INDEX grip_end ON grip (event_end) WHERE event_end IS NOT NULL;
CREATE TABLE pair (hidden BLOB PRIMARY KEY, shown BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX pair_shown ON pair (shown);
CREATE TABLE segment (key INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE node (key INTEGER PRIMARY KEY, value BLOB NOT NULL);
"""
#: Bytes of a page: with 4096 a fifth of the pages of blocks is empty.
_PAGE = 16_384


def open_file(path: Path) -> sqlite3.Connection:
    """Open the file; it is made if it is missing, or made again if it has another version. Raises sqlite3.Error, OSError."""
    # Not its parents: a data directory that was moved away is not made again.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink():
        raise OSError(f"{path} is a link")
    con = _connect(path)
    if con.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        con.close()
        remove_file(path)
        con = _connect(path)
        con.execute(f"PRAGMA page_size = {_PAGE}")
        con.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
    # The log shrinks after filling; what savepoints need stays out of other folders.
    for setting in ("journal_mode = WAL", "journal_size_limit = 1048576", "cache_size = -2000", "temp_store = MEMORY"):
        con.execute(f"PRAGMA {setting}")
    con.execute("PRAGMA mmap_size = 268435456")
    return con


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return sqlite3.connect(path, check_same_thread=False, isolation_level=None)


def remove_file(path: Path) -> None:
    """Remove a file with its logs; nothing if it is missing."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
