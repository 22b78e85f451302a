"""What the connection waits for: acknowledged writes that the file does not hold yet, and long reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


class LongReads:
    """Reads that last for minutes, such as a backup, and work that needs the file alone. Thread-safe.

    Whoever needs the file alone waits here, where it holds up nobody else.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count, self._is_excluded = 0, False

    @contextmanager
    def begin_read(self) -> Iterator[None]:
        """Read in this block; waits, unbounded, while they are excluded. A thread may begin several at once."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_excluded)
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Let none begin in this block; waits, unbounded, until none is left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count and not self._is_excluded)
            self._is_excluded = True
        try:
            yield
        finally:
            with self._changed:
                self._is_excluded = False
                self._changed.notify_all()
