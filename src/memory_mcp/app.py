"""Wires every room of one memory, and closes them in order. Importing it loads no engine."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import extensions, paths
from memory_mcp.base.children import few_collections
from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.capture.sources import all_importers, make_capture, make_follower, make_importer
from memory_mcp.config import Settings, config_path
from memory_mcp.model.calendar import Calendar
from memory_mcp.search.layers.base import Layer, LayerName, Query
from memory_mcp.upkeep.archive.exchange import make_syncer
from memory_mcp.upkeep.archive.keeper import BackupKeeper

if TYPE_CHECKING:
    from memory_mcp.capture.log import LogWrite
    from memory_mcp.capture.pipeline import Source
    from memory_mcp.capture.spool import DrainReport, Spool
    from memory_mcp.capture.watch import DirectoryWatch
    from memory_mcp.importers.base import Importer, ImportReport
    from memory_mcp.indexes.accelerators import Accelerators
    from memory_mcp.indexes.index_reader import IndexReader
    from memory_mcp.model.event import EventDraft, Trust
    from memory_mcp.model.ids import GripId
    from memory_mcp.search.layers.agentic.navigate import AgenticLayer
    from memory_mcp.search.layers.hybrid import HybridLayer
    from memory_mcp.search.layers.teleport import TeleportLayer
    from memory_mcp.search.layers.topics import TopicsLayer
    from memory_mcp.search.policy.engine import Answer
    from memory_mcp.search.policy.explain import WhyNot
    from memory_mcp.search.policy.plan import How, Plan
    from memory_mcp.search.policy.search import EngineParts
    from memory_mcp.search.policy.why_not import Look, Run
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.lock import DirectoryLock
    from memory_mcp.storage.values import AppendResult, WriteRequest
    from memory_mcp.tree.derive.derivation import Derivation
    from memory_mcp.tree.toc.improve import Improver
    from memory_mcp.tree.toc.later_changes import LaterChanges
    from memory_mcp.tree.toc.noticed import Contradictions
    from memory_mcp.tree.toc.work_reader import WorkReader
    from memory_mcp.upkeep.jobs.base import Job
    from memory_mcp.upkeep.jobs.improve_summaries import SummaryParts
    from memory_mcp.upkeep.jobs.scheduler import Scheduler

log = logging.getLogger(__name__)

#: Payloads of hooks stored before the drain looks whether the process is to end.
_DRAINED = 200
#: How old statistics of the tree may be while an import is under way (seconds).
_LAG = 2.0


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What an App calls in the process that has it open."""

    #: Called after every write.
    on_write: Callable[[], None] = lambda: None
    #: Called after a write that ends a session: the next one may begin, and its briefing has to have it.
    on_session_end: Callable[[], None] = lambda: None
    #: Whether an import is under way, so that what can wait should.
    importing: Callable[[], bool] = lambda: False
    #: Waits while callers are answered, never for long; returns something true if any were.
    give_way: Callable[[], object] = lambda: None
    #: Whether the process calls `accelerators.maintain` again and again.
    tends_indexes: bool = False
    #: Whether the process watches the spool: what comes is stored at once, and nothing is polled.
    watches_spool: bool = False
    #: Called with drafts before they are stored; the writer gets what it raises.
    before_write: "Callable[[Sequence[EventDraft]], None]" = lambda _: None


#: The callbacks of a process that has no other clients.
ALONE = Callbacks()


