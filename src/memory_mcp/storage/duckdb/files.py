"""Names of the files of one DuckDB database, and whether an open one is still in its place."""

from collections.abc import Callable
from pathlib import Path

from memory_mcp.base import paths
from memory_mcp.base.errors import StorageMoved

#: How DuckDB ends the names of one database's files: itself, its log, and its logs during a checkpoint and after a crash in one.
FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")


def log_of(file: Path) -> Path:
    """Return the path of a database file's write-ahead log, which need not exist."""
    return file.with_name(file.name + ".wal")


def compacting(path: Path) -> Path:
    """Return the path beside a file where its compacted copy is made; what a killed compaction left there is of no use."""
    return path.with_name(path.name + ".compact")


def sweep_compacting(path: Path) -> None:
    """Remove the copy that a compaction made, with its logs: one that failed leaves them. None is no error."""
    copy = compacting(path)
    for end in FILES:
        copy.with_name(copy.name + end).unlink(missing_ok=True)


class InPlace:
    """Whether an open store is still the one at its path: what is committed to one that was moved or deleted, nobody finds."""

    def __init__(self, path: Path | None) -> None:
        """Note which file is at a path now; None for a store in memory, or one that is only read."""
        self._path = path
        self._identity = paths.identity(str(path)) if path else []
        self._surroundings = _surroundings(path) if path else []

    def require(self, write_anew: Callable[[], object]) -> None:
        """Call `write_anew` where the file alone is gone; raise StorageMoved where its folder or another file is in its place.

        The folder is still this process's as long as the lock in it is: then nobody else can have begun a store there.
        """
        if self._path is None or (current := paths.identity(str(self._path))) == self._identity:
            return
        if not current and _surroundings(self._path) == self._surroundings:
            write_anew()
            return
        raise StorageMoved(
            f"{self._path.parent} was moved or deleted while it was open, and what you sent is stored nowhere",
            "Put it back, or ask again: the next process takes what is there by then.",
        )


def _surroundings(path: Path) -> list[list[int]]:
    """Return the identities of a file's folder and of the lock in it; [] for what is missing."""
    return [paths.identity(str(place)) for place in (path.parent, path.with_name("lock"))]
