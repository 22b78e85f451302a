"""Names of a DuckDB database's files, and whether an open one is still in its place."""

from collections.abc import Callable
from pathlib import Path

from memory_mcp.base import paths
from memory_mcp.base.errors import StorageMoved

#: How DuckDB ends the names of one database's files: itself, its log, and its logs during a checkpoint and after a crash in one.
FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")


def log_of(file: Path) -> Path:
    """Return the path of a database file's write-ahead log."""
    return file.with_name(file.name + ".wal")


def compacting(path: Path) -> Path:
    """Return the path where a compacted copy is made."""
    return path.with_name(path.name + ".compact")


def sweep_compacting(path: Path) -> None:
    """Remove the copy that a compaction made, with its logs."""
    copy = compacting(path)
    for end in FILES:
        copy.with_name(copy.name + end).unlink(missing_ok=True)


class InPlace:
    """Whether an open store is still the one at its path.

    What is committed to one that was moved or deleted, no one finds.
    """

    def __init__(self, path: Path | None) -> None:
        """Note which file is at a path now; None is never checked."""
        self._path = path
        self._identity = paths.identity(str(path)) if path else []
        self._surroundings = _surroundings(path) if path else []

    def require(self, write_anew: Callable[[], object]) -> None:
        """Call `write_anew` if the file alone is gone.

        Raises StorageMoved where its folder or another file is in its place. The folder is still this process's as long as
        the lock in it is: then no other process can have begun a store there.
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
    return [paths.identity(str(folder)) for folder in (path.parent, path.with_name("lock"))]
