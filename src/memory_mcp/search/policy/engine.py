"""Answer a question: plan, run layers, judge, prefer a time, escalate, rank, cut a page, explain."""

import threading
import time
from collections.abc import Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.metrics import span
from memory_mcp.model.frozen import copy_with
from memory_mcp.question.phrases import asks_themes
from memory_mcp.search.layers.base import Hit, LayerName, LayerStatus, Query, Theme
from memory_mcp.search.layers.budget import Budget, StopConditions, leave_out
from memory_mcp.search.policy import relevance
from memory_mcp.search.policy.execute import Execution
from memory_mcp.search.policy.explain import Explanation
from memory_mcp.search.policy.plan import How, Plan, PlanContext, make_plan, pool_of
from memory_mcp.search.policy.rank import RankingSettings, show_values
from memory_mcp.search.policy.recent import Pages, RecentQuestions, ResultList
from memory_mcp.search.policy.relevance import Confidence
from memory_mcp.search.policy.search import EngineParts, Search

#: How old the statuses may be that a search is planned by (seconds). A layer that has gone meanwhile is passed over when
#: it is asked; one that has come is used a moment later.
_STATUS_AGE = 0.25
_USUAL = How()
#: Weight of the average so far in the moving average of a layer's time.
_AGED = 0.9
#: Longest wait of the first question after a start for its indexes, and the wait that counts as none (seconds).
_LOADING, _NO_WAIT = 3.0, 0.001
#: Most hits after a page that its answer previews: as many lines as 900 tokens hold.
_FURTHER = 20
#: Hits that a first page is searched for besides, to fill these lines; at most as many as may be visited.
_SPARE = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, whether there are more, and the explanation."""

    hits: tuple[Hit, ...]
    has_more: bool
    why: Explanation
    confidence: Confidence = Confidence.STRONG
    #: How likely one of the first results holds the answer, 0..1; 1 where what happened is listed.
    probability: float = 1.0
    #: The words of the question that occur nowhere in the scope, as typed.
    missing: tuple[str, ...] = ()
    #: False where time, nodes or files ran out before everything that may answer was looked at.
    complete: bool = True
    #: The first hits of the next page, for a short preview.
    further: tuple[Hit, ...] = ()
    #: Topics that the answer is about; only on a first page.
    themes: tuple[Theme, ...] = ()
    #: Whether nothing in particular was asked for.
    overview: bool = False
    #: Whether that is told by project: an overview that does not ask for themes.
    by_project: bool = False


class Engine:
    """Plans, answers and explains questions; any thread may call it."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._execution = Execution(parts.layers, parts.interrupt)
        self._known: tuple[float, list[LayerStatus]] = (-_STATUS_AGE, [])
        self._lock = threading.Lock()
        self._has_planned = False
        #: Average time of each layer, milliseconds.
        self._usual_ms: dict[LayerName, float] = {}
        self._pages = Pages()
        self.questions = RecentQuestions()

    def read_statuses(self) -> list[LayerStatus]:
        """Return each layer's status, and remember them.

        A layer whose status cannot be read is unhealthy for that reason.
        """
        statuses = []
        for name, layer in self._parts.layers.items():
            try:
                statuses.append(layer.status())
            except Exception as error:
                reason = f"its status cannot be told: {error}"
                statuses.append(LayerStatus(name, enabled=True, healthy=False, reason=reason))
        with self._lock:
            self._known = (time.monotonic(), statuses)
        return statuses

    def plan(self, query: Query, bounds: StopConditions, how: How = _USUAL) -> Plan:
        """Return the plan of a question, not run.

        `bounds` are those of the settings. Raises InvalidQuery and ConfigError.
        """
        parts = self._parts
        with self._lock:
            at, lately = self._known
        statuses = lately if time.monotonic() - at < _STATUS_AGE else self.read_statuses()
        context = PlanContext(statuses, bounds, parts.clock.now_ms(), parts.calendar, dict(self._usual_ms))
        return make_plan(query, how, context)

    def search(self, query: Query, bounds: StopConditions, how: How = _USUAL) -> Answer:
        """Answer a question with a page of `query.limit` hits.

        A further page is cut from the cached list of the first, if that is long enough. May wait 3 seconds for indexes after a
        start. Raises InvalidQuery, and StorageError when the store cannot be read; layers that fail are only explained.
        """
        with span("intelligent_search"):
            plan = copy_with(self._ready_plan(query, bounds, how), keeps_all=how.keeps_all)
            named_bounds = frozenset(name for name, value in how.bounds.items() if value is not None)
            budget = Budget(plan.bounds, self._parts.clock, self._parts.factor, plan.strict, named_bounds)
            earlier_list = self._pages.find_list(query, how)
            least_hits = query.limit + how.offset + 1
            if earlier_list is not None and len(earlier_list.hits) >= least_hits:
                return _as_overview(_cut_page(earlier_list, query.limit, how.offset, budget, self._parts.ranking), plan, query)
            # A part that is asked first leaves nodes to the whole that follows.
            spare = 0 if how.offset or plan.asks_parts_first else _SPARE
            pool = max(least_hits, pool_of(query.limit, how.offset) + spare, 1 if plan.browses else relevance.COMPARED)
            pool = max(least_hits, min(pool, plan.bounds.max_nodes_visited))
            query_to_run = copy_with(
                query, text=plan.text, limit=pool, overview=plan.is_overview, literal=bool(plan.exact), looked_up=plan.looks_up
            )
            listed = Search(self._parts, self._execution, plan, query_to_run, query.text, budget).list_results(
                earlier_list, how.offset
            )
            self._pages.keep_list(query, how, listed)
            answer = _as_overview(_cut_page(listed, query.limit, how.offset, budget, self._parts.ranking), plan, query)
        # A moving average: each measured time counts for a tenth.
        for tried in answer.why.tried:
            if tried.hits:
                name = LayerName(tried.layer)
                self._usual_ms[name] = _AGED * self._usual_ms.get(name, tried.ms) + (1 - _AGED) * tried.ms
        # A layer that was skipped for being slow is tried again after a while: the cause may be over.
        for skipped in plan.skipped:
            if skipped.too_slow:
                self._usual_ms[LayerName(skipped.layer)] *= _AGED
        return answer

    def projects_with(self, word: str) -> tuple[str, ...]:
        """Return the projects that hold a word in some form, sorted."""
        return self._parts.words.projects_with(word)

    def forget_pages(self) -> None:
        """Drop the cached lists: what they show may be gone."""
        self._pages.forget_lists()

    def _ready_plan(self, query: Query, bounds: StopConditions, how: How) -> Plan:
        """Return the plan once indexes are read, or after 3 seconds.

        What a start has to read does not count against the question's own time.
        """
        began = time.monotonic()
        waited = self._parts.wait(_LOADING)
        if waited > _NO_WAIT:
            self.read_statuses()
        plan = self.plan(query, bounds, how)
        if waited > _NO_WAIT or not self._has_planned:
            leave_out(time.monotonic() - began)
        self._has_planned = True
        return plan


