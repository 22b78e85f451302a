"""plan_query and classify_query: what would be done with a question, without doing it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.requests import arguments, limits, shapes
from memory_mcp.requests.asking import search_options
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import TIMEOUT, Argument, Bounds, Flag
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.shapes import Skipped, Window
from memory_mcp.requests.times import times_of
from memory_mcp.search.layers.base import Query
from memory_mcp.search.policy.plan import Mode, layers_named

if TYPE_CHECKING:
    from memory_mcp.app import App


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
    """Return a question's plan without running it.

    Raises InvalidQuery.
    """
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
    """Return a question's intent, window and deadline, without searching.

    Raises InvalidQuery (time, timeout or query).
    """
    times, timeout = times_of(app, request.tz, request.as_of), TIMEOUT.check(request.timeout_ms or 0, "timeout_ms")
    query = limits.check_query(request.query)
    plan = app.plan(Query(query), search_options(times, timeout_ms=timeout))
    window = shapes.shape_window(plan.window, plan.window_words, times.calendar)
    return copy_fields(Classified, plan, query=query, confidence=round(plan.confidence, 3), window=window)
