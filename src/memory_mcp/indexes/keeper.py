"""Maintain one index: load it, follow the store, commit, detect damage, rebuild it.

Change here: when an index is built anew.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexNotReady, LayerUnavailable
from memory_mcp.base.metrics import span
from memory_mcp.indexes.base import Health, IndexStatus
from memory_mcp.indexes.build import BUILDS, ShardBuilder
from memory_mcp.indexes.follow import (
    BULK,
    ChangedUnits,
    FollowedIndex,
    change_subject,
    count_segments,
    follow_changes,
    follow_in_children,
    read_changes,
    rebuild_index,
    rebuild_together,
)
from memory_mcp.indexes.live import BUFFER_LIMIT, LiveIndex
from memory_mcp.indexes.units import is_segment
from memory_mcp.storage.base import Storage

log = logging.getLogger(__name__)

#: First and longest delay of a retry in seconds; it doubles with each failure.
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result of a rebuild."""

    documents: int
    duration_ms: int


class Keeper:
    """Maintains one index; one thread calls `maintain`, any thread the rest."""

    def __init__(
        self,
        storage: Storage,
        index: LiveIndex[Any],
        shard_builder: ShardBuilder,
        give_way: Callable[[], object] = lambda: None,
    ) -> None:
        """`give_way` is called between steps of long work."""
        self._storage = storage
        self.index = index
        self.shard_builder = shard_builder
        index.merge_in_child = shard_builder.merge_shards
        index.folder.store_changes = storage.outbox.store_waiting
        self._give_way = give_way
        self._building = threading.Lock()
        #: Documents of the current build so far; None without one.
        self._documents_built: int | None = None
        #: The thread of the last build that was begun in the background.
        self.builder: threading.Thread | None = None
        self._failures, self._retry_at = 0, 0.0
        self._failed_builds, self._rebuild_at = 0, 0.0
        self.last_rebuild_secs: float | None = None
        self._closed = False
        #: Numbers of units, done and total, while a child process indexes changes.
        self._follow_progress: tuple[int, int] | None = None
        #: Whether changes came in bulk and their parts are not merged yet.
        self._merge_pending = False
        self._member = FollowedIndex(index, shard_builder, self._note_progress)

    def status(self) -> IndexStatus:
        """Return the state with the number of changes waiting."""
        return self.index.status(self._waiting_changes, self._documents_built)

    @property
    def _waiting_changes(self) -> int:
        """How many changes wait for a healthy index; 0 for another."""
        waiting_changes = max(self._storage.toc.current_version() - self.index.position.outbox, 0)
        return waiting_changes if self.index.health is Health.HEALTHY else 0

    def load(self) -> None:
        """Read the index from disk; an error makes it unhealthy, not raised."""
        try:
            self.index.load(self._storage.toc.current_version(), lambda change: change_subject(self._storage, change))
        except Exception as error:
            log.exception("the %s index cannot be loaded; it is built again", self.index.kind.name)
            self.index.give_up(f"it cannot be loaded: {error}")

    def load_once(self) -> None:
        """Load the index if it was never loaded and is not closed."""
        if self.index.health is Health.LOADING and not self._closed:
            self.load()

    def maintain(self, changed: ChangedUnits | None = None) -> bool:
        """Do one round of upkeep; return whether more is waiting. `changed` is shared by the indexes of a round.

        An error is logged, noted as the last error, and False returned; until a delay (1 s, doubled each time, at most
        60 s) has passed, and after `close`, nothing is done.
        """
        if self._closed or time.monotonic() < self._retry_at:
            return False
        try:
            more = self._run_round(changed)
            self._failures = 0
            return more
        except Exception as error:
            self._failures += 1
            self._retry_at = time.monotonic() + _retry_delay(self._failures)
            self.index.last_error = str(error)
            log.exception("the %s index could not be kept; it is tried again", self.index.kind.name)
            return False

    def _run_round(self, changed: ChangedUnits | None) -> bool:
        self.load_once()
        if not self.index.verify_files():
            self.begin_rebuild()
            return False
        if self.index.is_outdated:
            self.begin_rebuild()
        with span("index_follow"):
            try:
                more = follow_changes(self._storage, self._member, self._give_way, changed)
            finally:
                self._follow_progress = None
        # Bulk changes may come in several parts, each of which costs every search 0.1 ms.
        thoroughly = not more and (self._merge_pending or self.index.is_scattered)
        self._merge_pending &= more
        if self.index.buffered_documents >= BUFFER_LIMIT or self.index.commit_failed:
            self.index.commit()
        return self.index.merge_once(thoroughly) or more

    def _note_progress(self, done: int, total: int) -> None:
        self._follow_progress, self._merge_pending = (done, total), True

    @property
    def needs_bulk_follow(self) -> bool:
        """Whether over 100 changed segments wait that the index can take now.

        The many writes of a busy session are as many changes of few segments, for which no child is worth its start.
        """
        ready = not self._closed and time.monotonic() >= self._retry_at and self.index.health is Health.HEALTHY
        waiting_changes = self._storage.toc.current_version() - self.index.position.outbox
        return (
            ready
            and waiting_changes > BULK
            and self._documents_built is None
            and not self.index.is_outdated
            and self.index.verify_files()
            and self._has_bulk()
        )

    def _has_bulk(self) -> bool:
        due = read_changes(self._storage, self.index.position)
        return due.has_more or sum(map(is_segment, due.nodes)) > BULK

    def follow_with(self, other_keepers: "Sequence[Keeper]") -> None:
        """Follow with other indexes at the same position, in child processes."""
        together = [self, *(k for k in other_keepers if k.index.position == self.index.position)]
        try:
            with span("index_follow"):
                follow_in_children(self._storage, [k._member for k in together], self._give_way)
        except Exception as error:
            log.exception("the indexes could not be kept together; each is kept on its own")
            self.index.last_error = str(error)
        finally:
            for keeper in together:
                keeper._follow_progress = None

    def remaining_work(self, change: int) -> tuple[int, int] | None:
        """Return the work done and in all before a change is indexed.

        It counts units while a child process follows, documents during a build, else waiting changes. None for none,
        after a failure, or when closed.
        """
        if self._closed or self._failures or self._failed_builds:
            return None
        waiting_changes = change - self.index.position.outbox
        if self.index.health is Health.HEALTHY and waiting_changes <= 0:
            return None
        if self._follow_progress is not None:
            return self._follow_progress
        if self._documents_built is not None:
            return self._documents_built, max(self._documents_built, self.status().documents)
        return 0, waiting_changes

    @property
    def needs_rebuild(self) -> bool:
        """Whether a first build of it is due and none runs."""
        idle = not self._closed and not self._failed_builds and (self.builder is None or not self.builder.is_alive())
        return idle and not self._check_current()

    def _check_current(self) -> bool:
        """Return whether its files are whole and of the kind that it is to have."""
        return self.index.verify_files() and not self.index.is_outdated

    def begin_rebuild(self) -> None:
        """Start a rebuild in a thread, unless one runs or just failed."""
        if time.monotonic() < self._rebuild_at:
            return
        if self.builder is None or not self.builder.is_alive():
            self.builder = threading.Thread(target=self._try_rebuild, name=f"building {self.index.kind.name}", daemon=True)
            self.builder.start()

    def begin_rebuild_with(self, other_keepers: "Sequence[Keeper]") -> None:
        """Start a rebuild together with other indexes that need one, if there is much to read.

        After a failure each is built by itself, so that one that cannot be built keeps no other from it.
        """
        if count_segments(self._storage) <= BULK:
            return
        together = [self, *other_keepers]
        names = ", ".join(keeper.index.kind.name for keeper in together)
        builder = threading.Thread(target=self._try_rebuild_all, args=(together,), name=f"building {names}", daemon=True)
        for keeper in together:
            keeper.builder = builder
        builder.start()

    def _try_rebuild(self) -> None:
        try:
            self.rebuild()
            self._failed_builds = 0
        except Exception as error:
            self._note_failed_build(error)
            if not self._closed:
                log.exception("the %s index could not be built; it is tried again", self.index.kind.name)

    def _note_failed_build(self, error: Exception) -> None:
        self._failed_builds += 1
        self._rebuild_at = time.monotonic() + _retry_delay(self._failed_builds)
        self.index.last_error = str(error)

    def _try_rebuild_all(self, keepers: "Sequence[Keeper]") -> None:
        try:
            with ExitStack() as stack:
                for keeper in keepers:
                    stack.enter_context(keeper._hold_build())
                self._rebuild_all(keepers)
        except Exception as error:
            for keeper in keepers:
                if not keeper._check_current():
                    keeper._note_failed_build(error)
            if not self._closed:
                log.exception("the indexes could not be built together; each is built on its own")

    def _rebuild_all(self, keepers: "Sequence[Keeper]") -> None:
        """Build new generations of indexes whose builds are held, then merge the parts of each."""
        from concurrent.futures import ThreadPoolExecutor

        began = time.monotonic()

        def count(index: int, added: int) -> None:
            keeper = keepers[index]
            keeper._documents_built = (keeper._documents_built or 0) + added

        with BUILDS.wait_turn(lambda: self._closed), span("index_rebuild"):
            rebuild_together(self._storage, [(k.index, k.shard_builder) for k in keepers], count, self._give_way)
        with ThreadPoolExecutor(len(keepers)) as threads:
            for _ in threads.map(lambda keeper: keeper._end_build(began), keepers):
                continue

    def _end_build(self, began: float) -> None:
        """Merge the parts of a new generation, of which each child made some, and note the time it took."""
        while self.index.merge_once(thoroughly=True):
            continue
        self.last_rebuild_secs = time.monotonic() - began

    @contextmanager
    def _hold_build(self) -> Iterator[None]:
        """Hold the build of this index for the block. Raises IndexNotReady if one is running."""
        if not self._building.acquire(blocking=False):
            raise _build_running_error(self.index.kind.name)
        try:
            self._documents_built = 0
            yield
        finally:
            self._documents_built = None
            self._building.release()

    def rebuild(self, on_progress: Callable[[int], None] = lambda _: None, keep_cutoffs: bool = True) -> RebuildResult:
        """Build a new generation from the store; the old one serves meanwhile.

        `on_progress` gets the documents so far. Without `keep_cutoffs`, documents that retention dropped come back.
        Waits for builds of other indexes. Raises IndexNotReady if a build of this one is running.
        """
        began = time.monotonic()

        def count(done: int) -> None:
            self._documents_built = done
            on_progress(done)

        with self._hold_build():
            with BUILDS.wait_turn(lambda: self._closed), span("index_rebuild"):
                done = rebuild_index(self._storage, self.index, self.shard_builder, count, self._give_way, keep_cutoffs)
            self._end_build(began)
            return RebuildResult(done, int((time.monotonic() - began) * 1000))

    def purge(self) -> None:
        """Index every change and remove all bytes of dropped documents.

        An unusable index is rebuilt. Raises IndexNotReady if a build is running. Nothing else may follow meanwhile.
        """
        if not self._building.acquire(blocking=False):
            raise _build_running_error(self.index.kind.name)
        try:
            self.load_once()
            if self._check_current():
                while follow_changes(self._storage, self._member):
                    continue
                self._follow_progress = None
                self.index.scrub_dropped()
                if self.index.verify_files():
                    return
        finally:
            self._building.release()
        self.rebuild()

    @property
    def is_busy(self) -> bool:
        """Whether it is being built, or has changes to index."""
        return self._documents_built is not None or self._waiting_changes > 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until something is stored.

        False while anything fails, is damaged or being built; true once closed.
        """
        healthy = self.index.health is Health.HEALTHY and not self.index.commit_failed and not self.index.is_outdated
        return self._closed or (healthy and not self.is_busy and not self._failures and not self._merge_pending)

    def catch_up(self) -> None:
        """Load or build the index and index every change; the caller waits.

        Raises IndexNotReady if it must be built and a build is running.
        """
        if self.index.health is not Health.HEALTHY:
            self.load()
        if not self._check_current():
            self.rebuild()
        while follow_changes(self._storage, self._member):
            continue
        self._follow_progress = None

    def commit(self, few: bool) -> bool:
        """Write changes to disk, few only if `few`; return whether there were any. Raises OSError.

        Nothing is written while they cannot be prepared: that is logged.
        """
        try:
            return self.index.commit() if few else self.index.commit_due()
        except LayerUnavailable as error:
            log.warning("changes of the %s index cannot be written: %s", self.index.kind.name, error)
            return False

    def close(self) -> None:
        """Commit what is not on disk; a failure is logged."""
        if self._closed:
            return
        self._closed = True
        try:
            self.index.close()
        except Exception:
            log.exception("the %s index was not committed; following goes on from its last generation", self.index.kind.name)


def _build_running_error(name: str) -> IndexNotReady:
    return IndexNotReady(f"the {name} index is being built already", "It is built in the background: retry in a few seconds.")


def _retry_delay(failures: int) -> float:
    """Return seconds: 1, doubled with each failure in a row, at most 60."""
    return min(_FIRST_DELAY * 2.0 ** min(failures - 1, 20), _LONGEST_DELAY)
