"""Backups of one open memory: made on request, every day and before something is rewritten; old ones are removed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded, InvalidQuery, StorageError
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.base import Storage
from memory_mcp.upkeep.archive import beside
from memory_mcp.upkeep.archive.backup import (
    SUFFIX,
    BackupResult,
    list_backups,
    measure_folder,
    prune_folder,
    write_single_file,
    write_to_folder,
)
from memory_mcp.upkeep.archive.settings import BackupSettings


@dataclass(frozen=True, slots=True)
class FolderContents:
    """What a folder of backups holds."""

    folder: Path
    count: int
    size_bytes: int
    #: UTC ms; None where there is none.
    newest_ms: int | None


class BackupKeeper:
    """Writes the folder of backups, one backup at a time.

    A memory without a directory has none.
    """

    def __init__(
        self, storage: Storage, settings: BackupSettings, directory: Path | None, clock: Clock, give_way: Callable[[], object]
    ) -> None:
        """`give_way` is called between two blocks."""
        self._storage = storage
        self._settings = settings
        self._clock = clock
        self._give_way = give_way
        self._run_lock = threading.Lock()
        self._directory = directory
        self.folder = settings.folder(directory) if directory else None

    @property
    def is_enabled(self) -> bool:
        """Whether backups are made without a request."""
        return self._settings.enabled and self.folder is not None

    def make_backup(self, why: str, target: Path | None = None, should_stop: Callable[[], bool] = lambda: False) -> BackupResult:
        """Make a backup in the usual folder, in `target`, or as a file.

        A `target` that ends in .archive is a file. Backups of one process wait for each other. In the usual folder old ones
        are then removed by the settings. Raises InvalidQuery for a memory without a directory, StorageError when the backup
        cannot be written or its folder is a link inside the data directory, and DeadlineExceeded when `should_stop` says
        so; then no backup is left.
        """
        if self.folder is None or self._directory is None:
            raise InvalidQuery("a memory without a directory has no backups")

        def step() -> None:
            self._give_way()
            if should_stop():
                raise DeadlineExceeded("the backup was stopped", "Begin it again: memory-mcp backup")

        if self.folder.parent == self._directory and self.folder.is_symlink():
            # Nobody chose to write where a link in the data directory leads.
            hint = "Remove the link, or name the folder it leads to in the setting backup.directory."
            raise StorageError(f"{self.folder} is a link", hint)
        with self._run_lock:
            side_rows = beside.read_rows(self._directory, self._storage.tombstones)
            if target is not None and target.suffix == SUFFIX and not target.is_dir():
                return write_single_file(self._storage, target, self._clock.now_ms(), why, step, side_rows)
            folder = target or self.folder
            result = write_to_folder(self._storage, folder, self._clock.now_ms(), why, step, side_rows)
            if folder == self.folder:
                store = next(b.store for b in list_backups(folder) if b.path == result.path)
                day_of, keep = Calendar(self._storage.timezone).day_of, self._settings
                prune_folder(folder, store, keep.keep_days, keep.keep_weeks, day_of, self._clock.now_ms())
            return result

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Write no backup while the block runs; wait for a running one."""
        with self._run_lock:
            yield

    def back_up_before(self, operation: str) -> None:
        """Make a backup before an operation, if backups are on.

        Raises what `make_backup` raises: the caller then stops.
        """
        if self.is_enabled:
            self.make_backup(f"before {operation}")


def read_folder(folder: Path) -> FolderContents:
    """Return count, bytes and newest time of a folder's backups.

    No file is opened; a missing folder has 0, 0 and None.
    """
    found_backups = list_backups(folder)
    return FolderContents(folder, len(found_backups), measure_folder(folder), found_backups[0].at_ms if found_backups else None)
