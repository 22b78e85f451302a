"""The storage engines, one line each."""

from collections.abc import Callable

from memory_mcp.storage.base import Storage
from memory_mcp.storage.lock import is_read_only
from memory_mcp.storage.opening import OpenOptions


def _duckdb(opening: OpenOptions) -> Storage:
    """Open the DuckDB store; a directory that this process may only read, and whose lock is not given, is opened for reading."""
    from memory_mcp.storage.duckdb import look_at, open_storage

    directory, lock = opening.directory, opening.lock
    if directory is not None and lock is None and is_read_only(directory):
        return look_at(directory)
    return open_storage(directory, opening.timezone, lock=lock)


def _postgres(opening: OpenOptions) -> Storage:
    """Open the memory in the PostgreSQL database that `opening` names; raises what the engine's `open_storage` raises."""
    from memory_mcp_team.postgres import open_storage

    return open_storage(opening)


ENGINES: dict[str, Callable[[OpenOptions], Storage]] = {"duckdb": _duckdb, "postgres": _postgres}
