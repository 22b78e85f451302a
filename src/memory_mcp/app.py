"""The one place that wires every room, and closes them in order. Importing it loads no engine."""

import gc
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memory_mcp import paths
from memory_mcp.clock import Clock, SystemClock
from memory_mcp.config import Settings
from memory_mcp.errors import InvalidQuery, MemoryMcpError
from memory_mcp.layers.base import Layer, LayerName, LayerStatus, Query, Target
from memory_mcp.model.calendar import Calendar, TimeWindow

if TYPE_CHECKING:
    from memory_mcp.indexes.base import Searcher
    from memory_mcp.ingest.base import Importer, ImportReport
    from memory_mcp.ingest.settings import IngestSettings
    from memory_mcp.ingest.spool import DrainReport, Spool
    from memory_mcp.jobs.scheduler import Scheduler
    from memory_mcp.layers.agentic.navigate import AgenticLayer
    from memory_mcp.layers.hybrid import HybridLayer
    from memory_mcp.layers.teleport import Switch, TeleportLayer
    from memory_mcp.model.event import EventDraft, Trust
    from memory_mcp.model.ids import GripId
    from memory_mcp.policy.engine import Answer, Engine
    from memory_mcp.policy.explain import WhyNot
    from memory_mcp.policy.plan import How, Plan
    from memory_mcp.policy.why_not import Door
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.lock import DirectoryLock
    from memory_mcp.storage.values import Appended, Request

log = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")

#: Open ends of a window: no event lies before or behind, and every calendar can still show them.
EARLIEST_MS, LATEST_MS = 0, 253_370_764_800_000


#: Payloads of hooks stored before the drain looks whether the process is to end.
_DRAINED = 200
#: Events of one step of derivation beside a serving process: its commit holds nobody up for long.
_ASIDE = 300
#: Steps after which term rows are joined: a search reads all of those of the root.
_FOLD_EVERY = 10


def _between(work: Callable[[T], S], batch: T, let_through: Callable[[], None]) -> S:
    """`work` on a batch, others let through before it and after it."""
    let_through()
    done = work(batch)
    let_through()
    return done


