"""Work counted instead of timed: the same number on every machine, however slow or busy."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest.mock import patch


def calls(work: Callable[[], object]) -> int:
    """Count the functions, of Python and of C, that `work` calls in this thread.

    What a single call does inside C (a pattern that tries every beginning, a sort) is not seen: for that, give it a text on
    which anything worse than linear would not end before the test's own time limit.
    """
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@dataclass
class Read:
    """What was asked of the store while somebody looked."""

    #: The statements, in order; those that open and end transactions are not among them.
    statements: list[str] = field(default_factory=list)
    #: Rows that were fetched.
    rows: int = 0


class _Counted:
    """A DuckDB cursor that is counted."""

    def __init__(self, cursor: Any, read: Read) -> None:
        self._cursor, self._read = cursor, read

    def execute(self, sql: Any, *parameters: Any) -> "_Counted":
        self._read.statements.append(sql if isinstance(sql, str) else sql.query)
        return _Counted(self._cursor.execute(sql, *parameters), self._read)

    def fetchall(self) -> list[Any]:
        found: list[Any] = self._cursor.fetchall()
        self._read.rows += len(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def asked_of_the_store() -> Iterator[Read]:
    """Count what every store of this process is asked while the body runs."""
    from memory_mcp.storage.duckdb.connection import Connection

    read = Read()

    def counted(whole: Any) -> Any:
        @contextmanager
        def cursor(self: Connection, *given_options: Any, **options: Any) -> Iterator[_Counted]:
            with whole(self, *given_options, **options) as given:
                yield _Counted(given, read)

        return cursor

    with (
        patch.object(Connection, "lend_cursor", counted(Connection.lend_cursor)),
        patch.object(Connection, "begin_transaction", counted(Connection.begin_transaction)),
    ):
        yield read
