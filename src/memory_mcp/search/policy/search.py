"""Answer one question: run its plan, judge, prefer the time it names, escalate, rank, explain.

Change here: understand an answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields
from functools import cached_property
from typing import Protocol

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import term_set
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.model.exchange import only_asks
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import GripUsage
from memory_mcp.model.ids import GripId
from memory_mcp.question.phrases import strip_general
from memory_mcp.question.understand import subject_words
from memory_mcp.search.layers.base import Hit, Layer, LayerName, Query, Scanner, Words, WordWeights, is_echo
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.policy import relevance
from memory_mcp.search.policy.escalate import SubjectCheck, iter_searches, scan_events
from memory_mcp.search.policy.execute import Execution
from memory_mcp.search.policy.explain import Explanation, Outcome, Scanned
from memory_mcp.search.policy.merge import (
    Run,
    Verdict,
    hit_identity,
    lower_scores,
    prefer_inside,
    put_first,
    put_replies_first,
    split_by_time,
)
from memory_mcp.search.policy.path import Interrupt
from memory_mcp.search.policy.plan import BEST, CHAINS, MADE_OF, Mode, Plan
from memory_mcp.search.policy.rank import RankingSettings, drop_repetitions, rank_hits
from memory_mcp.search.policy.recent import NO_RESULT, SURE, Judgement, ResultList
from memory_mcp.search.policy.relevance import Confidence

#: Share of the bounds for searching all time before the time that the question names is searched.
_EVERYWHERE = 0.6
#: Bounds that end a walk before it has seen everything that may answer.
_WALKED = frozenset({"max_nodes_visited", "max_rpc_calls"})
#: Milliseconds that must be left to look everywhere and then inside a time as well: in fewer a walk finds nothing in either
#: (7 of 40 questions with a limit of 100 ms, over 49,000 events without indexes).
_TO_LOOK_TWICE = 300.0
#: Results that tell something, from which on those that only ask are left out.
_TELLING = 3
#: Hits, of those that are searched for, that no answer shows: they are for folding and for requests, which come last.
_NOT_SHOWN = 10
#: Share of a question's words, by weight, from which the literal things that it names are all that is asked for.
_WHOLE = 0.9
_TREE_SEARCHED = "what an index lacks was searched for in the tree"
#: Milliseconds that a scan must have left.
_TO_SCAN = 50.0


class Successors(Protocol):
    """Finds what supersedes a statement, and what was decided last."""

    def put_before(self, hits: Iterable[Hit]) -> Sequence[Hit]:
        """Return the hits, superseded ones after what holds now."""

    def list_decisions(self, project: str | None, subject_terms: Set[str], window: TimeWindow | None, most: int) -> Sequence[Hit]:
        """Return the newest `most` decisions on these terms, with successors.

        `project` and `window` None: all.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts that the engine uses."""

    layers: Mapping[LayerName, Layer]
    words: Words
    scanner: Scanner
    #: Stops the reads of a thread.
    interrupt: Interrupt
    clock: Clock
    calendar: Calendar
    #: Multiplies estimated tokens.
    factor: float
    ranking: RankingSettings
    #: Waits for indexes that are being read from disk, at most the given seconds; returns the seconds waited.
    wait: Callable[[float], float]
    #: How often grips were opened, where that is counted.
    usage_of: Callable[[Iterable[GripId]], Mapping[GripId, GripUsage]]
    #: Finds what supersedes a statement, and what was decided last.
    successors: Successors


class Search:
    """The state of answering one question."""

    def __init__(self, parts: EngineParts, execution: Execution, plan: Plan, query: Query, question: str, budget: Budget) -> None:
        """Prepare one answer; `question` is the text as typed."""
        self._parts = parts
        self._execution = execution
        self._plan = plan
        self._asked = copy_with(query, question=question)
        self._budget = budget
        self._weighed: WordWeights | None = None
        self._notices: list[str] = []
        #: Whether an index lacked something, so that results of the tree are for other times than those of indexes.
        self._is_partial = False
        #: The time named in the question, while all time is searched: what is inside it is taken from another run.
        self._inside: TimeWindow | None = None
        self._question = question

    def _word_weights(self) -> WordWeights:
        if self._weighed is None:
            self._weighed = self._parts.words.weigh_words(self._plan.judged, self._asked.project)
        return self._weighed

    @cached_property
    def _subjects(self) -> tuple[str, ...]:
        # The words that name what is asked about, as typed.
        return subject_words(self._plan.judged)

    @cached_property
    def _missing(self) -> tuple[str, ...]:
        return self._parts.words.find_missing(self._subjects, self._asked.project)

    @cached_property
    def _reader(self) -> relevance.EvidenceReader:
        subjects, missing = (term_set(" ".join(words)) for words in (self._subjects, self._missing))
        return relevance.EvidenceReader(self._word_weights(), subjects, missing, looks_up=self._plan.looks_up)

    def list_results(self, earlier_list: ResultList | None, offset: int) -> ResultList:
        """Run the search and return the full list of results.

        Hits of `earlier_list` (earlier pages of the question) come first, unchanged. Call it once. Raises InvalidQuery,
        NotFound or StorageError that a layer raised.
        """
        plan = self._plan
        # If none of the judged words is stored, the words that ask for patterns are left out: alone they answer nothing.
        if plan.judged != plan.text and not any(self._word_weights().counts.values()):
            self._asked = copy_with(self._asked, text=plan.judged)
        run = self._run_in_time()
        themes = earlier_list.themes if earlier_list is not None else run.themes
        hits, scan = self._escalate_run(run)
        earlier = earlier_list.hits if earlier_list is not None else ()
        known_ids = {hit_identity(h) for h in earlier}
        fresh = [h for h in self._rank_hits(hits) if hit_identity(h) not in known_ids and not self._repeats_the_question(h)]
        fresh = drop_repetitions(earlier, fresh, self._parts.ranking)
        good = [h for h in fresh if plan.floor is None or h.score >= plan.floor]
        everything, judgement = self._judge_results((*earlier, *good))
        # A list that was asked for no further may go on behind what was left out of it.
        goes_on = bool(good) and len(hits) >= self._asked.limit and judgement.confidence is not Confidence.NONE
        # The notice of an empty project is given where the other scopes are known.
        holds_nothing = scan is not None and not scan.events and self._asked.project is not None and plan.window is None
        if not everything and not offset and (run.tried or scan) and not holds_nothing:
            searched = ", ".join(t.layer for t in run.tried) + (f" and {scan.events:,} events" if scan else "")
            outcome = "nothing found" if self._is_complete(run) else "no result in the time and bounds given"
            self._notices.append(f"{outcome}: searched {searched}")
        elif len(everything) <= offset and offset:
            self._notices.append("no further results")
        return ResultList(everything, goes_on, self._explain_answer(run, scan), judgement, self._is_complete(run), themes)

    def _judge_results(self, hits: Sequence[Hit]) -> tuple[tuple[Hit, ...], Judgement]:
        """Return the hits with their fits, and how sure the answer is.

        What only asks is no evidence: it comes last, and not at all after some results that tell. What happened in a time is not
        judged, as nothing in particular is asked for; nothing is left out where the caller names the least score.
        """
        if not self._plan.text:
            return tuple(hits), SURE if hits else NO_RESULT
        telling, asking = [h for h in hits if not h.asks], [_with_fit(h, relevance.Fit.LOOSE) for h in hits if h.asks]
        if not telling:
            return self._keep_nearest(asking), copy_with(NO_RESULT, missing=self._missing)
        evidences = self._read_evidence(telling)
        check = SubjectCheck(self._parts.words, self._parts.scanner, self._word_weights(), self._asked, self._reader.terms_of)
        known_words = [word for word in self._subjects if word not in self._missing]
        missing = (*self._missing, *check.find_words_of_questions(known_words, telling))
        absent_words = (*missing, *check.find_uncertain_words(known_words, telling))
        sure = max(relevance.probability(evidence) for _, evidence in evidences)
        fits: dict[str, relevance.Fit] = {}
        for several, evidence in evidences:
            fits |= zip(map(hit_identity, several), relevance.judge_fits(evidence), strict=False)
        judged = tuple(_with_fit(hit, fits.get(hit_identity(hit), relevance.Fit.LOOSE)) for hit in telling)
        is_whole = any(relevance.holds_known(evidence) for _, evidence in evidences)
        is_whole = is_whole or any(hit.fit is relevance.Fit.EXACT for hit in judged)
        unknown = bool(missing) and set(missing) >= set(self._subjects)
        holds = any(relevance.holds_words(evidence) for _, evidence in evidences)
        verdict = relevance.judge_confidence(
            sure, absent_words, has_hits=True, is_whole=is_whole, all_missing=unknown, holds_words=holds
        )
        # Questions of earlier sessions add nothing to what answers, unless one looks for what was asked; what may be a note does.
        if len(judged) >= _TELLING and self._asked.role is None:
            asking = [hit for hit in asking if not only_asks(hit.quote)]
        judged = (*judged, *asking)
        if verdict is Confidence.NONE:
            judged = self._keep_nearest(judged)
        return judged, Judgement(verdict, sure, missing)

    def _keep_nearest(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        return tuple(hits if self._plan.keeps_all or self._plan.floor is not None else hits[: relevance.NEAREST])

    def _is_complete(self, run: Run) -> bool:
        has_failed = any(t.outcome in (Outcome.TIMED_OUT, Outcome.FAILED) for t in run.tried)
        return not (self._budget.spent.hit or has_failed or run.lacks_something)

    def _repeats_the_question(self, hit: Hit) -> bool:
        return bool(self._plan.text) and is_echo(self._question, hit, self._parts.clock.now_ms())

    def _run_plan(self, query: Query, budget: Budget) -> Run:
        self._inside = self._plan.window if query.window is None and self._plan.window_words else None
        run = self._execution.run(self._plan, query, budget, self._judge_layer)
        notices = [notice for answer in run.answers.values() for notice in answer.notices]
        if run.is_partial and not run.lacks_something:
            notices.append(_TREE_SEARCHED)
        self._notices += [notice for notice in dict.fromkeys(notices) if notice not in self._notices]
        self._is_partial |= run.is_partial
        return run

    def _run_in_time(self) -> Run:
        """Run the plan inside the time given, or preferring the time named.

        The latter runs it twice, over all time and inside; only over all time with less than .3 s left.
        """
        plan, window = self._plan, self._plan.window
        if window is None or plan.browses or not plan.window_words:
            run = self._run_plan(copy_with(self._asked, window=window), self._budget)
            return run if run.hits or window is None else self._widen_empty(run, window)
        if self._budget.left_ms() < _TO_LOOK_TWICE:
            run = self._run_plan(copy_with(self._asked, window=None), self._budget)
            return copy_with(run, hits=prefer_inside([h for h in run.hits if window.contains(h.timestamp)], run.hits, window))
        everywhere = self._run_plan(copy_with(self._asked, window=None), self._budget.take_share(_EVERYWHERE))
        inside = self._run_plan(copy_with(self._asked, window=window), self._budget.take_share(1.0))
        if not inside.hits:
            empty = self._is_complete(inside)
            outcome = "nothing found in the time named" if empty else "the time named was not searched to its end"
            self._notices.append(f"{outcome}; widened to all time")
        hits = prefer_inside(inside.hits, everywhere.hits, window)
        return copy_with(everywhere, hits=hits, themes=inside.themes or everywhere.themes)

    def _widen_empty(self, run: Run, window: TimeWindow) -> Run:
        if not self._plan.window_words:
            if self._is_complete(run):
                self._notices.append("nothing found between since and until; leave them out to search all time")
            return run
        earlier_run = self._run_plan(copy_with(self._asked, window=TimeWindow(0, window.start_ms)), self._budget.take_share(1.0))
        if earlier_run.hits:
            self._notices.append("nothing found in the time named; widened to what came before")
            return copy_with(earlier_run, hits=tuple(copy_with(h, outside=True) for h in earlier_run.hits))
        if self._is_complete(earlier_run):
            self._notices.append("nothing found in the time named, nor before it")
        return run

    def _judge_layer(self, layer: LayerName, hits: Sequence[Hit]) -> Verdict:
        """Return whether one layer's hits are enough.

        Records of the question itself and of others do not count. Without words, or with a least score given, any hit is enough.
        """
        hits = [h for h in hits if not (h.asks or self._repeats_the_question(h))]
        if not hits:
            return Verdict(False, 0.0, "found nothing")
        if not self._plan.text or self._plan.floor is not None:
            return Verdict(True, max(h.score for h in hits), "every result is taken")
        literal = self._find_literal(hits[: relevance.COMPARED])
        sure = relevance.probability(self._evidence_of(hits))
        reason = f"holds the answer with a probability of {sure:.2f}"
        if self._plan.first_match and literal:
            # Of a question that asks for more than the literal thing, keywords alone put the right message first less often.
            is_whole = (
                layer is not self._plan.first or self._word_weights().share_of(term_set(" ".join(self._plan.exact))) >= _WHOLE
            )
            return Verdict(is_whole, sure, f"holds {literal} literally" + ("" if is_whole else f", {reason}"))
        if self._plan.first_match:
            return Verdict(False, sure, reason)
        if layer is LayerName.AGENTIC and self._was_cut():
            return Verdict(False, sure, f"{reason}, ended by its bounds")
        return Verdict(sure >= max(self._plan.min_confidence, relevance.ENOUGH), sure, reason, self._fill_answer(hits))

    def _fill_answer(self, hits: Sequence[Hit]) -> bool:
        """Return whether results are as many as can be shown.

        Of a search of all time those outside the time named count.
        """
        shown_outside = [hit for hit in hits if self._inside is None or not self._inside.contains(hit.timestamp)]
        limit = self._asked.limit
        return len({hit_identity(hit) for hit in shown_outside}) >= min(limit, max(limit - _NOT_SHOWN, relevance.NEIGHBOURS))

    def _read_evidence(self, hits: Sequence[Hit]) -> list[tuple[Sequence[Hit], relevance.Evidence]]:
        # Of the tree's and of others apart, if they were looked for in other times.
        lists = [hits]
        if self._is_partial:
            lists = [[h for h in hits if relevance.is_of_tree(h) == is_walked] for is_walked in (True, False)]
        return [(several, self._evidence_of(several)) for several in lists if several]

    def _evidence_of(self, hits: Sequence[Hit]) -> relevance.Evidence:
        literal = [bool(self._find_literal([hit])) for hit in hits[: relevance.COMPARED]] if self._plan.exact else ()
        return self._reader.read_evidence(hits, literal)

    def _find_literal(self, hits: Sequence[Hit]) -> str:
        texts = [f"{hit.title}\n{hit.quote}".lower() for hit in hits]
        return next((piece for piece in self._plan.exact if any(piece.lower() in text for text in texts)), "")

    def _escalate_run(self, run: Run) -> tuple[tuple[Hit, ...], Scanned | None]:
        """Return the hits with those of a scan before them, and its cost."""
        plan, budget, parts = self._plan, self._budget, self._parts
        query = copy_with(self._asked, window=None if plan.window_words else plan.window)
        scan: Scanned | None = None
        sought = iter_searches(plan, self._question, run.hits, run.sufficient, self._was_cut())
        for words in sought if plan.escalates_when else ():
            if budget.left_ms() < _TO_SCAN or not budget.calls_left() or budget.out_of_time():
                break
            hits, scan = scan_events(parts.scanner, query, words, budget, plan.escalates_when, parts.interrupt)
            if hits:
                return tuple(put_first(hits, run.hits)), scan
        return run.hits, scan

    def _was_cut(self) -> bool:
        return not _WALKED.isdisjoint(self._budget.spent.hit)

    def _rank_hits(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return the hits by relevance and the other signals; a list of what happened keeps its order.

        Successors of superseded statements are added. The latest decisions come first if they are asked for; else hits inside
        a time that the question names are preferred, or, for a first match that none of the first five is, literal finds.
        """
        plan, parts = self._plan, self._parts
        if plan.browses:
            return hits
        hits = parts.successors.put_before(hits)
        ids = {GripId(i) for h in hits for i in (*h.grip_ids, h.grip_id) if i} if parts.ranking.usage else set()
        used = parts.usage_of(ids) if ids else {}
        names_time = bool(plan.window_words)
        ranked = rank_hits(hits, parts.ranking, plan.now_ms, names_time=names_time, exact=bool(plan.exact), usage=used)
        ranked = put_replies_first(ranked, term_set(plan.judged))
        if plan.last_of is not None:
            about, query = term_set(strip_general(plan.last_of)), self._asked
            if decisions := parts.successors.list_decisions(query.project, about, plan.window, query.limit):
                # What is valid first, then the newest.
                return put_first(sorted(decisions, key=lambda hit: (bool(hit.superseded_by), -hit.timestamp)), ranked)
        if plan.window is not None and names_time:
            return prefer_inside(*split_by_time(ranked), plan.window)
        if not plan.first_match or self._find_literal(ranked[: relevance.COMPARED]):
            return ranked
        # Those that hold a literal piece are scored as the best at least.
        literal = [copy_with(h, score=max(h.score, ranked[0].score)) for h in ranked if self._find_literal([h])]
        return lower_scores(put_first(literal, ranked))

    def _fell_back(self, run: Run) -> bool:
        """Return whether the layer tried first has no part in the answer.

        Side by side, the parts of a layer stand for it, and one that was cancelled or outdone was not given up.
        """
        first = self._plan.first
        # A layer answers for those that it is made of.
        answered = {run.method, *run.used}.union(*(MADE_OF.get(name, frozenset()) for name in run.used))
        if self._plan.mode is not Mode.SEQUENTIAL and first in self._plan.order:
            heard = (Outcome.CANCELLED, Outcome.SUFFICIENT, Outcome.INSUFFICIENT)
            answered |= {t.layer for t in run.tried if t.outcome in heard}
            return not answered & {first, *MADE_OF.get(first, ())}
        return first not in answered

    def _explain_answer(self, run: Run, scan: Scanned | None) -> Explanation:
        plan, budget, query = self._plan, self._budget, self._asked
        notices = [*self._notices]
        if budget.spent.exceeded:
            notices.append(f"{budget.spent.exceeded} was exceeded once (by at most half)")
        chain = [n for name in CHAINS[plan.intent] for n in ((name,) if name is not None else BEST)]
        last = max((chain.index(LayerName(t.layer)) for t in run.tried), default=len(chain))
        return Explanation(
            intent=plan.intent,
            intent_certainty=plan.confidence,
            signals=plan.signals,
            tier=plan.tier,
            mode=plan.mode,
            why_mode=plan.why_mode,
            method=run.method if scan is None or not scan.found else f"scan+{run.method}" if run.hits else "scan",
            fallback=self._fell_back(run),
            skipped=(*[s for s in plan.skipped if chain.index(LayerName(s.layer)) < last], *run.skipped),
            tried=tuple(run.tried),
            bounds_hit=tuple(budget.spent.hit),
            exceeded=budget.spent.exceeded,
            limits={f.name: getattr(plan.bounds, f.name) for f in fields(plan.bounds)},
            nodes_visited=budget.spent.nodes_visited,
            rpc_calls=budget.spent.rpc_calls,
            depth=budget.spent.depth,
            tokens=budget.spent.tokens,
            elapsed_ms=budget.elapsed_ms(),
            scope=query.project if query.project is not None else "all projects",
            window=plan.window,
            window_words=plan.window_words,
            arbitration=run.arbitration,
            scan=scan,
            notices=tuple(notices),
            path=next((a.path for a in run.answers.values() if a.path), ()),
        )


def _with_fit(hit: Hit, fit: relevance.Fit) -> Hit:
    return hit if hit.fit == fit else copy_with(hit, fit=fit)
