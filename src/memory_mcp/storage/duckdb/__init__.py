"""The DuckDB engine: one file, one writer, a cursor per reader."""

from memory_mcp.storage.duckdb.migrations import CURRENT as SCHEMA
from memory_mcp.storage.duckdb.store import open_read_only, open_storage

__all__ = ["SCHEMA", "open_read_only", "open_storage"]
