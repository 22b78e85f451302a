"""Backups of one open memory: made on request, every day and before something is rewritten; old ones are removed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.archive import beside
from memory_mcp.archive.backup import SUFFIX, Made, backups, prune, size_of, write_file, write_folder
from memory_mcp.archive.settings import BackupSettings
from memory_mcp.base.clock import Clock
from memory_mcp.base.errors import DeadlineExceeded, InvalidQuery, StorageError
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Held:
    """What a folder of backups holds."""

    folder: Path
    count: int
    size_bytes: int
    #: UTC ms; None where there is none.
    newest_ms: int | None


class BackupKeeper:
    """Writes the folder of backups, one backup at a time. A memory without a directory has none."""

    def __init__(
        self, storage: Storage, settings: BackupSettings, directory: Path | None, clock: Clock, give_way: Callable[[], None]
    ) -> None:
        """Use the folder that `settings` name for `directory` (None: no backups); `give_way` is called between two blocks."""
        self._storage = storage
        self._settings = settings
        self._clock = clock
        self._give_way = give_way
        self._turn = threading.Lock()
        self._directory = directory
        self.folder = settings.folder(directory) if directory else None

    @property
    def enabled(self) -> bool:
        """Whether backups are made without a request: switched on, and the memory has a directory."""
        return self._settings.enabled and self.folder is not None

    def make(self, why: str, target: Path | None = None, should_stop: Callable[[], bool] = lambda: False) -> Made:
        """Make a backup in the usual folder, in `target`, or as one file (a `target` that ends in .archive); return it.

        Backups of one process wait for each other. In the usual folder old ones are then removed by the settings.
        Raises InvalidQuery for a memory without a directory, StorageError when the backup cannot be written or its
        folder is a link inside the data directory, and DeadlineExceeded when `should_stop` says so; then no backup is
        left.
        """
        if self.folder is None or self._directory is None:
            raise InvalidQuery("a memory without a directory has no backups")

        def step() -> None:
            """Call `give_way`, which may wait while others work; then raise DeadlineExceeded if the backup is to stop."""
            self._give_way()
            if should_stop():
                raise DeadlineExceeded("the backup was stopped", "Begin it again: memory-mcp backup")

        if self.folder.parent == self._directory and self.folder.is_symlink():
            # Nobody chose to write where a link in the data directory leads.
            hint = "Remove the link, or name the folder it leads to in the setting backup.directory."
            raise StorageError(f"{self.folder} is a link", hint)
        with self._turn:
            more = beside.rows(self._directory, self._storage.tombstones)
            if target is not None and target.suffix == SUFFIX and not target.is_dir():
                return write_file(self._storage, target, self._clock.now_ms(), why, step, more)
            folder = target or self.folder
            made = write_folder(self._storage, folder, self._clock.now_ms(), why, step, more)
            if folder == self.folder:
                store = next(b.store for b in backups(folder) if b.path == made.path)
                day_of, keep = Calendar(self._storage.timezone).day_of, self._settings
                prune(folder, store, keep.keep_days, keep.keep_weeks, day_of, self._clock.now_ms())
            return made

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Let this process write no backup while the block runs; waits for one that has begun."""
        with self._turn:
            yield

    def before(self, what: str) -> None:
        """Make a backup with the reason "before WHAT" if backups are on. Raises what `make` raises: the caller then stops."""
        if self.enabled:
            self.make(f"before {what}")


def held(folder: Path) -> Held:
    """Return how many backups a folder has, the bytes of all its archive files, and the newest one's time (UTC ms).

    Times are those that the names say, and no file is opened. A missing or unreadable folder has 0, 0 and None.
    """
    found = backups(folder)
    return Held(folder, len(found), size_of(folder), found[0].at_ms if found else None)
