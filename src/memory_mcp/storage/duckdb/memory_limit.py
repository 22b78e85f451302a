"""How much memory DuckDB may use: all of it for writes and large reads, little while only small reads go on.

It keeps every block of the file that it ever read until its limit is reached, and gives back what a lower limit excludes.
"""

from contextlib import suppress

import duckdb

#: Memory while only small reads go on (MB): of 48,000 events answers take as long as with 64; with 32 a search of texts fails.
_RESTING_MB = 40


class MemoryLimit:
    """The limit of one open file, or of a store in memory, which always has all."""

    def __init__(self, most_mb: int, in_memory: bool) -> None:
        self._most_mb = most_mb
        self._resting_mb = most_mb if in_memory else _RESTING_MB
        self._now_mb = most_mb

    def start(self) -> str:
        """Return the setting for opening the file: a long log may have to be read."""
        self._now_mb = self._most_mb
        return f"{self._now_mb}MB"

    def grow(self, con: duckdb.DuckDBPyConnection) -> None:
        """Allow all memory, for writes and large reads."""
        self._set(con, self._most_mb)

    def shrink(self, con: duckdb.DuckDBPyConnection) -> None:
        """Have memory given back; a read that needs more grows it again."""
        self._set(con, self._resting_mb)

    def _set(self, con: duckdb.DuckDBPyConnection, megabytes: int) -> None:
        if megabytes != self._now_mb:
            # Refused while more is held.
            with suppress(duckdb.Error), con.cursor() as cursor:
                cursor.execute(f"SET GLOBAL memory_limit = '{megabytes}MB'")
                self._now_mb = megabytes