def _as_overview(answer: Answer, plan: Plan, query: Query) -> Answer:
    by_project = plan.is_overview and not asks_themes(query.text) and not (query.role or query.speaker)
    return copy_with(answer, overview=plan.is_overview, by_project=by_project)


def _cut_page(listed: ResultList, limit: int, offset: int, budget: Budget, ranking: RankingSettings) -> Answer:
    """Return a page of a list; its tokens are counted in `budget`."""
    good = listed.hits[offset:]
    fitting = fit_hits(good[:limit], budget)
    more = len(good) > len(fitting) or (bool(fitting) and listed.goes_on)
    why = copy_with(
        listed.why, tokens=budget.spent.tokens, bounds_hit=tuple(dict.fromkeys((*listed.why.bounds_hit, *budget.spent.hit)))
    )
    further = good[len(fitting) : len(fitting) + _FURTHER]
    judged, themes = listed.judgement, () if offset else listed.themes
    valued = show_values((*fitting, *further), ranking)
    hits, next_hits = valued[: len(fitting)], valued[len(fitting) :]
    return Answer(hits, more, why, judged.confidence, judged.probability, judged.missing, listed.complete, next_hits, themes)


def fit_hits(hits: Sequence[Hit], budget: Budget) -> list[Hit]:
    """Return the first hits that the token budget has room for, counted."""
    fitting = []
    for hit in hits:
        if not budget.spend_tokens(" ".join((hit.quote, hit.title, hit.node_id, *hit.grip_ids, hit.session_id, hit.project))):
            break
        fitting.append(hit)
    return fitting
