"""get_agent_activity: counts of what was recorded on each local day, by project and agent."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import YEAR, Argument, Flag
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.requests.times import times_of
from memory_mcp.storage.values import ActivityCount, MonthCount

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class GetAgentActivity:
    """Events and sessions of each local day, totals by project and by agent, and the years that hold anything."""

    days: Annotated[
        int | None, Argument("The last so many; default: a year", range=YEAR, flag=Flag("N", "the last N days (default: a year)"))
    ] = None
    since: arguments.Since = ""
    until: arguments.Until = ""
    agent: arguments.Agent = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayActivity:
    """One local day that holds anything."""

    day: str
    events: int
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthActivity:
    """One month of a project or an agent that holds anything, as far as it lies in the window."""

    month: str
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityTotal:
    """What one project or one agent did in all of these days."""

    name: str
    events: int
    sessions: int
    #: In order.
    months: Sequence[MonthActivity]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentActivity:
    """Counts by local day, and totals; a segment counts for the day on which it began."""

    #: First and last local day that were looked at; "" where the window is open.
    first_day: str = ""
    last_day: str = ""
    timezone: str
    scope: str
    events: int
    sessions: int
    #: In order; days without anything are left out.
    days: Sequence[DayActivity]
    #: The one with the most events first.
    projects: Sequence[ActivityTotal]
    agents: Sequence[ActivityTotal]
    #: Every year that holds anything, whatever the window.
    years: Sequence[int]


@answers("get_agent_activity", GetAgentActivity, "Activity by day")
def get_agent_activity(app: "App", request: GetAgentActivity, caller: Caller) -> AgentActivity:
    """Count events and sessions by local day, project and agent.

    Without `days`, `since` and `until` it is the last year. A segment counts for the day on which it began,
    events that are in no segment yet for none. `years` names all years that hold anything.

    Raises:
        InvalidQuery: the window is empty, `days` is out of range or goes with a time, or the project is unknown.

    """
    scoped = scope_of(app, request.project, request.scope, caller)
    is_open = bool(request.since or request.until)
    days = YEAR.default if request.days is None and not is_open else request.days
    window = times_of(app).span(days, request.since, request.until, YEAR)
    # None where that end is open.
    first = None if window is None or (is_open and not request.since) else app.calendar.to_local(window.start_ms).date()
    last = None if window is None or (is_open and not request.until) else app.calendar.to_local(window.end_ms - 1).date()
    after = (last + dt.timedelta(days=1)).isoformat() if last else EVERY_DAY[1]
    of = (scoped.project, request.agent or None)
    activity = app.storage.projects.daily_activity(first.isoformat() if first else EVERY_DAY[0], after, *of)
    return AgentActivity(
        first_day=first.isoformat() if first else "",
        last_day=last.isoformat() if last else "",
        timezone=app.calendar.zone_name,
        scope=scoped.words,
        events=activity.events,
        sessions=activity.sessions,
        days=[DayActivity(day=day.name, events=day.events, sessions=day.sessions) for day in activity.days],
        projects=_make_totals(activity.projects, activity.projects_by_month),
        agents=_make_totals(activity.agents, activity.agents_by_month),
        years=app.storage.projects.list_years(*of),
    )


def _make_totals(counts: Iterable[ActivityCount], by_month: Iterable[MonthCount]) -> list[ActivityTotal]:
    """Most events first; `by_month` must hold a month for each name."""
    months: dict[str, list[MonthActivity]] = {}
    for count in by_month:
        months.setdefault(count.name, []).append(MonthActivity(month=count.month, events=count.events))
    return [
        ActivityTotal(name=count.name or NO_NAME, events=count.events, sessions=count.sessions, months=months[count.name])
        for count in sorted(counts, key=lambda count: (-count.events, count.name))
    ]
