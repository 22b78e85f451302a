"""Run the layers of a plan: one after the other, in parallel, or in parallel until one dominates.

Every layer runs in a thread of its own, so that no layer can delay an answer: when its time is up its budget is cancelled
and its reads are interrupted, and it ends when it next checks the budget.

Invariants
1. A layer that cannot answer, fails or is too slow becomes a line of the explanation, never an error.
2. A layer whose time is up answers with what it has reported by then. Where nothing was found at all, the last resort is waited
   for until it reports its first find, `_FIRST_FIND` at most: a deadline never empties an answer.
3. When this returns, every layer has ended or was told to end, which is repeated in the background until it has.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memory_mcp.errors import DeadlineExceeded, InvalidQuery, LayerUnavailable, NotFound, StorageError
from memory_mcp.layers.base import Hit, Layer, LayerAnswer, LayerName, Query, Theme
from memory_mcp.layers.budget import Budget
from memory_mcp.policy.chain import BEST, MADE_OF
from memory_mcp.policy.explain import Outcome, Tried
from memory_mcp.policy.merge import arbitration, merge
from memory_mcp.policy.path import TO_HEAR, Path, ms_to_wait
from memory_mcp.policy.plan import Mode, Plan, Skipped
from memory_mcp.policy.stopping import Interrupt, reserve_ms, stop

#: Errors of any layer that end the search: the question is wrong, or the store cannot be read.
_PASSED_UP = (InvalidQuery, NotFound, StorageError)
#: How long parallel accelerators wait for each other once one is sure: milliseconds at least, and a multiple of its time.
_GRACE, _FAR_LONGER = 50.0, 3.0
#: Seconds between two checks whether the caller has gone.
_LOOK = 0.01
#: Share of the remaining time that one layer may use if others come after it.
_SHARE = 0.7
#: Share of the remaining nodes that parallel paths leave to the best layer at most.
_FOR_BEST = 0.75
#: Longest that a search which has found nothing goes on beyond its time, for the first find of its last resort (milliseconds).
_FIRST_FIND = 500.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How good one layer's answer is."""

    #: Whether no further layer is needed.
    sufficient: bool
    #: How sure the layer's answer is to be about the question, 0..1.
    best: float
    reason: str


#: Takes all paths and those that have just ended; returns whether the others may be stopped.
Enough = Callable[[Sequence["Path"], Sequence["Path"]], bool]
#: Judges what a layer found.
Judge = Callable[[LayerName, Sequence[Hit]], Verdict]


@dataclass(slots=True)
class Run:
    """The outcome of a plan."""

    #: What was found, best first.
    hits: tuple[Hit, ...] = ()
    #: The layer that answered, or the last one asked.
    method: str = LayerName.AGENTIC
    used: tuple[LayerName, ...] = ()
    #: Topics of the answer, if the topics layer ran; in addition to the hits.
    themes: tuple[Theme, ...] = ()
    tried: list[Tried] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    #: Whether one layer's evidence was enough.
    sufficient: bool = False
    arbitration: str = ""
    answers: dict[LayerName, LayerAnswer] = field(default_factory=dict)


