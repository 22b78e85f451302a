"""A question in, cited segments out, by walking the tree from the root: the whole loop of layer 2.

Best-first over one frontier across levels. A node's bound is the IDF-weighted share of the query that its term set
holds: nothing below it can cover more, so the walk may stop as soon as enough hits cover as much as the best bound.

Invariants
1. A node is visited (compared) at most once, and every visit and call is counted.
2. What is returned was read and matched in the stored words; a hash only chooses where to look.
3. Running into a bound gives what was found so far, and says so.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from memory_mcp import metrics
from memory_mcp.clock import Clock
from memory_mcp.layers.agentic import browse
from memory_mcp.layers.agentic.calibrate import calibrated
from memory_mcp.layers.agentic.match import FIELDS, Weighted, below
from memory_mcp.layers.agentic.read import Found, Reader
from memory_mcp.layers.agentic.search import NodeSearch
from memory_mcp.layers.base import CONTRACTS, Hit, LayerAnswer, LayerName, LayerStatus, Query, Step
from memory_mcp.layers.budget import Budget
from memory_mcp.layers.standing import with_standing
from memory_mcp.layers.timehints import TimeHint, find_time
from memory_mcp.model.calendar import DEPTH, TimeWindow, TocLevel, level_of
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.text import terms
from memory_mcp.toc.tree import Tree
from memory_mcp.toc.tree import below as finer
from memory_mcp.tracing import span

#: A node with at most this many segments below is compared segment by segment at once, instead of level by level.
SWEEP = 48
#: Segments read per hit wanted: the best by bound are read first, the rest only if these disappoint.
_READ_FACTOR = 2
_READ_LEAST = 12
#: Segments read between two looks at the time.
_READ_AT_ONCE = 12
#: Reading the words to quote takes so long at most (milliseconds, at 100,000 documents); a long question takes longer, and has
#: this share of a longer time for it, up to so many milliseconds.
_TO_QUOTE, _QUOTE_SHARE, _MOST_TO_QUOTE = 8.0, 0.05, 60.0
#: Hits quoted between two looks at the time.
_QUOTED_AT_ONCE = 5


@dataclass(slots=True)
class _Walk:
    """The state of one search."""

    query: Query
    weighted: Weighted
    scope: Scope
    budget: Budget
    mean_tokens: float
    strong: float
    frontier: list[tuple[float, float, int, int, NodeId]] = field(default_factory=list)
    seen: set[NodeId] = field(default_factory=set)
    found: list[Found] = field(default_factory=list)
    path: list[Step] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


class AgenticLayer:
    """Layer 2 behind the layer contract."""

    name = LayerName.AGENTIC
    contract = CONTRACTS[LayerName.AGENTIC]

    def __init__(self, storage: Storage, tree: Tree, clock: Clock, strong_match: float = 0.5) -> None:
        self._storage = storage
        self._tree = tree
        self._clock = clock
        self._strong = strong_match
        self.nodes = NodeSearch(tree)
        self._reader = Reader(storage, tree)

    def status(self) -> LayerStatus:
        """Always usable: it needs nothing but the tree."""
        return LayerStatus(self.name, enabled=True, healthy=True, count=self._tree.tally().segments)

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """See Layer. Without a word to look for, what happened in the query's window, newest first."""
        return self._measured(query, TimeHint(query.window, "", query.text), budget, ROOT, widen=False)

    def navigate(self, query: Query, budget: Budget, now_ms: int | None = None, start: NodeId = ROOT) -> LayerAnswer:
        """The walk from `start`, with time words read relative to `now_ms`.

        Unless the query has a window, they become one, widened with a notice when nothing lies inside.
        """
        if query.window is not None:
            return self._measured(query, TimeHint(None, "", query.text), budget, start, widen=False)
        with span("read_time"):
            hint = find_time(query.text, self._clock.now_ms() if now_ms is None else now_ms, self._tree.calendar)
        return self._measured(query, hint, budget, start, widen=True)

    def _measured(self, query: Query, hint: TimeHint, budget: Budget, start: NodeId, widen: bool) -> LayerAnswer:
        before = budget.nodes_visited
        with span("agentic_search"), metrics.timed("agentic_search_latency_seconds"):
            answer = self._navigate(query, hint, budget, start, widen)
        metrics.count("agentic_nodes_visited_total", budget.nodes_visited - before)
        return answer

    def _navigate(self, query: Query, hint: TimeHint, budget: Budget, start: NodeId, widen: bool) -> LayerAnswer:
        if not terms(hint.rest) and (hint.window is not None or query.overview):
            return self._browse(query, hint, budget)
        with span("parse_query"):
            walk = self._begin(replace(query, text=hint.rest or query.text), query.window or hint.window, budget)
        with span("execute_search"):
            self._run(walk, start)
            if widen and hint.window and not walk.found:
                self._widen(walk, hint.window, start)
        with span("collect_results"):
            hits = self._collect(walk)
        return LayerAnswer(tuple(hits), tuple(walk.path), walk.scope.window, hint.words, tuple(walk.notices))

    def _begin(self, query: Query, window: TimeWindow | None, budget: Budget) -> _Walk:
        tally = self._tree.tally(query.project)
        mean = tally.tokens / tally.segments if tally.segments else 0.0
        scope = Scope(query.project, query.agent, window)
        return _Walk(query, self.nodes.weigh(query.text, query.project), scope, budget, mean, self._strong)

    def _run(self, walk: _Walk, start: NodeId) -> None:
        walk.frontier = [(-1.0, 0.0, 0, 0, start)]
        while walk.frontier and not self._enough(walk):
            batch = [heapq.heappop(walk.frontier)[4] for _ in range(min(walk.budget.bounds.beam_width, len(walk.frontier)))]
            for node_id in batch:
                if self._is_late(walk) or not self._expand(walk, node_id):
                    return

    def _is_late(self, walk: _Walk, found: Sequence[Found] = (), step_ms: float = 0.0) -> bool:
        """Whether the time is up, or what is left of it after a step is needed to quote what was found."""
        needed = _to_quote(walk.budget) + step_ms
        return walk.budget.out_of_time() or (bool(walk.found or found) and walk.budget.is_short_of(needed))

    def _enough(self, walk: _Walk) -> bool:
        """Whether nothing left can add anything: every segment that holds a term is found, or none can cover more."""
        held = Counter(t for f in walk.found for t in f.terms)
        if walk.found and all(held[t] >= count for t, count in walk.weighted.counts.items()):
            return True
        if len(walk.found) < walk.query.limit:
            return False
        covered = sorted((f.coverage for f in walk.found), reverse=True)[walk.query.limit - 1]
        return -walk.frontier[0][0] <= covered

    def _expand(self, walk: _Walk, node_id: NodeId) -> bool:
        """One expansion; False when a bound ends the walk."""
        if node_id in walk.seen:
            return True
        walk.seen.add(node_id)
        count = self._tree.count_below(node_id, walk.scope)
        if count == 0:
            return True
        if not walk.budget.call():
            return False
        if count <= min(SWEEP, walk.budget.nodes_left()) or level_of(node_id) is TocLevel.DAY:
            return self._sweep(walk, node_id)
        return self._descend(walk, node_id)

    def _descend(self, walk: _Walk, node_id: NodeId) -> bool:
        """Compare the direct children, and put those that hold query terms on the frontier."""
        depth = DEPTH[level_of(node_id)] + 1
        if not walk.budget.go_down(depth):
            return self._sweep(walk, node_id)
        ids = [
            c
            for c in self._tree.children(node_id, walk.query.project)
            if c not in walk.seen and self._tree.reaches(c, walk.scope.window)
        ]
        allowed = walk.budget.visit(len(ids))
        ranked = self.nodes.rank(ids[::-1][:allowed], walk.weighted, FIELDS, True, walk.query.project)
        for result in ranked:
            own = result.matches[0].score if result.matches[0].field in FIELDS else 0.0
            entry = (-result.relevance, -own, -depth, -result.node.start_ms, result.node.node_id)
            heapq.heappush(walk.frontier, entry)
        level = finer(level_of(node_id))
        if ranked:
            best = ranked[0]
            reason = f"Drilling into {label(best.node.node_id)} ({self._strength(best.relevance)} {level} match)"
            step = Step(node_id, label(node_id), allowed, level, best.matches[0].text, best.relevance, reason)
        else:
            step = Step(node_id, label(node_id), allowed, level, "", 0.0, "Nothing here: leaving this branch")
        walk.path.append(step)
        return allowed == len(ids)

    def _strength(self, score: float) -> str:
        return "strongest" if score > self._strong else "best, though weak,"

    def _sweep(self, walk: _Walk, node_id: NodeId) -> bool:
        """Compare every segment below a node, newest first, and read those that may answer.

        Where the walk may go no deeper it compares them all the same, unnarrowed, as far as the other bounds let it: what
        a word of the query stands in is never missed for the sake of a bound on depth.
        """
        if walk.budget.bounds.max_depth >= DEPTH[TocLevel.SEGMENT]:
            walk.budget.go_down(DEPTH[TocLevel.SEGMENT])
        below_it = self._tree.segments_below(node_id, walk.scope)
        segments = [s for s in below_it if s.node_id == node_id or s.node_id not in walk.seen]
        allowed = walk.budget.visit(len(segments))
        chosen = segments[::-1][:allowed]
        walk.seen.update(s.node_id for s in chosen)
        held = self._held(walk, chosen)
        found = self._read(walk, held)
        walk.found += found
        walk.budget.spent.satisfied |= bool(found)
        best = max(found, key=lambda f: (f.coverage, f.score), default=None)
        if best:
            decision = f"Found {len(found)} relevant segment{'s' if len(found) != 1 else ''}"
            step = Step(node_id, label(node_id), allowed, TocLevel.SEGMENT, best.node.title, round(best.coverage, 3), decision)
        else:
            step = Step(node_id, label(node_id), allowed, TocLevel.SEGMENT, "", 0.0, "Nothing here: trying a sibling")
        walk.path.append(step)
        return allowed == len(segments)

    def _held(self, walk: _Walk, segments: Sequence[Segment]) -> list[tuple[float, Segment]]:
        """Segments whose term set holds any of the query, by how much of it, newest first among equals."""
        sets = self._tree.term_sets([s.node_id for s in segments])
        shares = [(walk.weighted.share(below(walk.weighted, sets[s.node_id])), s) for s in segments]
        return sorted((x for x in shares if x[0] > 0), key=lambda x: -x[0])

    def _read(self, walk: _Walk, held: list[tuple[float, Segment]]) -> list[Found]:
        """Read the segments with the best bounds, and more of them only while they could still beat what was read."""
        found: list[Found] = []
        clock, took = walk.budget.clock, 0.0
        want = max(_READ_LEAST, walk.query.limit * _READ_FACTOR)
        for start in range(0, len(held), want):
            part = held[start : start + want]
            if len(found) >= want and part[0][0] <= min(f.coverage for f in found):
                break
            for place in range(0, len(part), _READ_AT_ONCE):
                if start + place and self._is_late(walk, found, took):
                    return found
                began = clock.monotonic()
                some = [s for _, s in part[place : place + _READ_AT_ONCE]]
                gone = walk.budget.is_cancelled
                found += self._reader.verify(some, walk.weighted, walk.scope.window, walk.mean_tokens, gone)
                took = (clock.monotonic() - began) * 1000
        return found

    def _widen(self, walk: _Walk, window: TimeWindow, start: NodeId) -> None:
        """Nothing inside the time named: look beside it, then everywhere; what comes is marked as outside."""
        length = window.end_ms - window.start_ms
        wider = TimeWindow(window.start_ms - length, window.end_ms + length)
        for scope, words in ((wider, "the periods beside it"), (None, "all time")):
            if walk.budget.out_of_time():
                return
            walk.notices.append(f"nothing found in the time named; widened to {words}")
            walk.scope = replace(walk.scope, window=scope)
            walk.seen.clear()
            self._run(walk, start)
            if walk.found:
                return

    def _collect(self, walk: _Walk) -> list[Hit]:
        ranked = sorted(walk.found, key=lambda f: (-f.score, -f.segment.start[0], f.segment.key))
        hits = self._quoted(walk, ranked[: walk.query.limit])
        # An event that waits may lie in the time of a segment, and was read with it.
        read = {h.event_id for h in hits}
        unread = (e for e in self._waiting(walk.scope, walk.budget, walk.weighted.probes) if e.event_id not in read)
        waiting = self._reader.pending(walk.weighted, unread, walk.query.limit)
        if waiting:
            walk.notices.append(f"{len(waiting)} found among events not yet filed in the tree")
            hits = sorted([*hits, *waiting], key=lambda h: (-h.score, -h.timestamp))[: walk.query.limit]
        if walk.budget.hit:
            walk.notices.append(f"stopped by {', '.join(walk.budget.hit)}; there may be more")
        return calibrated(hits)

    def _quoted(self, walk: _Walk, ranked: Sequence[Found]) -> list[Hit]:
        """Hits for what was found, the best first, as far as the time goes."""
        hits: list[Hit] = []
        for place in range(0, len(ranked), _QUOTED_AT_ONCE):
            if place and (walk.budget.cancelled or walk.budget.is_short_of(_TO_QUOTE)):
                break
            hits += self._reader.hits(ranked[place : place + _QUOTED_AT_ONCE], walk.weighted)
        return hits

    def _waiting(self, scope: Scope, budget: Budget, probes: Sequence[str] = ()) -> Iterator[Event]:
        """Stored events that the tree does not hold yet, of the scope."""
        done = self._tree.pending_from()
        if done is None:
            return iter(())
        return self._reader.waiting(done, scope, budget.out_of_time, probes)

    def _browse(self, query: Query, hint: TimeHint, budget: Budget) -> LayerAnswer:
        """No word to look for: what happened in the window, newest first; see `browse`."""
        budget.call()
        scope = Scope(query.project, query.agent, hint.window)
        nodes = browse.listed(self._tree, query, scope)
        allowed = budget.visit(len(nodes))
        budget.spent.satisfied |= allowed > 0
        hits = [browse.hit(node, query) for node in nodes[:allowed]]
        if not query.overview:
            hits += [self._reader.listed(e) for e in self._waiting(scope, budget)]
        hits = sorted(hits, key=lambda h: -h.timestamp)[: query.limit]
        hits = with_standing(hits, {n.node_id: n for n in nodes}, self._storage)
        level = nodes[0].level if nodes else TocLevel.SEGMENT
        told = f"Listed what happened {hint.words}".rstrip()
        step = Step(ROOT, label(ROOT), allowed, level, "", 1.0, told)
        return LayerAnswer(tuple(hits), (step,), hint.window, hint.words, ())


def _to_quote(budget: Budget) -> float:
    """What of a search's time is kept for quoting, milliseconds."""
    return max(_TO_QUOTE, min(_MOST_TO_QUOTE, _QUOTE_SHARE * budget.bounds.timeout_ms))


def label(node_id: NodeId) -> str:
    """A node's place in words: Root, Year 2026, Month 2026-01, Day 2026-01-30."""
    if node_id == ROOT:
        return "Root"
    level = level_of(node_id)
    name = node_id.split(":", 2)[2]
    return f"{level.capitalize()} {name}" if level is not TocLevel.SEGMENT else f"Segment {name}"
