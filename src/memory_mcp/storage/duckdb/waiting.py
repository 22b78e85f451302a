"""What the connection waits for: acknowledged writes that the file does not hold yet, and long reads."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import duckdb

from memory_mcp.base.errors import StorageMoved

#: What a writer is told who finds that the file was deleted while it is read.
_DELETED = "the database file was deleted while a backup, a sync or an export reads it, and what you sent is stored nowhere"
_AGAIN = "Ask again once that has ended: the file is written anew before, with everything."


class WaitingBuild(Protocol):
    """A build that is not in the file yet."""

    @property
    def number(self) -> int:
        """The number of its last change."""


B = TypeVar("B", bound=WaitingBuild)


class WaitingWrites(Protocol):
    """Acknowledged writes, and builds, that are not in the file yet."""

    @property
    def is_waiting(self) -> bool:
        """Whether there are any."""

    def store(self) -> None:
        """Store them in a transaction of their own."""

    def insert_rows(self, con: duckdb.DuckDBPyConnection) -> None:
        """Insert them in the transaction under way."""

    def note_stored(self) -> None:
        """Forget them, once that is committed."""

    def add_build(self, build: B, write: Callable[[duckdb.DuckDBPyConnection, Sequence[B]], None]) -> None:
        """Have `write` called in the next transaction with all builds that wait by then; the same for each."""

    @property
    def has_builds(self) -> bool:
        """Whether builds are among them."""

    @property
    def is_full(self) -> bool:
        """Whether so much waits that it has to be stored."""


class ReadsBehind:
    """Counts reads that went on without builds that waited: what is remembered of them, and derived from them, lacks these."""

    def __init__(self) -> None:
        self.count = self._forgotten = self._settled = 0

    def take_remembered(self) -> bool:
        """Return whether there were any since the last call: what is remembered has to be dropped then."""
        count, former_count = self.count, self._forgotten
        self._forgotten = count
        return count != former_count

    def settle(self, store: Callable[[], object]) -> bool:
        """Have what waits stored if there were any since the last call; return whether. Raises what `store` raises."""
        count, has_any = self.count, self.has_any
        if has_any:
            store()
            self._settled = count
        return has_any

    @property
    def has_any(self) -> bool:
        """Whether there were any since `settle` was called last."""
        return self.count != self._settled


class LongReads:
    """Reads that last for minutes, such as a backup, and work that needs the file alone. Thread-safe.

    Whoever needs the file alone waits here, where it holds up nobody else.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        #: The thread that excludes them now.
        self._excluder: int | None = None

    @contextmanager
    def begin_read(self) -> Iterator[None]:
        """Read in this block; waits, unbounded, while they are excluded. A thread may begin several at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._excluder is None)
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    @contextmanager
    def exclude(self, may_wait: bool) -> Iterator[None]:
        """Let none begin in this block; waits, unbounded, until none is left.

        Who holds the write lock must not wait, since a reader may be about to write: raises StorageMoved then.
        """
        with self._changed:
            if not may_wait and not self._is_free():
                raise StorageMoved(_DELETED, _AGAIN)
            self._changed.wait_for(self._is_free)
            self._excluder = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                self._excluder = None
                self._changed.notify_all()

    @property
    def has_any(self) -> bool:
        """Whether one is under way."""
        return self._count > 0

    @property
    def are_excluded_here(self) -> bool:
        """Whether this thread excludes them."""
        return self._excluder == threading.get_ident()

    def _is_free(self) -> bool:
        return not self._count and self._excluder is None
