"""The storage engines, one line each."""

from collections.abc import Callable
from pathlib import Path

from memory_mcp.storage.base import Storage


def _duckdb(directory: Path | None, timezone: str, memory_limit_mb: int) -> Storage:
    from memory_mcp.storage.duckdb import open_storage

    return open_storage(directory, timezone, memory_limit_mb=memory_limit_mb)


#: Engine name to a function of data directory (None: in memory), zone for a new store, and memory limit.
ENGINES: dict[str, Callable[[Path | None, str, int], Storage]] = {"duckdb": _duckdb}
