"""Makes a store from a backup and puts it in place; the present one is kept."""

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from memory_mcp.base import machine
from memory_mcp.base.errors import DiskFull, SchemaTooNew, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.storage.archive import READ, READ_ELSEWHERE, SYNCED, LoadCounts, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.storage.lock import DirectoryLock, prepare_directory
from memory_mcp.storage.replacing import FRESH, STORE, is_replacement_begun, replace_store
from memory_mcp.upkeep.archive import beside
from memory_mcp.upkeep.archive.backup import Backup
from memory_mcp.upkeep.archive.reading import Verified, iter_rows

#: An owner that is ending is waited for (seconds).
_WAIT = 8.0
#: Room for a new store: times its bytes, as it is written through its log and again when it is derived; and bytes besides.
_ROOM, _RESERVE = 2.0, 16_000_000


def load_backup(
    backup: Backup, verified: Verified, directory: Path, schema: int, make: Callable[[Path], Storage], step: Callable[[], None]
) -> tuple[Path, LoadCounts]:
    """Make a new store with a backup's rows in a separate folder.

    Of the data directory; an earlier such folder is removed; the present store is not touched. Cuts are left out where they
    cannot be believed. What is derived has to be rebuilt in it. `schema` is the newest that this program knows. Raises
    SchemaTooNew when the backup is of a newer one, DiskFull when there is no room, and what opening the store raises.
    """
    theirs = int(verified.about["schema"])
    if theirs > schema:
        text = f"the backup was written by a newer version (schema {theirs}, this program knows {schema})"
        raise SchemaTooNew(text, "Install the newer memory-mcp; nothing was changed.")
    prepare_directory(directory)
    fresh = directory / FRESH
    if is_replacement_begun(directory):
        with closing(make(directory)):
            pass
    shutil.rmtree(fresh, ignore_errors=True)
    needed = round(int(verified.about.get("store_bytes", 0)) * _ROOM) + _RESERVE
    free = shutil.disk_usage(directory).free
    if free < needed:
        text = f"a restore takes about {needed / 1e6:,.0f} MB beside the present store; {free / 1e6:,.0f} MB are free in"
        raise DiskFull(f"{text} {directory}", "Nothing was changed. Free some space and restore again.")
    fresh.mkdir(mode=0o700)
    with closing(make(fresh)) as storage:
        lost = any(m.table in ("event", "") for m in verified.missing)
        loaded = storage.archive.load_rows(_iter_store_rows(iter_rows(backup, step), lost), without_cuts=verified.cuts_lost)
        # What it holds now is what there is to be, or its next start would tell of a loss.
        storage.accept_contents()
        return fresh, loaded


def _iter_store_rows(parts: Iterable[TableRows], lost: bool) -> Iterator[TableRows]:
    """Yield the rows that belong into the store.

    Without pauses and tombstones. Where events are `lost`, the marks of what was read are left out: sources may have these
    events still.
    """
    for part in parts:
        if part.table == "checkpoint" and lost:
            name = part.columns.index("name")
            rows = [row for row in part.rows if not str(row[name]).startswith((READ, READ_ELSEWHERE, SYNCED))]
            yield TableRows(part.table, part.columns, rows)
        elif part.table != beside.TABLE:
            yield part


def put_in_place(directory: Path, now_ms: int) -> Path | None:
    """Replace the closed present store; return the folder that keeps it.

    None where there was no store. Indexes and briefings are removed. Killed anywhere, the next start has the present store or
    the new one, whole, and the folder has everything that was there. Raises StorageLocked
    when the store is in use for more than 8 seconds, StorageError when a file cannot be moved.
    """
    lock = DirectoryLock(directory, _WAIT)
    try:
        kept_folder = _keep_present(directory, now_ms)
        failpoint("restore.built")
        replace_store(directory)
        return kept_folder
    except OSError as error:
        text = f"the restored store could not be put in its place: {error}"
        raise StorageError(text, "What was there is kept; free some space and restore again.") from error
    finally:
        lock.release()


def _keep_present(directory: Path, now_ms: int) -> Path | None:
    """Give the present files a second name in a separate folder."""
    present_files = [name for name in STORE if (directory / name).exists()]
    if "memory.duckdb" not in present_files:
        return None
    kept_folder = (
        directory / f"before-restore-{dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC):%Y%m%dT%H%M%S}-{now_ms % 1000:03}"
    )
    kept_folder.mkdir(mode=0o700)
    for name in present_files:
        try:
            os.link(directory / name, kept_folder / name)
        except OSError:
            # This file system has no second names.
            shutil.copy2(directory / name, kept_folder / name)
    machine.sync_names(kept_folder)
    machine.sync_names(directory)
    return kept_folder


def discard_new_store(directory: Path) -> None:
    """Remove a store that was made and could not be completed; one that is complete takes its place with the next start."""
    if not is_replacement_begun(directory):
        shutil.rmtree(directory / FRESH, ignore_errors=True)
