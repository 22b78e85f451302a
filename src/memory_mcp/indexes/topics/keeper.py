"""Maintain the topic graph: read it, place new segments, detect damage, rebuild it.

Nothing is loaded before topics are requested or a grouping is due. New segments are placed when topics are next
requested; the files stay as they were grouped, and placing again after a start gives the same result.
"""

import functools
import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.base import metrics
from memory_mcp.base.children import Child, feed, few_collections
from memory_mcp.base.clock import Clock
from memory_mcp.base.errors import IndexNotReady, IndexUnreadable
from memory_mcp.base.failpoints import failpoint
from memory_mcp.base.metrics import span
from memory_mcp.embed.base import Embedder
from memory_mcp.indexes.base import Health, Position
from memory_mcp.indexes.build import GROUPINGS
from memory_mcp.indexes.document import DOCUMENT_VERSION
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.follow import change_subject, read_changes
from memory_mcp.indexes.generation import IndexFolder, Manifest, ShardEntry, check_origin
from memory_mcp.indexes.keeper import RebuildResult
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import TopicsStatus
from memory_mcp.indexes.topics.documents import Document, document_of
from memory_mcp.indexes.topics.graph import BEHIND, TopicGraph, place_segments
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.stored import FORMAT, GroupingRequest, GroupingResult, GroupingSetup, read_graph
from memory_mcp.indexes.units import READ_BATCH, is_segment
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId, segment_key_of
from memory_mcp.model.topic import TopicLabel
from memory_mcp.storage.base import Storage

log = logging.getLogger(__name__)

#: Version of the grouping: a change groups every memory again.
VERSION = 3
#: Least number and share of new and changed segments for a new grouping, which `BEHIND` of them are in any case.
_CHANGED, _SHARE = 10, 0.02
#: Most changes placed during a request; more are left to the next grouping.
_PLACED = 512
#: Interval of checks of the files, and delay after a failed grouping (seconds).
_LOOK, _RETRY = 1.0, 60.0


