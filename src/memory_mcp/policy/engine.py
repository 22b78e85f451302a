"""intelligent_search, read top to bottom: plan, run, judge, widen, escalate, rank, explain."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from memory_mcp.clock import Clock
from memory_mcp.layers.base import Hit, Layer, LayerName, LayerStatus, Query, Scanner, Weighed, Words
from memory_mcp.layers.budget import Budget, StopConditions
from memory_mcp.model.calendar import Calendar, TimeWindow, TocLevel
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.usage import Used
from memory_mcp.policy import relevance
from memory_mcp.policy.chain import MADE_OF, chain_of
from memory_mcp.policy.escalate import escalate, looked_for
from memory_mcp.policy.execute import Execution, Run, Verdict
from memory_mcp.policy.explain import Explanation, Scanned
from memory_mcp.policy.intent import Intent
from memory_mcp.policy.merge import identity
from memory_mcp.policy.plan import TOO_SLOW, How, Known, Mode, Plan, Skipped, make_plan, pool_of
from memory_mcp.policy.rank import RankingSettings, rank
from memory_mcp.policy.stopping import Interrupt
from memory_mcp.text import query_terms, term_set
from memory_mcp.tracing import span

#: How old the statuses may be that a search is planned by (seconds). A layer that has gone meanwhile is passed over when
#: it is asked; one that has come is used a moment later.
_STATUS_AGE = 0.25
_USUAL = How()
#: How much what is known of a layer's cost counts beside its latest.
_AGED = 0.9
#: How a layer says which bounds stopped it; the explanation lists them.
_STOPPED = "stopped by "
#: Bounds that end a walk before it has seen everything that may answer.
_WALKED = frozenset({"max_nodes_visited", "max_rpc_calls"})
#: Events of a scope that are read for the sake of a better answer (a tenth of a second); more only where there is none.
_CHEAP = 20_000
#: Milliseconds that a scan must have left.
_TO_SCAN = 50.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, whether there are more, and the explanation."""

    hits: tuple[Hit, ...]
    has_more: bool
    why: Explanation


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine is made of."""

    layers: Mapping[LayerName, Layer]
    unavailable: Sequence[LayerStatus]
    words: Words
    scanner: Scanner
    #: Stops the reads of a thread.
    interrupt: Interrupt
    clock: Clock
    calendar: Calendar
    #: Multiplies estimated tokens.
    factor: float
    ranking: RankingSettings
    #: How often grips were opened, where that is counted.
    usage_of: Callable[[Iterable[GripId]], Mapping[GripId, Used]]


class Engine:
    """Decides how a question is answered, has it answered, and says why."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._execution = Execution(parts.layers, parts.interrupt)
        self._known: tuple[float, list[LayerStatus]] = (-_STATUS_AGE, [])
        self._lock = threading.Lock()
        #: How long each layer takes of late, milliseconds.
        self._usual_ms: dict[LayerName, float] = {}

    def statuses(self) -> list[LayerStatus]:
        """Every layer, usable or not, in one call. A status that cannot be told is that of a layer that is not there."""
        found = [_status(layer) for layer in self._parts.layers.values()] + list(self._parts.unavailable)
        with self._lock:
            self._known = (time.monotonic(), found)
        return found

    def _lately(self) -> list[LayerStatus]:
        with self._lock:
            at, known = self._known
        return known if time.monotonic() - at < _STATUS_AGE else self.statuses()

    def plan(self, query: Query, bounds: StopConditions, how: How = _USUAL) -> Plan:
        """What would be done, and nothing of it done; `bounds` are the settings' own."""
        parts = self._parts
        known = Known(self._lately(), bounds, parts.clock.now_ms(), parts.calendar, dict(self._usual_ms))
        return make_plan(query, how, known)

    def search(self, query: Query, bounds: StopConditions, how: How = _USUAL) -> Answer:
        """Answer a question. Never fails because a layer is missing: agentic search always runs."""
        with span("intelligent_search"):
            plan = self.plan(query, bounds, how)
            budget = Budget(plan.bounds, self._parts.clock, self._parts.factor, plan.strict)
            # What is relevant is judged by the first few, however few are wanted.
            wanted = max(query.limit + how.offset + 1, 1 if plan.browses else relevance.COMPARED)
            pool = wanted if plan.order[0] is LayerName.AGENTIC else max(wanted, pool_of(query.limit, how.offset))
            pool = max(wanted, min(pool, plan.bounds.max_nodes_visited))
            overview = plan.browses and plan.intent is Intent.EXPLORE
            asked = replace(query, text=plan.text, window=plan.window, limit=pool, overview=overview)
            answer = _Search(self._parts, self._execution, plan, asked, budget).answer(query.limit, how.offset)
        self._learn(answer)
        self._forgive(plan)
        return answer

    def _forgive(self, plan: Plan) -> None:
        """A layer that was passed over for being slow is tried again in time: what made it slow may be over."""
        for skipped in plan.skipped:
            if skipped.reason.startswith(TOO_SLOW):
                self._usual_ms[LayerName(skipped.layer)] *= _AGED

    def _learn(self, answer: Answer) -> None:
        """What layers that found something took, each time counting a tenth beside what is known."""
        for tried in answer.why.tried:
            if tried.hits:
                name = LayerName(tried.layer)
                self._usual_ms[name] = _AGED * self._usual_ms.get(name, tried.ms) + (1 - _AGED) * tried.ms


