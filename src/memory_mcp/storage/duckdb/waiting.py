"""What the connection knows of acknowledged writes that the file does not hold yet."""

from typing import Protocol

import duckdb


class WaitingWrites(Protocol):
    """Acknowledged writes that are not in the file yet."""

    @property
    def is_waiting(self) -> bool:
        """Whether there are any."""

    def store(self) -> None:
        """Store them in a transaction of their own."""

    def insert_rows(self, con: duckdb.DuckDBPyConnection) -> None:
        """Insert them in the transaction under way."""

    def note_stored(self) -> None:
        """Forget them, once that is committed."""
