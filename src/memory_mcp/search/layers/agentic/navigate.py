"""Answer a question with cited segments by walking the tree from the root: the whole of layer 2.

Best-first over one frontier across levels. A node's bound is the IDF-weighted share of the query that its term set holds:
nothing below it can cover more, so the walk stops once enough hits cover as much as the best bound. Half of the nodes and
calls are reserved: if the walk would need more, the events themselves are scanned for segments to read.

Invariants
1. A node is visited (compared) at most once, and every visit and call is counted.
2. Every hit was read and matched in the stored words; a hash only chooses where to look.
3. What was compared is read before more is compared, so that reaching a bound returns what was found so far, with a notice.
4. A period's term set may hold more than the scope: with a project it is not shown.

Change here: how the tree is walked.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from memory_mcp.base import metrics
from memory_mcp.base.clock import Clock
from memory_mcp.base.metrics import span
from memory_mcp.base.text import terms
from memory_mcp.indexes.index_reader import IndexReader
from memory_mcp.model.calendar import DEPTH, TimeWindow, TocLevel, level_of
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.question.timehints import TimeHint, find_time
from memory_mcp.search.layers.agentic import browse
from memory_mcp.search.layers.agentic.match import WeightedQuery, calibrate_hits, terms_below
from memory_mcp.search.layers.agentic.read import SegmentFind, SegmentReader, best_messages, may_show, scope_of
from memory_mcp.search.layers.agentic.scan import Sift
from memory_mcp.search.layers.agentic.search import NodeSearch
from memory_mcp.search.layers.agentic.walk import Walk, comparison_step, descent_step
from memory_mcp.search.layers.base import Hit, LayerAnswer, LayerName, LayerStatus, Query, is_echo
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.layers.pending import find_counted
from memory_mcp.storage.arrivals import make_event_filter
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.derive.terms import EMPTY
from memory_mcp.tree.toc.tree import Tree

#: A node with at most this many segments below is compared segment by segment instead of level by level.
SWEEP = 48
#: Segments read per hit wanted, and at least: the best by bound first, the rest only if those cover less.
_READ_FACTOR = 2
_READ_LEAST = 12
#: Segments read between two checks of the time.
_READ_AT_ONCE = 12
#: Hits quoted between two checks of the time.
_QUOTED_AT_ONCE = 5
#: Share of the nodes and calls, and of the time, that the walk may use while there is more left to compare.
_TO_WALK, _TIME_TO_WALK = 0.5, 0.3
#: Time from which a walk is not in haste, and events are read in large slices (milliseconds).
_AMPLE = 2000
#: Hits that a walk for evidence looks for, whatever its limit.
_WALKED = 10
#: In haste: segments read before the first report, segments compared of the first slice, and messages reported.
_READ_FIRST, _FEW, _REPORTED = 2, 12, 3
#: Assumed time of the first slice (milliseconds).
_SLICE_MS = 20.0
#: Most segments taken from one slice, and least while there are nodes left.
_SIFTED, _SIFTED_LEAST = 36, 6


class AgenticLayer:
    """Layer 2 behind the layer contract."""

    name = LayerName.AGENTIC

    def __init__(self, storage: Storage, tree: Tree, clock: Clock, index: IndexReader) -> None:
        """Create the layer; `index` tells what a keyword index holds."""
        self._storage = storage
        self._tree = tree
        self._clock = clock
        self._index = index
        self.nodes = NodeSearch(tree)
        self._reader = SegmentReader(storage, tree)
        self._sift = Sift(storage, tree)

    def status(self) -> LayerStatus:
        """Return the status: always usable, with the count of segments."""
        return LayerStatus(self.name, enabled=True, healthy=True, count=self._tree.tally().segments)

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """Walk the tree from the root, and return cited messages.

        Without a word to look for, returns what happened in the query's window, newest first. Raises InvalidQuery for a text
        without terms and without window. Time words are not read.
        """
        return self._navigate_measured(query, TimeHint(query.window, "", query.text), budget, ROOT, widen=False)

    def navigate(self, query: Query, budget: Budget, now_ms: int | None = None, start: NodeId = ROOT) -> LayerAnswer:
        """Walk from `start`, with time words read relative to `now_ms` (UTC).

        Unless the query has a window, they become it, and it is widened, with a notice, when nothing is found inside. The
        limit changes no order: ten hits are looked for first, and further ones come after them. Raises InvalidQuery for a
        text that has no terms and names no time.
        """
        hint = TimeHint(None, "", query.text)
        if query.window is None:
            with span("read_time"):
                hint = find_time(query.text, self._clock.now_ms() if now_ms is None else now_ms, self._tree.calendar)
        return self._navigate_measured(query, hint, budget, start, widen=query.window is None, first=_WALKED)

    def find_pending(self, query: Query, budget: Budget) -> list[Hit]:
        """Return the best events of the scope that have no node yet."""
        weighted = self.nodes.weigh_query(query.text, query.project)
        return self._reader.search_pending(weighted, self._find_pending(weighted, scope_of(query, None), budget), query.limit)

    def _navigate_measured(
        self, query: Query, hint: TimeHint, budget: Budget, start: NodeId, widen: bool, first: int = 0
    ) -> LayerAnswer:
        visited_before = budget.spent.nodes_visited
        with span("agentic_search"), metrics.timed("agentic_search_latency_seconds"):
            answer = self._navigate(query, hint, budget, start, widen, first)
        metrics.count("agentic_nodes_visited_total", budget.spent.nodes_visited - visited_before)
        return answer

    def _navigate(self, query: Query, hint: TimeHint, budget: Budget, start: NodeId, widen: bool, first: int) -> LayerAnswer:
        """Walk and collect hits, or list what happened.

        With `widen`, the hint's window is widened when nothing is found inside; so many hits as `first` are looked for before
        others, 0 for the query's limit. Raises InvalidQuery for a text without terms otherwise.
        """
        if not terms(hint.rest) and (hint.window is not None or query.overview):
            scope = scope_of(query, hint.window)
            pending = () if query.overview else map(self._reader.event_hit, self._iter_pending(scope, budget))
            return browse.list_window(self._tree, self._storage, query, hint, scope, budget, pending)
        query = replace(query, text=hint.rest or query.text)
        with span("parse_query"):
            tally = self._tree.tally(query.project)
            mean = tally.tokens / tally.segments if tally.segments else 0.0
            scope = scope_of(query, query.window or hint.window)
            weighted = self.nodes.weigh_query(query.text, query.project, query.keywords)
            walk = Walk(replace(query, limit=first or query.limit), weighted, scope, budget, mean)
        with span("execute_search"):
            if widen and hint.window:
                self._walk_widening(walk, hint.window, start)
            else:
                self._walk_once(walk, start)
        with span("collect_results"):
            hits = self._collect_hits(walk)
        if query.limit > walk.query.limit:
            hits = self._extend_walk(walk, hits, query.limit)
        return LayerAnswer(tuple(hits[: query.limit]), tuple(walk.path), walk.scope.window, hint.words, tuple(walk.notices))

    def _walk_once(self, walk: Walk, start: NodeId) -> None:
        """Expand the best nodes within half of the bounds, then scan events.

        No scan follows if an index was searched for them.
        """
        budget = walk.budget
        walk.kept_nodes = int(budget.nodes_left() * (1 - _TO_WALK))
        walk.kept_calls = int(budget.calls_left() * (1 - _TO_WALK))
        walk.until = budget.clock.monotonic() + budget.ms_to_limit() * _TIME_TO_WALK / 1000
        walk.begin_attempt(is_hasty=budget.ms_to_limit() < _AMPLE)
        walk.frontier = [(-1.0, 0, 0, start)]
        if walk.is_hasty:
            self._go_straight_down(walk)
        self._expand_best(walk)
        bound = walk.end_scan()
        if walk.is_cut and walk.query.looked_up and self._index.is_whole():
            budget.note_cut(bound)
        elif walk.is_cut:
            crowd = self._tree.count_below(walk.crowded, walk.scope) if walk.crowded else 0
            self._sift_slices(walk, walk.crowded or start, walk.slices)
            if crowd < self._tree.count_below(start, walk.scope):
                self._sift_slices(walk, start, self._sift.list_slices(walk.scope, start, is_hasty=walk.is_hasty))

    def _extend_walk(self, walk: Walk, hits: Sequence[Hit], limit: int) -> list[Hit]:
        walk.query, unread, walk.unread = replace(walk.query, limit=limit), walk.unread, []
        if not walk.is_cut:
            walk.found += self._read_segments(walk, sorted(unread, key=lambda pair: -pair[0]))
            self._expand_best(walk)
        names = {hit.event_id for hit in hits}
        return [*hits, *(hit for hit in self._collect_hits(walk) if hit.event_id not in names)]

    def _expand_best(self, walk: Walk) -> None:
        budget = walk.budget
        while walk.frontier and not walk.is_cut and not walk.has_enough():
            batch = [heapq.heappop(walk.frontier)[3] for _ in range(min(budget.bounds.beam_width, len(walk.frontier)))]
            for node_id in batch:
                if walk.is_late() or budget.clock.monotonic() > walk.until or not self._expand_node(walk, node_id):
                    walk.is_cut = True
                    break

    def _go_straight_down(self, walk: Walk) -> None:
        node_id = heapq.heappop(walk.frontier)[3]
        while not walk.found and not walk.is_cut:
            upper, walk.frontier = walk.frontier, []
            walk.is_cut = not self._expand_node(walk, node_id)
            children, walk.frontier = walk.frontier, upper
            if not children:
                return
            node_id = heapq.heappop(children)[3]
            for child in children:
                heapq.heappush(walk.frontier, child)

    def _expand_node(self, walk: Walk, node_id: NodeId) -> bool:
        if node_id in walk.seen:
            return True
        walk.seen.add(node_id)
        if (count := self._tree.count_below(node_id, walk.scope)) == 0:
            return True
        if walk.kept_calls and walk.budget.calls_left() <= walk.kept_calls:
            return False
        if not walk.budget.count_call():
            return False
        if count <= min(SWEEP, walk.nodes_left()) or level_of(node_id) is TocLevel.DAY:
            return self._compare_segments_below(walk, node_id)
        if walk.is_hasty and self._sift.fits_slice(count, walk.query.project):
            return self._sift_crowd(walk, node_id)
        return self._compare_children(walk, node_id)

    def _compare_children(self, walk: Walk, node_id: NodeId) -> bool:
        depth = DEPTH[level_of(node_id)] + 1
        if not walk.budget.go_down(depth):
            return self._compare_segments_below(walk, node_id)
        children = self._tree.children(node_id, walk.query.project)
        ids = [c for c in children if c not in walk.seen and self._tree.may_reach(c, walk.scope.window)]
        allowed = walk.visit_nodes(len(ids))
        chosen = ids[::-1][:allowed]
        sets = self._tree.term_sets(chosen)
        terms_by_child = {i: terms_below(walk.weighted, sets.get(i, EMPTY)) for i in chosen}
        for child, child_terms in terms_by_child.items():
            if child_terms:
                start_ms = self._tree.calendar.node_window(child).start_ms
                heapq.heappush(walk.frontier, (-walk.weighted.share_of(child_terms), -depth, -start_ms, child))
        walk.path.append(descent_step(node_id, terms_by_child, walk.weighted, walk.query.project is None))
        return allowed == len(ids)

    def _compare_segments_below(self, walk: Walk, node_id: NodeId) -> bool:
        """Compare the segments below a node, newest first, and read likely ones.

        At the depth limit they are compared all the same: a segment that holds a query word is never missed because of that.
        """
        if walk.budget.bounds.max_depth >= DEPTH[TocLevel.SEGMENT]:
            walk.budget.go_down(DEPTH[TocLevel.SEGMENT])
        if walk.is_hasty and self._tree.count_below(node_id, walk.scope) > walk.nodes_left():
            return self._sift_crowd(walk, node_id)
        below_it = self._tree.segments_below(node_id, walk.scope)
        # Ids are hashes: making thousands takes as long as comparing dozens of segments.
        unseen = (s for s in reversed(below_it) if s.node_id == node_id or s.node_id not in walk.seen)
        segments = list(islice(unseen, walk.budget.nodes_left() + 1))
        allowed = walk.visit_nodes(len(segments))
        finds = self._compare_segments(walk, segments[:allowed])
        walk.path.append(comparison_step(node_id, allowed, finds, "Nothing here: trying a sibling"))
        return allowed == len(segments)

    def _sift_crowd(self, walk: Walk, node_id: NodeId) -> bool:
        part, *walk.slices = self._sift.list_slices(walk.scope, node_id, is_hasty=walk.is_hasty)
        walk.crowded = node_id
        likely = [s for s in self._sift.find_likely(part, walk.weighted, _FEW)[0] if s.node_id not in walk.seen]
        allowed = walk.visit_nodes(len(likely))
        finds = self._compare_segments(walk, likely[:allowed])
        walk.path.append(comparison_step(node_id, allowed, finds, "Nothing here: trying what is earlier"))
        return False

    def _compare_segments(self, walk: Walk, segments: Sequence[Segment]) -> list[SegmentFind]:
        walk.seen.update(s.node_id for s in segments)
        sets = self._tree.term_sets([s.node_id for s in segments])
        shares = [(walk.weighted.share_of(terms_below(walk.weighted, sets[s.node_id])), s) for s in segments]
        # By share of the query, newest first among equals.
        likely_segments = sorted((x for x in shares if x[0] > 0), key=lambda x: -x[0])
        finds = self._read_segments(walk, likely_segments)
        walk.found += finds
        walk.budget.spent.satisfied |= bool(finds)
        self._report_finds(walk, ())
        return finds

    def _report_finds(self, walk: Walk, fresh: Sequence[SegmentFind]) -> None:
        best = best_messages([*walk.found, *fresh], _REPORTED) if walk.is_hasty else []
        if not best or best[0][1].score <= walk.reported:
            return
        walk.reported = best[0][1].score
        if hits := self._calibrate_hits(walk, self._reader.quote_messages(best, walk.weighted)):
            walk.budget.on_partial(LayerAnswer(tuple(hits), tuple(walk.path), walk.scope.window))
            walk.budget.spent.satisfied = True

    def _sift_slices(self, walk: Walk, node_id: NodeId, slices: Sequence[Scope]) -> None:
        budget, clock, took = walk.budget, walk.budget.clock, _SLICE_MS
        for number, part in enumerate(slices):
            if not budget.nodes_left():
                budget.record_hit("max_nodes_visited")
                return
            if walk.is_late(step_ms=took) or not budget.count_call():
                return
            began = clock.monotonic()
            most = min(_SIFTED, max(budget.nodes_left() // (len(slices) - number), _SIFTED_LEAST))
            likely, is_full = self._sift.find_likely(part, walk.weighted, most)
            fresh = [s for s in likely if s.node_id not in walk.seen]
            allowed = budget.visit_nodes(len(fresh))
            finds = self._compare_segments(walk, fresh[:allowed])
            walk.path.append(comparison_step(node_id, allowed, finds, "Nothing here that was not compared before"))
            took = (clock.monotonic() - began) * 1000
            if is_full and most < _SIFTED:
                budget.record_hit("max_nodes_visited")

    def _read_segments(self, walk: Walk, likely_segments: list[tuple[float, Segment]]) -> list[SegmentFind]:
        """Read the segments with the best bounds, and more only while those could beat what was read; return what was found.

        `likely_segments` are bounds and segments, best first. Ends early when the time is up, after the first batch.
        """
        finds: list[SegmentFind] = []
        clock, took = walk.budget.clock, 0.0
        want = _READ_LEAST if walk.is_hasty else max(_READ_LEAST, walk.query.limit * _READ_FACTOR)
        for start in range(0, len(likely_segments), want):
            part = likely_segments[start : start + want]
            if len(finds) >= want and part[0][0] <= min(f.coverage for f in finds):
                walk.unread += likely_segments[start:]
                break
            while part:
                if (finds or walk.found) and walk.is_late(finds, took):
                    return finds
                began = clock.monotonic()
                count = _READ_FIRST if walk.is_hasty and not (walk.found or finds) else _READ_AT_ONCE
                some, part = [s for _, s in part[:count]], part[count:]
                gone = walk.budget.is_cancelled
                finds += self._reader.find_messages(some, walk.weighted, walk.scope, walk.mean_tokens, gone, walk.query.literal)
                took = (clock.monotonic() - began) * 1000
                if not walk.found:
                    self._report_finds(walk, finds)
        return finds

    def _walk_widening(self, walk: Walk, window: TimeWindow, start: NodeId) -> None:
        length = window.end_ms - window.start_ms
        wider = TimeWindow(window.start_ms - length, window.end_ms + length)
        ways = ((window, "", 0.5), (wider, "the periods beside it", 0.5), (None, "all time", 1.0))
        whole_budget = walk.budget
        for scope, words, share in ways:
            if whole_budget.out_of_time():
                break
            if words:
                walk.notices.append(f"nothing found in the time named; widened to {words}")
            walk.budget = whole_budget.take_share(share, until_found=True)
            walk.scope = replace(walk.scope, window=scope)
            walk.seen.clear()
            self._walk_once(walk, start)
            if walk.found:
                break
        walk.budget = whole_budget

    def _collect_hits(self, walk: Walk) -> list[Hit]:
        ranked = best_messages(walk.found, walk.query.limit)
        hits: list[Hit] = []
        clock, took = walk.budget.clock, 0.0
        for first in range(0, len(ranked), _QUOTED_AT_ONCE):
            if first and (walk.budget.is_cancelled() or walk.budget.is_short_of(2 * took)):
                break
            began = clock.monotonic()
            hits += self._reader.quote_messages(ranked[first : first + _QUOTED_AT_ONCE], walk.weighted)
            took = (clock.monotonic() - began) * 1000
        # An event without a node may lie in the time of a segment, and was read with it.
        read = {h.event_id for h in hits}
        unread = (e for e in self._find_pending(walk.weighted, walk.scope, walk.budget) if e.event_id not in read)
        waiting = self._reader.search_pending(walk.weighted, unread, walk.query.limit)
        if waiting:
            walk.notices.append(f"{len(waiting)} found among events not yet filed in the tree")
            hits = sorted([*hits, *waiting], key=lambda h: (-h.score, -h.timestamp))[: walk.query.limit]
        return self._calibrate_hits(walk, hits)

    def _calibrate_hits(self, walk: Walk, hits: Sequence[Hit]) -> list[Hit]:
        """Calibrate hits without the question, beside which others are nothing."""
        question, now_ms = walk.query.question, self._clock.now_ms()
        return calibrate_hits([h for h in hits if not question or not is_echo(question, h, now_ms)])

    def _iter_pending(self, scope: Scope, budget: Budget) -> Iterator[Event]:
        done = self._tree.pending_from()
        waiting_events = iter(()) if done is None else self._reader.iter_pending(done, scope, budget.out_of_time)
        return (e for e in waiting_events if may_show(e, scope))

    def _find_pending(self, query: WeightedQuery, scope: Scope, budget: Budget) -> Iterator[Event]:
        """Yield the events without a node that may hold a word of the query; of those that were counted, the best."""
        done = self._tree.pending_from()
        if done is None:
            return
        in_scope = make_event_filter(scope)
        counted = find_counted(self._storage, self._index, query.text, (), done, in_scope)
        yield from (match.event for match in counted.best)
        uncounted = self._reader.iter_pending(counted.reach, scope, budget.out_of_time, query.probes)
        yield from (e for e in uncounted if may_show(e, scope))
