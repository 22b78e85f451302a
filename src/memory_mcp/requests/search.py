"""intelligent_search: one question, answered by the policy; a lean response within its tokens, or everything there is.

plan_query and classify_query: how it would be searched, without searching.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import find_period
from memory_mcp.requests import arguments, limits, shapes
from memory_mcp.requests.answers import AnswerShaper, ParsedSearch, SearchResponse, tell_by_project
from memory_mcp.requests.asking import role_of, search_options, speaker_of
from memory_mcp.requests.entry import EVIDENCE_PAGE, answers
from memory_mcp.requests.explaining import WhyNot
from memory_mcp.requests.later_changes import add_later_changes
from memory_mcp.requests.limits import (
    BOUNDS,
    MAX_QUERY,
    SEARCHED,
    TIMEOUT,
    TOKENS,
    Argument,
    Bounds,
    Detail,
    Flag,
    check_query,
    keyword_list,
    parse_choice,
)
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.response import offset_of
from memory_mcp.requests.results import FullResult
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.shapes import Skipped, Window
from memory_mcp.requests.times import times_of
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import GONE, SINCE
from memory_mcp.search.policy.plan import Mode, layers_named
from memory_mcp.search.policy.why_not import UnderstoodCall

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Longest time of trying what would show something: a few dozen searches of a large memory (milliseconds).
TRYING_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """Recall what was said, decided or done in earlier sessions, by this or other agents.

    Ask plainly; start here whenever the past may matter. Gives dated exact quotations, each with its grip.
    """

    query: Annotated[str, Argument("Question or keywords; a time it names (last week) comes first", longest=MAX_QUERY)]
    keywords: Annotated[
        tuple[str, ...],
        replace(arguments.KEYWORDS, description="Up to 8 words the answer likely contains (identifiers, file names, synonyms)"),
    ] = ()
    intent: arguments.Intent = ""
    mode: arguments.Mode = ""
    limit: Annotated[int, arguments.most("results", SEARCHED)] = SEARCHED.default
    token_budget: Annotated[int | None, arguments.most_tokens("the answer")] = None
    timeout_ms: arguments.Timeout = None
    since: arguments.Since = ""
    until: arguments.Until = ""
    as_of: arguments.AsOf = ""
    tz: arguments.Zone = ""
    project: arguments.Project = ""
    agent: arguments.Agent = ""
    role: arguments.Role = ""
    speaker: arguments.Speaker = ""
    scope: arguments.Scope = ""
    detail: Annotated[str, arguments.detail("full: the whole explanation, score parts", "lean, or full as with --explain")] = (
        Detail.LEAN
    )
    cursor: Annotated[
        str,
        Argument("next_cursor of the page before", longest=200, flag=Flag("CURSOR", "next page: next_cursor of the one before")),
    ] = ""
    why_not: Annotated[
        str,
        Argument(
            "Id that is missing: tells a change that shows it",
            longest=300,
            flag=Flag("ID", "why this node, grip or event is missing, and what would show it"),
        ),
    ] = ""
    include_current: arguments.Current = False
    bounds: Annotated[Bounds | None, Argument()] = None
    #: Whether lean results name their agents and the kinds of their statements.
    with_agents: bool = False


@answers("intelligent_search", SearchRequest, "Search the memory", page=EVIDENCE_PAGE)
def search(app: "App", request: SearchRequest, caller: Caller) -> SearchResponse:
    """Answer a question within the token budget.

    With `why_not` also say why that id is missing, by trying changed calls. Raises InvalidQuery for an invalid argument,
    NotFound when `why_not` names nothing that is stored.
    """
    parsed = parse_search(app, request, caller)
    answer = app.ask(parsed.query, parsed.how)
    hits = add_later_changes(app, (*answer.hits, *answer.further), caller, len(answer.further))
    answer = copy_with(answer, hits=hits[: len(answer.hits)], further=hits[len(answer.hits) :])
    shaper = AnswerShaper(app, answer, parsed)
    response, _ = shaper.shape_response()
    app.engine.questions.remember(caller.connection, (hit.event_id for hit in (*answer.hits, *answer.further)), shaper.terms)
    if answer.by_project and not parsed.how.offset:
        response = tell_by_project(app, response, answer, parsed, caller)
    if not request.why_not:
        return response
    SINCE.set(None)  # what is tried out now are calls of their own
    replay = _Replay(app, request, caller)
    missing = app.why_not(find_period(request.why_not) or request.why_not, caller.bound(app), replay.look, replay.run)
    why = WhyNot(missing.id, missing.reason, dict(missing.change))
    return replace(response, explanation=replace(response.explanation, why_not=why))


def parse_search(app: "App", request: SearchRequest, caller: Caller) -> ParsedSearch:
    """Return a request's query, and the options that the policy takes.

    Raises InvalidQuery for any invalid argument: a time, an unknown name, a number out of range, an unknown speaker, or a cursor
    of another question; and what `scope_of` raises.
    """
    TOKENS.check(request.token_budget or 0, "token_budget")
    times = times_of(app, request.tz, request.as_of)
    scoped = scope_of(app, request.project, request.scope, caller)
    keywords = keyword_list(request.keywords)
    is_full = parse_choice(Detail, "detail", request.detail) is Detail.FULL
    # Arguments that make two calls different questions; a cursor belongs to its own.
    identity = (request.query, request.since, request.until, request.as_of, request.tz, request.agent, request.role)
    question = (*identity, request.speaker, request.intent, request.mode, scoped.words, *keywords)
    how = search_options(
        times,
        request.intent,
        request.mode,
        request.bounds,
        request.token_budget,
        request.timeout_ms,
        offset_of(request.cursor, *question),
        bool(request.as_of),
    )
    query = Query(
        check_query(request.query),
        SEARCHED.check(request.limit or SEARCHED.default),
        scoped.project,
        request.agent or None,
        times.window(request.since, request.until),
        role_of(request.role),
        speaker_of(app, request.speaker, scoped),
        excluded=caller.excluded(app, request.include_current),
        keywords=keywords,
    )
    return ParsedSearch(query, replace(how, keeps_all=is_full), scoped, times.calendar, question, is_full, request.with_agents)


class _Replay:
    """Asks a request again with changes, as `App.why_not` requires.

    All changes together have a time of their own, `TRYING_MS`; each call has its own limit besides.
    """

    def __init__(self, app: "App", request: SearchRequest, caller: Caller) -> None:
        self._app, self._request, self._caller = app, request, caller
        self._began = time.monotonic()

    def look(self, change: Mapping[str, Any]) -> UnderstoodCall:
        """Return how the changed request is understood; InvalidQuery for an invalid argument."""
        request = self._change(change)
        parsed = parse_search(self._app, request, self._caller)
        plan = self._app.plan(parsed.query, parsed.how)
        bounds = {} if request.bounds is None else asdict(request.bounds)
        return UnderstoodCall(
            project=parsed.scoped.project,
            agent=parsed.query.agent,
            window=plan.window,
            window_words=plan.window_words,
            text=plan.text,
            intent=plan.intent,
            mode=plan.mode,
            bounds={name: getattr(plan.bounds, name) for name in BOUNDS},
            limit=parsed.query.limit,
            offset=parsed.how.offset,
            floor=plan.floor,
            names_project=bool(request.project),
            names_timeout=bool(request.timeout_ms),
            cursor=request.cursor,
            role=request.role,
            speaker=request.speaker,
            since=request.since,
            until=request.until,
            named_bounds=[name for name, bound in bounds.items() if bound is not None],
        )

    def run(self, change: Mapping[str, Any]) -> Sequence[Collection[str]]:
        """Ask the changed request; return by result the ids that it names.

        Raises DeadlineExceeded when the time for trying is over or the caller has gone, InvalidQuery for an invalid argument.
        """
        gone = GONE.get()
        if 1000 * (time.monotonic() - self._began) > TRYING_MS or (gone is not None and gone.is_set()):
            raise DeadlineExceeded("Timeout exceeded", "Ask for less.")
        parsed = parse_search(self._app, self._change(change), self._caller)
        response, hits = AnswerShaper(self._app, self._app.ask(parsed.query, parsed.how), parsed).shape_response()
        quoted = [{q.grip_id for q in r.also} if isinstance(r, FullResult) else set() for r in response.results]
        quoted += [set()] * (len(hits) - len(quoted))
        return [{h.node_id, h.event_id, h.grip_id, *h.grip_ids} | grips for h, grips in zip(hits, quoted, strict=True)]

    def _change(self, change: Mapping[str, Any]) -> SearchRequest:
        changed = replace(self._request, **{name: value for name, value in change.items() if name != "bounds"})
        return replace(changed, bounds=replace(changed.bounds or Bounds(), **change["bounds"])) if "bounds" in change else changed


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """What intelligent_search would do with a query, and why, with some layers taken away; nothing is searched."""

    query: arguments.Query
    without: Annotated[
        tuple[str, ...],
        Argument(
            "Layers to plan without: bm25, vector, topics, hybrid",
            flag=Flag("L,L", "as if these layers were off: bm25,vector", has_commas=True),
        ),
    ] = ()
    intent: arguments.Intent = ""
    mode: arguments.Mode = ""
    timeout_ms: arguments.Timeout = None
    as_of: arguments.AsOf = ""
    tz: arguments.Zone = ""
    bounds: Annotated[Bounds | None, Argument()] = None


@dataclass(frozen=True, slots=True)
class ClassifyQuery:
    """What a query is after (explore, answer, locate, time_boxed), the signals seen, and the time and deadline it names."""

    query: arguments.Query
    timeout_ms: Annotated[
        int | None,
        Argument("Hard limit; makes it time_boxed", range=TIMEOUT, flag=Flag("N", "a hard limit; makes it time_boxed")),
    ] = None
    as_of: arguments.AsOf = ""
    tz: arguments.Zone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """What a question is taken for."""

    query: str
    intent: str
    confidence: float
    signals: Sequence[str]
    exact: Annotated[Sequence[str], "What a result must hold literally"] = ()
    text: Annotated[str, "Looked for, without time and deadline"] = ""
    deadline_ms: int | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Classified):
    """A decision before it is carried out."""

    tier: int
    name: str
    mode: str
    why_mode: str
    order: Sequence[str]
    skipped: Sequence[Skipped]
    bounds: Mapping[str, int]
    strict: bool
    min_confidence: float
    escalates_when: str = ""


@answers("plan_query", PlanQuery, "Plan a query")
def plan_query(app: "App", request: PlanQuery, _: Caller) -> Planned:
    """Return a question's plan without running it. Raises InvalidQuery."""
    times, timeout = times_of(app, request.tz, request.as_of), TIMEOUT.check(request.timeout_ms or 0, "timeout_ms")
    how = search_options(times, request.intent, request.mode, request.bounds, None, timeout)
    query = limits.check_query(request.query)
    plan = app.plan(Query(query), replace(how, without=layers_named(request.without)))
    return copy_fields(
        Planned,
        plan,
        query=query,
        confidence=round(plan.confidence, 3),
        window=shapes.shape_window(plan.window, plan.window_words, times.calendar),
        name=plan.tier.label,
        order=plan.order if plan.mode is Mode.SEQUENTIAL else plan.paths,
        skipped=[Skipped(layer=s.layer, reason=s.reason) for s in plan.skipped],
        bounds={f.name: getattr(plan.bounds, f.name) for f in fields(plan.bounds)},
    )


@answers("classify_query", ClassifyQuery, "Classify a query")
def classify_query(app: "App", request: ClassifyQuery, _: Caller) -> Classified:
    """Return a question's intent, window and deadline, without searching. Raises InvalidQuery."""
    times, timeout = times_of(app, request.tz, request.as_of), TIMEOUT.check(request.timeout_ms or 0, "timeout_ms")
    query = limits.check_query(request.query)
    plan = app.plan(Query(query), search_options(times, timeout_ms=timeout))
    window = shapes.shape_window(plan.window, plan.window_words, times.calendar)
    return copy_fields(Classified, plan, query=query, confidence=round(plan.confidence, 3), window=window)
