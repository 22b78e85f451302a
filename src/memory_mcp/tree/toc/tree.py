"""The tree as a reader sees it: root, nodes, children, context; for a scoped caller made of one project's own bullets.

Invariants
1. Under a project's scope no derived text of another project is ever returned: a period's title, summary, keywords,
   counts and terms come from that project's segments alone.
2. A node exists for a scope only if a segment of that scope lies below it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.model.calendar import (
    EVERY_DAY,
    LEVELS,
    Calendar,
    TimeWindow,
    TocLevel,
    level_of,
    parents_of,
    rollup_targets,
    span_of,
)
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId, segment_key_of
from memory_mcp.model.project import shorten_names
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope, Tally
from memory_mcp.tree.derive.rollup import period_name, roll_up
from memory_mcp.tree.derive.segments import overlap_before
from memory_mcp.tree.derive.terms import Frequencies, Hashes, from_bytes, read_sets, union_sets
from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.toc.facts import FactCache
from memory_mcp.tree.toc.outline import Outline

#: Build number, rows of terms, last of them: see TocStore.stamps.
Stamp = tuple[int, int, int]

#: The most salient segments that a scope's period is written from; counts and terms come from all.
_CHILDREN = 160
#: Assembled nodes and sets kept in memory, all scopes together.
_MAX_PERIODS = 512
#: A segment is filed under the day it began; it may go on into the next.
_REACH_MS = 86_400_000
#: A moment after all others that a calendar knows.
_FAR_MS = 250_000_000_000_000
#: Nodes kept as stored, about 4 KB each.
_MAX_NODES = 2000
#: Term sets kept, bytes: a month of a busy store is 0.2 MB, a year 0.8 MB.
_MAX_HASH_BYTES = 24 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Context:
    """The end of the segment before this one, and the periods above it."""

    before: tuple[Event, ...]
    parents: tuple[TocNode, ...]


@dataclass(frozen=True, slots=True)
class _AssembledPeriod:
    node: TocNode
    hashes: Hashes


class Tree:
    """Reading side of layer 1. Safe from any thread."""

    def __init__(
        self, storage: Storage, calendar: Calendar, summarizer: Summarizer, lag: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._periods: OrderedDict[tuple[str, NodeId, int], _AssembledPeriod] = OrderedDict()
        self._nodes: OrderedDict[NodeId, TocNode] = OrderedDict()
        self._hashes: OrderedDict[tuple[NodeId, Stamp], Hashes] = OrderedDict()
        self._hash_bytes = 0
        self._lock = threading.Lock()
        self._facts = FactCache(storage.toc.current_version, lag)

    @property
    def calendar(self) -> Calendar:
        """The store's calendar."""
        return self._calendar

    def node(self, node_id: NodeId, project: str | None = None) -> TocNode:
        """Return one node, also by a former id; raises NotFound."""
        if node_id == ROOT:
            return self.root(project)
        nodes = self.nodes([node_id], project)
        if not nodes:
            aliased = self._storage.toc.find_node(node_id)
            nodes = self.nodes([aliased.node_id], project) if aliased else {}
        if not nodes:
            raise NotFound(
                f"no node {node_id} here", "Browse from the root with browse_toc, or search_children with no parent_id."
            )
        return next(iter(nodes.values()))

    def with_terms(self, ids: Sequence[NodeId], project: str | None = None) -> tuple[dict[NodeId, TocNode], dict[NodeId, Hashes]]:
        """Return nodes and terms below them, `(n,)` sorted uint32."""
        if project is not None:
            return self.nodes(ids, project), self.term_sets(ids, project)
        stamps = self._storage.toc.get_stamps(ids)
        return self._stored_nodes({i: stamp[0] for i, stamp in stamps.items()}), self._stored_sets(list(stamps), stamps)

    def nodes(self, ids: Sequence[NodeId], project: str | None = None) -> dict[NodeId, TocNode]:
        """Return the scope's nodes in order, those by former ids last."""
        position = {node_id: at for at, node_id in enumerate(ids)}
        stored_nodes = self._stored_nodes(self._storage.toc.get_builds(ids))
        stored = dict(sorted(stored_nodes.items(), key=lambda pair: position.get(pair[0], len(position))))
        if project is None:
            return stored
        segments = {i: n for i, n in stored.items() if n.level is TocLevel.SEGMENT and project in (n.projects or ("",))}
        periods = [n for n in stored.values() if n.level is not TocLevel.SEGMENT]
        assembled = {n.node_id: a.node for n in periods if (a := self._assemble_period(n, project))}
        return {i: (segments | assembled)[i] for i in stored if i in segments or i in assembled}

    def _stored_nodes(self, builds: Mapping[NodeId, int]) -> dict[NodeId, TocNode]:
        pins = self._storage.toc.list_pins()
        with self._lock:
            cached = {i: self._nodes[i] for i, built in builds.items() if i in self._nodes and self._nodes[i].built == built}
        missing = [i for i in builds if i not in cached]
        loaded = self._storage.toc.get_nodes(missing) if missing else {}
        with self._lock:
            self._nodes.update(loaded)
            while len(self._nodes) > _MAX_NODES:
                self._nodes.popitem(last=False)
        nodes = cached | loaded
        return {i: n if n.pinned == (i in pins) else replace(n, pinned=i in pins) for i, n in nodes.items()}

    def root(self, project: str | None = None) -> TocNode:
        """Return the root node: counts and years; never stored."""
        tally = self.tally(project)
        years = self.children(ROOT, project)
        names = ", ".join(y.removeprefix("toc:year:") for y in years)
        windows = [self._calendar.node_window(y) for y in years]
        title = f"{tally.events} events in {tally.sessions} sessions, {names}" if years else "Nothing recorded yet"
        return TocNode(
            node_id=ROOT,
            level=TocLevel.ROOT,
            start_ms=min((w.start_ms for w in windows), default=0),
            end_ms=max((w.end_ms for w in windows), default=0),
            title=title,
            summary="",
            bullets=(),
            keywords=(),
            session_count=tally.sessions,
            event_count=tally.events,
            agents=tally.agents,
            projects=tally.projects,
        )

    def outline(self, project: str | None = None) -> Outline:
        """Return the shape of the tree for a scope."""
        return self._facts.get_fact(("outline", project), lambda: Outline(self._storage.toc.count_segments_by_day(project)))

    def children(self, node_id: NodeId, project: str | None = None) -> list[NodeId]:
        """Return the ids of the children with content, by time."""
        if level_of(node_id) is TocLevel.SEGMENT:
            return []
        if level_of(node_id) is TocLevel.DAY:
            first, after = (d.isoformat() for d in span_of(node_id))
            return [s.node_id for s in self._storage.toc.list_day_segments(first, after, project)]
        return self.outline(project).children(node_id)

    def count_children(self, node_id: NodeId, project: str | None = None) -> int:
        """Return the number of children; 0 for a segment."""
        level = level_of(node_id)
        if level is TocLevel.DAY:
            return self.count_below(node_id, Scope(project=project))
        return 0 if level is TocLevel.SEGMENT else len(self.outline(project).children(node_id))

    def descendants(
        self, node_id: NodeId, level: TocLevel, project: str | None = None, window: TimeWindow | None = None
    ) -> list[NodeId]:
        """Return ids of one level below a node, by time."""
        if level is TocLevel.SEGMENT:
            return [s.node_id for s in self.segments_below(node_id, Scope(project=project, window=window))]
        window_below = window if node_id == ROOT else self._calendar.node_window(node_id).intersection(window)
        whole_window = (
            None if window_below is None else TimeWindow(self._period_start(level, window_below.start_ms), window_below.end_ms)
        )
        outline = self.outline(project)
        return [i for i in self._storage.toc.list_ids(level, whole_window) if outline.has_segments(i)]

    def _period_start(self, level: TocLevel, ms: int) -> int:
        """A period that the window cuts must not be lost."""
        day = self._calendar.to_local(ms).date()
        if level is TocLevel.WEEK:
            day = day.fromordinal(day.toordinal() - day.weekday())
        elif level is TocLevel.MONTH:
            day = day.replace(day=1)
        elif level is TocLevel.YEAR:
            day = day.replace(month=1, day=1)
        return self._calendar.midnight_of(day)

    def segments_below(self, node_id: NodeId, scope: Scope) -> list[Segment]:
        """Return the segments below a node, by time.

        They are of the scope's project, agent and window, not of role or speaker.
        """
        if node_id == ROOT:
            return self._storage.toc.list_segments(scope)
        if level_of(node_id) is TocLevel.SEGMENT:
            key = segment_key_of(node_id)
            filed = [] if key is None else list(self._storage.toc.get_segments([key]).values())
        else:
            first, after = (d.isoformat() for d in span_of(node_id))
            filed = self._storage.toc.list_day_segments(first, after, scope.project)
        return [
            s
            for s in filed
            if (scope.project is None or s.project == scope.project)
            and (scope.agent is None or s.agent == scope.agent)
            and (scope.window is None or (s.end[0] >= scope.window.start_ms and s.start[0] < scope.window.end_ms))
        ]

    def count_below(self, node_id: NodeId, scope: Scope) -> int:
        """Return an upper bound of the segments below a node.

        The day before the window counts too: a segment that began late in it may reach into the window.
        """
        if level_of(node_id) is TocLevel.SEGMENT:
            return len(self.segments_below(node_id, scope))
        first, after = EVERY_DAY if node_id == ROOT else (d.isoformat() for d in span_of(node_id))
        if scope.window:
            if scope.window.start_ms >= scope.window.end_ms:
                return 0
            first = max(first, self._calendar.day_of(max(scope.window.start_ms, 0) - _REACH_MS))
            after = min(after, self._calendar.day_of(min(scope.window.end_ms - 1, _FAR_MS) + _REACH_MS))
        return self.outline(scope.project).count_segments(first, after) if first < after else 0

    def count_before(self, ms: int, project: str | None) -> int:
        """Count a project's segments of days before `ms` (UTC)."""
        return self.outline(project).count_segments(EVERY_DAY[0], self._calendar.day_of(min(ms, _FAR_MS))) if ms > 0 else 0

    def may_reach(self, node_id: NodeId, window: TimeWindow | None) -> bool:
        """Return whether a segment below may reach a window."""
        if window is None:
            return True
        own_window = self._calendar.node_window(node_id)
        return TimeWindow(own_window.start_ms, own_window.end_ms + _REACH_MS).intersects(window)

    def siblings(self, node_id: NodeId, project: str | None = None) -> list[NodeId]:
        """Return the neighbours under the same parents, nearest first."""
        node = self._storage.toc.find_node(node_id)
        start = node.start_ms if node else 0
        sibling_ids = [c for p in parents_of(node_id) for c in self.children(p, project) if c != node_id]
        starts = {n.node_id: n.start_ms for n in self._storage.toc.get_heads(sibling_ids).values()}
        return sorted(dict.fromkeys(sibling_ids), key=lambda i: (abs(starts.get(i, 0) - start), i))

    def path(self, node_id: NodeId) -> list[NodeId]:
        """Return the ids from the year down to the node."""
        if node_id == ROOT:
            return []
        level = level_of(node_id)
        if level in (TocLevel.SEGMENT, TocLevel.DAY):
            chain = rollup_targets(node_id.split(":")[2])[::-1]
            return [*chain, node_id] if level is TocLevel.SEGMENT else list(chain)
        up = [node_id]
        while (parent_ids := parents_of(up[-1])) and parent_ids[0] != ROOT:
            outline = self.outline()
            up.append(next((p for p in parent_ids if outline.has_segments(p)), parent_ids[0]))
        return up[::-1]

    def context(self, segment: Segment, project: str | None = None) -> Context:
        """Return the overlap before a segment and its periods."""
        cuts = self._storage.toc.get_cuts([segment.stream])[segment.stream]
        index = next((i for i, c in enumerate(cuts) if c.key == segment.key), 0)
        previous = self._storage.events.segment_events(cuts[index - 1]) if index else []
        parent_ids = self.path(segment.node_id)[:-1]
        nodes = self.nodes(parent_ids, project)
        return Context(tuple(overlap_before(previous, segment.start[0])), tuple(nodes[i] for i in parent_ids if i in nodes))

    def term_sets(self, ids: Sequence[NodeId], project: str | None = None) -> dict[NodeId, Hashes]:
        """Return the scope's terms below each node, `(n,) uint32` sorted."""
        if project is None:
            return self._stored_sets(ids, self._storage.toc.get_stamps(ids))
        segments = [i for i in ids if level_of(i) is TocLevel.SEGMENT]
        segment_sets = self._stored_sets(segments, self._storage.toc.get_stamps(segments))
        stored = self._storage.toc.get_nodes([i for i in ids if level_of(i) is not TocLevel.SEGMENT])
        return segment_sets | {n.node_id: a.hashes for n in stored.values() if (a := self._assemble_period(n, project))}

    def _stored_sets(self, ids: Sequence[NodeId], found_stamps: Mapping[NodeId, Stamp]) -> dict[NodeId, Hashes]:
        stamps = {i: s for i, s in found_stamps.items() if s[1]}
        with self._lock:
            cached = {i: self._hashes[i, s] for i, s in stamps.items() if (i, s) in self._hashes}
        missing = [i for i in ids if i not in cached]
        loaded = read_sets(self._storage.toc, missing) if missing else {}
        with self._lock:
            for node_id, hashes in loaded.items():
                if node_id in stamps:
                    self._hashes[node_id, stamps[node_id]] = hashes
                    self._hash_bytes += hashes.nbytes
            while self._hash_bytes > _MAX_HASH_BYTES and self._hashes:
                self._hash_bytes -= self._hashes.popitem(last=False)[1].nbytes
        return cached | loaded

    def refined_ids(self) -> frozenset[NodeId]:
        """Return the nodes whose text an agent wrote."""
        return self._facts.get_fact("refined", lambda: frozenset(self._storage.toc.list_refined()))

    def frequencies(self) -> Frequencies:
        """Return the document frequencies of terms by project."""
        return self._facts.get_statistic("frequencies", lambda: Frequencies(self._storage.toc.list_frequencies()))

    def tally(self, project: str | None = None) -> Tally:
        """Return counts over everything of a scope."""
        return self._facts.get_statistic(("tally", project), lambda: self._storage.toc.tally_days(*EVERY_DAY, project))

    def has_events(self, project: str) -> bool:
        """Return whether a project has any events, filed or not."""
        if self.tally(project).events:
            return True
        projects, events = self._storage.projects, self._storage.events
        names, has_any = self._facts.get_fact(
            ("any events", project), lambda: (projects.names, bool(events.list_sessions(Scope(project=project), 1)))
        )
        # Rules of names change without a change of the store.
        return has_any if names is projects.names else bool(events.list_sessions(Scope(project=project), 1))

    def short_names(self) -> Mapping[str, str]:
        """Return each project's shortest unique name."""
        projects = self.tally().projects
        return self._facts.get_statistic("short names", lambda: shorten_names(projects))

    def pending_from(self) -> int | None:
        """Return the event number after which events are pending."""
        done = self._facts.get_fact("derived", lambda: self._storage.outbox.get_checkpoint("deriver"))
        return done if done < self._storage.events.last_seq() else None

    def _assemble_period(self, stored: TocNode, project: str) -> _AssembledPeriod | None:
        key = (project, stored.node_id, stored.built)
        with self._lock:
            if key in self._periods:
                self._periods.move_to_end(key)
                return self._periods[key]
        first, after = span_of(stored.node_id)
        tally = self._storage.toc.tally_days(first.isoformat(), after.isoformat(), project)
        if not tally.segments:
            return None
        days = (first.isoformat(), after.isoformat(), project)
        terms = union_sets(map(from_bytes, self._storage.toc.list_day_terms(*days)))
        if stored.author != EXTRACTIVE and tally.segments == self._storage.toc.tally_days(*days[:2], None).segments:
            # It holds no other project: the agent's text is this project's own.
            return self._cache_period(key, _AssembledPeriod(stored, terms))
        ids = self._storage.toc.list_salient(*days, _CHILDREN)
        nodes = sorted(self._storage.toc.get_nodes(ids).values(), key=lambda n: (n.start_ms, n.node_id))
        node = roll_up(stored.node_id, nodes, tally, self._calendar, self._summarizer)
        return self._cache_period(key, _AssembledPeriod(node, terms))

    def _cache_period(self, key: tuple[str, NodeId, int], assembled: _AssembledPeriod) -> _AssembledPeriod:
        with self._lock:
            self._periods[key] = assembled
            while len(self._periods) > _MAX_PERIODS:
                self._periods.popitem(last=False)
        return assembled


def share_of(node: TocNode, project: str) -> TocNode:
    """Return a period with one project's bullets only."""
    project_bullets = tuple(b for b in node.bullets if b.project == project)
    name = period_name(node.node_id)
    title = f"{name} · {project_bullets[0].text}" if project_bullets else name
    return replace(node, title=title, summary="", bullets=project_bullets, keywords=(), projects=(project,) if project else ())


def finer_level(level: TocLevel) -> TocLevel:
    """Return the next finer level; segments stay."""
    if level is TocLevel.ROOT:
        return LEVELS[0]
    return LEVELS[min(LEVELS.index(level) + 1, len(LEVELS) - 1)]
