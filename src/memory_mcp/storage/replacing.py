"""Puts a store that was made aside in the place of the present one, all of it or nothing, whenever the process ends.

Invariant: once `complete` is on disk in the folder of the new store, whoever opens the directory for writing ends what was begun,
before anything is read. Until then the present files are as they were.
"""

import os
import shutil
from pathlib import Path

from memory_mcp.base import machine
from memory_mcp.base.errors import StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.storage.highwater import DAMAGE_FILE, LOSS_FILE, MARK_FILE

#: The store that is being made, in the data directory so that it can be renamed into its place. On disk.
FRESH = "restoring"
_COMPLETE, _DATABASE = "complete", "memory.duckdb"
#: What belongs to the database file beside it: with another one it must not be found.
BESIDE = (f"{_DATABASE}.wal", f"{_DATABASE}.writes", LOSS_FILE, DAMAGE_FILE)
#: Files of a store; the database last.
STORE = (*BESIDE, MARK_FILE, _DATABASE)
#: Made from the store alone, and wrong beside another one.
_DERIVED = ("indexes", "briefings")


def is_replacement_begun(directory: Path) -> bool:
    """Return whether a new store is complete aside and not wholly in its place."""
    return (directory / FRESH / _COMPLETE).exists()


def replace_store(directory: Path) -> None:
    """Put the new store of `restoring` in the place of the present one; both are closed, and the caller holds the lock.

    Indexes and briefings are removed. Raises OSError or StorageError where a file cannot be moved; the next opening goes on.
    """
    machine.sync_names(directory / FRESH)
    machine.put(directory / FRESH / _COMPLETE, b"")
    machine.sync_names(directory / FRESH)
    failpoint("restore.decided")
    finish_replacement(directory)


def finish_replacement(directory: Path, looking: bool = False) -> None:
    """End what `replace_store` began, if anything; the caller holds the lock.

    Raises StorageError where a file cannot be moved or, `looking`, nothing may be written.
    """
    if not is_replacement_begun(directory):
        return
    if looking:
        text = f"a restore into {directory} was interrupted, and nothing may be written to finish it"
        raise StorageError(text, "Any command that opens it for writing does: memory-mcp timeline")
    try:
        _move_files(directory, directory / FRESH)
    except OSError as error:
        text = f"the restored store could not be put in its place: {error}"
        raise StorageError(text, "What was there is kept; the next command tries again.") from error


def _move_files(directory: Path, fresh: Path) -> None:
    for name in _DERIVED:
        shutil.rmtree(directory / name, ignore_errors=True)
    if (fresh / _DATABASE).exists():
        for name in BESIDE:
            (directory / name).unlink(missing_ok=True)
        failpoint("restore.cleared")
        os.replace(fresh / _DATABASE, directory / _DATABASE)
        failpoint("restore.moved")
    if (fresh / MARK_FILE).exists():
        os.replace(fresh / MARK_FILE, directory / MARK_FILE)
    machine.sync_names(directory)
    (fresh / _COMPLETE).unlink()
    shutil.rmtree(fresh, ignore_errors=True)
