"""Derives the whole tree again from events and stored cuts, and writes only what differs: same ids, same text.

Cuts that older rules made are made anew first; an id that goes leads to the segment that now holds what it began with.

On a healthy store it changes nothing. Killed at any point it leaves a valid store; running it again goes on.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from memory_mcp.model.calendar import PERIODS, Calendar, level_of, parents_of, rollup_targets
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build, TermDelta
from memory_mcp.tree.derive.build import Derived, Work, derive
from memory_mcp.tree.derive.repeated import common_among, mark_common
from memory_mcp.tree.derive.rollup import RollUps
from memory_mcp.tree.derive.segments import CUTTER_VERSION, SegmentSettings, recap_of, recut
from memory_mcp.tree.derive.terms import FrequencyRow, Hashes, count_hashes, frequency, from_bytes, refit, union
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


class RebuildToc:
    """One rebuild. Nothing else may derive meanwhile; see `Derivation.publishing`."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer, settings: SegmentSettings) -> None:
        """Prepare a rebuild; nothing is read or written before `run`."""
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._settings = settings
        self._changed = 0
        self._rewritten = 0

    def run(self, timezone: str | None = None, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Rebuild the tree and return what was different; each chunk is a transaction of its own.

        With `timezone`, days are counted in that zone from now on. Nodes without segments are dropped.
        `progress` gets segments done and all.
        """
        started = time.perf_counter()
        self._storage.drop_caches()
        if timezone:
            self._storage.set_timezone(timezone)
            self._calendar = Calendar(timezone)
            days = [(c, self._calendar.day_of(c.start[0])) for c in self._storage.toc.iter_cuts()]
            if moved := {c.key: day for c, day in days if day != c.day}:
                self._storage.toc.move_segments(moved)
        self._recut()
        cuts = sorted(self._storage.toc.iter_cuts(), key=lambda c: c.start)
        frequencies: dict[str, list[Hashes]] = {}
        openings: dict[int, frozenset[int]] = {}
        stored = list(self._storage.toc.list_frequencies())
        for start in range(0, len(cuts), _CHUNK):
            part = cuts[start : start + _CHUNK]
            for work, derived in self._segments(part, stored):
                frequencies.setdefault(derived.segment.project, []).append(from_bytes(derived.hashes))
                openings[derived.segment.key] = work.openings
            if progress:
                progress(min(start + _CHUNK, len(cuts)), len(cuts))
        rows = tuple(frequency(project, parts) for project, parts in frequencies.items())
        self._storage.toc.publish_build(Build(frequencies=rows, reset_frequencies=True))
        self._recount(cuts, openings, stored)
        periods = {p for c in cuts for p in rollup_targets(c.day)}
        wanted = periods.union(c.node_id for c in cuts)
        extra = [n.node_id for n in self._storage.toc.iter_nodes() if n.node_id not in wanted]
        if extra:
            self._storage.toc.drop_nodes(extra)
        self._periods(periods)
        took = time.perf_counter() - started
        return RebuildReport(len(cuts) + len(periods), self._changed, len(extra), self._rewritten, took)

    def _recut(self) -> None:
        """Replace the cuts of streams that an older cutter made, except of streams with a refined or pinned segment.

        A former id leads to the segment that holds the time at which the former one began.
        """
        streams: dict[int, list[Segment]] = {}
        for cut in self._storage.toc.iter_cuts():
            streams.setdefault(cut.stream, []).append(cut)
        old = [cuts for cuts in streams.values() if any(c.cutter != CUTTER_VERSION for c in cuts)]
        kept = self._storage.toc.list_pins().union(self._storage.toc.list_refined())
        for start in range(0, len(old), _STREAMS):
            part = [cuts for cuts in old[start : start + _STREAMS] if kept.isdisjoint(c.node_id for c in cuts)]
            events = self._storage.events.events_by_segment([c for cuts in part for c in cuts])
            fresh: list[Segment] = []
            leads: dict[NodeId, NodeId] = {}
            for cuts in part:
                told = sorted((e for c in cuts for e in events.get(c.key, ())), key=lambda e: e.order)
                if told:
                    made = recut(cuts, told, self._calendar, self._settings)
                    fresh += made
                    starts, ids = [c.start for c in made], {c.node_id for c in made}
                    leads |= {
                        c.node_id: made[max(bisect_right(starts, c.start) - 1, 0)].node_id for c in cuts if c.node_id not in ids
                    }
            self._storage.toc.replace_cuts(fresh, leads)

    def _recount(self, cuts: Sequence[Segment], openings: Mapping[int, Set[int]], stored: Sequence[FrequencyRow]) -> None:
        """Derive those segments once more of which an opening is common by the new counts and not by `stored` ones, or was."""
        every = frozenset[int]().union(*openings.values())
        now, then = (common_among(count_hashes(every, rows)) for rows in (self._storage.toc.list_frequencies(), stored))
        changed = now ^ then
        again = [cut for cut in cuts if not changed.isdisjoint(openings.get(cut.key, frozenset()))] if changed else []
        for start in range(0, len(again), _CHUNK):
            self._segments(again[start : start + _CHUNK], self._storage.toc.list_frequencies())

    def _segments(self, cuts: Sequence[Segment], frequencies: Sequence[FrequencyRow]) -> list[tuple[Work, Derived]]:
        """Derive segments again, without empty ones, write and count what differs, in one transaction, and return all derived.

        Which openings are common is told by `frequencies`.
        """
        events = self._storage.events.events_by_segment(cuts)
        before = self._storage.toc.get_nodes([c.node_id for c in cuts])
        recaps = self._storage.events.list_recaps({c.stream for c in cuts})
        work = [
            Work(c, tuple(events[c.key]), before.get(c.node_id), recap_of(c, recaps), openings_of(events[c.key]))
            for c in cuts
            if events.get(c.key)
        ]
        work = mark_common(work, common_among(count_hashes((o for w in work for o in w.openings), frequencies)))
        derived = derive(work, self._calendar, self._summarizer)
        changed = self._stale([d.node for d in derived], before)
        stored = self._storage.toc.get_term_sets([d.node.node_id for d in derived])
        wrong = [
            d for d in derived
            if union(map(from_bytes, stored.get(d.node.node_id, []))).tobytes() != d.hashes
        ]  # fmt: skip
        self._storage.toc.publish_build(
            Build(
                segments=tuple(replace(w.segment, events=len(w.events)) for w in work if w.segment.events != len(w.events)),
                nodes=tuple(changed),
                grips=tuple(g for d in derived for g in d.grips),
                terms=tuple(TermDelta(d.node.node_id, d.hashes) for d in wrong),
                reset_terms=tuple(d.node.node_id for d in wrong),
                relist=True,
            )
        )
        self._changed += len(changed)
        self._rewritten += len(wrong)
        return list(zip(work, derived, strict=True))

    def _stale(self, nodes: Sequence[TocNode], before: Mapping[NodeId, TocNode]) -> list[TocNode]:
        """Return the nodes that differ from the stored ones, but for version, build and pin, or that a parent does not list."""
        listed = {p: set(self._storage.toc.child_ids(p)) for p in {p for n in nodes for p in parents_of(n.node_id)}}
        stale = []
        for node in nodes:
            old = before.get(node.node_id)
            same = old is not None and replace(node, version=old.version, built=old.built, pinned=old.pinned) == old
            if not same or any(node.node_id not in listed[p] for p in parents_of(node.node_id)):
                stale.append(node)
        return stale

    def _periods(self, wanted: Set[NodeId]) -> None:
        """Rebuild these periods, finest level first: text, then terms; write what differs, then roll up stale periods."""
        rollups = RollUps(self._storage, self._calendar, self._summarizer)
        for level in PERIODS:
            ids = sorted(n for n in wanted if level_of(n) is level)
            for start in range(0, len(ids), _CHUNK):
                part = ids[start : start + _CHUNK]
                before = self._storage.toc.get_nodes(part)
                nodes = self._stale(rollups.compute(part, before), before)
                if nodes:
                    self._storage.toc.publish_build(Build(nodes=tuple(nodes), relist=True))
                self._changed += len(nodes)
                self._rewritten += len(refit(self._storage.toc, part))
        rollups.run()
