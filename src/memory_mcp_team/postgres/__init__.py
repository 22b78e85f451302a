"""PostgreSQL as the engine: many memories in one database, each a space of a tenant, for any number of processes."""

from memory_mcp.base import extensions
from memory_mcp.storage.base import Storage
from memory_mcp.storage.opening import Engine, OpenOptions


def _open_storage(opening: OpenOptions) -> Storage:
    try:
        from memory_mcp_team.postgres.store import open_storage
    except ModuleNotFoundError as error:
        raise extensions.make_missing_error(error) from None
    return open_storage(opening)


ENGINE = Engine(
    _open_storage,
    "First keep what was forgotten since: memory-mcp admin team tombstones export FILE. Restore with storage.engine = duckdb"
    " and --data-dir DIR, from there: memory-mcp admin migrate-to postgres, into an empty space, and at last:"
    " memory-mcp admin team tombstones apply FILE",
)
