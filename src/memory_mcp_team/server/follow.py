"""Keeps the open memories of a server in step with what any server commits.

Invariants
1. A notice of the database is a hint; how far each memory got is read from it all the same, every second while it is used.
2. What the indexes lack meanwhile is searched event by event: an answer waits for none of this.
3. What was removed from a memory on any server is removed from the files of this one, too, whether the memory is open or not.
"""

import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.indexes.accelerators import NAMES
from memory_mcp_team.postgres.database import Bound, Database, Listener
from memory_mcp_team.server.host import connection_of
from memory_mcp_team.server.opened import Memory, MemoryKey, OpenMemories

log = logging.getLogger(__name__)

#: How often it is looked how far memories got, how long after its last use one is looked at, and between two rounds of the
#: indexes of one memory that has more to take in (seconds).
_LOOK, _USED, _TURN = 1.0, 60.0, 0.05
#: A memory that nothing is known to happen to is tended all the same so often (seconds): its files may have been changed.
_REST = 30.0
_HEADS = "SELECT space, last_event, last_change, resets FROM head WHERE tenant = %s"
#: How often folders of memories that are not open are looked at, though no notice came of them (seconds).
_SWEEP = 600.0
#: Upkeep of the indexes of each memory, by how often (seconds).
_COMMIT, _IMPROVE, _PRUNE = 60.0, 600.0, 86_400.0

#: How far a memory got: events, changes, resets.
Position = tuple[int, int, int]


