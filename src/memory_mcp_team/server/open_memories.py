"""The memories that a server has open: opened when they are needed, one App each, and closed again within bounds.

Invariants
1. Nothing is closed while a call or a job runs on it.
2. What is open beyond a bound is in use; it is closed when its last user has ended.
3. A folder holds nothing but what can be made again, and belongs to one memory: closed ones are removed, the longest unused
   first, while the disk holds more than it may.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import field
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import LayerUnavailable

log = logging.getLogger(__name__)

MEGABYTE = 1024 * 1024
#: What an open memory takes before it is read, and what a byte of its indexes on disk takes in memory (measured).
BASE_BYTES, BYTES_PER_BYTE = MEGABYTE, 1.0
#: Names of what a folder holds: its indexes, and how many resets they know of.
_INDEXES, _RESETS = "indexes", "resets"
#: Folders are measured at most so often (seconds).
_MEASURE_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class MemoryKey:
    """Which memory: a space of a tenant, of the primary or a replica."""

    tenant: int
    space: int
    is_replica: bool = False

    def folder_in(self, root: Path) -> Path:
        """Return the folder of its disposable files below `root`."""
        return root / str(self.tenant) / (f"{self.space}.replica" if self.is_replica else str(self.space))


@dataclass(frozen=True, slots=True)
class OpenLimits:
    """How much may be open at once."""

    count: int = 512
    memory_bytes: int = 1024 * MEGABYTE
    disk_bytes: int = 4096 * MEGABYTE
    #: Time after its last use at which a memory is closed (seconds).
    idle: float = 600.0


@dataclass(slots=True)
class OpenMemory:
    """An open memory."""

    key: MemoryKey
    app: App
    #: Calls and jobs that run on it.
    use_count: int = 0
    used_at: float = field(default_factory=time.monotonic)
    #: Whether it was ever read: its indexes are maintained from then on.
    is_read: bool = False
    #: Resets of the memory that its indexes and caches know of.
    resets: int = 0

    @property
    def memory_bytes(self) -> int:
        """About how many bytes of memory it takes.

        That is 1 MB and, once it was read, the size of its indexes on disk.
        """
        indexes = sum(status.size_bytes for status in self.app.accelerators.index_statuses().values()) if self.is_read else 0
        return BASE_BYTES + int(indexes * BYTES_PER_BYTE)


@dataclass(eq=False, slots=True)
class _Opening:
    """A memory that one thread opens while others wait for it."""

    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class OpenMemories:
    """Opens, lends and closes memories. Safe in any thread."""

    def __init__(
        self,
        opener: Callable[[MemoryKey, Path], App],
        root: Path,
        limits: OpenLimits,
        on_open: Callable[[OpenMemory], None] = lambda _: None,
    ) -> None:
        self._opener, self._root, self._limits, self._on_open = opener, root, limits, on_open
        self._lock = threading.Lock()
        self._open: dict[MemoryKey, OpenMemory] = {}
        self._opening: dict[MemoryKey, _Opening] = {}
        #: Memories that are being closed; a caller who wants one waits for that.
        self._closing: dict[MemoryKey, threading.Event] = {}
        #: Bytes of each folder when it was measured last: when it was closed, or with all others.
        self._sizes: dict[Path, int] = {}
        self._measured_at = float("-inf")
        self._ended = False
        self.opened_total = self.closed_total = 0

    def list_open(self) -> list[OpenMemory]:
        """Return the open memories, the longest unused first."""
        with self._lock:
            return sorted(self._open.values(), key=lambda memory: memory.used_at)

    def find_open(self, memory_key: MemoryKey) -> OpenMemory | None:
        """Return an open memory, or None."""
        with self._lock:
            return self._open.get(memory_key)

    @property
    def disk_bytes(self) -> int:
        """The bytes of all folders, as last measured."""
        return sum(list(self._sizes.values()))

    def list_closed(self) -> list[MemoryKey]:
        """Return the memories that have a folder and are not open."""
        places = [memory_key for folder in self._root.glob("*/*") if (memory_key := _key_of_folder(folder)) is not None]
        with self._lock:
            return [memory_key for memory_key in places if memory_key not in self._open]

    def get_noted_resets(self, memory_key: MemoryKey) -> int | None:
        """Return how many resets the files of a memory know of.

        None without a folder, -1 if it does not say.
        """
        folder = memory_key.folder_in(self._root)
        try:
            return int(foreign_files.read_file(folder / _RESETS))
        except (OSError, ValueError):
            return -1 if folder.is_dir() else None

    def mark_purged(self, memory: OpenMemory, resets: int) -> None:
        """Note up to which reset a memory's files are purged."""
        (memory.key.folder_in(self._root) / _RESETS).write_text(str(resets), "ascii")
        memory.resets = resets

    def drop_stale_indexes(self, memory_key: MemoryKey, resets: int) -> None:
        """Remove a memory's indexes unless they know all resets."""
        folder = memory_key.folder_in(self._root)
        if self.get_noted_resets(memory_key) != resets:
            shutil.rmtree(folder / _INDEXES, ignore_errors=True)
            (folder / _RESETS).write_text(str(resets), "ascii")

    def remove_folder(self, memory_key: MemoryKey) -> None:
        """Remove the folder of a memory that is closed."""
        self._remove_folder(memory_key.folder_in(self._root))

    @contextmanager
    def lend_memory(self, memory_key: MemoryKey, reading: bool = False) -> Iterator[OpenMemory]:
        """Lend a memory, opened if needed, for a block.

        `reading`: the first such use loads the indexes from disk. Raises what opening raises, and LayerUnavailable once this
        server is ending.
        """
        memory = self._take_memory(memory_key)
        try:
            if reading and not memory.is_read:
                memory.is_read = True
                # What is on disk is read now: a search would wait for it all the same.
                Context().run(memory.app.accelerators.load)
            yield memory
        finally:
            with self._lock:
                memory.use_count -= 1
                memory.used_at = time.monotonic()
                over = len(self._open) > self._limits.count
            if over:
                self.close_unused()

    @contextmanager
    def keep_open(self, memory_key: MemoryKey) -> Iterator[OpenMemory | None]:
        """Yield an open memory, kept open for upkeep, or None.

        This does not count as its last use.
        """
        with self._lock:
            memory = self._open.get(memory_key)
            if memory is not None:
                memory.use_count += 1
        try:
            yield memory
        finally:
            if memory is not None:
                with self._lock:
                    memory.use_count -= 1

    def _take_memory(self, memory_key: MemoryKey) -> OpenMemory:
        while True:
            with self._lock:
                if self._ended:
                    raise LayerUnavailable("this server is ending", "Call again: another one answers.")
                memory = self._open.get(memory_key)
                if memory is not None:
                    memory.use_count += 1
                    memory.used_at = time.monotonic()
                    return memory
                closing, opening = self._closing.get(memory_key), self._opening.get(memory_key)
                if closing is None and opening is None:
                    opening = self._opening[memory_key] = _Opening()
                    break
            if closing is not None:
                closing.wait()
            elif opening is not None:
                opening.done.wait()
                if opening.error is not None:
                    raise opening.error
        return self._open_memory(memory_key, opening)

    def _open_memory(self, memory_key: MemoryKey, opening: _Opening) -> OpenMemory:
        """Open a memory for all who wait for it.

        It is opened as the program, not as a member. An error is raised here and for all who wait.
        """
        try:
            folder = memory_key.folder_in(self._root)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            memory = OpenMemory(
                memory_key,
                Context().run(self._opener, memory_key, folder),
                use_count=1,
                resets=self.get_noted_resets(memory_key) or 0,
            )
            Context().run(self._on_open, memory)
            self._sizes[folder] = _measure_folder(folder)
            with self._lock:
                self._open[memory_key] = memory
                self.opened_total += 1
            return memory
        except BaseException as error:
            opening.error = error
            raise
        finally:
            with self._lock:
                del self._opening[memory_key]
            opening.done.set()

    def close_unused(self) -> None:
        """Close memories beyond the limits or unused for too long.

        Folders of closed ones are removed while the disk is too full. The longest unused go first.
        """
        for memory in self._choose_unused():
            self._close_memory(memory)
        if time.monotonic() - self._measured_at > _MEASURE_PAUSE:
            self._measured_at = time.monotonic()
            self._sizes = {folder: _measure_folder(folder) for folder in self._root.glob("*/*") if folder.is_dir()}
        for folder in sorted(self._sizes, key=_get_used_at):
            if self.disk_bytes <= self._limits.disk_bytes:
                break
            self._remove_folder(folder)

    def _choose_unused(self) -> list[OpenMemory]:
        """Mark the memories to close as closing, and return them.

        None in use, and a single one not for its size.
        """
        now, limits = time.monotonic(), self._limits
        sizes = {memory.key: memory.memory_bytes for memory in self.list_open()}
        with self._lock:
            total, count, chosen = sum(sizes.values()), len(self._open), list[OpenMemory]()
            for memory in sorted(self._open.values(), key=lambda m: m.used_at):
                too_much = count > limits.count or (total > limits.memory_bytes and count > 1)
                if memory.use_count or not (too_much or now - memory.used_at > limits.idle):
                    continue
                total, count = total - sizes.get(memory.key, 0), count - 1
                del self._open[memory.key]
                self._closing[memory.key] = threading.Event()
                chosen.append(memory)
            return chosen

    def _close_memory(self, memory: OpenMemory) -> None:
        try:
            memory.app.close()
            folder = memory.key.folder_in(self._root)
            with suppress(OSError):
                # How long it has not been used, for the choice of folders to remove.
                os.utime(folder)
            self._sizes[folder] = _measure_folder(folder)
        except Exception:
            log.exception("a memory could not be closed; its indexes are followed from their last generation")
        finally:
            with self._lock:
                self.closed_total += 1
                self._closing.pop(memory.key).set()

    def _remove_folder(self, folder: Path) -> None:
        memory_key = _key_of_folder(folder)
        with self._lock:
            if memory_key is not None and (
                memory_key in self._open or memory_key in self._opening or memory_key in self._closing
            ):
                return
            if memory_key is not None:
                self._closing[memory_key] = threading.Event()
        shutil.rmtree(folder, ignore_errors=True)
        if memory_key is not None:
            with self._lock:
                self._closing.pop(memory_key).set()
        self._sizes.pop(folder, None)

    def close(self, patience: float = 5.0) -> None:
        """Close all memories, within `patience` seconds."""
        with self._lock:
            self._ended = True
        until = time.monotonic() + patience
        while any(memory.use_count for memory in self.list_open()) and time.monotonic() < until:
            time.sleep(0.02)
        for memory in self.list_open():
            with self._lock:
                self._open.pop(memory.key, None)
                self._closing[memory.key] = threading.Event()
            self._close_memory(memory)


def _key_of_folder(folder: Path) -> MemoryKey | None:
    space, _, kind = folder.name.partition(".")
    if not (folder.parent.name.isdecimal() and space.isdecimal() and kind in ("", "replica")):
        return None
    return MemoryKey(int(folder.parent.name), int(space), bool(kind))


def _measure_folder(folder: Path) -> int:
    return sum(state.st_blocks * 512 for _, state in machine.iter_files(folder))


def _get_used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