class TopicKeeper:
    """Maintains the topic graph; any thread may call it."""

    def __init__(
        self,
        storage: Storage,
        directory: Path,
        clock: Clock,
        settings: TopicsSettings,
        embedder: Callable[[], Embedder | None],
        give_way: Callable[[], object] = lambda: None,
    ) -> None:
        """Keep the graph in `directory`; `embedder` returns None for terms alone."""
        self._storage = storage
        self._store_id = storage.get_stats(text=False).store_id
        self.folder = IndexFolder(directory)
        self._clock = clock
        self._settings = settings
        self._embedder = embedder
        self._give_way = give_way
        self._lock = threading.RLock()
        self._building = threading.Lock()
        self._health, self._reason = Health.LOADING, ""
        self._graph: TopicGraph | None = None
        self._manifest: Manifest | None = None
        self._stamps: dict[str, tuple[int, ...]] | None = None
        #: Position up to which changes are placed, and the segments changed since the grouping.
        self._position = Position()
        self._changed: set[NodeId] = set()
        #: Version, position and generation at which pending segments were counted, and their numbers.
        self._pending_counts = (-1, -1, -1), (0, 0)
        self._checked_at = 0.0
        self._child: Child | None = None
        #: The thread of the last grouping that was begun in the background.
        self.builder: threading.Thread | None = None
        self._closed = False
        self._retry_at = 0.0
        #: The last embedded text: embedder, text, vector.
        self._last_query: tuple[Embedder, str, Array] | None = None
        self.last_error = ""
        self.last_rebuild_secs: float | None = None

    def get_graph(self) -> TopicGraph:
        """Return the graph, recent changes placed; raises IndexUnreadable if none."""
        with self._lock:
            self._check_files()
            if self._graph is None:
                raise IndexUnreadable(self._why_none())
            self._place_changed()
            return self._graph

    def status(self) -> TopicsStatus:
        """Return the state of the graph; places nothing."""
        with self._lock:
            self._check_files()
            graph, manifest = self._graph, self._manifest
            if graph is None or manifest is None:
                status = TopicsStatus(True, healthy=False, message=self._why_none())
            else:
                pending_count, segments = self._count_pending()
                status = replace(
                    graph.status(pending_count, segments),
                    size_bytes=sum(f.size for p in manifest.shards for f in p.files.values()),
                    generation=manifest.number,
                    last_commit_ms=manifest.committed_ms,
                )
            return replace(status, last_error=self.last_error, last_rebuild_secs=self.last_rebuild_secs)

    def store_labels(self, labels: Sequence[TopicLabel], unless: Callable[[TopicGraph], bool] = lambda _: False) -> bool:
        """Store labels unless `unless` is true; return whether stored."""
        with self._lock:
            if unless(self.get_graph()):
                return False
            for label in labels:
                self._storage.topics.set_label(label)
            self.reload_facts()
            return True

    def reload_facts(self) -> None:
        """Read topics' identities, labels and pins from the store again."""
        with self._lock:
            if self._graph is not None:
                self._graph = replace(self._graph, **self._read_facts())

    def _check_files(self) -> None:
        if self._health is Health.HEALTHY and time.monotonic() - self._checked_at > _LOOK:
            self._checked_at = time.monotonic()
            if self._manifest is None or self.folder.read_stamps(self._manifest) != self._stamps:
                self._drop_graph("its files were changed or removed from outside; it is built again")
        if self._health is Health.LOADING:
            self._load_graph()

    def _load_graph(self) -> None:
        try:
            manifest = self.folder.read_current()
            if manifest is None:
                self._health = Health.BUILDING
                return
            check_origin(
                manifest,
                self._store_id,
                self._storage.toc.current_version(),
                lambda change: change_subject(self._storage, change),
            )
            if manifest.fingerprint != self._fingerprint() or len(manifest.shards) != 1:
                raise IndexUnreadable("it was built by another version or with other settings")
            entry = manifest.shards[0]
            stamps = self.folder.read_stamps(manifest)
            stored = read_graph(self.folder.shards_path / entry.name, entry.files, self.folder.directory)
        except IndexUnreadable as error:
            self._drop_graph(error.message)
        except Exception as error:
            log.exception("the topic graph cannot be read; it is built again")
            self._drop_graph(f"it cannot be read: {error}")
        else:
            self._manifest, self._stamps, self._position, self._changed = manifest, stamps, manifest.position, set()
            profiles = functools.cache(lambda: Profiles.from_rows(stored.rows, len(stored.area_of)))
            columns = (stored.rows, stored.tables, stored.names, stored.area_of)
            facts = self._read_facts()
            self._graph = TopicGraph(*columns, **facts, settings=self._settings, embed=self._embed_query, profiles=profiles)
            self._health, self._reason = Health.HEALTHY, ""

    def _drop_graph(self, reason: str) -> None:
        log.warning("topic graph: %s", reason)
        self._health, self._reason, self._graph = Health.UNHEALTHY, reason, None

    def _read_facts(self) -> dict[str, Any]:
        topics = self._storage.topics
        records = {topic.topic_id: topic for topic in topics.list_topics()}
        return {"records": records, "labels": tuple(topics.list_labels()), "pins": self._storage.toc.list_pins()}

    def _embed_query(self, text: str) -> Array | None:
        embedder = self._embedder()
        if embedder is None:
            return None
        # A query is compared with topics, areas and segments, but embedded once.
        cached = self._last_query
        if cached is None or cached[0] is not embedder or cached[1] != text:
            cached = self._last_query = embedder, text, embedder.embed([text])[0]
        return cached[2]

    def _fingerprint(self) -> dict[str, Any]:
        embedder = self._embedder()
        fingerprint = embedder.fingerprint() if embedder else {}
        # Vectors do not depend on the model's folder.
        by = {name: value for name, value in fingerprint.items() if name != "folder"}
        return {"format": FORMAT, "version": VERSION, "documents": DOCUMENT_VERSION, "embedder": by}

    def _count_segments(self) -> int:
        return sum(count for _, count in self._storage.toc.count_segments_by_day())

    def _why_none(self) -> str:
        if self._health is not Health.BUILDING:
            return self._reason
        segments, least = self._count_segments(), self._settings.min_segments
        if segments < least:
            return f"topics are looked for from {least} segments on; there {'is' if segments == 1 else 'are'} {segments}"
        return "topics are being looked for" if self._building.locked() else "topics are looked for within a minute"

    def _read_changed(self, limit: int) -> tuple[list[NodeId], Position]:
        nodes: dict[NodeId, None] = {}
        position, more = self._position, True
        while more and len(nodes) <= limit:
            changes = read_changes(self._storage, position)
            nodes |= dict.fromkeys(node for node in changes.nodes if is_segment(node))
            position, more = changes.position, changes.has_more
        return list(nodes), position

    def _count_pending(self) -> tuple[int, int]:
        version, placed = self._storage.toc.current_version(), self._position.outbox
        at = version, placed, self._manifest.number if self._manifest else 0
        if at != self._pending_counts[0]:
            segments = self._count_segments()
            waiting = self._read_changed(int(BEHIND * segments))[0] if version != placed else []
            pending_count = len(self._changed.union(waiting))
            self._pending_counts = at, (pending_count, segments) if pending_count else (0, 0)
        return self._pending_counts[1]

    def _place_changed(self) -> None:
        if self._graph is None or self._storage.toc.current_version() == self._position.outbox:
            return
        changed, position = self._read_changed(_PLACED)
        if len(changed) > _PLACED:
            return
        if changed:
            with span("topics_place"), metrics.timed("topics_place_latency_seconds"):
                documents = self._read_documents(changed)
                embedder = self._embedder()
                if embedder is None or not documents:
                    vectors = np.zeros((len(documents), 0 if embedder is None else embedder.dimensions), dtype=np.float32)
                else:
                    vectors = embedder.embed([d.gist for d in documents])
                self._graph = place_segments(self._graph, documents, vectors, changed)
        self._changed.update(changed)
        self._position = position

    def is_due(self) -> bool:
        """Return whether there is no current grouping, or much has changed."""
        if self._closed or self._building.locked() or time.monotonic() < self._retry_at:
            return False
        segments = self._count_segments()
        if segments < self._settings.min_segments:
            return False
        with self._lock:
            if self._health is Health.HEALTHY:
                self._check_files()
            try:
                manifest = self._manifest or self.folder.read_current()
            except IndexUnreadable:
                manifest = None
            if self._health is Health.UNHEALTHY or manifest is None or manifest.fingerprint != self._fingerprint():
                return True
            if self._position == Position():
                self._position = manifest.position
            if self._storage.toc.current_version() == self._position.outbox and not self._changed:
                return False
            least = max(min(_CHANGED, BEHIND * segments), _SHARE * segments)
            waiting, _ = self._read_changed(int(least) + len(self._changed))
            return len(self._changed.union(waiting)) >= least

    def begin_grouping(self) -> bool:
        """Start a grouping if one is due; return whether it did."""
        if not self.is_due():
            return False
        self.builder = threading.Thread(target=self._try_rebuild, name="grouping topics", daemon=True)
        self.builder.start()
        return True

    def _try_rebuild(self) -> None:
        try:
            self.rebuild()
        except Exception as error:
            self._retry_at = time.monotonic() + _RETRY
            self.last_error = str(error)
            if not self._closed:
                log.exception("topics could not be found; it is tried again")

    def rebuild(self) -> RebuildResult:
        """Group all segments in a child process; raises IndexNotReady if one runs."""
        if not self._building.acquire(blocking=False):
            raise IndexNotReady("topics are being looked for already", "That takes some seconds: retry then.")
        began = time.monotonic()
        try:
            turn = GROUPINGS.wait_turn(lambda: self._closed)
            with turn, span("topics_rebuild"), metrics.run("topics_rebuild"), few_collections():
                count = self._group_all()
            self.last_error, self._retry_at = "", 0.0
            self.last_rebuild_secs = time.monotonic() - began
            return RebuildResult(count, int(self.last_rebuild_secs * 1000))
        finally:
            self._building.release()

    def _group_all(self) -> int:
        with self._lock:
            self._check_files()
            names = self._graph.names if self._graph else ()
        # What is read later may be newer than this position, and is placed again then.
        last = self._storage.toc.current_version()
        position = Position(last, mark=change_subject(self._storage, last))
        fingerprint = self._fingerprint()
        embedder = self._embedder()
        self.folder.create_folders()
        token = f"t{time.time_ns():x}"
        name = f"{token}-1"
        self.folder.protected_prefixes.add(token)
        model = str(embedder.fingerprint()["folder"]) if embedder else ""
        child = self._child = Child("memory_mcp.indexes.topics.child", GroupingSetup(str(self.folder.shards_path / name), model))
        try:
            count: int = sum(added for _, added in feed([[child]], self._iter_documents()))
            at_ms = self._clock.now_ms()
            result: GroupingResult = child.ask(GroupingRequest(tuple(self._storage.topics.list_topics()), names, at_ms))
            failpoint("topics.grouped")
            self._storage.topics.replace_topics(result.records)
            failpoint("topics.known")
            entry = ShardEntry(name, result.files)
            number = self.folder.next_number()
            manifest = Manifest(number, self._store_id, fingerprint, position, (entry,), at_ms)
            with self._lock:
                self.folder.make_current(manifest)
                self._health = Health.LOADING
                self._load_graph()
                self.folder.remove_unused(manifest)
        finally:
            self._child = None
            child.end()
            self.folder.protected_prefixes.discard(token)
        return count

    def forget_if_affected(self, segments: Collection[int], holds: Callable[[str], bool]) -> bool:
        """Remove the graph if it has these segments or such a text.

        `segments` are keys. Returns whether there was one. Files that cannot be read are removed too. Raises
        IndexNotReady during a grouping.
        """
        if not self._building.acquire(blocking=False):
            raise IndexNotReady("topics are being looked for already", "That takes some seconds: retry then.")
        try:
            with self._lock:
                self._check_files()
                graph = self._graph
                changed = {segment_key_of(node) or 0 for node in self._changed}
                if graph is not None and changed.isdisjoint(segments) and not graph.is_affected(segments, holds):
                    return False
                shutil.rmtree(self.folder.directory, ignore_errors=True)
                self._health, self._reason, self._graph, self._manifest, self._stamps = Health.BUILDING, "", None, None, None
                self._position, self._changed = Position(), set()
                return graph is not None
        finally:
            self._building.release()

    def _iter_documents(self) -> Iterator[list[Document]]:
        ids = self._storage.toc.list_ids(TocLevel.SEGMENT)
        for start in range(0, len(ids), READ_BATCH):
            self._give_way()
            yield self._read_documents(ids[start : start + READ_BATCH])

    def _read_documents(self, ids: Sequence[NodeId]) -> list[Document]:
        nodes = self._storage.toc.get_nodes(ids)
        segments = self._storage.toc.get_segments([key for i in nodes if (key := segment_key_of(i)) is not None])
        pairs = ((node, segments.get(segment_key_of(i) or 0)) for i, node in nodes.items())
        return [document_of(node, segment) for node, segment in pairs if segment is not None]

    def close(self) -> None:
        """Abandon a running grouping and accept no other."""
        self._closed = True
        child = self._child
        if child is not None:
            child.end()