class Follower:
    """Threads that follow the commits of all servers and maintain the indexes of the open memories."""

    def __init__(
        self, databases: "dict[bool, Database]", opened: OpenMemories, tenders: int, on_commit: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare the threads, of which `tenders` maintain indexes; `on_commit` is called for every commit that is heard of.

        `databases` has the primary under False, and the replica under True if there is one.
        """
        self._databases, self._opened, self._on_commit = databases, opened, on_commit
        self._listener = Listener(databases[False], self._note_commit)
        self._queue: queue.SimpleQueue[MemoryKey | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: set[MemoryKey] = set()
        self._seen: dict[MemoryKey, Position] = {}
        #: Memories that are not open and had a commit; and when all that are not open were looked at last.
        self._doubted: set[MemoryKey] = set()
        self._swept = float("-inf")
        #: When each memory was tended last, and each kind of upkeep done last.
        self._tended: dict[MemoryKey, float] = {}
        self._kept: dict[tuple[MemoryKey, str], float] = {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._loop, name="following", daemon=True)]
        self._threads += [threading.Thread(target=self._maintain_queued, name=f"tender {n}", daemon=True) for n in range(tenders)]
        self._tenders = tenders

    def start(self) -> None:
        """Start listening to the database, following and maintaining indexes, each in threads of its own."""
        self._listener.start()
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float) -> None:
        """Stop all threads, waiting no longer than `patience` seconds for them.

        Stop listening.
        """
        self._over.set()
        for _ in range(self._tenders):
            self._queue.put(None)
        until = time.monotonic() + patience
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        self._listener.stop()

    def _note_commit(self, tenant: int, space: int) -> None:
        """Take in a notice that something was committed in a space.

        Calls `on_commit`; for the open memories of the space (primary's and replica's) lets the head be read anew and, if the
        memory was ever read, asks for index upkeep. A closed memory with a folder is remembered, to be looked at for removals.
        """
        self._on_commit()
        for memory_key in (MemoryKey(tenant, space), MemoryKey(tenant, space, is_replica=True)):
            memory = self._opened.find(memory_key)
            if memory is not None:
                connection_of(memory.app).heard()
                if memory.is_read:
                    self._ask(memory_key)
            elif self._opened.noted(memory_key) is not None:
                with self._lock:
                    self._doubted.add(memory_key)

    def _ask(self, memory_key: MemoryKey) -> None:
        """Queue a memory for the upkeep of its indexes by the next free thread; does nothing if it is in the queue already."""
        with self._lock:
            if memory_key in self._waiting:
                return
            self._waiting.add(memory_key)
        self._queue.put(memory_key)

    def _loop(self) -> None:
        """Run `_look` every second until the end.

        Errors are logged and do not end it.
        """
        while not self._over.wait(_LOOK):
            try:
                self._look()
            except MemoryMcpError as error:
                log.debug("how far the memories got cannot be read: %s", error)
            except Exception:
                log.exception("following is interrupted; it goes on")

    def _look(self) -> None:
        """Find memories that changed or whose upkeep is due, and ask for their upkeep.

        Those read and used within 60 s are compared with the database, others are asked for every 30 s. Forgets the notes
        on memories that were closed, then has folders of closed memories looked at and memories beyond the bounds closed.
        """
        now = time.monotonic()
        memories = self._opened.all()
        used: dict[tuple[bool, int], list[Memory]] = defaultdict(list)
        for memory in memories:
            if memory.is_read and now - memory.used_at < _USED:
                used[memory.place.is_replica, memory.place.tenant].append(memory)
            elif now - self._tended.get(memory.place, 0.0) > _REST:
                self._ask(memory.place)
        for (is_replica, tenant), used_memories in used.items():
            self._compare(is_replica, tenant, used_memories)
        gone = set(self._tended) - {memory.place for memory in memories}
        for memory_key in gone:
            self._tended.pop(memory_key, None)
            self._seen.pop(memory_key, None)
        if gone:
            self._kept = {key: at for key, at in self._kept.items() if key[0] not in gone}
        self._remove_stale_folders()
        self._opened.close_unused()

    def _remove_stale_folders(self) -> None:
        """Remove folders of memories that are not open and whose space is gone or had something removed since they were closed.

        Looks at those a notice came for, every 600 s at all; again after a MemoryMcpError of the database, which is raised.
        """
        with self._lock:
            doubted, self._doubted = self._doubted, set()
        if time.monotonic() - self._swept > _SWEEP:
            self._swept = time.monotonic()
            doubted |= set(self._opened.list_closed())
        tenants: dict[tuple[bool, int], list[MemoryKey]] = defaultdict(list)
        for memory_key in doubted:
            tenants[memory_key.is_replica, memory_key.tenant].append(memory_key)
        try:
            for (is_replica, tenant), places in tenants.items():
                heads = self._read_heads(is_replica, tenant)
                for memory_key in places:
                    if memory_key.space not in heads or heads[memory_key.space][2] != self._opened.noted(memory_key):
                        self._opened.remove_folder(memory_key)
        except MemoryMcpError:
            with self._lock:
                self._doubted |= doubted
            raise

    def _read_heads(self, is_replica: bool, tenant: int) -> dict[int, Position]:
        if is_replica not in self._databases:
            return {}
        with self._databases[is_replica].connection(Bound(tenant)) as raw:
            return {int(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in raw.execute(_HEADS, [tenant]).fetchall()}

    def _compare(self, is_replica: bool, tenant: int, memories: list[Memory]) -> None:
        """Ask for upkeep of those of a tenant's memories that need it.

        A memory does if it got further, has something to be purged or work of its indexes left, or rested for 30 s.
        Memories whose space the database does not show are skipped.
        """
        heads = self._read_heads(is_replica, tenant)
        for memory in memories:
            position = heads.get(memory.place.space)
            if position is None:
                continue
            if position != self._seen.get(memory.place):
                self._seen[memory.place] = position
                connection_of(memory.app).heard()
                self._ask(memory.place)
                continue
            has_rested = time.monotonic() - self._tended.get(memory.place, 0.0) > _REST
            if position[2] != memory.resets or not memory.app.accelerators.is_idle or has_rested:
                self._ask(memory.place)

    def _maintain_queued(self) -> None:
        """Maintain queued memories until None comes.

        Skip closed ones, queue again those with more to do; errors are logged.
        """
        while (memory_key := self._queue.get()) is not None:
            with self._lock:
                self._waiting.discard(memory_key)
            try:
                with self._opened.held(memory_key) as memory:
                    if memory is not None and self._maintain_memory(memory):
                        self._ask(memory_key)
            except MemoryMcpError as error:
                log.warning("indexes wait for another round: %s", error)
            except Exception:
                log.exception("indexes could not be tended; they are tried again")

    def _maintain_memory(self, memory: Memory) -> bool:
        """Run one round of a memory's index upkeep.

        Return whether more is waiting.

        First removes from cached pages, indexes and topics what is gone since the last round. One never read gets no
        more.
        """
        accelerators = memory.app.accelerators
        self._tended[memory.place] = time.monotonic()
        resets = connection_of(memory.app).head().resets
        if resets != memory.resets:
            memory.app.engine.forget_pages()
            for name in NAMES:
                if accelerators.find_searcher(name) is not None:
                    accelerators.purge(name)
            if (topics := accelerators.find_topic_keeper()) is not None:
                # What it was that went is not known here: segments are grouped anew.
                topics.forget_if_affected((), lambda _: True)
            self._opened.mark_purged(memory, resets)
        if not memory.is_read:
            return False
        if accelerators.maintain():
            self._over.wait(_TURN)
            return not self._over.is_set()
        if not self._over.is_set():
            self._keep(memory)
        return False

    def _keep(self, memory: Memory) -> None:
        """Run the periodic upkeep of indexes that have nothing to take in, each kind at its own interval.

        Commit and topics every 60 s, improve every 600 s, prune daily; first one interval after the memory's first round.
        """
        accelerators = memory.app.accelerators
        kinds: dict[str, tuple[float, Callable[[], object]]] = {
            "commit": (_COMMIT, lambda: accelerators.commit(False)),
            "improve": (_IMPROVE, accelerators.improve),
            "prune": (_PRUNE, accelerators.prune_due),
            "topics": (_COMMIT, accelerators.group_topics),
        }
        for name, (seconds, act) in kinds.items():
            key, now = (memory.place, name), time.monotonic()
            if now - self._kept.setdefault(key, now) > seconds:
                self._kept[key] = now
                act()
