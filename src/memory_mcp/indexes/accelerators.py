"""The indexes of one open memory: opened, maintained and closed together.

No engine is loaded before an index is first used. If an engine cannot be loaded, its layer is unavailable.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, LayerUnavailable
from memory_mcp.embed.models import Model, locate_model, resolve_model
from memory_mcp.indexes.base import Health, IndexStatus, Searcher
from memory_mcp.indexes.settings import TeleportSettings, TopicsSettings, age_cutoffs, requested_cutoffs
from memory_mcp.storage.base import Storage

if TYPE_CHECKING:
    from memory_mcp.embed.base import Embedder
    from memory_mcp.indexes.bm25.index import Bm25Index
    from memory_mcp.indexes.keeper import Keeper, RebuildResult
    from memory_mcp.indexes.topics.keeper import TopicKeeper
    from memory_mcp.indexes.topics.labelling import Labeller
    from memory_mcp.indexes.vector.index import VectorIndex

log = logging.getLogger(__name__)

#: All indexes, in the order in which they are maintained.
NAMES = ("bm25", "vector")


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """The embedding model in use, and how many documents it embedded."""

    model: Model
    dimensions: int
    #: Digest of the model's files.
    digest: str
    #: Folder of the former model, whose vectors are searched until this one has embedded everything; "" afterwards.
    served_by: str
    documents: int
    #: Documents of which the model knows no word: only the keyword index finds them.
    unknown: int

    @property
    def unknown_share(self) -> float:
        """Share of documents without a word the model knows, 0..1."""
        return self.unknown / self.documents if self.documents else 0.0

    @property
    def remark(self) -> str:
        """What is unusual, in words joined by "; "; "" for nothing."""
        remarks = []
        if self.served_by:
            remarks.append(f"embedding again with {self.model.name}, the old index serves")
        if self.unknown:
            remarks.append(f"{self.unknown:,} of {self.documents:,} documents ({self.unknown_share:.1%}) are left to keywords")
        return "; ".join(remarks)


class Accelerators:
    """All indexes that are switched on; any thread may call it."""

    def __init__(
        self,
        settings: TeleportSettings,
        topics: TopicsSettings,
        model: str,
        storage: Storage,
        directory: Path | None,
        clock: Clock,
        give_way: Callable[[], object] = lambda: None,
        is_maintained: bool = False,
    ) -> None:
        """Create the set of indexes; none is opened yet.

        `model` is the name or folder of the embedding model, `directory` the data directory (None: a memory without
        indexes). `give_way` is called between steps of long work. Unless `is_maintained`, an index is read from disk
        when first used.
        """
        self._settings, self._topics = settings, topics
        self._topic_keeper: TopicKeeper | None = None
        self._model = model
        self._storage, self._directory = storage, directory
        self._clock = clock
        self._searchers: dict[str, Searcher | None] = {}
        self._open_lock, self._following = threading.Lock(), threading.Lock()
        self._improve_thread: threading.Thread | None = None
        self._closed = False
        #: The model that was loaded before the first question needed it.
        self._warm_embedder: Embedder | None = None
        self._warm_once = threading.Event()
        self._warm_thread: threading.Thread | None = None
        #: Reasons by name why an index that is switched on cannot be used.
        self.reasons: dict[str, str] = {}
        self._is_maintained = is_maintained
        self._give_way = give_way

    def disabling_settings(self, name: str) -> list[str]:
        """Return settings that are false and keep an index off."""
        index_settings = self._settings.bm25 if name == "bm25" else self._settings.vector
        switches = {"teleport.enabled": self._settings.enabled, f"teleport.{name}.enabled": index_settings.enabled}
        return [key for key, on in switches.items() if not on]

    def is_enabled(self, name: str) -> bool:
        """Return whether an index is on and the memory has a directory."""
        return self._directory is not None and not self.disabling_settings(name)

    def find_searcher(self, name: str) -> Searcher | None:
        """Return an index, opened on first use; None if unusable (`reasons`)."""
        with self._open_lock:
            if name not in self._searchers:
                self._searchers[name] = self._open_searcher(name) if self.is_enabled(name) else None
            return self._searchers[name]

    @property
    def keyword_index(self) -> "Bm25Index | None":
        """The keyword index, None if unusable."""
        return cast("Bm25Index | None", self.find_searcher("bm25"))

    def _open_searcher(self, name: str) -> Searcher | None:
        try:
            searcher = self._create_searcher(name)
        except LayerUnavailable as error:
            self.reasons[name] = f"{error.message}. {error.hint}".rstrip(". ")
            return None
        except ImportError as error:
            self.reasons[name] = f"{error.name} is not installed"
            log.warning("the %s layer cannot be used: %s is not installed", name, error.name)
            return None
        if not self._is_maintained:
            searcher.keeper.load()
        return searcher

    def _create_searcher(self, name: str) -> Searcher:
        """Raises LayerUnavailable without a usable model, ImportError without the engine."""
        from memory_mcp.indexes.build import ShardBuilder
        from memory_mcp.indexes.keeper import Keeper
        from memory_mcp.indexes.live import LiveIndex
        from memory_mcp.indexes.registry import KINDS, SEARCHERS

        assert self._directory is not None
        options = {"model": ""}
        if name == "vector":
            if not self._model:
                raise LayerUnavailable("no model: embedder.model is empty")
            options["model"] = str(locate_model(self._model, self._directory).folder)
        path = self._settings.bm25.index_path if name == "bm25" else ""
        folder = Path(path).expanduser() if path else self._directory / "indexes" / name
        if path:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store_id = self._storage.get_stats(text=False).store_id
        index: LiveIndex[Any] = LiveIndex(KINDS[name](options), folder, store_id, self._clock)
        keeper = Keeper(self._storage, index, ShardBuilder(index, options, self._settings.bm25.memory_budget_mb), self._give_way)
        return SEARCHERS[name](keeper)

    @property
    def keepers(self) -> "dict[str, Keeper]":
        """Maintainers of all usable indexes by name; opens missing ones."""
        return {n: s.keeper for n in NAMES if (s := self.find_searcher(n)) is not None}

    def get_keeper(self, name: str) -> "Keeper":
        """Return an index's maintainer; raises InvalidQuery, LayerUnavailable."""
        if name not in NAMES:
            raise InvalidQuery(f"unknown index: {name!r}", f"Indexes are {', '.join(NAMES)}.")
        searcher = self.find_searcher(name)
        if searcher is None:
            message = f"{'BM25' if name == 'bm25' else 'Vector'} index not enabled"
            reason = self.reasons.get(name)
            keys = " and ".join(f"{key} = true" for key in self.disabling_settings(name))
            raise LayerUnavailable(message, f"{reason[0].upper()}{reason[1:]}." if reason else f"Enable with {keys}.")
        keeper: Keeper = searcher.keeper
        return keeper

    @property
    def embedder_name(self) -> str:
        """Name of the embedding model, or of its folder; "none" without."""
        if self.find_searcher("vector") is None:
            return "none"
        model = resolve_model(self._model, self._directory)
        return model.folder.name if model.kind == "folder" else model.name

    def explain_no_topics(self) -> tuple[bool, str, str]:
        """Return whether topics are on, why none, and what enables them."""
        if self._topics.enabled:
            return True, "a memory without a directory keeps no index", ""
        return False, "disabled (topics.enabled = false)", "topics.enabled = true"

    def find_topic_keeper(self) -> "TopicKeeper | None":
        """Return the maintainer of topics; None if off."""
        if self._directory is None or not self._topics.enabled:
            return None
        with self._open_lock:
            if self._topic_keeper is None:
                from memory_mcp.indexes.topics.keeper import TopicKeeper

                folder = self._directory / "indexes" / "topics"
                self._topic_keeper = TopicKeeper(
                    self._storage, folder, self._clock, self._topics, self._embedding_model, self._give_way
                )
            return self._topic_keeper

    def create_labeller(self) -> "Labeller | None":
        """Return a new `Labeller`; None without topics."""
        keeper = self.find_topic_keeper()
        if keeper is None:
            return None
        from memory_mcp.indexes.topics.labelling import Labeller

        return Labeller(keeper, self._storage, self._clock)

    def group_topics(self) -> bool:
        """Begin a grouping if one is due and no index is busy."""
        keeper = None if self.is_busy else self.find_topic_keeper()
        return keeper is not None and keeper.begin_grouping()

    def _embedding_model(self) -> "Embedder | None":
        searcher = cast("VectorIndex | None", self.find_searcher("vector"))
        return None if searcher is None else searcher.embedder

    def describe_embedding(self) -> EmbeddingInfo | None:
        """Return the embedding model with its numbers; None without one."""
        searcher = cast("VectorIndex | None", self.find_searcher("vector"))
        if searcher is None:
            return None
        fingerprint = searcher.embedder.fingerprint()
        serving = searcher.serving_embedder
        return EmbeddingInfo(
            model=resolve_model(self._model, self._directory),
            dimensions=fingerprint["dimensions"],
            digest=fingerprint["digest"],
            served_by=str(serving.fingerprint()["folder"]) if serving is not searcher.embedder else "",
            documents=searcher.keeper.status().documents,
            unknown=searcher.count_unknown(),
        )

    def index_statuses(self) -> dict[str, IndexStatus]:
        """Return the state of every usable index, by name."""
        return {name: keeper.status() for name, keeper in self.keepers.items()}

    def load(self) -> None:
        """Read indexes and the embedding model; questions wait for that."""
        for keeper in self.keepers.values():
            keeper.load_once()
        self._warm_model()

    def maintain(self) -> bool:
        """Do one round of upkeep; return whether changes wait."""
        from memory_mcp.indexes.follow import ChangedUnits

        self.load()
        with self._following:
            missing = [keeper for keeper in self.keepers.values() if keeper.needs_rebuild]
            if len(missing) > 1:
                missing[0].begin_rebuild_with(missing[1:])
            far = [keeper for keeper in self.keepers.values() if keeper.needs_bulk_follow]
            if len(far) > 1:
                far[0].follow_with(far[1:])
            changed = ChangedUnits(self._storage)
            waiting = [keeper.maintain(changed) for keeper in self.keepers.values()]
        self._warm_model()
        return any(waiting)

    def _warm_model(self) -> None:
        """Load the model that searches use: a question would wait .3 s."""
        serving = self._serving_embedder()
        if serving is None or serving is self._warm_embedder:
            return
        if self._warm_embedder is not None:
            self._give_way()
        try:
            serving.embed(["ready"])
        except LayerUnavailable as error:
            log.warning("the embedding model cannot be used: %s", error)
        finally:
            self._warm_embedder = serving
            self._warm_once.set()

    def _serving_embedder(self) -> "Embedder | None":
        searcher = cast("VectorIndex | None", self._searchers.get("vector"))
        return searcher.serving_embedder if searcher is not None and searcher.keeper.index.position.outbox else None

    def wait_loaded(self, seconds: float) -> float:
        """Wait until indexes and model are read; return the seconds waited.

        An index that is being built or is damaged is not waited for; none is unless `is_maintained`.
        """
        began = time.monotonic()
        for keeper in self.keepers.values() if self._is_maintained else ():
            if keeper.index.health is Health.LOADING:
                keeper.index.wait_loaded(max(0.0, began + seconds - time.monotonic()))
        if self._is_maintained and self._warm_embedder is None and self._serving_embedder() is not None:
            # An index may have been built by another process: no other call may load the model for a while.
            self._begin_warming()
            self._warm_once.wait(max(0.0, began + seconds - time.monotonic()))
        return time.monotonic() - began

    def _begin_warming(self) -> None:
        with self._open_lock:
            if self._warm_thread is None or not self._warm_thread.is_alive():
                self._warm_thread = threading.Thread(target=self._warm_model, name="warming", daemon=True)
                self._warm_thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether an index is being built or has changes; opens none."""
        return any(s is not None and s.keeper.is_busy for s in list(self._searchers.values()))

    def remaining_work(self, change: int) -> tuple[int, int] | None:
        """Return units done and in all until a change is indexed, or None."""
        work_by_index = [work for keeper in self.keepers.values() if (work := keeper.remaining_work(change)) is not None]
        return (sum(done for done, _ in work_by_index), sum(total for _, total in work_by_index)) if work_by_index else None

    @property
    def is_idle(self) -> bool:
        """Whether everything stored is indexed and committed."""
        return all(keeper.is_idle for keeper in self.keepers.values())

    def catch_up(self) -> None:
        """Bring every index up to date while the caller waits.

        Raises IndexNotReady if an index must be built and a build is running.
        """
        with self._following:
            for keeper in self.keepers.values():
                keeper.catch_up()

    def purge(self, name: str) -> None:
        """Remove all bytes of dropped documents from one index, and wait.

        Raises as `get_keeper`, and IndexNotReady.
        """
        keeper = self.get_keeper(name)
        with self._following:
            keeper.purge()

    def commit(self, few: bool = True) -> int:
        """Write changes to disk; return how many indexes wrote. Raises OSError."""
        return sum(keeper.commit(few) for keeper in self.keepers.values())

    def improve(self) -> bool:
        """Start rewriting indexes in a faster form, unless that runs."""
        if self._improve_thread is not None and self._improve_thread.is_alive():
            return False
        self._improve_thread = threading.Thread(target=self._improve_all, name="improving", daemon=True)
        self._improve_thread.start()
        return True

    def _improve_all(self) -> None:
        try:
            for name in NAMES:
                searcher = self.find_searcher(name)
                if searcher is not None:
                    searcher.improve_shards(lambda: not self._closed and not self.is_busy)
        except Exception:
            log.exception("an index could not be made faster; it is tried again")

    def rebuild(self, name: str, on_progress: Callable[[int], None] = lambda _: None) -> "RebuildResult":
        """Rebuild one index from the store.

        Documents dropped by age come back until retention runs. `on_progress` gets the documents so far. Raises as
        `get_keeper`, IndexNotReady if it is being built.
        """
        return self.get_keeper(name).rebuild(on_progress, keep_cutoffs=False)

    def prune_due(self) -> dict[str, dict[str, int]]:
        """Drop documents older than the settings allow; return counts by level.

        {} for an index where none is due. Committed on return. Raises OSError.
        """
        pruned, settings = {}, self._settings.bm25
        for name, keeper in self.keepers.items():
            status = keeper.status()
            if status.ready:
                due = age_cutoffs(settings.retention_days, self._clock.now_ms(), status.documents, settings.retention_min_docs)
                pruned[name] = keeper.index.prune(due) if due else {}
        return pruned

    def prune(self, name: str, age_days: int, level: str) -> Mapping[str, int]:
        """Drop documents older than `age_days` from one index, by level.

        `level` is segment, day, week or all. Raises InvalidQuery for another level or name or an age below 1,
        LayerUnavailable when the index is off, IndexUnreadable when it is unusable, OSError. Committed on return.
        """
        cutoffs = requested_cutoffs(age_days, level, self._clock.now_ms())
        return self.get_keeper(name).index.prune(cutoffs)

    def close(self) -> None:
        """Commit and close everything; a failed commit is logged."""
        self._closed = True
        if self._topic_keeper is not None:
            self._topic_keeper.close()
        for searcher in self._searchers.values():
            if searcher is not None:
                searcher.keeper.close()
