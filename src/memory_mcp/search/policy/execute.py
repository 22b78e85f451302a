"""Run the layers of a plan: one after the other, in parallel, or in parallel until one dominates.

Every layer runs in a thread of its own, so that no layer can delay an answer: when its time is up its budget is cancelled
and its reads are interrupted, and it ends when it next checks the budget.

Invariants
1. A layer that cannot answer, fails or is too slow becomes a line of the explanation, never an error.
2. A layer whose time is up answers with what it has reported by then. Where nothing was found at all, the last resort is waited
   for until it reports its first find, `FIRST_FIND_MS` at most: a deadline never empties an answer.
3. When this returns, every layer has ended or was told to end, which is repeated in the background until it has.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from memory_mcp.base.errors import DeadlineExceeded, InvalidQuery, LayerUnavailable, NotFound, StorageError
from memory_mcp.model.frozen import copy_with
from memory_mcp.search.layers.base import Hit, Layer, LayerName, Query
from memory_mcp.search.layers.budget import FIRST_FIND_MS, Budget
from memory_mcp.search.policy.explain import Outcome, Tried
from memory_mcp.search.policy.merge import Run, Verdict
from memory_mcp.search.policy.path import TO_HEAR, Interrupt, Path, Wait, record_untried, reserve_ms, stop
from memory_mcp.search.policy.plan import BEST, MADE_OF, Mode, Plan, Skipped

#: Errors of any layer that end the search: the question is wrong, or the store cannot be read.
_PASSED_UP = (InvalidQuery, NotFound, StorageError)
#: How long parallel accelerators wait for each other once one is sure: milliseconds at least, and a multiple of its time.
_GRACE, _FAR_LONGER = 50.0, 3.0
#: Share of the time for which a walk next to accelerators waits for one that is sure, which spares all of it.
_AHEAD = 0.1
#: Seconds between two checks whether the caller has gone.
_LOOK = 0.01
#: Share of the remaining time that one layer may use if others come after it.
_SHARE = 0.7
#: Share of the remaining nodes that parallel paths leave to the best layer at most.
_FOR_BEST = 0.75
#: Share of the nodes that paths leave to the walk if an index leaves something out, and nodes from which a walk is worth while
#: next to others: it goes down five levels.
_FOR_GAP, _TO_WALK = 0.5, 10


#: Takes all paths and those that have just ended; returns whether the others may be stopped.
Enough = Callable[[Sequence["Path"], Sequence["Path"]], bool]
#: Judges what a layer found.
Judge = Callable[[LayerName, Sequence[Hit]], Verdict]


class Execution:
    """Runs plans over some layers."""

    def __init__(self, layers: Mapping[LayerName, Layer], interrupt: Interrupt) -> None:
        self._layers = layers
        self._interrupt = interrupt

    def run(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        """Run the plan's layers one by one or side by side.

        A layer that cannot answer is a line of the result. Raises InvalidQuery, NotFound or StorageError that a layer raised.
        """
        if plan.mode is Mode.SEQUENTIAL:
            return self._one_by_one(plan, query, budget, judge)
        return self._side_by_side(plan, query, budget, judge)

    def _one_by_one(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        """Run the layers in order until one has enough evidence.

        After an index that lacks something, the last layer is asked in any case.
        """
        run, gap = Run(), plan.find_gap(query.window)
        for name in plan.order:
            whole_layer = next((n for n in run.answers if name in MADE_OF.get(n, ())), None)
            is_last = name is plan.order[-1]
            if run.sufficient and not is_last:
                continue
            if whole_layer is not None:
                run.skipped.append(Skipped(name, f"part of {whole_layer}, which was asked"))
                continue
            if name is LayerName.AGENTIC and run.fills_answer and not any(s.layer in BEST for s in plan.skipped):
                # What the walk finds would come after all that.
                run.skipped.append(Skipped(name, "not needed: as many results as can be shown were found before"))
                continue
            if run.paths and budget.out_of_time() and (budget.spent.satisfied or not is_last):
                run.skipped.append(Skipped(name, "no time was left"))
                continue
            sought, allowed = _narrow_to_gap(plan, query) if run.sufficient else query, budget
            if gap is not None and not is_last:
                # What an index leaves out needs nodes of its own.
                allowed = budget.leaving_nodes(int(budget.nodes_left() * _FOR_GAP))
                sought = _limit_to_nodes(query, allowed)
            path = self._prepare_path(name, sought, allowed, 1.0 if is_last else _SHARE)
            run.paths += self._run_paths([path], budget, lambda *_: False)
            verdict = self._record_outcome(path, judge, run)
            budget.spent.satisfied |= verdict is not None and bool(path.hits)
            run.sufficient |= verdict is not None and verdict.sufficient
            if run.sufficient and not run.lacks_something:
                break
        return run.merge_answers(plan)

    def _side_by_side(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        run = Run()
        strong: list[Path] = []

        def enough(paths: Sequence[Path], fresh: Sequence[Path]) -> bool:
            for path in fresh:
                verdict = self._record_outcome(path, judge, run)
                if verdict is not None:
                    budget.spent.satisfied |= bool(path.hits)
                    if verdict.sufficient:
                        strong.append(path)
            return bool(strong) and _may_stop(paths, strong[0], waits_for_walk=run.lacks_something)

        run.paths = self._run_paths(self._prepare_paths(plan, query, budget), budget, enough)
        is_walked = any(path.name is plan.order[-1] for path in run.paths)
        if not is_walked and (run.lacks_something or not any(path.hits for path in run.paths)):
            # The last layer counts against no beam: it is asked after the others, where they came to nothing.
            walk = self._prepare_path(plan.order[-1], _narrow_to_gap(plan, query), budget, 1.0)
            run.paths += self._run_paths([walk], budget, enough)
        # Of several that are sure, the surest, whichever ended first: the same question has the same answer.
        sure = [n for n in plan.order if n in run.verdicts and run.verdicts[n].sufficient]
        winner = max(sure, key=lambda n: run.verdicts[n].best, default=None)
        run.sufficient = winner is not None
        run.tried += [path.record_end(winner) for path in run.paths if path.name not in {t.layer for t in run.tried}]
        # In the order of the plan, whichever ended first: the same question has the same answer.
        names = [path.name for path in run.paths]
        run.tried = [tried for name in names for tried in run.tried if tried.layer == name]
        run.skipped = [skipped for name in names for skipped in run.skipped if skipped.layer == name]
        run.answers = {name: run.answers[name] for name in names if name in run.answers}
        run.tried += [record_untried(name, run.paths, budget) for name in plan.paths if name not in names]
        return run.merge_answers(plan)

    def _prepare_paths(self, plan: Plan, query: Query, budget: Budget) -> list[Path]:
        """Return a path, not started, for each layer that runs at once.

        The others leave the best accelerator nodes for its own list, at most three quarters of what is left, half if an index
        leaves something out; the walk is left out if it would have too few.
        """
        best = next((n for n in BEST if n in plan.paths), None)
        gap = plan.find_gap(query.window)
        most = max(1, int(budget.nodes_left() * (_FOR_BEST if gap is None else 1 - _FOR_GAP)))
        other_budget = budget if best is None else budget.leaving_nodes(min(query.limit, most))
        first = budget if gap is None else budget.leaving_nodes(budget.nodes_left() - most)
        paths = []
        for name in plan.paths:
            if name is LayerName.AGENTIC and best is not None and other_budget.nodes_left() < min(_TO_WALK, budget.nodes_left()):
                continue
            sought = query if gap is None else _limit_to_nodes(query, first)
            if name is LayerName.AGENTIC:
                sought = _narrow_to_gap(plan, query)
            paths.append(self._prepare_path(name, sought, first if name is best else other_budget, 1.0))
        return paths

    def _prepare_path(self, name: LayerName, query: Query, budget: Budget, share: float) -> Path:
        """Return the path of a layer, not started.

        It may use a share, 0..1, of the time left after the answer's reserve. The topics layer has counters of its own.
        """
        own_ms = max(1, int((budget.left_ms() - reserve_ms(budget) * (1 + TO_HEAR)) * share))
        path_budget = budget.separate(own_ms) if name is LayerName.TOPICS else budget.branch_path(own_ms)
        if name is LayerName.AGENTIC:
            path_budget.first_find_ms = FIRST_FIND_MS
        path = Path(name, self._layers[name], query, path_budget, threading.Condition())
        path_budget.on_partial = path.report
        return path

    def _run_paths(self, paths: list[Path], budget: Budget, enough: Enough) -> list[Path]:
        """Run paths until all have ended, or `enough` or a bound ends them.

        A walk starts once those next to it have ended, or after a tenth of the time. Those still at work answer with what they
        have reported; their reads are interrupted in the background.
        """
        woken = paths[0].woken
        walk = next((path for path in paths if path.name is LayerName.AGENTIC and len(paths) > 1), None)
        for path in paths:
            path.woken = woken
            if path is not walk:
                path.start()
        heard: set[LayerName] = set()
        going, late, wait = True, False, Wait.of(paths, budget)
        try:
            while going:
                with woken:
                    fresh = [p for p in paths if p.done and p.name not in heard]
                    if not fresh:
                        woken.wait(max(0.0, min(_LOOK, wait.left_ms(paths) / 1000)))
                        fresh = [p for p in paths if p.done and p.name not in heard]
                heard.update(path.name for path in fresh)
                going = not enough(paths, fresh)
                late = going and wait.left_ms(paths) <= 0
                going = going and len(heard) < len(paths) and not late and not budget.is_cancelled()
                if walk is not None and going and (len(heard) == len(paths) - 1 or wait.has_passed(_AHEAD)):
                    walk.start()
                    walk = None
        finally:
            if working := [path for path in paths if path.abandon_search(late)]:
                stop(lambda: [p.working for p in working if p.working], woken, self._interrupt)
        if late and working:
            budget.record_hit("timeout_ms")
        if late:
            enough(paths, [path for path in paths if path.name not in heard and path.hits])
        return paths

    def _record_outcome(self, path: Path, judge: Judge, run: Run) -> Verdict | None:
        """Record a path's outcome in `run` and return its verdict, if any.

        Raises the path's error if that ends the search (`_PASSED_UP`).
        """
        if isinstance(path.error, _PASSED_UP) and not isinstance(path.error, DeadlineExceeded):
            raise path.error
        if path.answer is None or path.ran_out():
            run.tried.append(path.record_end(None))
            if isinstance(path.error, LayerUnavailable):
                run.skipped.append(Skipped(path.name, path.error.reason))
            elif path.error is None or isinstance(path.error, DeadlineExceeded):
                run.skipped.append(Skipped(path.name, "its time was up"))
            else:
                run.skipped.append(Skipped(path.name, f"failed: {path.error}"))
            return None
        run.answers[path.name] = path.answer
        hits = path.answer.hits
        if path.answer.themes:
            reason = f"told {len(path.answer.themes)} themes; what was said is left to the other layers"
            run.tried.append(Tried(path.name, Outcome.INSUFFICIENT, reason, 0, 0.0, round(path.ms, 1)))
            return None
        verdict = run.verdicts[path.name] = judge(path.name, hits)
        outcome = Outcome.SUFFICIENT if verdict.sufficient else Outcome.INSUFFICIENT if hits else Outcome.NOTHING
        if outcome is Outcome.NOTHING and path.name is not LayerName.AGENTIC:
            nothing = "found nothing" if path.budget.nodes_left() else "no node was left to visit"
            run.skipped.append(Skipped(path.name, nothing))
        run.tried.append(Tried(path.name, outcome, verdict.reason, len(hits), round(verdict.best, 3), round(path.ms, 1)))
        return verdict


def _may_stop(paths: Sequence[Path], strong: Path, *, waits_for_walk: bool) -> bool:
    """Return whether the paths still at work need not be waited for.

    All but the walk have 50 ms from their start, or three times what `strong` took where that is more: accelerators of about
    the same speed are waited for, so that the order in which they end does not matter.
    """
    grace = max(_GRACE, _FAR_LONGER * strong.ms)
    late = [p for p in paths if not p.done and p.name is not LayerName.AGENTIC]
    if waits_for_walk and any(not p.done and p.name is LayerName.AGENTIC for p in paths):
        return False
    return all((p.budget.clock.monotonic() - p.budget.begun) * 1000 > grace for p in late)


def _limit_to_nodes(query: Query, budget: Budget) -> Query:
    return copy_with(query, limit=max(1, min(query.limit, budget.nodes_left())))


def _narrow_to_gap(plan: Plan, query: Query) -> Query:
    gap = plan.find_gap(query.window)
    return query if gap is None else copy_with(query, window=gap)
