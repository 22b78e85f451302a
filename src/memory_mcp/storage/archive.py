"""A whole memory as rows, for backups and moves; without what can be derived."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memory_mcp.base.dataclass import dataclass

#: Beginning of the marks that say up to which event was written for other memories. On disk.
SYNCED = "sync:out:"
#: Beginnings of the marks of what was read of other memories, and of what importers read. On disk.
READ_ELSEWHERE, READ = "sync:in:", "import:"
#: Version of the rows, whichever engine gave them: that of the tables of the engine `duckdb`, whose form they have.
ROWS = 10
#: Tables that grow and hardly ever change, in the order in which they are read: backups share files of their rows.
SHARED = ("event", "grip")
#: Tables that are not carried: derived from the others, the outbox, and answers that are kept for an hour.
DERIVED = frozenset({"node_parent", "term_delta", "frequency", "tool_run", "outbox", "request"})


@dataclass(frozen=True, slots=True)
class TableRows:
    """Some rows of one table, in the order of `columns`."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """Counts of what loading stored and what it left out."""

    #: Rows by table.
    rows: dict[str, int]
    #: Rows left out because they refer to events that are missing: cuts, pairs, quotations.
    dangling: int
    #: Tables that this program does not know.
    unknown: tuple[str, ...]


class Snapshot(Protocol):
    """The store at one moment, unaffected by later writes.

    Used by one thread.
    """

    @property
    def last_seq(self) -> int:
        """Highest event number; 0 in an empty store."""

    @property
    def schema(self) -> int:
        """Version of the tables, counted as `ROWS` is, for any engine."""

    @property
    def store_id(self) -> str:
        """Identity of the store: 32 hexadecimal digits."""

    def last_key(self, table: str) -> int:
        """Return the highest key of a shared table; 0 if empty.

        The key of events is their number, that of grips their id.
        """

    def fingerprint(self, table: str, first: int, last: int) -> tuple[int, str]:
        """Return number and fingerprint of rows with keys `first` to `last`.

        Both bounds are included. The fingerprint is the hexadecimal XOR of the rows: of an event its id, of a grip its id XOR its
        segment; "" if there are none.
        """

    def iter_shared(self, table: str, after: int) -> Iterator[TableRows]:
        """Yield a shared table's rows with keys above `after`, by key.

        A few hundred at a time.
        """

    def iter_others(self) -> Iterator[TableRows]:
        """Yield the rows of tables that are neither shared nor derived.

        A few hundred of a table at a time.
        """


class ArchiveStore(Protocol):
    """Reads a store as rows, and fills a store with rows."""

    def open_snapshot(self) -> AbstractContextManager[Snapshot]:
        """Return a context manager that gives the store at this moment.

        Every acknowledged write is in it. Writers go on meanwhile; the file of the store is not replaced before the block ends.
        """

    def load_rows(self, slices: Iterable[TableRows], without_cuts: bool = False, replace_all: bool = False) -> LoadCounts:
        """Store rows with their ids and numbers; return the counts.

        The store was just made, or `replace_all` is set: then the rows replace everything but events, in one transaction;
        else each slice is one. With `without_cuts` cuts are left out, so that every event is derived as if it were new.
        Rows of unknown or derived tables, and rows that name missing events, are left out. The caller rebuilds what is
        derived.
        """


def get_empty_value(kind: str) -> Any:
    """Return what an older row holds in a column added later.

    `kind` is the engine's name of the column's type, in any case; a type that ends with [] is a list.
    """
    if kind.endswith("[]"):
        return []
    values = {"varchar": "", "text": "", "boolean": False, "blob": b"", "bytea": b""}
    return values.get(kind.lower(), 0)
