"""The storage engines, one line each."""

from collections.abc import Callable
from pathlib import Path

from memory_mcp.storage.base import Storage
from memory_mcp.storage.lock import DirectoryLock, read_only


def _duckdb(directory: Path | None, timezone: str, lock: DirectoryLock | None) -> Storage:
    from memory_mcp.storage.duckdb import look_at, open_storage

    if directory is not None and lock is None and read_only(directory):
        return look_at(directory)
    return open_storage(directory, timezone, lock=lock)


#: Engine name to a function of data directory (None: in memory), zone for a new store, and the directory's
#: lock when it is held already.
ENGINES: dict[str, Callable[[Path | None, str, DirectoryLock | None], Storage]] = {"duckdb": _duckdb}
