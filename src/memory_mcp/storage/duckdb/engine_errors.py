"""DuckDB's errors as ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from memory_mcp.base.errors import (
    DeadlineExceeded,
    MemoryMcpError,
    ReadOnly,
    ResourceExhausted,
    StorageDamaged,
    StorageError,
    StorageLocked,
    read_first_line,
)
from memory_mcp.storage.duckdb.space import is_full_error, make_disk_full

#: Error texts of DuckDB that mean damaged bytes.
_DAMAGED = re.compile(
    r"Corrupt|replaying WAL|not a valid DuckDB database|erialization [Ee]rror|FATAL.*block|Failed to read.*block"
    r"|Could not read enough bytes"
)
_READ = "Cannot CHECKPOINT"
_SAVED = "Ask again: the next start of the daemon saves what is whole and tells what is missing."


class ReadsInProgress(StorageError):
    """The log cannot be taken in while what began before the last commit goes on, be it only a read."""


@contextmanager
def translate_errors(path: Path | None) -> Iterator[None]:
    """Raise DuckDB's errors as ours; `path` is named in the messages.

    DeadlineExceeded for an interrupted statement, ResourceExhausted for want of memory, DiskFull, StorageDamaged,
    StorageLocked or ReadOnly for what the file says, ReadsInProgress for a checkpoint, else StorageError.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise DeadlineExceeded("Timeout exceeded", "Ask for less, or give more time.") from None
    except duckdb.OutOfMemoryException as e:
        raise ResourceExhausted("the query needed more memory than the store may use", "Ask for a shorter time window.") from e
    except duckdb.Error as e:
        if isinstance(e, MemoryMcpError):
            raise
        if is_full_error(str(e)):
            raise make_disk_full(path) from e
        if _DAMAGED.search(str(e)):
            raise StorageDamaged(f"the store is damaged: {read_first_line(e)}", _SAVED) from e
        if "read-only mode" in str(e):
            where = path.parent if path else "the store"
            raise ReadOnly(
                f"{where} is read-only: it can be searched and read, and nothing is stored in it", ReadOnly.HINT
            ) from e
        if isinstance(e, duckdb.IOException):
            text = read_first_line(e)
            if "set lock" in str(e).lower() or "conflicting lock" in str(e).lower():
                raise StorageLocked(f"another process has {path} open ({text})", "Close it there, or use its tools.") from e
            hint = "Check that the data directory is readable and writable, then run: memory-mcp doctor"
            raise StorageError(text, hint) from e
        if _READ in str(e):
            raise ReadsInProgress("the log is not taken into the file while others read it", "Ask again.") from e
        raise StorageError(f"the store refused: {e}", "Run: memory-mcp doctor") from e


class ClosedConnection:
    """Closed connection: every use raises ConnectionException."""

    def __getattr__(self, name: str) -> Any:
        raise duckdb.ConnectionException("the store is closed")
