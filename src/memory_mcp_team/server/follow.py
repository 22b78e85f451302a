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
from memory_mcp_team.postgres.database import Binding, Database, Listener
from memory_mcp_team.server.host import get_connection
from memory_mcp_team.server.open_memories import MemoryKey, OpenMemories, OpenMemory

log = logging.getLogger(__name__)

#: How often it is looked how far memories got, how long after its last use one is looked at, and between two rounds of the
#: indexes of one memory that has more to take in (seconds).
_LOOK, _USED, _TURN = 1.0, 60.0, 0.05
#: A memory that nothing is known to happen to is maintained all the same so often (seconds): its files may have been changed.
_REST = 30.0
_HEADS = "SELECT space, last_event, last_change, resets FROM head WHERE tenant = %s"
#: How often folders of memories that are not open are looked at, though no notice came of them (seconds).
_SWEEP = 600.0
#: Upkeep of the indexes of each memory, by how often (seconds).
_COMMIT, _IMPROVE, _PRUNE = 60.0, 600.0, 86_400.0

#: How far a memory got: events, changes, resets.
Position = tuple[int, int, int]


class Follower:
    """Threads that follow all servers' commits and maintain open indexes."""

    def __init__(
        self, databases: "dict[bool, Database]", opened: OpenMemories, tenders: int, on_commit: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare the threads, of which `tenders` maintain indexes.

        `databases` has the primary under False, and the replica under True if there is one. `on_commit` is called for
        every commit.
        """
        self._databases, self._opened, self._on_commit = databases, opened, on_commit
        self._listener = Listener(databases[False], self._note_commit)
        self._queue: queue.SimpleQueue[MemoryKey | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._queued_keys: set[MemoryKey] = set()
        self._known_positions: dict[MemoryKey, Position] = {}
        #: Memories that are not open and had a commit; and when all that are not open were looked at last.
        self._doubted_keys: set[MemoryKey] = set()
        self._swept_at = float("-inf")
        #: When each memory was maintained last, and each kind of upkeep done last.
        self._maintained_at: dict[MemoryKey, float] = {}
        self._upkeep_at: dict[tuple[MemoryKey, str], float] = {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run_loop, name="following", daemon=True)]
        self._threads += [threading.Thread(target=self._maintain_queued, name=f"tender {n}", daemon=True) for n in range(tenders)]
        self._maintainers = tenders

    def start(self) -> None:
        """Start listening, following and maintaining, each in its own threads."""
        self._listener.start()
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float) -> None:
        """Stop all threads, waiting up to `patience` seconds for them."""
        self._over.set()
        for _ in range(self._maintainers):
            self._queue.put(None)
        until = time.monotonic() + patience
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        self._listener.stop()

    def _note_commit(self, tenant: int, space: int) -> None:
        """Note a commit in a space."""
        self._on_commit()
        for memory_key in (MemoryKey(tenant, space), MemoryKey(tenant, space, is_replica=True)):
            memory = self._opened.find_open(memory_key)
            if memory is not None:
                get_connection(memory.app).expire_head()
                if memory.is_read:
                    self._queue_upkeep(memory_key)
            elif self._opened.get_noted_resets(memory_key) is not None:
                with self._lock:
                    self._doubted_keys.add(memory_key)

    def _queue_upkeep(self, memory_key: MemoryKey) -> None:
        with self._lock:
            if memory_key in self._queued_keys:
                return
            self._queued_keys.add(memory_key)
        self._queue.put(memory_key)

    def _run_loop(self) -> None:
        while not self._over.wait(_LOOK):
            try:
                self._look_for_work()
            except MemoryMcpError as error:
                log.debug("how far the memories got cannot be read: %s", error)
            except Exception:
                log.exception("following is interrupted; it goes on")

    def _look_for_work(self) -> None:
        """Queue the memories that changed or whose upkeep is due.

        Those read and used within 60 s are compared with the database, others are queued every 30 s.
        """
        now = time.monotonic()
        memories = self._opened.list_open()
        used: dict[tuple[bool, int], list[OpenMemory]] = defaultdict(list)
        for memory in memories:
            if memory.is_read and now - memory.used_at < _USED:
                used[memory.key.is_replica, memory.key.tenant].append(memory)
            elif now - self._maintained_at.get(memory.key, 0.0) > _REST:
                self._queue_upkeep(memory.key)
        for (is_replica, tenant), used_memories in used.items():
            self._compare_heads(is_replica, tenant, used_memories)
        gone = set(self._maintained_at) - {memory.key for memory in memories}
        for memory_key in gone:
            self._maintained_at.pop(memory_key, None)
            self._known_positions.pop(memory_key, None)
        if gone:
            self._upkeep_at = {key: at for key, at in self._upkeep_at.items() if key[0] not in gone}
        self._remove_stale_folders()
        self._opened.close_unused()

    def _remove_stale_folders(self) -> None:
        """Remove folders of closed memories that may hold what was removed.

        Looks at those that a notice came for, every 600 s at all.
        """
        with self._lock:
            doubted, self._doubted_keys = self._doubted_keys, set()
        if time.monotonic() - self._swept_at > _SWEEP:
            self._swept_at = time.monotonic()
            doubted |= set(self._opened.list_closed())
        tenants: dict[tuple[bool, int], list[MemoryKey]] = defaultdict(list)
        for memory_key in doubted:
            tenants[memory_key.is_replica, memory_key.tenant].append(memory_key)
        try:
            for (is_replica, tenant), places in tenants.items():
                heads = self._read_heads(is_replica, tenant)
                for memory_key in places:
                    if memory_key.space not in heads or heads[memory_key.space][2] != self._opened.get_noted_resets(memory_key):
                        self._opened.remove_folder(memory_key)
        except MemoryMcpError:
            with self._lock:
                self._doubted_keys |= doubted
            raise

    def _read_heads(self, is_replica: bool, tenant: int) -> dict[int, Position]:
        if is_replica not in self._databases:
            return {}
        with self._databases[is_replica].lend_connection(Binding(tenant)) as raw:
            return {int(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in raw.execute(_HEADS, [tenant]).fetchall()}

    def _compare_heads(self, is_replica: bool, tenant: int, memories: list[OpenMemory]) -> None:
        """Queue those of a tenant's memories that need upkeep."""
        heads = self._read_heads(is_replica, tenant)
        for memory in memories:
            position = heads.get(memory.key.space)
            if position is None:
                continue
            if position != self._known_positions.get(memory.key):
                self._known_positions[memory.key] = position
                get_connection(memory.app).expire_head()
                self._queue_upkeep(memory.key)
                continue
            has_rested = time.monotonic() - self._maintained_at.get(memory.key, 0.0) > _REST
            if position[2] != memory.resets or not memory.app.accelerators.is_idle or has_rested:
                self._queue_upkeep(memory.key)

    def _maintain_queued(self) -> None:
        while (memory_key := self._queue.get()) is not None:
            with self._lock:
                self._queued_keys.discard(memory_key)
            try:
                with self._opened.keep_open(memory_key) as memory:
                    if memory is not None and self._maintain_memory(memory):
                        self._queue_upkeep(memory_key)
            except MemoryMcpError as error:
                log.warning("indexes wait for another round: %s", error)
            except Exception:
                log.exception("indexes could not be maintained; they are tried again")

    def _maintain_memory(self, memory: OpenMemory) -> bool:
        """Run one round of index upkeep; return whether more waits.

        What is gone since the last round is removed first.
        """
        accelerators = memory.app.accelerators
        self._maintained_at[memory.key] = time.monotonic()
        resets = get_connection(memory.app).get_head().resets
        if resets != memory.resets:
            memory.app.engine.forget_pages()
            for name in NAMES:
                if accelerators.find_searcher(name) is not None:
                    accelerators.purge(name)
            if (topics := accelerators.find_topic_keeper()) is not None:
                # What it was that went is not known here: segments are grouped again.
                topics.forget_if_affected((), lambda _: True)
            self._opened.mark_purged(memory, resets)
        if not memory.is_read:
            return False
        if accelerators.maintain():
            self._over.wait(_TURN)
            return not self._over.is_set()
        if not self._over.is_set():
            self._run_upkeep(memory)
        return False

    def _run_upkeep(self, memory: OpenMemory) -> None:
        """Run the periodic upkeep of idle indexes."""
        accelerators = memory.app.accelerators
        kinds: dict[str, tuple[float, Callable[[], object]]] = {
            "commit": (_COMMIT, lambda: accelerators.commit(False)),
            "improve": (_IMPROVE, accelerators.improve),
            "prune": (_PRUNE, accelerators.prune_due),
            "topics": (_COMMIT, accelerators.group_topics),
        }
        for name, (seconds, act) in kinds.items():
            key, now = (memory.key, name), time.monotonic()
            if now - self._upkeep_at.setdefault(key, now) > seconds:
                self._upkeep_at[key] = now
                act()
