"""navigate: the walk through the time tree to the evidence for a question, with every step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import ROOT
from memory_mcp.requests import arguments, shapes
from memory_mcp.requests.asking import role_of, speaker_of
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import BOUNDS, EVIDENCE, Argument, Bounds, Flag, check_query
from memory_mcp.requests.plain import copy_fields, tokens_of
from memory_mcp.requests.response import Recalled, take_fitting
from memory_mcp.requests.results import FullResult, Result, full_result
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.shapes import Window
from memory_mcp.requests.times import times_of
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import FIRST_FIND_MS, Budget

if TYPE_CHECKING:
    from memory_mcp.app import App

_TOKEN_BOUND = "max_token_budget"


@dataclass(frozen=True, slots=True)
class Navigate:
    """Walk the time tree to the evidence for a question, and show every step with its reason."""

    query: arguments.Query
    node_id: Annotated[
        str,
        Argument(
            "Where to start; empty: root", longest=300, flag=Flag("ID", "where to start (default: the root)", name="--node")
        ),
    ] = ""
    limit: Annotated[int, arguments.most("segments", EVIDENCE)] = EVIDENCE.default
    as_of: Annotated[
        str, Argument("Now, for time words", longest=60, flag=Flag("TIME", "now, for time words in the question"))
    ] = ""
    since: arguments.Since = ""
    until: arguments.Until = ""
    project: arguments.Project = ""
    role: arguments.Role = ""
    speaker: arguments.Speaker = ""
    scope: arguments.Scope = ""
    bounds: Annotated[Bounds | None, Argument()] = None
    include_current: arguments.Current = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from the root towards the evidence."""

    node_id: str
    label: str
    searched: int
    searched_level: str = ""
    matched: str = ""
    score: float
    decision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundUse:
    """A bound and how much of it was used."""

    limit: int
    used: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Navigated(Recalled):
    """The path, the evidence, and what it cost."""

    query: str
    path: Sequence[Step]
    results: Sequence[Result] | Sequence[FullResult]
    bounds: Mapping[str, BoundUse]
    bounds_hit: Sequence[str]
    scope: str
    window: Window | None = None
    notices: Sequence[str] = ()
    next: Annotated[str, "What to do with this"] = ""


@answers("navigate", Navigate, "Navigate the time tree")
def navigate(app: "App", request: Navigate, caller: Caller) -> Navigated:
    """Return the walk's results and steps. Raises NotFound (start), InvalidQuery."""
    query, limit = check_query(request.query), EVIDENCE.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    times, budget = times_of(app, as_of=request.as_of), _budget_of(app, request)
    role, speaker = role_of(request.role), speaker_of(app, request.speaker, scoped)
    walk_query = Query(query, limit, scoped.project, None, times.window(request.since, request.until), role, speaker)
    walk_query = replace(walk_query, excluded=caller.excluded(app, request.include_current))
    start = times.node_id(request.node_id)
    if start != ROOT:
        app.tree.node(start, scoped.project)
    outcome = app.agentic.navigate(walk_query, budget, times.now_ms, start)
    results = []
    for hit in outcome.hits:
        result = full_result(hit, app.calendar)
        if hit.node_id and hit.grip_id:  # goes under its node's id, its own citation first
            grip_ids = tuple(dict.fromkeys((hit.grip_id, *result.grip_ids)))
            result = replace(result, id=hit.node_id, kind=hit.level, grip_ids=grip_ids)
        results.append(result)
    shown_results = take_fitting(app, results, budget.bounds.max_token_budget)
    notices = list(outcome.notices)
    if left_out := len(results) - len(shown_results):
        budget.spent.hit.append(_TOKEN_BOUND)
        notices.append(f"{left_out} of {len(results)} results left out to stay within {_TOKEN_BOUND}")
    if budget.spent.hit:
        notices.append(f"stopped by {', '.join(budget.spent.hit)}; there may be more")
    budget.spent.tokens = sum(tokens_of(r, budget.factor) for r in shown_results)
    grips = [grip for result in shown_results for grip in result.grip_ids]
    return Navigated(
        query=query,
        path=[copy_fields(Step, step, score=round(step.score, 3)) for step in outcome.path],
        results=shown_results,
        bounds=_report_bounds(budget),
        bounds_hit=tuple(budget.spent.hit),
        scope=scoped.words,
        window=shapes.shape_window(outcome.window, outcome.window_words, app.calendar),
        notices=[*notices, *scoped.notices(app, bool(outcome.hits))],
        next=f"expand_grip {grips[0]} shows the conversation around the best match" if grips else "",
    )


def _budget_of(app: "App", request: Navigate) -> Budget:
    """Return what a walk may use; deadlines do not empty it."""
    retrieval = app.settings.retrieval
    bounds = retrieval.bounds.with_changes(**(request.bounds or Bounds()).stops())
    return Budget(bounds, app.clock, retrieval.token_factor, first_find_ms=FIRST_FIND_MS)


def _report_bounds(budget: Budget) -> dict[str, BoundUse]:
    used = {
        "max_depth": budget.spent.depth,
        "max_nodes_visited": budget.spent.nodes_visited,
        "max_rpc_calls": budget.spent.rpc_calls,
        _TOKEN_BOUND: budget.spent.tokens,
        "timeout_ms": budget.elapsed_ms(),
    }
    return {name: BoundUse(limit=getattr(budget.bounds, name), used=used.get(name)) for name in BOUNDS}
