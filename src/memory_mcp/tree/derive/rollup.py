"""Build periods from their children: which are due, and their text.

Invariants
1. A roll-up is due whenever a child is newer than its parent, not when a clock strikes: open periods always have one.
2. A week and a month are made of their own days, a year of its months; a bullet keeps the grips it had.
3. Rolling up twice changes nothing: a period that comes to the same words is no new version, and no one is notified;
   its counts, and that it is as new as its children, are written where they stand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import PERIODS, Calendar, TocLevel, level_of, rollup_targets, span_of
from memory_mcp.model.ids import NodeId, day_id
from memory_mcp.model.toc import KIND_SALIENCE, REQUESTS_SALIENCE, MemoryKind, TocNode, author_digest
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build, Freshness, Tally
from memory_mcp.tree.derive.build import keep_refinement, salience_of, source_of_children
from memory_mcp.tree.derive.pending import PendingToc, PeriodSource
from memory_mcp.tree.derive.terms import children_of, children_of_each
from memory_mcp.tree.summarize.base import Summarizer

#: Bullets of a period.
BULLETS = 10
#: Periods published in one transaction: keeps a first roll-up of years of history in small steps.
_PER_PUBLISH = 200


def plan_rollups(freshness: Freshness) -> list[list[NodeId]]:
    """Return the stale periods by level, finest first.

    All periods above a stale one are stale. Pure.
    """
    newest: dict[NodeId, int] = {}
    due: set[NodeId] = set()
    for day, built in freshness.segment_days.items():
        target = day_id(day)
        if freshness.periods.get(target, -1) < built:
            due.add(target)
        newest[target] = max(built, freshness.periods.get(target, -1))
    for target, built in newest.items():
        chain = rollup_targets(target.removeprefix("toc:day:"))
        above = target in due
        for period in chain[1:]:
            if above or freshness.periods.get(period, -1) < built:
                due.add(period)
        if chain[3] not in due and (chain[2] in due or freshness.periods.get(chain[3], -1) < freshness.periods.get(chain[2], -1)):
            due.add(chain[3])
    return [sorted(n for n in due if level_of(n) is level) for level in PERIODS]


class RollUps:
    """Applies plans: reads children, calls the summarizer, publishes level by level."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer) -> None:
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Publish every stale period; return how many.

        Ends between two transactions once `should_stop` returns true. At most 200 periods make a transaction; finer levels
        come first.
        """
        done = 0
        for level in plan_rollups(self._storage.toc.get_freshness()):
            for start in range(0, len(level), _PER_PUBLISH):
                if should_stop():
                    return done
                ids = level[start : start + _PER_PUBLISH]
                former_nodes = self._storage.toc.get_nodes(ids)
                done += self._publish_nodes(self.compute_nodes(ids, former_nodes), former_nodes)
            if level:
                failpoint("rollup.level_published")
        return done

    def run_days(self, days: Iterable[str]) -> int:
        """Publish the periods above changed days; return how many.

        All of them in one transaction, and without looking at any other: a live write touches one day.
        Periods whose children say the same get new counts alone.
        """
        toc = self._storage.toc
        targets = {period for day in days for period in rollup_targets(day)}
        former_nodes = toc.get_nodes(targets)
        return self._publish_nodes(self._compute_above(targets, former_nodes, toc), former_nodes)

    def add_periods(self, build: Build, may_wait: bool = False) -> Build | None:
        """Return a build of segments with the periods above them, as one that may wait; None if their counts are unknown."""
        targets = {period for segment in build.segments for period in rollup_targets(segment.day)}
        toc = PendingToc(self._storage.toc, build)
        former_nodes = toc.get_nodes(targets)
        try:
            changed, unchanged = _split_changed(self._compute_above(targets, former_nodes, toc), former_nodes)
        except LookupError:
            return None
        return replace(build, nodes=(*build.nodes, *changed), count_updates=unchanged, may_wait=may_wait)

    def _compute_above(self, targets: set[NodeId], former_nodes: Mapping[NodeId, TocNode], toc: PeriodSource) -> list[TocNode]:
        new_nodes: dict[NodeId, TocNode] = {}
        for level in PERIODS:
            ids = sorted(t for t in targets if level_of(t) is level)
            unchanged_ids = [
                i
                for i in ids
                if i in former_nodes and level is not TocLevel.DAY and not _has_changed_child(toc, i, new_nodes, former_nodes)
            ]
            changed_ids = [i for i in ids if i not in unchanged_ids]
            new_nodes |= {n.node_id: n for n in self._compute_nodes(toc, changed_ids, former_nodes, new_nodes)}
            for i in unchanged_ids:
                tally = _tally_period(toc, i)
                former = replace(former_nodes[i], agents=tally.agents, projects=tally.projects)
                new_nodes[i] = replace(former, version=former.version + 1, session_count=tally.sessions, event_count=tally.events)
        return list(new_nodes.values())

    def lacks_day(self, days: Iterable[str]) -> bool:
        """Return whether one of these days has no node yet."""
        ids = [day_id(day) for day in days]
        return len(self._storage.toc.get_nodes(ids)) < len(ids)

    def _publish_nodes(self, nodes: Sequence[TocNode], former_nodes: Mapping[NodeId, TocNode]) -> int:
        changed, unchanged = _split_changed(nodes, former_nodes)
        if nodes:
            self._storage.toc.publish_build(Build(nodes=changed, count_updates=unchanged))
        return len(nodes)

    def compute_nodes(self, ids: Sequence[NodeId], former_nodes: Mapping[NodeId, TocNode]) -> list[TocNode]:
        """Return these periods' nodes with their next version.

        Those without children are left out. `former_nodes` are the stored nodes, whose refined words stay. Nothing is written.
        """
        return self._compute_nodes(self._storage.toc, ids, former_nodes, {})

    def _compute_nodes(
        self, toc: PeriodSource, ids: Sequence[NodeId], former_nodes: Mapping[NodeId, TocNode], fresh: Mapping[NodeId, TocNode]
    ) -> list[TocNode]:
        children_of_period = children_of_each(toc, ids)
        child_nodes = toc.get_nodes([c for children in children_of_period.values() for c in children]) | dict(fresh)
        nodes = []
        for node_id in ids:
            children = sorted(
                (child_nodes[c] for c in children_of_period[node_id] if c in child_nodes), key=lambda n: (n.start_ms, n.node_id)
            )
            if children:
                node = roll_up(node_id, children, _tally_period(toc, node_id), self._calendar, self._summarizer)
                earlier = former_nodes.get(node_id)
                node = keep_refinement(node, earlier, partial(source_of_children, children))
                nodes.append(replace(node, version=earlier.version + 1 if earlier else 1))
        return nodes


def _tally_period(toc: PeriodSource, node_id: NodeId) -> Tally:
    first, after = span_of(node_id)
    return toc.tally_days(first.isoformat(), after.isoformat(), None)


def _has_changed_child(
    toc: PeriodSource, node_id: NodeId, new_nodes: Mapping[NodeId, TocNode], former_nodes: Mapping[NodeId, TocNode]
) -> bool:
    if author_digest(former_nodes[node_id].author):
        return True
    children = (i for i in children_of(toc, node_id) if i in new_nodes)
    return any(not _says_the_same(former_nodes.get(i), new_nodes[i]) for i in children)


def _split_changed(
    nodes: Sequence[TocNode], former_nodes: Mapping[NodeId, TocNode]
) -> tuple[tuple[TocNode, ...], tuple[TocNode, ...]]:
    """Return the nodes that say something else than before, and the others with their former versions."""
    changed = tuple(n for n in nodes if not _says_the_same(former_nodes.get(n.node_id), n))
    changed_ids = {n.node_id for n in changed}
    return changed, tuple(replace(n, version=former_nodes[n.node_id].version) for n in nodes if n.node_id not in changed_ids)


def _says_the_same(former: TocNode | None, now: TocNode) -> bool:
    if former is None:
        return False
    stamped = replace(now, version=former.version, built=former.built, pinned=former.pinned)
    return replace(stamped, session_count=former.session_count, event_count=former.event_count) == former


def roll_up(node_id: NodeId, children: Sequence[TocNode], tally: Tally, calendar: Calendar, summarizer: Summarizer) -> TocNode:
    """Return a period's node, written from its children. Pure.

    Children that hold nothing but requests tell nothing of it, unless there are no others.
    """
    telling = [child for child in children if not child.holds_requests]
    gist = summarizer.roll_up(telling or children, BULLETS)
    window = calendar.node_window(node_id)
    kind = max((b.kind for b in gist.bullets), key=lambda k: KIND_SALIENCE[k], default=MemoryKind.OBSERVATION)
    return TocNode(
        node_id=node_id,
        level=level_of(node_id),
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        title=f"{period_name(node_id)} · {gist.title}",
        summary=gist.summary,
        bullets=gist.bullets,
        keywords=gist.keywords,
        kind=kind,
        salience=salience_of(gist.bullets) if telling else REQUESTS_SALIENCE,
        session_count=tally.sessions,
        event_count=tally.events,
        agents=tally.agents,
        projects=tally.projects,
    )


def period_name(node_id: NodeId) -> str:
    """Return a period's date: 2026, 2026-W04 (19 to 25 Jan)."""
    first, after = span_of(node_id)
    level = level_of(node_id)
    if level is TocLevel.YEAR:
        return f"{first.year}"
    if level is TocLevel.MONTH:
        return f"{first:%B %Y}"
    if level is TocLevel.DAY:
        return f"{first:%a} {first.day} {first:%b %Y}"
    last = first.fromordinal(after.toordinal() - 1)
    start = f"{first.day} {first:%b}" if first.month != last.month else f"{first.day}"
    return f"{node_id.removeprefix('toc:week:')} ({start} to {last.day} {last:%b})"
