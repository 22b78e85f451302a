"""A whole memory as rows, so that it can be carried away and brought back: only what cannot be derived from the rest."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

#: Marks of what was written for other memories begin so, and hold the number of the last event. On disk.
SYNCED = "sync:out:"
#: Marks of what was read of other memories begin so, and those of what importers read. On disk.
READ_ELSEWHERE, READ = "sync:in:", "import:"
#: Version of the rows, whichever engine gave them: that of the tables of the engine `duckdb`, whose form they have.
ROWS = 6
#: Tables that grow and hardly ever change, in the order in which they are read: backups share files of their rows.
SHARED = ("event", "grip")
#: Tables that are not kept: what a rebuild makes of the others, followers' news, answers for an hour.
DERIVED = frozenset({"node_parent", "term_delta", "frequency", "outbox", "request"})


@dataclass(frozen=True, slots=True)
class TableRows:
    """Some rows of one table, in the order of `columns`."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of loading, counted."""

    #: Rows by table.
    rows: dict[str, int]
    #: Rows left out because what they speak of is not there: cuts, pairs, quotations.
    dangling: int
    #: Tables that this program does not know.
    unknown: tuple[str, ...]


class Snapshot(Protocol):
    """The store as it was at one moment, whatever is written meanwhile. For one thread."""

    @property
    def last_seq(self) -> int:
        """Highest sequence number."""
        ...

    @property
    def schema(self) -> int:
        """Version of the rows; see `ROWS`."""
        ...

    @property
    def store_id(self) -> str:
        """Which store it is."""
        ...

    def last(self, table: str) -> int:
        """Highest key of a table that is shared: the sequence number of an event, the number of a grip; 0 where it is empty."""
        ...

    def print_of(self, table: str, first: int, last: int) -> tuple[int, str]:
        """How many rows a shared table has from one key to another, and what tells them apart together (`frames.print_of`)."""
        ...

    def behind(self, table: str, after: int) -> Iterator[TableRows]:
        """Rows of a shared table behind a key, in its order, in slices that hold the interpreter shortly."""
        ...

    def others(self) -> Iterator[TableRows]:
        """Every table that is neither shared nor derived, likewise."""
        ...


class ArchiveStore(Protocol):
    """Out of the store as rows, and back."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """One moment of the store, acknowledged writes and all; writers go on. The file is not replaced meanwhile."""
        ...

    def load(self, slices: Iterable[TableRows], anew: bool = False, instead: bool = False) -> Loaded:
        """Put rows into a store that was just made, with their ids and numbers; what is derived is to be rebuilt after it.

        `anew`: cuts are left out, so that every event is filed as if it were new. `instead`: in one transaction, and in the
        place of everything but events.
        """
        ...
