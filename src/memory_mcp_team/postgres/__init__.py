"""PostgreSQL as the engine: many memories in one database, each a space of a tenant, for any number of processes."""

from memory_mcp_team.postgres.store import PostgresStorage, open_storage

__all__ = ["PostgresStorage", "open_storage"]
