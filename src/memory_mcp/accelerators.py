"""The indexes of one open memory: made from the settings, looked after together, and let go in order.

No engine is loaded before an index is first asked for; one that cannot be loaded is a layer that cannot be used.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.clock import Clock
from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.indexes import retention
from memory_mcp.indexes.base import IndexStatus, Searcher
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings
from memory_mcp.storage.base import Storage

if TYPE_CHECKING:
    from memory_mcp.indexes.keeper import Keeper, Rebuilt

log = logging.getLogger(__name__)

#: The indexes there can be, in the order they are looked after.
NAMES = ("bm25", "vector")


class Accelerators:
    """Every index that is switched on."""

    def __init__(self, settings: TeleportSettings, model: str, storage: Storage, directory: Path | None, clock: Clock) -> None:
        self._settings = settings
        self._model = model
        self._storage = storage
        self._directory = directory
        self._clock = clock
        self._searchers: dict[str, Searcher | None] = {}
        self._making = threading.Lock()
        self._improving: threading.Thread | None = None
        self._closed = False
        #: Why an index that is switched on is not there.
        self.reasons: dict[str, str] = {}
        #: Whether somebody calls `tend` again and again; without, an index is read when it is first asked for.
        self.tended = False
        #: Waits while calls are being answered; a server points it at its host.
        self.let_through: Callable[[], None] = lambda: None

    def settings_of(self, name: str) -> IndexSettings:
        """Those of one index."""
        return self._settings.bm25 if name == "bm25" else self._settings.vector

    def switched_off(self, name: str) -> list[str]:
        """Settings that keep an index off."""
        switches = {"teleport.enabled": self._settings.enabled, f"teleport.{name}.enabled": self.settings_of(name).enabled}
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
            self.reasons[name] = error.message
            return None
        except ImportError as error:
            self.reasons[name] = f"{error.name} is not installed"
            log.warning("the %s layer cannot be used: %s is not installed", name, error.name)
            return None
        if not self.tended:
            found.keeper.load()
        return found

    def _make(self, name: str) -> Searcher:
        from memory_mcp.indexes.build import Workshop
        from memory_mcp.indexes.keeper import Keeper
        from memory_mcp.indexes.live import LiveIndex
        from memory_mcp.indexes.registry import KINDS, SEARCHERS

        assert self._directory is not None
        if name == "vector" and not self._model:
            raise LayerUnavailable("no model: embedder.model names no folder")
        settings = self.settings_of(name)
        options = {"model": self._model, "graph_from": self._settings.vector.graph_from}
        folder = Path(settings.index_path).expanduser() if settings.index_path else self._directory / "indexes" / name
        store_id = self._storage.stats(text=False).store_id
        index: LiveIndex[Any] = LiveIndex(KINDS[name](options), folder, store_id, self._clock)
        keeper = Keeper(self._storage, index, Workshop(index, options, settings.memory_budget_mb), self._let_through)
        return SEARCHERS[name](keeper, options)

    def _let_through(self) -> None:
        self.let_through()

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
        """The model that embeds, by its folder's name; none where there is none."""
        return Path(self._model).name if self.searcher("vector") is not None else "none"

    def statuses(self) -> dict[str, IndexStatus]:
        """How every index is that is there."""
        return {name: keeper.status() for name, keeper in self.keepers.items()}

    def tend(self) -> bool:
        """One round for each index; whether more is waiting."""
        waiting = [keeper.tend() for keeper in self.keepers.values()]
        return any(waiting)

    @property
    def busy(self) -> bool:
        """Whether one is being built or has changes to take in; loads nothing."""
        return any(s is not None and s.keeper.busy for s in list(self._searchers.values()))

    def settle(self) -> None:
        """Bring every index up to date while the caller waits."""
        for keeper in self.keepers.values():
            keeper.settle()

    def commit(self) -> int:
        """Make changes durable; how many indexes had any."""
        return sum(keeper.index.commit() for keeper in self.keepers.values())

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
        pruned = {}
        for name, keeper in self.keepers.items():
            settings, status = self.settings_of(name), keeper.status()
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
        for searcher in self._searchers.values():
            if searcher is not None:
                searcher.keeper.close()
