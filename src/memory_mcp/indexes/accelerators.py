"""The indexes of one open memory: made from the settings, looked after together, and let go in order.

No engine is loaded before an index is first asked for; one that cannot be loaded is a layer that cannot be used.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memory_mcp.clock import Clock
from memory_mcp.embed.models import Model, located, named
from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.indexes import retention
from memory_mcp.indexes.base import Health, IndexStatus, Searcher
from memory_mcp.indexes.settings import TeleportSettings, TopicsSettings
from memory_mcp.storage.base import Storage

if TYPE_CHECKING:
    from memory_mcp.embed.base import Embedder
    from memory_mcp.indexes.keeper import Keeper, Rebuilt
    from memory_mcp.indexes.topics.keeper import TopicKeeper
    from memory_mcp.indexes.topics.labelling import Labeller
    from memory_mcp.indexes.vector.index import VectorIndex

log = logging.getLogger(__name__)

#: The indexes there can be, in the order they are looked after.
NAMES = ("bm25", "vector")


@dataclass(frozen=True, slots=True)
class Embedding:
    """What embeds, and how much of the memory it embedded."""

    model: Model
    dimensions: int
    #: Of the model's files.
    digest: str
    #: Folder of the model that made what is searched now, while this one takes its place; "": this one did.
    served_by: str
    documents: int
    #: Documents most of whose words the model does not know: left to the layers that look for words.
    unknown: int

    @property
    def unknown_share(self) -> float:
        """Of all documents."""
        return self.unknown / self.documents if self.documents else 0.0

    @property
    def remark(self) -> str:
        """What there is to say of it beside a healthy index, "" for nothing."""
        told = []
        if self.served_by:
            told.append(f"embedding anew with {self.model.name}, the old index serves")
        if self.unknown:
            told.append(f"{self.unknown:,} of {self.documents:,} documents ({self.unknown_share:.1%}) are left to keywords")
        return "; ".join(told)


class Accelerators:
    """Every index that is switched on."""

    def __init__(
        self,
        settings: TeleportSettings,
        topics: TopicsSettings,
        model: str,
        storage: Storage,
        directory: Path | None,
        clock: Clock,
        give_way: Callable[[], None] = lambda: None,
        tended: bool = False,
    ) -> None:
        """Keep what `settings` switch on.

        Args:
            settings: Of both indexes.
            topics: Of the topic graph.
            model: Name or folder of the embedding model.
            storage: What is indexed.
            directory: Data directory; None keeps no index.
            clock: Tells ages.
            give_way: Waits while callers are answered.
            tended: Whether `tend` is called again and again; without, an index is read when it is first asked for.

        """
        self._settings, self._topics = settings, topics
        self._topic_keeper: TopicKeeper | None = None
        self._model = model
        self._storage, self._directory = storage, directory
        self._clock = clock
        self._searchers: dict[str, Searcher | None] = {}
        self._making, self._following = threading.Lock(), threading.Lock()
        self._improving: threading.Thread | None = None
        self._closed = False
        #: The model that was loaded ahead of the first question.
        self._warmed: Embedder | None = None
        self._warm_once = threading.Event()
        #: Why an index that is switched on is not there.
        self.reasons: dict[str, str] = {}
        self._tended = tended
        self._give_way = give_way

    def switched_off(self, name: str) -> list[str]:
        """Settings that keep an index off."""
        own = self._settings.bm25 if name == "bm25" else self._settings.vector
        switches = {"teleport.enabled": self._settings.enabled, f"teleport.{name}.enabled": own.enabled}
        return [key for key, on in switches.items() if not on]

    def enabled(self, name: str) -> bool:
        """Whether the settings want it."""
        return self._directory is not None and not self.switched_off(name)

    def searcher(self, name: str) -> Searcher | None:
        """An index, made when it is first asked for; None when it is off or cannot be had (see `reasons`)."""
        with self._making:
            if name not in self._searchers:
                self._searchers[name] = self._made(name) if self.enabled(name) else None
            return self._searchers[name]

    def _made(self, name: str) -> Searcher | None:
        try:
            found = self._make(name)
        except LayerUnavailable as error:
            self.reasons[name] = f"{error.message}. {error.hint}".rstrip(". ")
            return None
        except ImportError as error:
            self.reasons[name] = f"{error.name} is not installed"
            log.warning("the %s layer cannot be used: %s is not installed", name, error.name)
            return None
        if not self._tended:
            found.keeper.load()
        return found

    def _make(self, name: str) -> Searcher:
        from memory_mcp.indexes.build import Workshop
        from memory_mcp.indexes.keeper import Keeper
        from memory_mcp.indexes.live import LiveIndex
        from memory_mcp.indexes.registry import KINDS, SEARCHERS

        assert self._directory is not None
        options = {"model": ""}
        if name == "vector":
            if not self._model:
                raise LayerUnavailable("no model: embedder.model is empty")
            options["model"] = str(located(self._model, self._directory).folder)
        path = self._settings.bm25.index_path if name == "bm25" else ""
        folder = Path(path).expanduser() if path else self._directory / "indexes" / name
        if path:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store_id = self._storage.stats(text=False).store_id
        index: LiveIndex[Any] = LiveIndex(KINDS[name](options), folder, store_id, self._clock)
        keeper = Keeper(self._storage, index, Workshop(index, options, self._settings.bm25.memory_budget_mb), self._give_way)
        return SEARCHERS[name](keeper)

    @property
    def keepers(self) -> "dict[str, Keeper]":
        """Of every index that is there."""
        return {n: s.keeper for n in NAMES if (s := self.searcher(n)) is not None}

    def keeper(self, name: str) -> "Keeper":
        """Of one index; InvalidQuery for an unknown name, LayerUnavailable when it is off."""
        if name not in NAMES:
            raise InvalidQuery(f"unknown index: {name!r}", f"Indexes are {', '.join(NAMES)}.")
        searcher = self.searcher(name)
        if searcher is None:
            message = f"{'BM25' if name == 'bm25' else 'Vector'} index not enabled"
            reason = self.reasons.get(name)
            keys = " and ".join(f"{key} = true" for key in self.switched_off(name))
            raise LayerUnavailable(message, f"{reason[0].upper()}{reason[1:]}." if reason else f"Enable with {keys}.")
        found: Keeper = searcher.keeper
        return found

    @property
    def embedder(self) -> str:
        """The model that embeds, by its name or its folder's; none where there is none."""
        if self.searcher("vector") is None:
            return "none"
        model = named(self._model, self._directory)
        return model.folder.name if model.kind == "folder" else model.name

    def no_topics(self) -> tuple[bool, str, str]:
        """Return whether topics are switched on, why there are none all the same, and the setting that would change that."""
        if self._topics.enabled:
            return True, "a memory without a directory keeps no index", ""
        return False, "disabled (topics.enabled = false)", "topics.enabled = true"

    def topics(self) -> "TopicKeeper | None":
        """What looks after the topic graph, made when it is first asked for; None where there is none (see `no_topics`)."""
        if self._directory is None or not self._topics.enabled:
            return None
        with self._making:
            if self._topic_keeper is None:
                from memory_mcp.indexes.topics.keeper import TopicKeeper

                folder = self._directory / "indexes" / "topics"
                self._topic_keeper = TopicKeeper(
                    self._storage, folder, self._clock, self._topics, self._embedding_model, self._give_way
                )
            return self._topic_keeper

    def labeller(self) -> "Labeller | None":
        """What has topics named by a language model; None where there are no topics."""
        keeper = self.topics()
        if keeper is None:
            return None
        from memory_mcp.indexes.topics.labelling import Labeller

        return Labeller(keeper, self._storage, self._clock)

    def group_topics(self) -> bool:
        """Start a new grouping when one is due and no index has changes waiting; return whether it was started."""
        keeper = None if self.busy else self.topics()
        return keeper is not None and keeper.begin()

    def _embedding_model(self) -> "Embedder | None":
        """What new vectors are made by; None where nothing embeds (see `reasons`)."""
        searcher = cast("VectorIndex | None", self.searcher("vector"))
        return None if searcher is None else searcher.embedder

    def embedding(self) -> Embedding | None:
        """What embeds; None where nothing does (see `reasons`)."""
        searcher = cast("VectorIndex | None", self.searcher("vector"))
        if searcher is None:
            return None
        made = searcher.embedder.fingerprint()
        serving = searcher.serving
        return Embedding(
            model=named(self._model, self._directory),
            dimensions=made["dimensions"],
            digest=made["digest"],
            served_by=str(serving.fingerprint()["folder"]) if serving is not searcher.embedder else "",
            documents=searcher.keeper.status().documents,
            unknown=searcher.unknown(),
        )

    def statuses(self) -> dict[str, IndexStatus]:
        """How every index is that is there."""
        return {name: keeper.status() for name, keeper in self.keepers.items()}

    def load(self) -> None:
        """Read every index from disk that is not read yet: questions wait for that."""
        for keeper in self.keepers.values():
            keeper.load_once()
        self._warm()

    def tend(self) -> bool:
        """One round for each index; whether more is waiting. Nobody else has them follow the store meanwhile."""
        self.load()
        with self._following:
            far = [keeper for keeper in self.keepers.values() if keeper.far_behind]
            if len(far) > 1:
                far[0].follow_beside(far[1:])
            waiting = [keeper.tend() for keeper in self.keepers.values()]
        self._warm()
        return any(waiting)

    def _warm(self) -> None:
        """Have the model loaded before somebody waits for it: a third of a second, once an index is there to be asked."""
        serving = self._to_warm()
        if serving is None or serving is self._warmed:
            return
        if self._warmed is not None:
            self._give_way()
        try:
            serving.embed(["ready"])
        except LayerUnavailable as error:
            log.warning("the embedding model cannot be used: %s", error)
        self._warmed = serving
        self._warm_once.set()

    def _to_warm(self) -> "Embedder | None":
        """Return the model that searches use, None while no vector index has documents."""
        searcher = cast("VectorIndex | None", self._searchers.get("vector"))
        return searcher.serving if searcher is not None and searcher.keeper.index.position.outbox else None

    def wait(self, seconds: float) -> float:
        """Wait until the indexes and their model are read from disk, at most this long; the seconds waited.

        An index that is being built, or that is broken, is not waited for.
        """
        began = time.monotonic()
        for keeper in self.keepers.values() if self._tended else ():
            if keeper.index.health is Health.LOADING:
                keeper.index.wait(max(0.0, began + seconds - time.monotonic()))
        if self._tended and self._warmed is None and self._to_warm() is not None:
            self._warm_once.wait(max(0.0, began + seconds - time.monotonic()))
        return time.monotonic() - began

    @property
    def busy(self) -> bool:
        """Whether one is being built or has changes to take in; loads nothing."""
        return any(s is not None and s.keeper.busy for s in list(self._searchers.values()))

    def due(self, change: int) -> tuple[int, int] | None:
        """Work before every index that can be kept has taken a change in, done and in all; None: there is none."""
        parts = [found for keeper in self.keepers.values() if (found := keeper.due(change)) is not None]
        return (sum(done for done, _ in parts), sum(total for _, total in parts)) if parts else None

    @property
    def at_rest(self) -> bool:
        """Whether every index has taken in and written all that is stored."""
        return all(keeper.at_rest for keeper in self.keepers.values())

    def settle(self) -> None:
        """Bring every index up to date while the caller waits."""
        with self._following:
            for keeper in self.keepers.values():
                keeper.settle()

    def purge(self, name: str) -> None:
        """Leave no byte of what one index held and holds no more; raises as `Keeper.purge`."""
        keeper = self.keeper(name)
        with self._following:
            keeper.purge()

    def commit(self, few: bool = True) -> int:
        """Make changes durable, with `few` also those that are few and recent; how many indexes had any."""
        indexes = [keeper.index for keeper in self.keepers.values()]
        return sum(index.commit() if few else index.commit_due() for index in indexes)

    def improve(self) -> bool:
        """Begin to build, in a thread of its own, what makes searching faster; False while that is under way."""
        if self._improving is not None and self._improving.is_alive():
            return False
        self._improving = threading.Thread(target=self._improve, name="improving", daemon=True)
        self._improving.start()
        return True

    def _improve(self) -> None:
        try:
            for name in NAMES:
                searcher = self.searcher(name)
                if searcher is not None:
                    searcher.improve(lambda: not self._closed and not self.busy)
        except Exception:
            log.exception("an index could not be made faster; it is tried again")

    def rebuild(self, name: str, told: Callable[[int], None] = lambda _: None) -> "Rebuilt":
        """Build one index anew from the store; what retention left out comes back until it is due again."""
        return self.keeper(name).rebuild(told, keep_cutoffs=False)

    def prune_due(self) -> dict[str, dict[str, int]]:
        """What retention asks for now: documents left out, by index and level."""
        pruned, settings = {}, self._settings.bm25
        for name, keeper in self.keepers.items():
            status = keeper.status()
            if status.ready:
                due = retention.due(settings.retention_days, self._clock.now_ms(), status.documents, settings.retention_min_docs)
                pruned[name] = keeper.index.prune(due) if due else {}
        return pruned

    def prune(self, name: str, age_days: int, level: str) -> Mapping[str, int]:
        """Leave out what is older, of one level or all of them, whatever the settings say; documents by level."""
        cutoffs = retention.by_hand(age_days, level, self._clock.now_ms())
        return self.keeper(name).index.prune(cutoffs)

    def close(self) -> None:
        """Commit what waits and let go."""
        self._closed = True
        if self._topic_keeper is not None:
            self._topic_keeper.close()
        for searcher in self._searchers.values():
            if searcher is not None:
                searcher.keeper.close()