class _Search:
    """One question on its way."""

    def __init__(self, parts: Parts, execution: Execution, plan: Plan, asked: Query, budget: Budget) -> None:
        self._parts = parts
        self._execution = execution
        self._plan = plan
        self._asked = asked
        self._budget = budget
        self._weighed: Weighed | None = None
        self._covered: dict[NodeId, frozenset[str]] = {}
        self._notices: list[str] = []

    def answer(self, limit: int, offset: int) -> Answer:
        """The whole story."""
        run = self._run(self._asked) if self._is_inhabited() else Run()
        run, window = self._widened(run)
        hits, scan = self._escalated(run, window)
        fitting = [h for h in self._ranked(hits) if self._plan.floor is None or h.score >= self._plan.floor]
        good = fitting[offset:]
        kept = within([self._told(h) for h in good[:limit]], self._budget)
        # A list that was asked for no further may go on behind what was left out of it.
        more = len(good) > len(kept) or (bool(kept) and len(hits) >= self._asked.limit > len(good) + offset)
        # A project that holds nothing is told by whoever knows what else there is to search.
        holds_nothing = scan is not None and not scan.events and self._asked.project is not None and self._plan.window is None
        if not good and not offset and (run.tried or scan) and not holds_nothing:
            self._notices.append(self._nothing(run, scan))
        elif not good and offset:
            self._notices.append("no further results")
        return Answer(tuple(kept), more, self._explained(run, scan))

    def _is_inhabited(self) -> bool:
        """Whether anything lies in the time that the question names: no layer need be asked where nothing can be."""
        window = self._plan.window
        return window is None or not self._plan.text or self._parts.words.inhabited(replace(self._asked, window=window))

    def _run(self, query: Query) -> Run:
        run = self._execution.run(self._plan, query, self._budget, self._judge)
        for answer in run.answers.values():
            self._notices += [n for n in answer.notices if n not in self._notices and not n.startswith(_STOPPED)]
        return run

    def _judge(self, layer: LayerName, hits: Sequence[Hit]) -> Verdict:
        """Whether one layer's hits are relevant, and enough."""
        if not hits:
            return Verdict(False, False, 0.0, "found nothing")
        best = max(h.score for h in hits)
        if not self._plan.text or self._plan.floor is not None:
            return Verdict(True, True, best, "every result is taken")
        if self._weighed is None:
            self._weighed = self._parts.words.weigh(self._plan.subject, self._asked.project)
        found = self._evidence(self._weighed, hits[: relevance.COMPARED], layer)
        literal = self._literally(hits[: relevance.COMPARED])
        sure = relevance.confidence(found, layer)
        told = f"confidence {sure:.2f}, best {best:.2f}, {found.coverage:.0%} of the words"
        if self._plan.first_match and literal:
            return Verdict(True, True, sure, f"holds {literal} literally")
        if not literal and not relevance.relevant(found, layer):
            # What was overlooked another layer may hold, and what a literal thing is a part of no set of terms tells;
            # otherwise nothing is the answer, and none is asked.
            return Verdict(False, not (found.overlooked or self._plan.first_match), sure, f"nothing relevant ({told})")
        enough = relevance.sufficient(found, layer, self._plan.min_confidence) and not self._plan.first_match
        if layer is LayerName.AGENTIC and self._was_cut():
            enough, told = False, f"{told}, ended by its bounds"
        return Verdict(True, enough, sure, told)

    def _evidence(self, weighed: Weighed, hits: Sequence[Hit], layer: LayerName) -> relevance.Evidence:
        """What some hits show; where their own words are not enough, also what else their segments hold.

        Reading the term sets of ten segments took 8 ms at 100,000 documents. Of a period only the words shown count: what
        a year holds was said in a hundred places.
        """
        text = self._plan.subject
        shown = relevance.evidence(text, weighed.weights, weighed.counts, hits, self._covered, weighed.segments)
        enough = relevance.sufficient(shown, layer, self._plan.min_confidence)
        if enough and (not self._plan.first_match or self._literally(hits)):
            return shown
        missing = [h.node_id for h in hits if h.node_id and h.level == TocLevel.SEGMENT and h.node_id not in self._covered]
        if missing:
            self._covered |= self._parts.words.covered(weighed, list(dict.fromkeys(missing)))
        return relevance.evidence(text, weighed.weights, weighed.counts, hits, self._covered, weighed.segments)

    def _literally(self, hits: Sequence[Hit]) -> str:
        """The literal thing that some hit holds, "" for none: in the words shown, or as terms of its segment."""
        for wanted in self._plan.exact:
            # Of several words their terms do not tell whether they stand together.
            terms = frozenset(query_terms(wanted)) if len(wanted.split()) == 1 else frozenset[str]()
            for hit in hits:
                shown = f"{hit.title}\n{hit.quote}".lower()
                if wanted.lower() in shown or (terms and terms <= self._covered.get(hit.node_id, frozenset())):
                    return wanted
        return ""

    def _told(self, hit: Hit) -> Hit:
        """With how much of the query its segment holds, by weight; where that was not looked at, the words shown."""
        if self._weighed is None or any(name == "coverage" for name, _ in hit.parts):
            return hit
        weights = self._weighed.weights
        held = self._covered.get(hit.node_id) or frozenset(term_set(f"{hit.title} {hit.quote}") & weights.keys())
        total = sum(weights.values())
        share = sum(weights[t] for t in held) / total if total else 0.0
        return replace(hit, parts=(*hit.parts, ("coverage", round(share, 4))))

    def _widened(self, run: Run) -> tuple[Run, TimeWindow | None]:
        """Nothing inside the time that the question names: look beside it, then everywhere; what comes is marked.

        Of a list of what happened, what came before.
        """
        window = self._plan.window
        if run.hits or window is None:
            return run, window
        if not self._plan.window_words:
            self._notices.append("nothing found between since and until; leave them out to search all time")
            return run, window
        length = window.end_ms - window.start_ms
        beside = TimeWindow(max(0, window.start_ms - length), window.end_ms + length)
        ways: list[tuple[TimeWindow | None, str]] = [(beside, "the periods beside it"), (None, "all time")]
        if self._plan.browses:
            ways = [(TimeWindow(0, window.start_ms), "what came before")]
        for tried, words in ways:
            if self._budget.out_of_time():
                break
            again = self._run(replace(self._asked, window=tried))
            if again.hits:
                self._notices.append(f"nothing found in the time named; widened to {words}")
                marked = tuple(replace(h, outside=not window.contains(h.timestamp)) for h in again.hits)
                return replace(again, hits=marked), tried
            run = again
        self._notices.append("nothing found in the time named, nor beside it")
        return run, window

    def _escalated(self, run: Run, window: TimeWindow | None) -> tuple[tuple[Hit, ...], Scanned | None]:
        """A scan, where the intent allows one, nothing sufficed, and the bounds leave room."""
        plan, budget, parts = self._plan, self._budget, self._parts
        words = self._to_scan_for(run)
        if not plan.escalates_when or words is None or run.sufficient or budget.out_of_time():
            return run.hits, None
        if budget.left_ms() < _TO_SCAN or budget.rpc_calls >= plan.bounds.max_rpc_calls:
            return run.hits, None
        asked = replace(self._asked, window=window)
        found, scan = escalate(parts.scanner, asked, words, budget, plan.escalates_when, parts.interrupt)
        if found and not words:  # everything was read: what the walk saw of it is among it, or lies behind
            return found, scan
        known = {identity(h) for h in found}
        return (*found, *(h for h in run.hits if identity(h) not in known)), scan

    def _to_scan_for(self, run: Run) -> tuple[str, ...] | None:
        """What a scan has to find: texts that nothing found, or none in particular; None where no scan is called for.

        None in particular where a walk alone was asked, its bounds ended it, and reading everything costs little.
        """
        plan = self._plan
        words = looked_for(plan.text, plan.exact)
        if words and (not run.hits or (plan.first_match and not run.sufficient)):
            return words
        alone = plan.order == (LayerName.AGENTIC,) and not plan.browses
        cheap = self._weighed is not None and self._weighed.events <= _CHEAP
        return () if alone and cheap and self._was_cut() else None

    def _was_cut(self) -> bool:
        """Whether a bound ended a walk that might have found more."""
        return not _WALKED.isdisjoint(self._budget.hit)

    def _nothing(self, run: Run, scan: Scanned | None) -> str:
        """What was searched in vain."""
        searched = ", ".join(t.layer for t in run.tried) + (f" and {scan.events:,} events" if scan else "")
        if any(t.outcome == "timed out" for t in run.tried):
            return f"nothing found in time: searched {searched}"
        sure = max((t.confidence for t in run.tried), default=0.0)
        if not any(t.hits for t in run.tried):
            return f"nothing relevant: searched {searched}"
        return f"nothing relevant (confidence {sure:.2f}): searched {searched} (bounds.min_confidence=0 shows the nearest)"

    def _ranked(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """By relevance and what else speaks for a hit; a list of what happened stays in its order."""
        plan, parts = self._plan, self._parts
        if plan.browses:
            return hits
        ids = {GripId(i) for h in hits for i in (*h.grip_ids, h.grip_id) if i} if parts.ranking.usage else set()
        used = parts.usage_of(ids) if ids else {}
        named = bool(plan.window_words)
        return rank(hits, parts.ranking, plan.now_ms, names_time=named, exact=bool(plan.exact), usage=used)

    def _passed_over(self, run: Run) -> list[Skipped]:
        """Layers that could not be used, as far down the chain as it was gone."""
        chain = chain_of(self._plan.intent)
        last = max((chain.index(LayerName(t.layer)) for t in run.tried), default=len(chain))
        return [s for s in self._plan.skipped if chain.index(LayerName(s.layer)) < last]

    def _fell_back(self, run: Run) -> bool:
        """Whether what the intent tries first has no part in the answer, because it could not or found nothing.

        Side by side, the parts of a layer stand for it, and one that was cancelled or outdone was not given up.
        """
        first, answered = self._plan.first, {run.method, *run.used}
        if self._plan.mode is not Mode.SEQUENTIAL and first in self._plan.order:
            answered |= {t.layer for t in run.tried if t.outcome in ("cancelled", "sufficient", "insufficient")}
            return not answered & {first, *MADE_OF.get(first, ())}
        return first not in answered

    def _explained(self, run: Run, scan: Scanned | None) -> Explanation:
        plan, budget, asked = self._plan, self._budget, self._asked
        notices = [*self._notices]
        if budget.spent.exceeded:
            notices.append(f"{budget.spent.exceeded} was exceeded once (by at most half)")
        return Explanation(
            intent=plan.intent,
            confidence=plan.confidence,
            signals=plan.signals,
            tier=plan.tier,
            mode=plan.mode,
            why_mode=plan.why_mode,
            method="scan" if scan and scan.found and not run.hits else run.method,
            fallback=self._fell_back(run),
            skipped=(*self._passed_over(run), *run.skipped),
            tried=tuple(run.tried),
            bounds_hit=tuple(budget.hit),
            exceeded=budget.spent.exceeded,
            limits={f.name: getattr(plan.bounds, f.name) for f in fields(plan.bounds)},
            nodes_visited=budget.nodes_visited,
            rpc_calls=budget.rpc_calls,
            depth=budget.depth,
            tokens=budget.tokens,
            elapsed_ms=budget.elapsed_ms(),
            scope=asked.project if asked.project is not None else "all projects",
            window=plan.window,
            window_words=plan.window_words,
            arbitration=run.arbitration,
            scan=scan,
            notices=tuple(notices),
            path=next((a.path for a in run.answers.values() if a.path), ()),
        )


def _status(layer: Layer) -> LayerStatus:
    try:
        return layer.status()
    except Exception as error:
        return LayerStatus(layer.name, enabled=True, healthy=False, reason=f"its status cannot be told: {error}")


def within(hits: Sequence[Hit], budget: Budget) -> list[Hit]:
    """As many hits as the token budget holds, in order; a hit is left out whole, never cut."""
    kept = []
    for hit in hits:
        if not budget.spend(" ".join((hit.quote, hit.title, hit.node_id, *hit.grip_ids, hit.session_id, hit.project))):
            break
        kept.append(hit)
    return kept
