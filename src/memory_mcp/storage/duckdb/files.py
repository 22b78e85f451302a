"""Names of the files of one DuckDB database."""

from pathlib import Path

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
