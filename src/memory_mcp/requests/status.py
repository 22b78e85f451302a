"""get_retrieval_status: what the memory can do now."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base import environment, paths, pauses
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DiskFull, InvalidQuery, ReadOnly
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import ROOT
from memory_mcp.requests import arguments, capturing
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import Detail, parse_choice
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.shapes import NAMES_SHOWN
from memory_mcp.search.layers.base import CONTRACTS, LayerName, LayerStatus
from memory_mcp.search.policy.plan import detect_tier
from memory_mcp.storage.lock import is_read_only
from memory_mcp.storage.opening import find_zone
from memory_mcp.storage.values import Scope, StoreStats

if TYPE_CHECKING:
    from memory_mcp.app import App

_BOUND = "counts are those of project {} alone: a layer's are its segments; quotations and bytes are not counted apart"


@dataclass(frozen=True, slots=True)
class GetStatus:
    """What the memory can do now: tier (1 Full to 5 Agentic, which always works), layers, lag and store.

    Every layer with its health, why it cannot be used, and what enables it.
    """

    detail: Annotated[
        str, arguments.detail("full: what each layer can and cannot do", "full: also what each layer can and cannot do (JSON)")
    ] = Detail.LEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerInfo:
    """A retrieval layer."""

    name: str
    enabled: bool
    healthy: bool
    count: int
    reason: str = ""
    enable_with: str = ""
    contract: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far the tree is behind the events."""

    events: int
    #: That the slowest index lacks; None for none.
    index_changes: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What the memory holds."""

    events: int
    sessions: int
    segments: int
    nodes: int
    grips: int
    first: str = ""
    last: str = ""
    timezone: str
    size_bytes: int
    projects: Sequence[str] = ()
    agents: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Tier, layers, lag and store."""

    tier: int
    name: str
    layers: Sequence[LayerInfo]
    embedder: str
    lag: Lag
    store: Store
    #: False while acknowledged events are missing and no person has acknowledged that.
    healthy: bool = True
    project: Annotated[str, "To which searches are scoped"] = ""
    notices: Sequence[str] = ()


@answers("get_retrieval_status", GetStatus, "Retrieval status")
def get_status(app: "App", request: GetStatus, caller: Caller) -> Status:
    """Return the layers, the lag and the store.

    Of one project for a bound caller. Raises InvalidQuery for an unknown `detail`, or a bound caller
    whose project is not known.
    """
    full = parse_choice(Detail, "detail", request.detail) is Detail.FULL
    bound = caller.bound(app)
    statuses = app.engine.read_statuses()
    tier = detect_tier(statuses)
    if full:
        statuses.insert(0, LayerStatus(LayerName.TOC, enabled=True, healthy=True, count=app.tree.tally().segments))
    stats = app.storage.get_stats(text=False)
    layers = [copy_fields(LayerInfo, s, contract=asdict(CONTRACTS[s.name]) if full else {}) for s in statuses]
    if bound is None:
        most_behind = max((s.behind for s in app.accelerators.index_statuses().values()), default=0)
        lag = Lag(events=stats.last_seq - stats.derived_to, index_changes=most_behind or None, error=caller.deriver_error)
    else:
        # Events of the project that are in no segment yet.
        stored = sum(activity.events for activity in app.storage.projects.list_projects() if activity.name == bound)
        lag = Lag(events=max(0, stored - app.tree.tally(bound).events))
        # What a layer counts is everybody's: the project's own segments are what each of them holds of it.
        segments = app.tree.tally(bound).segments
        layers = [replace(layer, count=segments) for layer in layers]
    return Status(
        tier=tier,
        name=tier.label,
        layers=layers,
        embedder=app.accelerators.embedder_name,
        lag=lag,
        store=_describe_store(app, stats, full, bound),
        healthy=app.storage.loss is None,
        project=app.storage.projects.names.resolve_alias(caller.project),
        notices=[*([_BOUND.format(bound)] if bound else []), *_iter_notices(app, stats, caller)],
    )


def _iter_notices(app: "App", stats: StoreStats, caller: Caller) -> Iterator[str]:
    """Yield sentences for what a user has to know.

    What the environment says cannot be used; nothing can be written for lack of room; the data directory is read-only; each pause
    that the caller may see, or that none is in force as the file of pauses is damaged; a language model improves summaries.
    """
    configured_dir, directory = app.settings.storage.data_dir, str(app.directory)
    yield from environment.report_unusable(os.environ, configured_dir, directory, paths.spare_dirs(directory))
    try:
        find_zone(os.environ)
    except InvalidQuery as error:
        yield f"TZ is passed over: {error.message}"
    if stats.no_room:
        yield f"nothing can be written: {stats.no_room}. {DiskFull.HINT}"
    if is_read_only(app.directory):
        yield f"the data directory is read-only: nothing is stored. {ReadOnly.HINT}"
    try:
        paused = capturing.in_force(app, caller)
    except InvalidQuery as error:
        yield f"nothing is paused, for {error.message}. {error.hint}"
        paused = {}
    for project, end in paused.items():
        name = "any project" if project == pauses.ALL else project
        yield f"recording of {name} is paused {f'until {app.calendar.format_iso(end)}' if end else 'until: memory-mcp resume'}"
    if (summarizer := app.settings.summarizer).is_on:
        # numpy, behind it, would be loaded by every reader of the flags.
        from memory_mcp.upkeep.jobs.improve_summaries import last_problem

        problem = last_problem(app.storage, app.calendar, app.clock.now_ms())
        failing = f", which gave no text last time ({problem})" if problem else ""
        yield f"summaries are improved by the command {summarizer.name}{failing}; see: memory-mcp spend"


def _describe_store(app: "App", stats: StoreStats, full: bool, bound: str | None) -> Store:
    """Return the counts of the memory, or of project `bound`.

    With `full` up to `NAMES_SHOWN` projects and agents. Of a project nothing depends on others: its grips and bytes are not
    counted apart and are 0. Times are "" for no events.
    """
    tally, first, last, rows = app.tree.tally(bound), stats.first_ms, stats.last_ms, stats.rows
    if bound is not None:
        span = app.storage.events.get_span(Scope(project=bound))
        first, last = (None, None) if span is None else (span.start_ms, span.end_ms - 1)
        levels = [level for level in TocLevel if level is not TocLevel.ROOT]
        nodes = sum(len(app.tree.descendants(ROOT, level, bound)) for level in levels)
        rows = {"event": tally.events, "node": nodes, "grip": 0}
    return Store(
        events=rows["event"],
        sessions=tally.sessions,
        segments=tally.segments,
        nodes=rows["node"],
        grips=rows["grip"],
        first="" if first is None else app.calendar.format_iso(first),
        last="" if last is None else app.calendar.format_iso(last),
        timezone=stats.timezone,
        size_bytes=stats.size_bytes if bound is None else 0,
        projects=() if not full else tally.projects[:NAMES_SHOWN] if bound is None else (bound,),
        agents=tally.agents[:NAMES_SHOWN] if full else (),
    )
