"""One index in a running process: its parts on disk, its write buffer, and whether it can be searched.

Changes can be searched once applied and are durable with the next commit; after a kill, following starts again at the
position of the last generation, with the same result.
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
from memory_mcp.indexes.files import cut_short
from memory_mcp.indexes.generation import Home, Manifest, PartEntry, check_origin
from memory_mcp.indexes.merging import Merging
from memory_mcp.indexes.part import TABLES, Kind, LivePart, Part, outdated, part_of
from memory_mcp.indexes.shelf import Built, Shelf, entry_of
from memory_mcp.indexes.snapshot import Snapshot, sorted_keys

log = logging.getLogger(__name__)

B = TypeVar("B")

#: Documents in the write buffer from which a commit is due: rebuilding its part on each change takes 20 ms per thousand.
TAIL = 2000
#: Documents below which the write buffer is not committed, and for how long (milliseconds).
FEW, FEW_MS = 200, 3_600_000


class LiveIndex(Merging[B]):
    """An index that one thread changes at a time and any number search."""

    def __init__(self, kind: Kind[B], directory: Path, store_id: str, clock: Clock) -> None:
        """Create the index, not loaded yet; `directory` is its folder, `store_id` that of the store its files must belong to."""
        #: The kind of new generations, and that of the current one; they differ until it is rebuilt.
        self.wanted, self.kind = kind, kind
        self.home = Home(directory)
        self._shelf = Shelf(self.home)
        self._store_id = store_id
        self._clock = clock
        self._lock = threading.RLock()
        self._merging = threading.Lock()
        self._disk: list[LivePart[B]] = []
        #: The write buffer: units not on disk yet, prepared for their part.
        self._tail: dict[int, tuple[Unit, Any]] = {}
        self._manifest: Manifest | None = None
        self._stamps: dict[str, tuple[int, ...]] | None = None
        self._snapshot: Snapshot[B] | None = None
        self._health, self._reason = Health.LOADING, "its files are being read"
        self._dirty = False
        #: Time of the oldest change that is not on disk (UTC milliseconds).
        self._dirty_ms = 0
        self.last_error = ""
        #: Whether the last commit failed; the next one writes the same again.
        self.commit_failed = False
        self._loaded = threading.Event()
        self._closed = False
        #: Merges large parts in a child process, if set.
        self.merge_aside: Callable[[Sequence[PartEntry], bool], AbstractContextManager[Built]] | None = None
        #: Time by level before which units are left out (UTC milliseconds).
        self.cutoffs: dict[str, int] = {}
        self._pruned: dict[str, int] = {}
        self._pruned_ms = 0

    @property
    def health(self) -> Health:
        """The state of the index: loading, healthy, building (there are no files yet) or unhealthy."""
        return self._health

    @property
    def snapshot(self) -> Snapshot[B]:
        """The parts that can be searched now. Raises IndexUnreadable if there are none, or a mapped file was cut short."""
        snapshot = self._snapshot
        if snapshot is None or cut_short(m for live in snapshot for m in live.part.maps):
            raise IndexUnreadable("files of the index were cut short from outside" if snapshot else self._reason)
        return snapshot

    @property
    def position(self) -> Position:
        """How far the index has followed the store; zeros when it cannot be searched."""
        snapshot = self._snapshot
        return snapshot.position if snapshot else Position()

    @property
    def tail_size(self) -> int:
        """Number of documents in the write buffer, which are not on disk yet."""
        return sum(u.size for u, _ in self._tail.values())

    def status(self, behind: int = 0, building: int | None = None) -> IndexStatus:
        """Return the state of the index; `behind` is the number of changes that wait, `building` the documents built so far."""
        snapshot, manifest = self._snapshot, self._manifest
        counts = snapshot.counts if snapshot else dict.fromkeys(TABLES, 0)
        return IndexStatus(
            health=self._health,
            reason=self._reason,
            counts={t.value: counts[t] for t in TABLES},
            size_bytes=sum(p.part.size_bytes for p in self._disk),
            last_commit_ms=manifest.committed_ms if manifest else 0,
            last_prune_ms=self._pruned_ms,
            pruned=dict(self._pruned),
            behind=behind,
            building=building,
            generation=manifest.number if manifest else 0,
            parts=len(snapshot.parts) if snapshot else 0,
            last_error=self.last_error,
        )

    def wait(self, seconds: float) -> None:
        """Wait until its files have been read, successfully or not, at most `seconds`."""
        self._loaded.wait(seconds)

    def load(self, last_change: int, named: Callable[[int], str] = lambda _: "") -> None:
        """Read the current generation from disk, verified; one that is unusable or missing becomes the status.

        `last_change` is the store's newest; `named` returns the subject of a change, "" if unknown. Errors
        other than IndexUnreadable are passed on. Callers of `wait` go on in any case.
        """
        try:
            self._load(last_change, named)
        finally:
            self._loaded.set()

    def _load(self, last_change: int, named: Callable[[int], str]) -> None:
        """Do the work of `load`: check origin and fingerprint, read the parts, replace what is held, sweep leftovers.

        A generation of the wanted kind's predecessor is accepted and is then `outdated`.
        """
        with self._lock:
            try:
                manifest = self.home.current()
                if manifest is None:
                    self._lose(Health.BUILDING, "it is not built yet")
                    return
                check_origin(manifest, self._store_id, last_change, named)
                same = manifest.fingerprint == self.wanted.fingerprint()
                kind = self.wanted if same else self.wanted.predecessor(manifest.fingerprint)
                if kind is None:
                    raise IndexUnreadable("it was built by another version or with other settings")
                self.kind = kind
                self.home.prepare()
                stamps = self.home.stamps(manifest)
                trusted = self.home.trusted(manifest, stamps)
                parts = [self._shelf.living(self.kind, entry, entry.name in trusted) for entry in manifest.parts]
            except IndexUnreadable as error:
                self._lose(Health.UNHEALTHY, error.message)
                return
            self._disk, self._tail = parts, {}
            self.cutoffs, self._pruned, self._pruned_ms = dict(manifest.cutoffs), dict(manifest.pruned), manifest.pruned_ms
            self._manifest, self._stamps, self._dirty = manifest, stamps, False
            self._publish(manifest.position)
            self.home.sweep(manifest)
            if len(trusted) < len(parts):
                self.home.remember(stamps)

    @property
    def outdated(self) -> bool:
        """Whether it can be searched but was made by another kind than is wanted, so that a rebuild is due."""
        return self._snapshot is not None and self.kind is not self.wanted

    def _lose(self, health: Health, reason: str) -> None:
        """Set the state and its reason, and make the index unsearchable; UNHEALTHY is logged."""
        if health is Health.UNHEALTHY:
            log.warning("%s index: %s; it is built again", self.kind.name, reason)
        self._health, self._reason, self._snapshot = health, reason, None

    def give_up(self, reason: str) -> None:
        """Mark the index as unhealthy for a reason outside its files; it cannot be searched until loaded or built again."""
        self._lose(Health.UNHEALTHY, reason)

    def _publish(self, position: Position) -> None:
        """Search the non-empty parts on disk and the write buffer from now on, and set the state to healthy."""
        parts = list(self._disk)
        if self._tail:
            parts.append(LivePart(self._tail_part()))
        self._snapshot = Snapshot.of(tuple(p for p in parts if p.size), position)
        self._health, self._reason = Health.HEALTHY, ""

    def _tail_part(self) -> Part[B]:
        """Return the write buffer as a new part in memory, without name and files; the buffer stays."""
        buffered = list(self._tail.values())
        return part_of(self.kind, [u for u, _ in buffered], [p for _, p in buffered])

    def verify(self) -> bool:
        """Return whether it is healthy and its files have the stamps they were read or written with.

        Otherwise it becomes unhealthy. True for a healthy index that is not committed yet.
        """
        with self._lock:
            if self._health is not Health.HEALTHY or self._manifest is None:
                return self._health is Health.HEALTHY
            now = self.home.stamps(self._manifest)
            if now == self._stamps:
                return True
            changed = [n for n in self._stamps or () if now is None or now.get(n) != (self._stamps or {})[n]]
            what = "files of the index are gone"
            if now is not None and changed:
                what = f"{changed[0].rsplit('/', 1)[-1]} of the index was changed from outside"
            self._lose(Health.UNHEALTHY, what)
            return False

    def apply(self, units: Sequence[Unit], gone: Iterable[int], position: Position, since: Position | None = None) -> None:
        """Replace units by key and drop those in `gone`; searchable on return, on disk with the next commit.

        Units that ended before their level's cutoff are dropped. Does nothing when closed, unsearchable, or the position is no
        longer `since` (None: any): another generation has replaced it. Moves to `position` even if nothing changes.
        """
        with self._lock:
            if self._snapshot is None or self._closed or (since or self._snapshot.position) != self._snapshot.position:
                return
            dropped = {*gone, *(u.key for u in units)}
            if not dropped:
                # No commit: nothing that is found differs.
                self._snapshot = replace(self._snapshot, position=position)
                return
            previous_counts = self._snapshot.counts
            self._drop(dropped)
            fresh = [u for u in units if u.end_ms >= self.cutoffs.get(u.level.value, 0)]
            self._tail.update({u.key: (u, self.kind.prepared(u)) for u in fresh})
            self._publish(position)
            if not self._dirty:
                self._dirty, self._dirty_ms = True, self._clock.now_ms()
            added = sum(u.size for u in fresh)
            self._count(added, sum(previous_counts.values()) + added - sum(self.snapshot.counts.values()))
        failpoint("index.followed")

    def _drop(self, keys: Iterable[int]) -> None:
        """Take units out of the write buffer and mark them dead in the parts on disk, unpublished; unknown keys are ignored."""
        dropped_keys = list(keys)
        for key in dropped_keys:
            self._tail.pop(key, None)
        sorted_dropped = sorted_keys(dropped_keys)
        self._disk = [live.without(live.places(sorted_dropped)) for live in self._disk]

    def adopt(
        self, built: Sequence[Built], position: Position, since: Position | None = None, cutoffs: Mapping[str, int] | None = None
    ) -> None:
        """Take parts that a child made: in place of everything (`since` None), or of their units; committed on return.

        Does nothing when closed or, with `since`, the position is another by now. `cutoffs` are those that
        everything was made with; without them, what was pruned meanwhile stays out. Raises IndexUnreadable
        for unusable parts, OSError when it cannot be written.
        """
        with self._lock:
            if self._closed:
                return
            kind = self.wanted if (replaces_all := since is None) else self.kind
            parts = [LivePart(self._shelf.read(kind, b.name, b.files)) for b in built]
            if replaces_all:
                self._disk, self._tail, self.kind = [], {}, kind
                if cutoffs is not None:
                    self.cutoffs, self._pruned = dict(cutoffs), {}
                parts = [live.without(outdated(live, self.cutoffs, {})) for live in parts]
            elif self._snapshot is None or self._snapshot.position != since:
                return
            for live in parts:
                self._drop(live.part.units.key.tolist())
            self._disk += parts
            self._publish(position)
            self._count(sum(p.size for p in parts), 0)
            self._dirty = True
            # The files on disk are of the old generation: the new one has none to verify until committed.
            self._manifest, self._stamps = (None, None) if replaces_all else (self._manifest, self._stamps)
            self._commit(verified=replaces_all)

    def commit(self) -> bool:
        """Write all changes to disk; return False when closed, unsearchable or without changes.

        Nothing is written if files were changed from outside. Raises OSError on failure, which loses nothing.
        """
        with self._lock:
            if self._snapshot is None or self._closed or not self._dirty:
                return False
            self._commit()
            return True

    def commit_due(self) -> bool:
        """Commit, unless under 200 documents wait and the oldest for less than an hour; return whether there was anything.

        A commit writes two dozen small files whatever the number of documents; following again costs less.
        Raises OSError when it cannot be written.
        """
        with self._lock:
            waits = 0 < self.tail_size < FEW and 0 <= self._clock.now_ms() - self._dirty_ms < FEW_MS
            return not waits and self.commit()

    def close(self) -> None:
        """Commit, and accept no more changes even if that fails (OSError); it can still be searched."""
        with self._lock:
            try:
                self.commit()
            finally:
                self._closed = True

    def _commit(self, verified: bool = False) -> None:
        """Write the write buffer as a part, and a manifest; nothing if files were changed from outside, unless `verified`.

        Errors are noted as the last error and passed on.
        """
        if not verified and self._manifest is not None and not self.verify():
            return
        try:
            with span("index_commit"), metrics.run(f"{self.kind.name}_commit"):
                self.home.prepare()
                if self._tail:
                    self._disk.append(LivePart(self._shelf.write(self.kind, self._tail_part(), self._shelf.new_name("p"))))
                    self._tail = {}
                    failpoint("index.part_written")
                self._disk = [live for live in self._disk if live.size]
                self._put(self.position)
        except Exception as error:
            self.last_error, self.commit_failed = str(error) or type(error).__name__, True
            raise
        self.last_error, self.commit_failed = "", False

    def _put(self, position: Position) -> None:
        """Write a manifest of the parts on disk at `position`, make it the current one, and remove what it does not name.

        The parts are what is searched from now on, and their stamps are remembered as verified.
        """
        entries = tuple(map(entry_of, self._disk))
        manifest = Manifest(
            number=self.home.next_number(),
            store_id=self._store_id,
            fingerprint=self.kind.fingerprint(),
            position=position,
            parts=entries,
            committed_ms=self._clock.now_ms(),
            cutoffs=self.cutoffs,
            pruned=self._pruned,
            pruned_ms=self._pruned_ms,
        )
        self.home.put(manifest)
        self.home.sweep(manifest)
        self._manifest, self._stamps, self._dirty = manifest, self.home.stamps(manifest), False
        self.home.remember(self._stamps)
        self._publish(position)

    def prune(self, cutoffs: Mapping[str, int]) -> dict[str, int]:
        """Leave out units of these levels that ended before their time, now and later; return dropped documents by level.

        `cutoffs` are UTC milliseconds by level; an earlier one than before has no effect. Committed and merged on return.
        Raises IndexUnreadable when the index cannot be used, OSError when it cannot be written.
        """
        with self._lock:
            if self._snapshot is None:
                raise IndexUnreadable(self._reason)
            self.cutoffs |= {level: max(ms, self.cutoffs.get(level, 0)) for level, ms in cutoffs.items()}
            gone: dict[str, int] = {}
            keys: list[int] = []
            for live in self._snapshot:
                keys += live.part.units.key[outdated(live, self.cutoffs, gone)].tolist()
            self._drop(keys)
            for level, count in gone.items():
                self._pruned[level] = self._pruned.get(level, 0) + count
            self._pruned_ms = self._clock.now_ms()
            self._count(0, sum(gone.values()))
            self._publish(self.position)
            self._dirty = True
            self._commit()
        while self.merge(thoroughly=True):
            continue
        return gone

    def _count(self, added: int, deleted: int) -> None:
        """Add to the metrics of added and deleted documents, named by the kind of index; nothing for 0."""
        for op, number in (("add", added), ("delete", deleted)):
            if number:
                metrics.count(f"{self.kind.name}_index_operations_total", number, op=op)