class Execution:
    """Runs plans over some layers."""

    def __init__(self, layers: Mapping[LayerName, Layer], interrupt: Interrupt) -> None:
        self._layers = layers
        self._interrupt = interrupt

    def run(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        """Run the plan's layers as its mode says: one by one, or side by side.

        A layer that cannot answer is a line of the result. Raises InvalidQuery, NotFound or StorageError that a layer raised.
        """
        if plan.mode is Mode.SEQUENTIAL:
            return self._one_by_one(plan, query, budget, judge)
        return self._side_by_side(plan, query, budget, judge)

    def _one_by_one(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        """Run the plan's layers in order until one has enough evidence, and merge the hits of all that had any.

        Skipped are parts of a layer that has answered, and all but the first when no time is left.
        """
        run = Run()
        kept: dict[LayerName, tuple[Hit, ...]] = {}
        for place, name in enumerate(plan.order):
            whole = next((n for n in run.answers if name in MADE_OF.get(n, ())), None)
            if whole is not None:
                run.skipped.append(Skipped(name, f"part of {whole}, which was asked"))
                continue
            last = place == len(plan.order) - 1
            if place and budget.out_of_time() and (kept or not last):
                run.skipped.append(Skipped(name, "no time was left"))
                continue
            path = self._path(name, query, budget, 1.0 if last else _SHARE)
            self._wait([path], budget, lambda *_: False)
            verdict = self._judged(path, judge, run)
            if verdict is not None and path.answer is not None and path.answer.hits:
                kept[name] = path.answer.hits
                run.method = name
                budget.spent.satisfied = True
            if verdict is not None and verdict.sufficient:
                run.sufficient = True
                break
        run.used, run.hits, run.arbitration = tuple(kept), merge(kept), arbitration(kept)
        if len(kept) > 1:
            run.method = _method(plan, kept)
        return _with_themes(run)

    def _side_by_side(self, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        """Run all paths at once and merge their hits; without any the plan's last layer follows, if no path and in time."""
        run = Run()
        verdicts: dict[LayerName, Verdict] = {}
        strong: list[Path] = []

        def enough(paths: Sequence[Path], fresh: Sequence[Path]) -> bool:
            """Judge the paths that have just ended; return whether one suffices and the others need not be waited for."""
            for path in fresh:
                verdict = self._judged(path, judge, run)
                if verdict is not None:
                    verdicts[path.name] = verdict
                    budget.spent.satisfied |= path.answer is not None and bool(path.answer.hits)
                    if verdict.sufficient:
                        strong.append(path)
            return bool(strong) and _lags(paths, strong[0])

        paths = self._wait(self._beside(plan, query, budget), budget, enough)
        if plan.order[-1] not in plan.paths and not any(path.hits for path in paths):
            # The last layer counts against no beam: it is asked after the others, where they came to nothing.
            paths += self._wait([self._path(plan.order[-1], query, budget, 1.0)], budget, enough)
        # Of several that are sure, the surest, whichever ended first: the same question has the same answer.
        sure = [n for n in plan.order if n in verdicts and verdicts[n].sufficient]
        winner = max(sure, key=lambda n: verdicts[n].best, default=None)
        for path in paths:
            if path.name not in {t.layer for t in run.tried}:
                run.tried.append(path.ended(winner))
        # In the order of the plan, whichever ended first: the same question has the same answer.
        names = [path.name for path in paths]
        run.tried = [tried for name in names for tried in run.tried if tried.layer == name]
        run.skipped = [skipped for name in names for skipped in run.skipped if skipped.layer == name]
        run.answers = {name: run.answers[name] for name in names if name in run.answers}
        kept = {p.name: p.answer.hits for p in paths if p.answer is not None and p.name in verdicts and p.answer.hits}
        run.sufficient = winner is not None
        run.arbitration = arbitration(kept)
        run.used, run.hits = tuple(kept), merge(kept)
        run.method = _method(plan, kept)
        return _with_themes(run)

    def _beside(self, plan: Plan, query: Query, budget: Budget) -> list[Path]:
        """Return a path, not started, for each layer that runs at once.

        The others leave the best accelerator among them nodes for its own list, at most three quarters of what is left.
        """
        best = next((n for n in BEST if n in plan.paths), None)
        kept = min(query.limit, max(1, int(budget.nodes_left() * _FOR_BEST)))
        others = budget if best is None else budget.beside(kept)
        return [self._path(n, query, budget if n is best else others, 1.0) for n in plan.paths]

    def _path(self, name: LayerName, query: Query, budget: Budget, share: float) -> Path:
        """Return the path of a layer, not started, which may use a share, 0..1, of the time left after the answer's reserve.

        The topics layer has counters of its own.
        """
        own = max(1, int((budget.left_ms() - reserve_ms(budget) * (1 + TO_HEAR)) * share))
        made = budget.apart(own) if name is LayerName.TOPICS else budget.branch(own)
        if name is LayerName.AGENTIC:
            made.grace_ms = _FIRST_FIND
        path = Path(name, self._layers[name], query, made, threading.Condition())
        made.on_partial = path.report
        return path

    def _wait(self, paths: list[Path], budget: Budget, enough: Enough) -> list[Path]:
        """Start paths and wait until all have ended, `enough` says so, the time is up, or the budget is cancelled.

        Those still at work are abandoned: they answer with what they have reported, their budgets are cancelled, and their
        reads interrupted in the background. Returns the paths.
        """
        woken = paths[0].woken
        for path in paths:
            path.woken = woken
            path.start()
        heard: set[LayerName] = set()
        going, late = True, False
        try:
            while going:
                with woken:
                    fresh = [p for p in paths if p.done and p.name not in heard]
                    if not fresh:
                        woken.wait(max(0.0, min(_LOOK, ms_to_wait(paths, budget) / 1000)))
                        fresh = [p for p in paths if p.done and p.name not in heard]
                heard.update(path.name for path in fresh)
                going = not enough(paths, fresh)
                late = going and ms_to_wait(paths, budget) <= 0
                going = going and len(heard) < len(paths) and not late and not budget.is_cancelled()
        finally:
            if working := [path for path in paths if path.abandon(late)]:
                stop(lambda: [p.working for p in working if p.working], woken, self._interrupt)
        if late and working:
            budget.record_hit("timeout_ms")
        if late:
            enough(paths, [path for path in paths if path.name not in heard and path.hits])
        return paths

    def _judged(self, path: Path, judge: Judge, run: Run) -> Verdict | None:
        """Record the outcome of a path in `run` and return its verdict; None if it has no answer, or themes in place of hits.

        Raises the path's error if that ends the search (`_PASSED_UP`).
        """
        if isinstance(path.error, _PASSED_UP) and not isinstance(path.error, DeadlineExceeded):
            raise path.error
        if path.answer is None or path.ran_out():
            run.tried.append(path.ended(None))
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
            told = f"told {len(path.answer.themes)} themes; what was said is left to the other layers"
            run.tried.append(Tried(path.name, Outcome.INSUFFICIENT, told, 0, 0.0, round(path.ms, 1)))
            return None
        verdict = judge(path.name, hits)
        outcome = Outcome.SUFFICIENT if verdict.sufficient else Outcome.INSUFFICIENT if hits else Outcome.NOTHING
        if outcome is Outcome.NOTHING and path.name is not LayerName.AGENTIC:
            nothing = "found nothing" if path.budget.nodes_left() else "no node was left to visit"
            run.skipped.append(Skipped(path.name, nothing))
        run.tried.append(Tried(path.name, outcome, verdict.reason, len(hits), round(verdict.best, 3), round(path.ms, 1)))
        return verdict


def _with_themes(run: Run) -> Run:
    """Return the run itself, changed: with the themes that layers found, if any; those layers count as used, before others."""
    tellers = tuple(name for name, answer in run.answers.items() if answer.themes)
    if tellers:
        run.themes = tuple(theme for name in tellers for theme in run.answers[name].themes)
        run.used, run.method = (*tellers, *run.used), "+".join((*tellers, *([run.method] if run.hits else [])))
    return run


def _lags(paths: Sequence[Path], strong: Path) -> bool:
    """Return whether the paths still at work need not be waited for: all but the walk have had their time of grace.

    That is 50 ms from a path's start, or three times what `strong` took where that is more. The walk is never waited for.
    Accelerators of about the same speed are waited for, so that the order in which they end does not matter.
    """
    grace = max(_GRACE, _FAR_LONGER * strong.ms)
    late = [p for p in paths if not p.done and p.name is not LayerName.AGENTIC]
    return all((p.budget.clock.monotonic() - p.budget.begun) * 1000 > grace for p in late)


def _method(plan: Plan, kept: Mapping[LayerName, Sequence[Hit]]) -> str:
    """Return the name of the layer that answered, of the one that is made of those that did, or all names joined by "+".

    Without hits the agentic layer if it was a path, else the last path.
    """
    if not kept:
        return LayerName.AGENTIC if LayerName.AGENTIC in plan.paths else plan.paths[-1]
    if len(kept) == 1:
        return next(iter(kept))
    made = next((whole for whole, parts in MADE_OF.items() if parts == set(kept)), None)
    return made or "+".join(kept)