class App:
    """One open memory: storage, derivation, layers and policy."""

    #: Why this memory is not the one that clients were connected to; "" where it is.
    displaced = ""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        in_memory: bool = False,
        lock: "DirectoryLock | None" = None,
        callbacks: Callbacks = ALONE,
        storage: "Storage | None" = None,
    ) -> None:
        from memory_mcp.capture.evidence import Evidence
        from memory_mcp.capture.gate import Gate
        from memory_mcp.capture.log import EventLog
        from memory_mcp.capture.pipeline import Pipeline
        from memory_mcp.capture.running import RunningSessions
        from memory_mcp.search.policy.engine import Engine
        from memory_mcp.storage.registry import get_engine
        from memory_mcp.tree.summarize.registry import SUMMARIZERS
        from memory_mcp.tree.toc.tree import Tree

        self.settings, self.settings_file, self._callbacks = settings, config_path(), callbacks
        self.clock, self._is_shared = clock or SystemClock(), storage is not None
        self.directory = directory = None if in_memory else settings.storage.directory
        self.storage: Storage = storage or get_engine(settings.storage.engine).open(settings.storage.opening(directory, lock))
        self.calendar, self.summarizer = Calendar(self.storage.timezone), SUMMARIZERS["extractive"]()
        self.backups = BackupKeeper(self.storage, settings.backup, directory, self.clock, callbacks.give_way)
        self.tree = Tree(self.storage, self.calendar, self.summarizer, lambda: _LAG if callbacks.importing() else 0.0)
        self.running, self.evidence = RunningSessions(self.storage.events, self.clock), Evidence(self.storage)
        self.log = EventLog(self.storage.events, self.clock, callbacks.before_write, self.running.observe_events)
        self.gate = Gate(make_capture(settings.ingest, directory), self.storage.tombstones, (settings.server.http_token,))
        self.pipeline, self.spool = Pipeline(self.log, self.storage.outbox, self.gate), self._spool(directory)
        self.contradictions = self._contradictions(directory if storage is None else None)
        self.derivation, self.improver = self._derivation()
        self.index_reader, self.accelerators = self._make_index_reader(), self._accelerators(directory)
        self.agentic, self.teleports, self.hybrid, self.topics = self._make_layers()
        self.engine = Engine(self.engine_parts())
        self._watch = self._watch_spool(directory) if callbacks.watches_spool else None
        self.scheduler = self._scheduler(directory)
        if self._watch is not None:
            self._watch.start(lambda: self.scheduler.hasten("drain_spool"))

    @cached_property
    def work_reader(self) -> "WorkReader":
        """What was asked and done in segments, as read before."""
        from memory_mcp.tree.toc.work_reader import WorkReader

        # Another server may forget in a shared store.
        return WorkReader(self.storage, lambda: not (self._is_shared or self.derivation.count_pending()))

    @cached_property
    def later_changes(self) -> "LaterChanges":
        """What repositories say since; nothing in a shared store, whose directories are those of other machines."""
        from memory_mcp.tree.toc.later_changes import LaterChanges

        return LaterChanges(self.storage, self.calendar, 0 if self._is_shared else self.settings.retrieval.repository_ms)

    def _contradictions(self, directory: Path | None) -> "Contradictions":
        """Return what finds them; `directory` is None for a store that others may share."""
        from memory_mcp.tree.toc.noticed import Contradictions

        contradictions = Contradictions(self.storage, self.calendar, directory)
        self.storage.superseded.follow_contradictions(contradictions)
        return contradictions

    def _derivation(self) -> "tuple[Derivation, Improver]":
        from memory_mcp.tree.derive.close_segments import SegmentDeriver
        from memory_mcp.tree.derive.derivation import Derivation
        from memory_mcp.tree.derive.rollup import RollUps
        from memory_mcp.tree.derive.workers import DeriveWorkers
        from memory_mcp.tree.toc.improve import Improver
        from memory_mcp.tree.toc.projects import ProjectRefiling

        derivation = Derivation(
            SegmentDeriver(self.storage, self.calendar, self.summarizer, self.settings.toc),
            RollUps(self.storage, self.calendar, self.summarizer),
            lambda give_way: DeriveWorkers(self.calendar, self.summarizer, give_way),
            self.clock,
            self._callbacks.give_way,
            ProjectRefiling(self.storage, self.clock).settle,
            self.storage.hold_claim,
        )
        return derivation, Improver(self.storage, self.calendar, self.summarizer)

    def _spool(self, directory: Path | None) -> "Spool | None":
        """Return the spool of the hooks' payloads, None in memory."""
        from memory_mcp.capture.hooks.registry import HOOKS
        from memory_mcp.capture.spool import Spool
        from memory_mcp.tree.toc import refining

        if directory is None:
            return None
        on_end = (lambda ended: refining.mark_requests(self.storage, ended)) if self.settings.hooks.refine else None
        return Spool(Path(paths.spool_dir(str(directory))), self.log, self.gate, HOOKS, on_end)

    def _watch_spool(self, directory: Path | None) -> "DirectoryWatch | None":
        """Return a watch of the spool's folder `new`, made if missing."""
        from memory_mcp.capture.watch import DirectoryWatch

        return None if directory is None else DirectoryWatch.open_watch(Path(paths.spool_dir(str(directory))) / "new")

    def _accelerators(self, directory: Path | None) -> "Accelerators":
        from memory_mcp.indexes.accelerators import Accelerators

        settings, callbacks = self.settings, self._callbacks
        common = (self.storage, directory, self.clock, callbacks.give_way, callbacks.tends_indexes)
        return Accelerators(settings.teleport, settings.topics, settings.embedder.model, *common)

    def _scheduler(self, directory: Path | None) -> "Scheduler":
        from memory_mcp.upkeep.jobs.scheduler import Scheduler

        jobs = self._iter_jobs(directory)
        return Scheduler(jobs, self.storage.outbox, self.calendar, self.clock, self._list_added_jobs)

    def _iter_jobs(self, directory: Path | None) -> "Iterator[Job]":
        """Yield the jobs, loaded with the first."""
        from memory_mcp.tree.derive.derivation import Depth
        from memory_mcp.upkeep.jobs.registry import JOBS, JobParts
        from memory_mcp.upkeep.jobs.render_briefings import BriefingSettings

        factor, hooks, gap = self.settings.retrieval.token_factor, self.settings.hooks, self.settings.toc.gap_minutes
        parts = JobParts(
            storage=self.storage,
            tree=self.tree,
            roll_up=lambda should_stop: self.derivation.run(Depth.PERIODS, should_stop=should_stop).periods,
            busy=self._callbacks.importing,
            drain=lambda: self.drain(_DRAINED).new,
            spool_watched=self._watch is not None,
            follow=make_follower(self.settings.ingest, self.storage.outbox, directory, self.append, lambda: self.gate.capture),
            briefings=BriefingSettings(directory, hooks.briefing, factor, refine=hooks.refine, gap_minutes=gap),
            publishing=lambda: self.derivation.publishing,
            later_changes=self.later_changes,
            housekeeping_at=self.settings.scheduler.housekeeping_at,
            commit_indexes=self.accelerators.commit,
            improve_indexes=self.accelerators.improve,
            prune_indexes=self.accelerators.prune_due,
            group_topics=lambda: not self._callbacks.importing() and self.accelerators.group_topics(),
            commit_interval_secs=self.settings.teleport.bm25.commit_interval_secs,
            backups=self.backups,
            sync=make_syncer(self.settings.sync, self.storage, directory, self.gate, self.append),
            summarizer=self.settings.summarizer,
            improve_summaries=self._hands(directory),
        )
        yield from (make(parts) for make in JOBS.values())

    def _list_added_jobs(self) -> "list[Job]":
        return [make(self) for make in extensions.load_all(extensions.JOBS).values()]

    def _hands(self, directory: Path | None) -> "SummaryParts":
        from memory_mcp.tree.derive.derivation import Depth
        from memory_mcp.upkeep.jobs.improve_summaries import SummaryParts

        def publishing(publish: Callable[[], bool]) -> bool:
            with self.derivation.publishing:
                if is_published := publish():
                    self.derivation.run(Depth.PERIODS)
                return is_published

        parts = (self.storage, self.calendar, self.clock, self.improver, self.accelerators.create_labeller)
        return SummaryParts(*parts, directory, publishing, self.gate.clean_text, self._callbacks.importing)

    def _make_index_reader(self) -> "IndexReader":
        from memory_mcp.indexes.index_reader import IndexReader

        last_seq = self.storage.events.last_seq
        return IndexReader(lambda: self.accelerators.keyword_index, self.storage.outbox, last_seq)

    def _make_layers(self) -> "tuple[AgenticLayer, dict[LayerName, TeleportLayer], HybridLayer, TopicsLayer]":
        """Return the layers; where an index is off or broken, their status tells why."""
        from memory_mcp.search.layers.agentic.navigate import AgenticLayer
        from memory_mcp.search.layers.hybrid import HybridLayer
        from memory_mcp.search.layers.teleport import TeleportLayer
        from memory_mcp.search.layers.topics import TopicsLayer

        parts = (self.accelerators, self.storage, self.tree)
        bm25, vector = (TeleportLayer(name, *parts, self.index_reader) for name in (LayerName.BM25, LayerName.VECTOR))
        topics = TopicsLayer(*parts, self.clock, has_hybrid=self.settings.server.profile == "full")
        agentic = AgenticLayer(self.storage, self.tree, self.clock, self.index_reader)
        return agentic, {LayerName.BM25: bm25, LayerName.VECTOR: vector}, HybridLayer(bm25, vector), topics

    def engine_parts(self) -> "EngineParts":
        """Return what the policy engine is made of."""
        from memory_mcp.search.layers.agentic.scan import Scan
        from memory_mcp.search.layers.agentic.words import TreeWords
        from memory_mcp.search.layers.successor import Successors
        from memory_mcp.search.policy.search import EngineParts

        layers: list[Layer] = [self.agentic, *self.teleports.values(), self.hybrid, self.topics]
        return EngineParts(
            layers={layer.name: layer for layer in layers},
            words=TreeWords(self.tree, self.storage),
            scanner=Scan(self.storage, self.tree, self.index_reader),
            interrupt=self.storage.interrupt_reads,
            wait=self.accelerators.wait_loaded,
            clock=self.clock,
            calendar=self.calendar,
            factor=self.settings.retrieval.token_factor,
            ranking=self.settings.ranking,
            usage_of=self.storage.usage.get_usage,
            successors=Successors(self.storage),
        )

    def write(
        self, drafts: "Sequence[EventDraft]", source: str, trust: "Trust | None" = None, request: "WriteRequest | None" = None
    ) -> "AppendResult":
        """Store drafts once per `request`, none if one is refused (InvalidQuery)."""
        appended = self.pipeline.store_drafts(drafts, source, trust, request)
        self._callbacks.on_write()
        if any(draft.type == "session_end" for draft in drafts):
            self._callbacks.on_session_end()
        return appended

    def append(self, drafts: "Sequence[EventDraft]", source: str, request: "WriteRequest | None" = None) -> "AppendResult":
        """Store cleaned drafts, less what was forgotten since; wake the deriver."""
        from memory_mcp.capture.log import LogWrite

        return self.append_each([LogWrite(drafts, source, request)])[0]

    def append_each(self, writes: "Sequence[LogWrite]") -> "list[AppendResult]":
        """Store several writes as `append` does, together if possible."""
        clean = [replace(w, drafts=[c for d in w.drafts if (c := self.gate.recheck_draft(d)) is not None]) for w in writes]
        appended = self.log.append_writes(clean)
        self._callbacks.on_write()
        return appended

    @property
    def is_importing(self) -> bool:
        """Whether an import is under way; other work should wait."""
        return self._callbacks.importing()

    @property
    def is_empty(self) -> bool:
        """Whether the memory holds no event."""
        return not self.tree.tally().events and not self.storage.events.last_seq()

    def holdings(self) -> dict[str, Any]:
        """Return counts (events, sessions, segments), projects, agents and root (its title)."""
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
        """Store `limit` spooled payloads exactly once; wake the deriver."""
        from memory_mcp.capture.spool import DrainReport

        report = self.spool.drain(limit) if self.spool else DrainReport()
        if report.new:
            self._callbacks.on_write()
        if report.ended:
            self._callbacks.on_session_end()
        return report

    def importer(self, name: str) -> "Importer":
        """Return an importer; raises InvalidQuery for an unknown name."""
        return make_importer(name, self.settings.ingest)

    def importers(self) -> "list[Importer]":
        """Return every importer, in the order of asking."""
        return all_importers(self.settings.ingest)

    def run_import(
        self,
        name: str,
        source: "Source",
        progress: "Callable[[ImportReport, Path, float], None] | None" = None,
        newest: int | None = None,
    ) -> "ImportReport":
        """Import about `newest` events (None: all); derive nothing."""
        with few_collections():
            return self.pipeline.import_source(self.importer(name), source, progress, newest)

    def ask(self, query: Query, how: "How | None" = None) -> "Answer":
        """Answer a question by the policy, within the settings' bounds."""
        bounds = self.settings.retrieval.bounds
        return self.engine.search(query, bounds) if how is None else self.engine.search(query, bounds, how)

    def plan(self, query: Query, how: "How") -> "Plan":
        """Return what `ask` would do, without searching."""
        return self.engine.plan(query, self.settings.retrieval.bounds, how)

    def why_not(self, missing: str, project: str | None, look: "Look", run: "Run") -> "WhyNot":
        """Return why results lack something; NotFound for an unknown id."""
        from memory_mcp.search.layers.targets import find_target
        from memory_mcp.search.policy.why_not import why_not

        return why_not(find_target(self.storage, self.tree, missing, project), look, run)

    def count_opening(self, grip_id: "GripId") -> None:
        """Count an opened quotation, if settings ask; only log failures."""
        if self.settings.ranking.usage:
            try:
                self.storage.usage.record_usage([grip_id], self.clock.now_ms())
            except MemoryMcpError as error:
                log.warning("the opening of %s could not be counted: %s", grip_id, error)

    def close(self) -> None:
        """Stop background work, then close indexes and store, once."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self.scheduler.stop()
        if "later_changes" in self.__dict__:
            self.later_changes.close()
        self.contradictions.save()
        self.accelerators.close()
        self.storage.close()
