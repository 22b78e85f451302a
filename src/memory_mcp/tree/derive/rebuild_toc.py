"""Derives the whole tree again from events and stored cuts, and writes only what differs: same ids, same text.

Cuts that older rules made are made again first; an id that goes leads to the segment that now holds what it began with.

On a healthy store it changes nothing. Killed at any point it leaves a valid store; running it again goes on.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import PERIODS, Calendar, level_of, parents_of, rollup_targets
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build, TermDelta
from memory_mcp.tree.derive.build import DerivedSegment, SegmentWork, derive_segments
from memory_mcp.tree.derive.repeated import common_among, mark_common
from memory_mcp.tree.derive.rollup import RollUps
from memory_mcp.tree.derive.segments import CUTTER_VERSION, SegmentSettings, recap_of, recut_stream
from memory_mcp.tree.derive.terms import FrequencyRow, Hashes, count_hashes, frequency_row, from_bytes, refit_terms, union_sets
from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.summarize.stretch import openings_of

_CHUNK = 200
#: Streams cut again in one transaction.
_STREAMS = 50


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """Counts of what was different and rewritten."""

    nodes_checked: int
    nodes_changed: int
    nodes_dropped: int
    terms_rewritten: int
    seconds: float


class TocRebuild:
    """One rebuild. Nothing else may derive meanwhile; see `Derivation.publishing`."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer, settings: SegmentSettings) -> None:
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._settings = settings
        self._nodes_changed = 0
        self._terms_rewritten = 0

    def run(self, timezone: str | None = None, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Rebuild the tree and return what was different.

        Each chunk is a transaction of its own. With `timezone`, days are counted in that zone from now on. Nodes without
        segments are dropped. `progress` gets segments done and all.
        """
        started = time.perf_counter()
        self._storage.drop_caches()
        if timezone:
            self._storage.set_timezone(timezone)
            self._calendar = Calendar(timezone)
            days = [(c, self._calendar.day_of(c.start[0])) for c in self._storage.toc.iter_cuts()]
            if moved := {c.key: day for c, day in days if day != c.day}:
                self._storage.toc.move_segments(moved)
        self._recut_streams()
        cuts = sorted(self._storage.toc.iter_cuts(), key=lambda c: c.start)
        frequencies: dict[str, list[Hashes]] = {}
        openings: dict[int, frozenset[int]] = {}
        stored = list(self._storage.toc.list_frequencies())
        for start in range(0, len(cuts), _CHUNK):
            part = cuts[start : start + _CHUNK]
            for work, derived in self._derive_segments(part, stored):
                frequencies.setdefault(derived.segment.project, []).append(from_bytes(derived.hashes))
                openings[derived.segment.key] = work.openings
            if progress:
                progress(min(start + _CHUNK, len(cuts)), len(cuts))
        rows = tuple(frequency_row(project, parts) for project, parts in frequencies.items())
        self._storage.toc.publish_build(Build(frequencies=rows, reset_frequencies=True))
        self._derive_recounted(cuts, openings, stored)
        periods = {p for c in cuts for p in rollup_targets(c.day)}
        expected_ids = periods.union(c.node_id for c in cuts)
        extra = [n.node_id for n in self._storage.toc.iter_nodes() if n.node_id not in expected_ids]
        if extra:
            self._storage.toc.drop_nodes(extra)
        self._rebuild_periods(periods)
        took = time.perf_counter() - started
        return RebuildReport(len(cuts) + len(periods), self._nodes_changed, len(extra), self._terms_rewritten, took)

    def _recut_streams(self) -> None:
        """Keep the cuts of streams with a refined or pinned segment."""
        streams: dict[int, list[Segment]] = {}
        for cut in self._storage.toc.iter_cuts():
            streams.setdefault(cut.stream, []).append(cut)
        old = [cuts for cuts in streams.values() if any(c.cutter != CUTTER_VERSION for c in cuts)]
        protected_ids = self._storage.toc.list_pins().union(self._storage.toc.list_refined())
        for start in range(0, len(old), _STREAMS):
            part = [cuts for cuts in old[start : start + _STREAMS] if protected_ids.isdisjoint(c.node_id for c in cuts)]
            events = self._storage.events.events_by_segment([c for cuts in part for c in cuts])
            fresh: list[Segment] = []
            successors: dict[NodeId, NodeId] = {}
            for cuts in part:
                stream_events = sorted((e for c in cuts for e in events.get(c.key, ())), key=lambda e: e.order)
                if stream_events:
                    new_cuts = recut_stream(cuts, stream_events, self._calendar, self._settings)
                    fresh += new_cuts
                    starts, ids = [c.start for c in new_cuts], {c.node_id for c in new_cuts}
                    successors |= {
                        c.node_id: new_cuts[max(bisect_right(starts, c.start) - 1, 0)].node_id
                        for c in cuts
                        if c.node_id not in ids
                    }
            self._storage.toc.replace_cuts(fresh, successors)

    def _derive_recounted(
        self, cuts: Sequence[Segment], openings: Mapping[int, Set[int]], stored: Sequence[FrequencyRow]
    ) -> None:
        all_openings = frozenset[int]().union(*openings.values())
        now, then = (common_among(count_hashes(all_openings, rows)) for rows in (self._storage.toc.list_frequencies(), stored))
        changed = now ^ then
        changed_cuts = [cut for cut in cuts if not changed.isdisjoint(openings.get(cut.key, frozenset()))] if changed else []
        for start in range(0, len(changed_cuts), _CHUNK):
            self._derive_segments(changed_cuts[start : start + _CHUNK], self._storage.toc.list_frequencies())

    def _derive_segments(
        self, cuts: Sequence[Segment], frequencies: Sequence[FrequencyRow]
    ) -> list[tuple[SegmentWork, DerivedSegment]]:
        events = self._storage.events.events_by_segment(cuts)
        former_nodes = self._storage.toc.get_nodes([c.node_id for c in cuts])
        recaps = self._storage.events.list_recaps({c.stream for c in cuts})
        work = [
            SegmentWork(c, tuple(events[c.key]), former_nodes.get(c.node_id), recap_of(c, recaps), openings_of(events[c.key]))
            for c in cuts
            if events.get(c.key)
        ]
        work = mark_common(work, common_among(count_hashes((o for w in work for o in w.openings), frequencies)))
        derived = derive_segments(work, self._calendar, self._summarizer)
        changed = self._find_stale([d.node for d in derived], former_nodes)
        stored = self._storage.toc.get_term_sets([d.node.node_id for d in derived])
        wrong = [
            d for d in derived
            if union_sets(map(from_bytes, stored.get(d.node.node_id, []))).tobytes() != d.hashes
        ]  # fmt: skip
        self._storage.toc.publish_build(
            Build(
                segments=tuple(replace(w.segment, events=len(w.events)) for w in work if w.segment.events != len(w.events)),
                nodes=tuple(changed),
                grips=tuple(g for d in derived for g in d.grips),
                terms=tuple(TermDelta(d.node.node_id, d.hashes) for d in wrong),
                reset_terms=tuple(d.node.node_id for d in wrong),
                runs=tuple(r for d in derived for r in d.runs),
                reset_runs=tuple(c.key for c in cuts),
                relist=True,
            )
        )
        self._nodes_changed += len(changed)
        self._terms_rewritten += len(wrong)
        return list(zip(work, derived, strict=True))

    def _find_stale(self, nodes: Sequence[TocNode], former_nodes: Mapping[NodeId, TocNode]) -> list[TocNode]:
        children_of_parent = {p: set(self._storage.toc.child_ids(p)) for p in {p for n in nodes for p in parents_of(n.node_id)}}
        stale = []
        for node in nodes:
            old = former_nodes.get(node.node_id)
            same = old is not None and replace(node, version=old.version, built=old.built, pinned=old.pinned) == old
            if not same or any(node.node_id not in children_of_parent[p] for p in parents_of(node.node_id)):
                stale.append(node)
        return stale

    def _rebuild_periods(self, periods: Set[NodeId]) -> None:
        rollups = RollUps(self._storage, self._calendar, self._summarizer)
        for level in PERIODS:
            ids = sorted(n for n in periods if level_of(n) is level)
            for start in range(0, len(ids), _CHUNK):
                part = ids[start : start + _CHUNK]
                former_nodes = self._storage.toc.get_nodes(part)
                nodes = self._find_stale(rollups.compute_nodes(part, former_nodes), former_nodes)
                if nodes:
                    self._storage.toc.publish_build(Build(nodes=tuple(nodes), relist=True))
                self._nodes_changed += len(nodes)
                self._terms_rewritten += len(refit_terms(self._storage.toc, part))
        rollups.run()
