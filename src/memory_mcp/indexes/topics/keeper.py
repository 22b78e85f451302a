"""Maintain the topic graph: read it, place new segments, detect damage, and group anew in a child process.

Nothing is loaded before topics are requested or a grouping is due. New segments are placed when topics are next requested;
the files stay as they were grouped, and placing again after a start gives the same result.
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
from memory_mcp.indexes.document import DOCUMENT_VERSION
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.follow import named, pending
from memory_mcp.indexes.generation import Home, Manifest, PartEntry, check_origin
from memory_mcp.indexes.keeper import Rebuilt
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import TopicsStatus
from memory_mcp.indexes.topics.documents import Document, document_of
from memory_mcp.indexes.topics.frames import Finish, Hello, Made
from memory_mcp.indexes.topics.graph import BEHIND, TopicGraph
from memory_mcp.indexes.topics.placing import place_segments
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.stored import FORMAT, read
from memory_mcp.indexes.turns import GROUPINGS
from memory_mcp.indexes.units import READ, is_segment
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId, segment_key_of
from memory_mcp.model.topic import TopicLabel
from memory_mcp.storage.base import Storage

log = logging.getLogger(__name__)

#: Version of the grouping: a change groups every memory anew.
VERSION = 3
#: Least number and share of new and changed segments for a new grouping, which `BEHIND` of them are in any case.
_CHANGED, _SHARE = 10, 0.02
#: Most changes placed during a request; more are left to the next grouping.
_PLACED = 512
#: Interval of checks of the files, and delay after a failed grouping (seconds).
_LOOK, _RETRY = 1.0, 60.0


class TopicKeeper:
    """Maintains the topic graph. Any thread may call it."""

    def __init__(
        self,
        storage: Storage,
        directory: Path,
        clock: Clock,
        settings: TopicsSettings,
        embedder: Callable[[], Embedder | None],
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep the graph in `directory`; `embedder` returns None to use terms alone; `give_way` is called before each read."""
        self._storage = storage
        self._store_id = storage.get_stats(text=False).store_id
        self.home = Home(directory)
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
        #: Version, position and generation at which segments behind were counted, and their numbers (see `_behind`).
        self._counted = (-1, -1, -1), (0, 0)
        self._looked = 0.0
        self._child: Child | None = None
        #: The thread of the last grouping that was begun in the background.
        self.builder: threading.Thread | None = None
        self._ended = False
        self._retry_at = 0.0
        #: The last embedded text: embedder, text, vector.
        self._asked: tuple[Embedder, str, Array] | None = None
        self.last_error = ""
        self.last_rebuild_secs: float | None = None

    def graph(self) -> TopicGraph:
        """Return the graph, changes placed if they are of up to 512 segments; raises IndexUnreadable with the reason if none."""
        with self._lock:
            self._look()
            if self._graph is None:
                raise IndexUnreadable(self._why_none())
            self._place()
            return self._graph

    def status(self) -> TopicsStatus:
        """Return the state of the graph, read from disk if not done yet; one that cannot be read is a message. Places nothing."""
        with self._lock:
            self._look()
            graph, manifest = self._graph, self._manifest
            if graph is None or manifest is None:
                status = TopicsStatus(True, healthy=False, message=self._why_none())
            else:
                behind, segments = self._behind()
                status = replace(
                    graph.status(behind, segments),
                    size_bytes=sum(f.size for p in manifest.parts for f in p.files.values()),
                    generation=manifest.number,
                    last_commit_ms=manifest.committed_ms,
                )
            return replace(status, last_error=self.last_error, last_rebuild_secs=self.last_rebuild_secs)

    def label(self, labels: Sequence[TopicLabel], unless: Callable[[TopicGraph], bool] = lambda _: False) -> bool:
        """Store labels unless `unless` is true of the current graph; return whether they were. IndexUnreadable for no graph."""
        with self._lock:
            if unless(self.graph()):
                return False
            for label in labels:
                self._storage.topics.set_label(label)
            self.reread()
            return True

    def reread(self) -> None:
        """Read topics' identities, labels and pins from the store again; nothing without a graph."""
        with self._lock:
            if self._graph is not None:
                self._graph = replace(self._graph, **self._known())

    def _look(self) -> None:
        """Read the files if not done yet; lose the graph if they changed since, checked once a second at most."""
        if self._health is Health.HEALTHY and time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            if self._manifest is None or self.home.stamps(self._manifest) != self._stamps:
                self._lose("its files were changed or removed from outside; it is built again")
        if self._health is Health.LOADING:
            self._load()

    def _load(self) -> None:
        """Read the graph from disk; without one the state is BUILDING, and any error loses the graph with a reason."""
        try:
            manifest = self.home.current()
            if manifest is None:
                self._health = Health.BUILDING
                return
            check_origin(
                manifest, self._store_id, self._storage.toc.current_version(), lambda change: named(self._storage, change)
            )
            if manifest.fingerprint != self._fingerprint() or len(manifest.parts) != 1:
                raise IndexUnreadable("it was built by another version or with other settings")
            entry = manifest.parts[0]
            stamps = self.home.stamps(manifest)
            stored = read(self.home.parts / entry.name, entry.files, self.home.directory)
        except IndexUnreadable as error:
            self._lose(error.message)
        except Exception as error:
            log.exception("the topic graph cannot be read; it is built again")
            self._lose(f"it cannot be read: {error}")
        else:
            self._manifest, self._stamps, self._position, self._changed = manifest, stamps, manifest.position, set()
            profiles = functools.cache(lambda: Profiles.of(stored.rows, len(stored.area_of)))
            columns = (stored.rows, stored.tables, stored.names, stored.area_of)
            known = self._known()
            self._graph = TopicGraph(*columns, **known, settings=self._settings, embed=self._vector, profiles=profiles)
            self._health, self._reason = Health.HEALTHY, ""

    def _lose(self, reason: str) -> None:
        """Log a reason, drop the graph, and answer with the reason in its place until it is read or grouped again."""
        log.warning("topic graph: %s", reason)
        self._health, self._reason, self._graph = Health.UNHEALTHY, reason, None

    def _known(self) -> dict[str, Any]:
        """Return identities by id (`known`), `labels` and `pins` from the store, as fields of a graph."""
        topics = self._storage.topics
        known = {topic.topic_id: topic for topic in topics.list_topics()}
        return {"known": known, "labels": tuple(topics.list_labels()), "pins": self._storage.toc.list_pins()}

    def _vector(self, text: str) -> Array | None:
        """Return the unit vector of a text, `(dimensions,)` float32, the last one cached; None without an embedder."""
        embedder = self._embedder()
        if embedder is None:
            return None
        # A query is compared with topics, areas and segments, but embedded once.
        cached = self._asked
        if cached is None or cached[0] is not embedder or cached[1] != text:
            cached = self._asked = embedder, text, embedder.embed([text])[0]
        return cached[2]

    def _fingerprint(self) -> dict[str, Any]:
        """Return format, version, documents and embedder, on which a grouping depends; the last without folder, {} for none."""
        embedder = self._embedder()
        fingerprint = embedder.fingerprint() if embedder else {}
        # Vectors do not depend on the model's folder.
        by = {name: value for name, value in fingerprint.items() if name != "folder"}
        return {"format": FORMAT, "version": VERSION, "documents": DOCUMENT_VERSION, "embedder": by}

    def _segments(self) -> int:
        """Return the number of segments in the store, of all days and projects, grouped or not."""
        return sum(count for _, count in self._storage.toc.count_segments_by_day())

    def _why_none(self) -> str:
        """Return why there is no graph: what is wrong with its files, too few segments, or that they are being grouped."""
        if self._health is not Health.BUILDING:
            return self._reason
        segments, least = self._segments(), self._settings.min_segments
        if segments < least:
            return f"topics are looked for from {least} segments on; there {'is' if segments == 1 else 'are'} {segments}"
        return "topics are being looked for" if self._building.locked() else "topics are looked for within a minute"

    def _waiting(self, limit: int) -> tuple[list[NodeId], Position]:
        """Return segments changed after the position, and the position reached; reading stops above `limit` of them."""
        nodes: dict[NodeId, None] = {}
        position, more = self._position, True
        while more and len(nodes) <= limit:
            changes = pending(self._storage, position)
            nodes |= dict.fromkeys(node for node in changes.nodes if is_segment(node))
            position, more = changes.position, changes.more
        return list(nodes), position

    def _behind(self) -> tuple[int, int]:
        """Return how many of how many segments changed since the grouping, placed or not; (0, 0) for none.

        Those that wait are read up to a tenth of the segments, and again when the store has changed.
        """
        version, placed = self._storage.toc.current_version(), self._position.outbox
        at = version, placed, self._manifest.number if self._manifest else 0
        if at != self._counted[0]:
            segments = self._segments()
            waiting = self._waiting(int(BEHIND * segments))[0] if version != placed else []
            behind = len(self._changed.union(waiting))
            self._counted = at, (behind, segments) if behind else (0, 0)
        return self._counted[1]

    def _place(self) -> None:
        """Place changed segments and move on, unless over 512 changed: these wait for a grouping. Nothing without a graph."""
        if self._graph is None or self._storage.toc.current_version() == self._position.outbox:
            return
        changed, position = self._waiting(_PLACED)
        if len(changed) > _PLACED:
            return
        if changed:
            with span("topics_place"), metrics.timed("topics_place_latency_seconds"):
                documents = self._documents(changed)
                embedder = self._embedder()
                if embedder is None or not documents:
                    vectors = np.zeros((len(documents), 0 if embedder is None else embedder.dimensions), dtype=np.float32)
                else:
                    vectors = embedder.embed([d.gist for d in documents])
                self._graph = place_segments(self._graph, documents, vectors, changed)
        self._changed.update(changed)
        self._position = position

    def due(self) -> bool:
        """Return whether a grouping is due: there is none, it was made otherwise, or much changed. Reads a manifest at most."""
        if self._ended or self._building.locked() or time.monotonic() < self._retry_at:
            return False
        segments = self._segments()
        if segments < self._settings.min_segments:
            return False
        with self._lock:
            if self._health is Health.HEALTHY:
                self._look()
            try:
                manifest = self._manifest or self.home.current()
            except IndexUnreadable:
                manifest = None
            if self._health is Health.UNHEALTHY or manifest is None or manifest.fingerprint != self._fingerprint():
                return True
            if self._position == Position():
                self._position = manifest.position
            if self._storage.toc.current_version() == self._position.outbox and not self._changed:
                return False
            least = max(min(_CHANGED, BEHIND * segments), _SHARE * segments)
            waiting, _ = self._waiting(int(least) + len(self._changed))
            return len(self._changed.union(waiting)) >= least

    def begin(self) -> bool:
        """Start a grouping in a thread if one is due; return whether it did. After an error the next is due a minute later."""
        if not self.due():
            return False
        self.builder = threading.Thread(target=self._try, name="grouping topics", daemon=True)
        self.builder.start()
        return True

    def _try(self) -> None:
        """Group anew; an error is logged and noted, and delays the next try by a minute. The body of the thread."""
        try:
            self.rebuild()
        except Exception as error:
            self._retry_at = time.monotonic() + _RETRY
            self.last_error = str(error)
            if not self._ended:
                log.exception("topics could not be found; it is tried again")

    def rebuild(self) -> Rebuilt:
        """Group anew in a child process; `documents` counts segments. Raises IndexNotReady if that is running already."""
        if not self._building.acquire(blocking=False):
            raise IndexNotReady("topics are being looked for already", "That takes some seconds: retry then.")
        began = time.monotonic()
        try:
            turn = GROUPINGS.turn(lambda: self._ended)
            with turn, span("topics_rebuild"), metrics.run("topics_rebuild"), few_collections():
                count = self._rebuild()
            self.last_error, self._retry_at = "", 0.0
            self.last_rebuild_secs = time.monotonic() - began
            return Rebuilt(count, int(self.last_rebuild_secs * 1000))
        finally:
            self._building.release()

    def _rebuild(self) -> int:
        """Do the work of `rebuild`; return the number of segments. The former graph is in use until the new one is read."""
        with self._lock:
            self._look()
            names = self._graph.names if self._graph else ()
        # What is read later may be newer than this position, and is placed again then.
        last = self._storage.toc.current_version()
        position = Position(last, mark=named(self._storage, last))
        fingerprint = self._fingerprint()
        embedder = self._embedder()
        self.home.prepare()
        token = f"t{time.time_ns():x}"
        name = f"{token}-1"
        self.home.building.add(token)
        model = str(embedder.fingerprint()["folder"]) if embedder else ""
        child = self._child = Child("memory_mcp.indexes.topics.child", Hello(str(self.home.parts / name), model))
        try:
            count: int = sum(feed([[child]], self._frames()))
            at_ms = self._clock.now_ms()
            result: Made = child.ask(Finish(tuple(self._storage.topics.list_topics()), names, at_ms))
            failpoint("topics.grouped")
            self._storage.topics.replace_topics(result.known)
            failpoint("topics.known")
            entry = PartEntry(name, result.files)
            number = self.home.next_number()
            manifest = Manifest(number, self._store_id, fingerprint, position, (entry,), at_ms)
            with self._lock:
                self.home.put(manifest)
                self._health = Health.LOADING
                self._load()
                self.home.sweep(manifest)
        finally:
            self._child = None
            child.end()
            self.home.building.discard(token)
        return count

    def forget(self, segments: Collection[int], holds: Callable[[str], bool]) -> bool:
        """Remove the graph if it has one of these segments (keys) or a text that `holds`.

        Return whether there was one. Files that cannot be read are removed too. Raises IndexNotReady during a grouping.
        """
        if not self._building.acquire(blocking=False):
            raise IndexNotReady("topics are being looked for already", "That takes some seconds: retry then.")
        try:
            with self._lock:
                self._look()
                graph = self._graph
                changed = {segment_key_of(node) or 0 for node in self._changed}
                if graph is not None and changed.isdisjoint(segments) and not graph.is_affected(segments, holds):
                    return False
                shutil.rmtree(self.home.directory, ignore_errors=True)
                self._health, self._reason, self._graph, self._manifest, self._stamps = Health.BUILDING, "", None, None, None
                self._position, self._changed = Position(), set()
                return graph is not None
        finally:
            self._building.release()

    def _frames(self) -> Iterator[list[Document]]:
        """Yield the documents of all segments, at most 192 at a time, giving way before each batch."""
        ids = self._storage.toc.list_ids(TocLevel.SEGMENT)
        for start in range(0, len(ids), READ):
            self._give_way()
            yield self._documents(ids[start : start + READ])

    def _documents(self, ids: Sequence[NodeId]) -> list[Document]:
        """Return the documents of those of these segments that have a node and a record in the store, in no particular order."""
        nodes = self._storage.toc.get_nodes(ids)
        segments = self._storage.toc.get_segments([key for i in nodes if (key := segment_key_of(i)) is not None])
        pairs = ((node, segments.get(segment_key_of(i) or 0)) for i, node in nodes.items())
        return [document_of(node, segment) for node, segment in pairs if segment is not None]

    def close(self) -> None:
        """Accept no grouping; a running one is abandoned, and started again by the next process."""
        self._ended = True
        child = self._child
        if child is not None:
            child.end()
