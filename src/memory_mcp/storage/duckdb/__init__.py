"""The DuckDB engine: one file, one writer, a cursor per reader."""

from memory_mcp.storage.duckdb.store import open_storage

__all__ = ["open_storage"]
