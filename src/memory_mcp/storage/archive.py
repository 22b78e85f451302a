"""A whole memory as rows, for backups and moves to another store: only what cannot be derived from the rest."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

#: Beginning of the marks that say up to which event was written for other memories. On disk.
SYNCED = "sync:out:"
#: Beginnings of the marks of what was read of other memories, and of what importers read. On disk.
READ_ELSEWHERE, READ = "sync:in:", "import:"
#: Version of the rows, whichever engine gave them: that of the tables of the engine `duckdb`, whose form they have.
ROWS = 7
#: Tables that grow and hardly ever change, in the order in which they are read: backups share files of their rows.
SHARED = ("event", "grip")
#: Tables that are not carried: derived from the others, the outbox, and answers that are kept for an hour.
DERIVED = frozenset({"node_parent", "term_delta", "frequency", "outbox", "request"})


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
    """The store as it was at one moment, whatever is written meanwhile. Used by one thread."""

    @property
    def last_seq(self) -> int:
        """The highest number of arrival among the events; 0 in an empty store."""

    @property
    def schema(self) -> int:
        """The version of the tables whose form the rows have, counted as `ROWS` is, whichever engine gives them."""

    @property
    def store_id(self) -> str:
        """The identity of the store: 32 hexadecimal digits, made when the store was."""

    def last_key(self, table: str) -> int:
        """Return the highest key of a shared table: an event's number of arrival, a grip's number; 0 in an empty table."""

    def fingerprint(self, table: str, first: int, last: int) -> tuple[int, str]:
        """Return how many rows of a shared table have keys from `first` to `last`, both included, and a fingerprint of them.

        The fingerprint is the hexadecimal XOR of the rows: of an event its id, of a grip its id XOR its segment; "" where
        there are none.
        """

    def iter_shared(self, table: str, after: int) -> Iterator[TableRows]:
        """Yield the rows of a shared table whose keys are above `after`, in the order of the key, a few hundred at a time."""

    def iter_others(self) -> Iterator[TableRows]:
        """Yield the rows of every table that is neither in `SHARED` nor in `DERIVED`, a few hundred of a table at a time."""


class ArchiveStore(Protocol):
    """Reads a whole store as rows, and fills a store with rows."""

    def open_snapshot(self) -> AbstractContextManager[Snapshot]:
        """Return a context manager that gives the store at this moment, with every acknowledged write.

        Writers go on meanwhile; the file of the store is not replaced before the block ends.
        """

    def load_rows(self, slices: Iterable[TableRows], anew: bool = False, instead: bool = False) -> LoadCounts:
        """Store rows with their ids and numbers, and return what was stored and left out.

        The store was just made, or `instead` is set: then the rows take the place of everything but events, in one
        transaction; else each slice is one. With `anew` cuts are left out, so that every event is derived as if it
        were new. Rows of unknown or derived tables, and rows that name missing events, are left out. The caller
        rebuilds what is derived.
        """


def get_empty_value(kind: str) -> Any:
    """Return what a row holds in a column that came later than the row: [], "", False or b"", by type, else 0.

    `kind` is the engine's name of the column's type, in either case; a type that ends with [] is a list.
    """
    if kind.endswith("[]"):
        return []
    values = {"varchar": "", "text": "", "boolean": False, "blob": b"", "bytea": b""}
    return values.get(kind.lower(), 0)