@contextmanager
def few_collections() -> Iterator[None]:
    """Bulk work makes millions of short-lived objects and no cycles; looking for cycles cost a tenth of it (measured)."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def importer_named(name: str, settings: "IngestSettings") -> "Importer":
    """An importer by its registered name; InvalidQuery for an unknown one."""
    from memory_mcp.ingest.registry import IMPORTERS

    if name not in IMPORTERS:
        raise InvalidQuery(f"unknown source: {name!r}", f"Known sources: {', '.join(sorted(IMPORTERS))}.")
    return IMPORTERS[name](settings)


class App:
    """One open memory: storage, derivation, layers and policy, ready for a door (server or command line)."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, in_memory: bool = False, lock: "DirectoryLock | None" = None
    ) -> None:
        """Open the data directory of `settings`, whose `lock` the caller may hold; see `open_storage` for what can go wrong."""
        from memory_mcp.accelerators import Accelerators
        from memory_mcp.events.evidence import Evidence
        from memory_mcp.events.log import EventLog
        from memory_mcp.ingest.gate import Gate
        from memory_mcp.ingest.pipeline import Pipeline
        from memory_mcp.jobs.close_segments import CloseSegments
        from memory_mcp.storage.registry import ENGINES
        from memory_mcp.summarize.registry import SUMMARIZERS
        from memory_mcp.toc.rollup import RollUps
        from memory_mcp.toc.tree import Tree

        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        directory = None if in_memory else settings.storage.directory
        storage = settings.storage
        self.storage: Storage = ENGINES["duckdb"](directory, storage.timezone, storage.memory_limit_mb, lock)
        self.calendar = Calendar(self.storage.timezone)
        self.summarizer = summarizer = SUMMARIZERS["extractive"]()
        self.tree = Tree(self.storage, self.calendar, summarizer, settings.toc)
        self.evidence = Evidence(self.storage)
        self.log = EventLog(self.storage.events, self.clock)
        self.pipeline = Pipeline(self.log, self.storage.outbox, Gate(settings.ingest))
        self.spool = self._spool(directory)
        self.segments = CloseSegments(self.storage, self.calendar, summarizer, settings.toc)
        self.rollups = RollUps(self.storage, self.calendar, summarizer)
        self.agentic = self._agentic()
        self.accelerators = Accelerators(settings.teleport, settings.embedder.model, self.storage, directory, self.clock)
        self.engine = self._engine()
        #: Held by whoever publishes nodes, so that two never make the same version.
        self.publishing = threading.RLock()
        #: Called after every write; a server points it at its background deriver.
        self.on_write: Callable[[], None] = lambda: None
        #: Whether an import is under way, so that what can wait should; a server points it at its service.
        self.busy: Callable[[], bool] = lambda: False
        #: Jobs of this store; whoever keeps the App open for long starts it.
        self.scheduler = self._scheduler(directory)

    def _spool(self, directory: Path | None) -> "Spool | None":
        from memory_mcp.ingest.gate import Gate
        from memory_mcp.ingest.hooks.registry import HOOKS
        from memory_mcp.ingest.spool import Spool

        if directory is None:
            return None
        return Spool(Path(paths.spool_dir(str(directory))), self.log, Gate(self.settings.ingest), HOOKS)

    def _scheduler(self, directory: Path | None) -> "Scheduler":
        from memory_mcp.jobs.registry import JOBS, Parts
        from memory_mcp.jobs.render_briefings import BriefingSettings
        from memory_mcp.jobs.scheduler import Scheduler

        hooks, factor = self.settings.hooks, self.settings.retrieval.token_factor
        parts = Parts(
            storage=self.storage,
            tree=self.tree,
            roll_up=self.roll_up,
            busy=self._is_busy,
            drain=lambda: self.drain(_DRAINED).new,
            briefings=BriefingSettings(directory, hooks.briefing, hooks.briefing_tokens, factor),
            housekeeping_at=self.settings.scheduler.housekeeping_at,
            commit_indexes=self.accelerators.commit,
            improve_indexes=self.accelerators.improve,
            prune_indexes=self.accelerators.prune_due,
            commit_interval_secs=self._commit_interval(),
        )
        return Scheduler([make(parts) for make in JOBS.values()], self.storage.outbox, self.calendar, self.clock)

    def _is_busy(self) -> bool:
        return self.busy()

    def _commit_interval(self) -> int:
        teleport = self.settings.teleport
        return min(teleport.bm25.commit_interval_secs, teleport.vector.commit_interval_secs)

    def _agentic(self) -> "AgenticLayer":
        from memory_mcp.layers.agentic.navigate import AgenticLayer

        return AgenticLayer(self.storage, self.tree, self.clock, self.settings.retrieval.strong_match)

    def _engine(self) -> "Engine":
        from memory_mcp.layers.agentic.scan import Scan
        from memory_mcp.layers.agentic.words import TreeWords
        from memory_mcp.policy.engine import Engine, Parts

        layers: list[Layer] = [self.agentic, self.teleport(LayerName.BM25), self.teleport(LayerName.VECTOR), self.hybrid()]
        parts = Parts(
            layers={layer.name: layer for layer in layers},
            unavailable=[self._topics()],
            words=TreeWords(self.tree),
            scanner=Scan(self.storage, self.tree),
            interrupt=self.storage.interrupt,
            clock=self.clock,
            calendar=self.calendar,
            factor=self.settings.retrieval.token_factor,
            ranking=self.settings.ranking,
            usage_of=self.storage.usage.of,
        )
        return Engine(parts)

    def teleport(self, name: LayerName) -> "TeleportLayer":
        """Layer 3 or 4."""
        from memory_mcp.layers.teleport import Switch, TeleportLayer

        off = self.accelerators.switched_off(name.value)
        enabled = " and ".join(f"{key} = true" for key in off)
        switch = Switch(
            not off, f"disabled ({off[0]} = false)" if off else "a memory without a directory keeps no index", enabled
        )

        def searcher() -> "Searcher | Switch":
            found = self.accelerators.searcher(name.value)
            reason = self.accelerators.reasons.get(name.value)
            return found or (Switch(True, reason) if reason else switch)

        return TeleportLayer(name, searcher, self.storage, self.tree)

    def hybrid(self) -> "HybridLayer":
        """Layers 3 and 4 as one."""
        from memory_mcp.layers.hybrid import HybridLayer

        sides = (self.teleport(LayerName.BM25), self.teleport(LayerName.VECTOR))
        return HybridLayer(*sides, self.settings.teleport.hybrid)

    def _topics(self) -> LayerStatus:
        """A layer that this version does not have."""
        enabled = self.settings.topics.enabled
        reason = "not built in this version" if enabled else "disabled (topics.enabled = false)"
        key = "" if enabled else "topics.enabled = true"
        return LayerStatus(LayerName.TOPICS, enabled, healthy=False, reason=reason, enable_with=key)

    def derive(self, progress: Callable[[int], None] | None = None) -> int:
        """Bring the tree up to date with the events; how many nodes were published above the segments."""
        with self.publishing:
            days = self.segments.run(progress)
            return self.rollups.run(days) if days else 0

    def derive_segments(self) -> None:
        """Bring the segments up to date with the events; periods are left as they are."""
        with self.publishing:
            self.segments.run()

    def catch_up(self, progress: Callable[[int], None] | None = None) -> int:
        """As `derive`, and every roll-up that an earlier process left undone."""
        with self.publishing:
            self.segments.run(progress)
            return self.rollups.run()

    def roll_up(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Publish every stale period, as far as `should_stop` lets it; how many."""
        with self.publishing:
            return self.rollups.run(should_stop=should_stop)

    def derive_in_bulk(self, progress: Callable[[int], None] | None = None) -> tuple[float, float]:
        """As `catch_up` for a command of its own: big batches also use a child process. Seconds of segments and roll-ups."""
        from memory_mcp.jobs.workers import DeriveWorkers

        with self.publishing, few_collections(), DeriveWorkers(self.calendar, self.summarizer) as workers:
            started = self.clock.monotonic()
            self.segments.run(progress, workers.derive)
            halfway = self.clock.monotonic()
            self.rollups.run()
            return halfway - started, self.clock.monotonic() - halfway

    def derive_aside(self, let_through: Callable[[], None]) -> None:
        """Segments alone, in a process that others wait for: child processes do the work, this one commits small steps.

        `let_through` is called between two steps, and waits while somebody is being answered.
        """
        from memory_mcp.jobs.workers import DeriveWorkers

        with DeriveWorkers(self.calendar, self.summarizer, let_through) as workers:
            for step in itertools.count(1):
                if not self.segments.pending():
                    break
                if step % _FOLD_EVERY == 0:
                    with self.publishing:
                        self.segments.fold()
                let_through()
                with self.publishing:
                    self.segments.run(None, lambda batch: _between(workers.derive, batch, let_through), _ASIDE, steps=1)
            with self.publishing:
                self.segments.fold()

    def write(
        self, drafts: "Sequence[EventDraft]", source: str, trust: "Trust | None" = None, request: "Request | None" = None
    ) -> "Appended":
        """Store drafts from a tool or a file: acknowledged when this returns; the tree follows."""
        appended = self.pipeline.accept(drafts, source, trust, request)
        self.on_write()
        return appended

    def append(self, drafts: "Sequence[EventDraft]", source: str) -> "Appended":
        """Store what another process of this program has read and cleaned; the tree follows."""
        appended = self.log.append(drafts, source)
        self.on_write()
        return appended

    def holdings(self) -> dict[str, Any]:
        """What the tree holds now, as an import tells it at its end."""
        tally = self.tree.tally()
        return {
            "events": tally.events,
            "sessions": tally.sessions,
            "segments": tally.segments,
            "projects": [p for p in tally.projects if p],
            "agents": list(tally.agents),
            "root": self.tree.root().title,
        }

    def drain(self, limit: int | None = None) -> "DrainReport":
        """Store what hooks left in the spool, at most `limit` payloads of it, each exactly once; the tree follows."""
        from memory_mcp.ingest.spool import DrainReport

        report = self.spool.drain(limit) if self.spool else DrainReport()
        if report.new:
            self.on_write()
        return report

    def importer(self, name: str) -> "Importer":
        """See `importer_named`."""
        return importer_named(name, self.settings.ingest)

    def run_import(
        self,
        name: str,
        path: Path,
        progress: "Callable[[ImportReport, Path, float], None] | None" = None,
        newest: int | None = None,
    ) -> "ImportReport":
        """Import a path; the tree is not yet derived when this returns (see `derive`)."""
        with few_collections():
            return self.pipeline.run(self.importer(name), path, progress, newest)

    def ask(self, query: Query, how: "How | None" = None) -> "Answer":
        """intelligent_search, within the settings' bounds as far as `how` names no others."""
        bounds = self.settings.retrieval.bounds
        return self.engine.search(query, bounds) if how is None else self.engine.search(query, bounds, how)

    def plan(self, query: Query, how: "How") -> "Plan":
        """What `ask` would do, and nothing of it done."""
        return self.engine.plan(query, self.settings.retrieval.bounds, how)

    def why_not(self, missing: str, arguments: "Mapping[str, Any]", door: "Door") -> "WhyNot":
        """Why something is not among the results of a call, and the change that would show it; NotFound for an unknown id."""
        from memory_mcp.policy.why_not import why_not

        return why_not(self._target(missing), arguments, door)

    def _target(self, missing: str) -> "Target":
        """What an id of a node, a grip or an event stands for."""
        from memory_mcp.layers.targets import target

        return target(self.storage, self.tree, missing)

    def count_opening(self, grip_id: "GripId") -> None:
        """Somebody opened this quotation. Counted where the settings say so; what cannot be counted fails no reading."""
        if self.settings.ranking.usage:
            try:
                self.storage.usage.record([grip_id], self.clock.now_ms())
            except MemoryMcpError as error:
                log.warning("the opening of %s could not be counted: %s", grip_id, error)

    def in_zone(self, zone: str | None) -> Calendar:
        """The calendar to show times in: the store's, or another zone's for one call; InvalidQuery for an unknown one."""
        if not zone:
            return self.calendar
        other = replace(self.calendar, zone_name=zone)
        other.day_of(0)
        return other

    def window(self, since: int | None, until: int | None) -> TimeWindow | None:
        """A filter from two optional moments (ms); InvalidQuery when it is empty."""
        if since is None and until is None:
            return None
        window = TimeWindow(since if since is not None else EARLIEST_MS, until if until is not None else LATEST_MS)
        if window.start_ms >= window.end_ms:
            raise InvalidQuery("since must lie before until")
        return window

    def close(self) -> None:
        """Let everything go; closing twice is nothing."""
        self.scheduler.stop()
        self.accelerators.close()
        self.storage.close()
