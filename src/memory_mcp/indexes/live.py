"""One index in a running process: its shards on disk, its write buffer, its health.

Changes can be searched once applied and are durable with the next commit; after a kill, following starts again
at the position of the last generation, with the same result.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from memory_mcp.base import metrics
from memory_mcp.base.clock import Clock
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.base.failpoints import failpoint
from memory_mcp.base.metrics import span
from memory_mcp.indexes.base import Health, IndexStatus, Position
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.files import is_truncated
from memory_mcp.indexes.generation import IndexFolder, Manifest, ShardEntry, check_origin
from memory_mcp.indexes.merging import MergingIndex
from memory_mcp.indexes.shard import TABLES, IndexKind, LiveShard, Shard, build_shard, expired_units
from memory_mcp.indexes.shard_store import BuiltShard, ShardStore, entry_of
from memory_mcp.indexes.snapshot import Snapshot, sorted_keys

log = logging.getLogger(__name__)

B = TypeVar("B")

#: Documents in the write buffer from which a commit is due: rebuilding its part on each change takes 20 ms per thousand.
BUFFER_LIMIT = 2000
#: Documents up to which whoever searches next prepares changes (0.3 ms each): an event alone is mostly followed by others first.
_LAZY_DOCUMENTS = 64
#: Documents below which the write buffer is not committed, and for how long (milliseconds).
FEW_DOCUMENTS, FEW_MS = 200, 3_600_000


class LiveIndex(MergingIndex[B]):
    """An index that one thread changes at a time and any number search."""

    def __init__(self, kind: IndexKind[B], directory: Path, store_id: str, clock: Clock) -> None:
        """Create the index, not loaded yet."""
        #: The kind of new generations, and that of the current one; they differ until it is rebuilt.
        self.target_kind, self.kind = kind, kind
        self.folder = IndexFolder(directory)
        self._shards = ShardStore(self.folder)
        self._store_id = store_id
        self._clock = clock
        self._lock = threading.RLock()
        self._merge_lock = threading.Lock()
        self._disk_shards: list[LiveShard[B]] = []
        #: The write buffer: units not on disk yet, prepared for their part, or None.
        self._write_buffer: dict[int, tuple[Unit, Any]] = {}
        #: Whether the snapshot has its position, but not yet the changes up to there.
        self._is_stale = False
        self._manifest: Manifest | None = None
        self._stamps: dict[str, tuple[int, ...]] | None = None
        self._snapshot: Snapshot[B] | None = None
        self._health, self._reason = Health.LOADING, "its files are being read"
        #: Time of the oldest change that is not on disk (UTC milliseconds).
        self._dirty_ms = 0
        self.last_error = ""
        #: Whether the last commit failed; the next one writes the same again.
        self.commit_failed = False
        self._loaded = threading.Event()
        self._closed = self._dirty = False
        #: Merges large parts in a child process, if set.
        self.merge_in_child: Callable[[Sequence[ShardEntry], bool], AbstractContextManager[BuiltShard]] | None = None
        #: Time by level before which units are left out (UTC milliseconds).
        self.cutoffs: dict[str, int] = {}
        self._pruned: dict[str, int] = {}
        self._pruned_ms = 0

    @property
    def health(self) -> Health:
        """State of the index."""
        return self._health

    @property
    def snapshot(self) -> Snapshot[B]:
        """The shards that can be searched now, built if something changed; raises IndexUnreadable."""
        snapshot = self._build_snapshot()
        if snapshot is None or is_truncated(m for live in snapshot for m in live.shard.maps):
            raise IndexUnreadable("files of the index were cut short from outside" if snapshot else self._reason)
        return snapshot

    @property
    def position(self) -> Position:
        """How far it has followed the store; zeros if unsearchable."""
        snapshot = self._snapshot
        return snapshot.position if snapshot else Position()

    @property
    def buffered_documents(self) -> int:
        """Number of documents in the write buffer."""
        return sum(u.size for u, _ in self._write_buffer.values())

    def status(self, waiting_changes: int = 0, building: int | None = None) -> IndexStatus:
        """Return the state; `waiting_changes` changes wait, `building` documents are built."""
        try:
            self._build_snapshot()
            health, reason = self._health, self._reason
        except IndexUnreadable as error:
            health, reason = Health.UNHEALTHY, error.message
        snapshot, manifest = self._snapshot, self._manifest
        counts = snapshot.counts if snapshot else dict.fromkeys(TABLES, 0)
        return IndexStatus(
            health=health,
            reason=reason,
            counts={t.value: counts[t] for t in TABLES},
            size_bytes=sum(p.shard.size_bytes for p in self._disk_shards),
            last_commit_ms=manifest.committed_ms if manifest else 0,
            last_prune_ms=self._pruned_ms,
            pruned=dict(self._pruned),
            behind=waiting_changes,
            building=building,
            generation=manifest.number if manifest else 0,
            parts=len(snapshot.shards) if snapshot else 0,
            last_error=self.last_error,
        )

    def wait_loaded(self, seconds: float) -> None:
        """Wait until its files have been read, at most `seconds`."""
        self._loaded.wait(seconds)

    def load(self, last_change: int, subject_of_change: Callable[[int], str] = lambda _: "") -> None:
        """Read the current generation, verified; an unusable one becomes the status.

        `last_change` is the store's newest; `subject_of_change` returns the subject of a change, "" if unknown. Errors other than
        IndexUnreadable are passed on.
        """
        try:
            self._load_current(last_change, subject_of_change)
        finally:
            self._loaded.set()

    def _load_current(self, last_change: int, subject_of_change: Callable[[int], str]) -> None:
        with self._lock:
            try:
                manifest = self.folder.read_current()
                if manifest is None:
                    self._make_unsearchable(Health.BUILDING, "it is not built yet")
                    return
                check_origin(manifest, self._store_id, last_change, subject_of_change)
                same = manifest.fingerprint == self.target_kind.fingerprint()
                kind = self.target_kind if same else self.target_kind.find_predecessor(manifest.fingerprint)
                if kind is None:
                    raise IndexUnreadable("it was built by another version or with other settings")
                self.kind = kind
                self.folder.create_folders()
                stamps = self.folder.read_stamps(manifest)
                trusted = self.folder.trusted_shards(manifest, stamps)
                shards = [self._shards.read_live_shard(self.kind, entry, entry.name in trusted) for entry in manifest.shards]
            except IndexUnreadable as error:
                self._make_unsearchable(Health.UNHEALTHY, error.message)
                return
            self._disk_shards, self._write_buffer = shards, {}
            self.cutoffs, self._pruned, self._pruned_ms = dict(manifest.cutoffs), dict(manifest.pruned), manifest.pruned_ms
            self._manifest, self._stamps, self._dirty = manifest, stamps, False
            self._publish_snapshot(manifest.position)
            self.folder.remove_unused(manifest)
            if len(trusted) < len(shards):
                self.folder.save_stamps(stamps)

    @property
    def is_outdated(self) -> bool:
        """Whether it was made by another kind, so that a rebuild is due."""
        return self._snapshot is not None and self.kind is not self.target_kind

    def _make_unsearchable(self, health: Health, reason: str) -> None:
        if health is Health.UNHEALTHY:
            log.warning("%s index: %s; it is built again", self.kind.name, reason)
        self._health, self._reason, self._snapshot, self._is_stale = health, reason, None, False

    def give_up(self, reason: str) -> None:
        """Mark the index as unhealthy for a reason outside its files."""
        self._make_unsearchable(Health.UNHEALTHY, reason)

    def _build_snapshot(self) -> Snapshot[B] | None:
        """Return the snapshot with all changes up to its position; raises IndexUnreadable if they cannot be prepared."""
        snapshot = self._snapshot
        if self._is_stale or snapshot is not self._snapshot:  # replaced in between: maybe a position without its changes
            with self._lock:
                if self._is_stale and self._snapshot is not None:
                    try:
                        self._publish_snapshot(self._snapshot.position)
                    except Exception as error:
                        if (reason := f"changes cannot be prepared: {error or type(error).__name__}") != self.last_error:
                            log.warning("%s index: %s; the next search tries again", self.kind.name, reason)
                        self.last_error = reason
                        raise IndexUnreadable(reason) from error
                snapshot = self._snapshot
        return snapshot

    def _publish_snapshot(self, position: Position, buffered: Shard[B] | None = None) -> None:
        shards = list(self._disk_shards)
        if self._write_buffer:
            shards.append(LiveShard(buffered or self._build_buffer_shard()))
        self._snapshot = Snapshot.from_shards(tuple(p for p in shards if p.size), position)
        self._is_stale = False
        self._health, self._reason = Health.HEALTHY, ""

    def _build_buffer_shard(self) -> Shard[B]:
        for key, (unit, prepared) in self._write_buffer.items():
            if prepared is None:
                self._write_buffer[key] = (unit, self.kind.prepare_unit(unit))
        buffered = list(self._write_buffer.values())
        return build_shard(self.kind, [u for u, _ in buffered], [p for _, p in buffered])

    def verify_files(self) -> bool:
        """Return whether it is healthy and its files are unchanged.

        Otherwise it becomes unhealthy. True for a healthy index that is not committed yet.
        """
        with self._lock:
            if self._health is not Health.HEALTHY or self._manifest is None:
                return self._health is Health.HEALTHY
            now = self.folder.read_stamps(self._manifest)
            if now is not None and now == self._stamps:
                return True
            changed = [n for n in self._stamps or () if now is None or now.get(n) != (self._stamps or {})[n]]
            what = "files of the index are gone"
            if now is not None and changed:
                what = f"{changed[0].rsplit('/', 1)[-1]} of the index was changed from outside"
            self._make_unsearchable(Health.UNHEALTHY, what)
            return False

    def apply_units(self, units: Sequence[Unit], gone: Iterable[int], position: Position, since: Position | None = None) -> None:
        """Replace units by key and drop those in `gone`; searchable on return.

        Units that ended before their level's cutoff are dropped. Does nothing when closed, unsearchable, or the
        position is no longer `since` (None: any). Moves to `position` even if nothing changes.
        """
        with self._lock:
            if self._snapshot is None or self._closed or (since or self._snapshot.position) != self._snapshot.position:
                return
            dropped = {*gone, *(u.key for u in units)}
            if not dropped:
                # No commit: nothing that is found differs.
                self._snapshot = replace(self._snapshot, position=position)
                return
            previous_count = self._count_documents()
            self._drop_units(dropped)
            fresh = [u for u in units if u.end_ms >= self.cutoffs.get(u.level.value, 0)]
            self._write_buffer.update({u.key: (u, None) for u in fresh})
            if sum(u.size for u, prepared in self._write_buffer.values() if prepared is None) > _LAZY_DOCUMENTS:
                self._publish_snapshot(position)
            else:
                # In this order: who has the new position must not miss what is there up to it.
                self._is_stale = True
                self._snapshot = replace(self._snapshot, position=position)
            if not self._dirty:
                self._dirty, self._dirty_ms = True, self._clock.now_ms()
            added = sum(u.size for u in fresh)
            self._count_changes(added, previous_count + added - self._count_documents())
        failpoint("index.followed")

    def _count_documents(self) -> int:
        return sum(live.size for live in self._disk_shards) + self.buffered_documents

    def _drop_units(self, keys: Iterable[int]) -> None:
        dropped_keys = list(keys)
        for key in dropped_keys:
            self._write_buffer.pop(key, None)
        sorted_dropped = sorted_keys(dropped_keys)
        self._disk_shards = [live.without_units(live.find_units(sorted_dropped)) for live in self._disk_shards]

    def adopt_shards(
        self,
        built: Sequence[BuiltShard],
        position: Position,
        since: Position | None = None,
        cutoffs: Mapping[str, int] | None = None,
    ) -> None:
        """Use shards that a child made, committed on return.

        In place of everything if `since` is None, else of their units. Does nothing when closed or, with `since`, the
        position is another by now. `cutoffs` are those that everything was made with; without them, what was pruned
        meanwhile stays out. Raises IndexUnreadable for unusable shards, OSError.
        """
        with self._lock:
            if self._closed:
                return
            kind = self.target_kind if (replaces_all := since is None) else self.kind
            shards = [LiveShard(self._shards.read_shard(kind, b.name, b.files)) for b in built]
            if replaces_all:
                self._disk_shards, self._write_buffer, self.kind = [], {}, kind
                if cutoffs is not None:
                    self.cutoffs, self._pruned = dict(cutoffs), {}
                shards = [live.without_units(expired_units(live, self.cutoffs, {})) for live in shards]
            elif self._snapshot is None or self._snapshot.position != since:
                return
            for live in shards:
                self._drop_units(live.shard.units.key.tolist())
            self._disk_shards += shards
            self._publish_snapshot(position)
            self._count_changes(sum(p.size for p in shards), 0)
            self._dirty = True
            # The files on disk are of the old generation: the new one has none to verify until committed.
            self._manifest, self._stamps = (None, None) if replaces_all else (self._manifest, self._stamps)
            self._commit_changes(verified=replaces_all)

    def commit(self) -> bool:
        """Write all changes to disk; return whether there were any.

        Nothing is written if files were changed from outside. Raises OSError on failure, which loses nothing.
        """
        with self._lock:
            if self._snapshot is None or self._closed or not self._dirty:
                return False
            self._commit_changes()
            return True

    def commit_due(self) -> bool:
        """Commit, unless under 200 documents wait for less than an hour.

        A commit writes two dozen small files whatever the number of documents; following again costs less. Raises
        OSError.
        """
        with self._lock:
            waits = 0 < self.buffered_documents < FEW_DOCUMENTS and 0 <= self._clock.now_ms() - self._dirty_ms < FEW_MS
            return not waits and self.commit()

    def close(self) -> None:
        """Commit, and accept no more changes even if that fails (OSError)."""
        with self._lock:
            try:
                self.commit()
            finally:
                self._closed = True

    def _commit_changes(self, verified: bool = False) -> None:
        """Write the buffer as a shard, and a manifest; errors are noted."""
        if not verified and self._manifest is not None and not self.verify_files():
            return
        try:
            with span("index_commit"), metrics.run(f"{self.kind.name}_commit"):
                buffered = self._build_buffer_shard() if self._write_buffer else None
                if self._is_stale:
                    # Else a search would prepare the changes, under this lock: none waits for the disk.
                    self._publish_snapshot(self.position, buffered)
                self.folder.create_folders()
                if buffered is not None:
                    self._disk_shards.append(LiveShard(self._shards.write_shard(self.kind, buffered, self._shards.new_name("p"))))
                    self._write_buffer = {}
                    failpoint("index.part_written")
                self._disk_shards = [live for live in self._disk_shards if live.size]
                self._write_manifest(self.position)
        except Exception as error:
            self.last_error, self.commit_failed = str(error) or type(error).__name__, True
            raise
        self.last_error, self.commit_failed = "", False

    def _write_manifest(self, position: Position) -> None:
        entries = tuple(map(entry_of, self._disk_shards))
        manifest = Manifest(
            number=self.folder.next_number(),
            store_id=self._store_id,
            fingerprint=self.kind.fingerprint(),
            position=position,
            shards=entries,
            committed_ms=self._clock.now_ms(),
            cutoffs=self.cutoffs,
            pruned=self._pruned,
            pruned_ms=self._pruned_ms,
        )
        self.folder.make_current(manifest)
        self.folder.remove_unused(manifest)
        self._manifest, self._stamps, self._dirty = manifest, self.folder.read_stamps(manifest), False
        self.folder.save_stamps(self._stamps)
        self._publish_snapshot(position)

    def prune(self, cutoffs: Mapping[str, int]) -> dict[str, int]:
        """Leave out units that ended before their level's time, now and later.

        `cutoffs` are UTC milliseconds by level; an earlier one than before has no effect. Returns dropped documents by
        level; committed and merged on return. Raises IndexUnreadable, OSError.
        """
        with self._lock:
            if self._snapshot is None:
                raise IndexUnreadable(self._reason)
            self.cutoffs |= {level: max(ms, self.cutoffs.get(level, 0)) for level, ms in cutoffs.items()}
            gone: dict[str, int] = {}
            keys: list[int] = []
            for live in self.snapshot:
                keys += live.shard.units.key[expired_units(live, self.cutoffs, gone)].tolist()
            self._drop_units(keys)
            for level, count in gone.items():
                self._pruned[level] = self._pruned.get(level, 0) + count
            self._pruned_ms = self._clock.now_ms()
            self._count_changes(0, sum(gone.values()))
            self._publish_snapshot(self.position)
            self._dirty = True
            self._commit_changes()
        while self.merge_once(thoroughly=True):
            continue
        return gone
