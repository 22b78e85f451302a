"""The storage engines, one line each; other packages add theirs."""

from memory_mcp.base import extensions
from memory_mcp.base.errors import ConfigError
from memory_mcp.storage.base import Storage
from memory_mcp.storage.lock import is_read_only
from memory_mcp.storage.opening import Engine, OpenOptions


def _open_duckdb(opening: OpenOptions) -> Storage:
    """Open the DuckDB store, for reading if it may only be read."""
    from memory_mcp.storage.duckdb import open_read_only, open_storage

    directory, lock = opening.directory, opening.lock
    if directory is not None and lock is None and is_read_only(directory):
        return open_read_only(directory)
    return open_storage(directory, opening.timezone, lock=lock)


ENGINES = {"duckdb": Engine(_open_duckdb)}


def get_engine(name: str) -> Engine:
    """Return an engine of this package or of another; raise ConfigError for an unknown name or a missing library."""
    engine = ENGINES.get(name) or extensions.find(extensions.STORAGE, name)
    if engine is None:
        raise ConfigError(f"no storage engine is called {name!r}", extensions.hint_for(name))
    assert isinstance(engine, Engine)
    return engine
