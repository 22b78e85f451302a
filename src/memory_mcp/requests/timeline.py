"""get_timeline: days with their segments, their weeks, and how much each week of the year holds."""

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TocLevel, parents_of_day
from memory_mcp.model.ids import ROOT
from memory_mcp.model.toc import TocNode
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import YEAR, Argument, Flag
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.times import times_of
from memory_mcp.tree.toc.quiet import choose_folded
from memory_mcp.tree.toc.statements import node_outcome

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Days that hold anything, shown where no window is named.
_LATEST = 7


@dataclass(frozen=True, slots=True)
class GetTimeline:
    """The last `days` local days, or those from `since` to `until`; without any of them the latest that hold anything."""

    days: Annotated[int | None, Argument(flag=Flag("N", "the last N days (default: the last 7 that hold anything)"))] = None
    since: arguments.Since = ""
    until: arguments.Until = ""
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSegment:
    """One segment of a day."""

    node_id: str
    start: str
    end: str
    title: str
    #: The first of its projects; "" for none.
    project: str
    events: int
    #: What came of it; "" where that is not known.
    outcome: str
    #: Whether it is a short exchange that a crowded day folds.
    quiet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineDay:
    """One local day, with its segments in order of time."""

    node_id: str
    day: str
    title: str
    summary: str
    events: int
    sessions: int
    segments: Sequence[TimelineSegment]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWeek:
    """One ISO week that a shown day belongs to, with all of its days counted together."""

    node_id: str
    week: str
    title: str
    summary: str
    events: int
    sessions: int
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekCount:
    """Events of one week; `monday` is its first day."""

    week: str
    monday: str
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineYear:
    """Every week of a year; a week counts for the year that most of its days lie in."""

    year: int
    weeks: Sequence[WeekCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Recalled):
    """Days, oldest first; their weeks; and the year of the last day."""

    timezone: str
    days: Sequence[TimelineDay]
    weeks: Sequence[TimelineWeek]
    years: Sequence[TimelineYear]


@answers("get_timeline", GetTimeline)
def get_timeline(app: "App", request: GetTimeline, caller: Caller) -> Timeline:
    """Return the days of a window, oldest first, with their weeks.

    Only days that hold anything; also the year of the last one. Without a window the latest `_LATEST` such days.

    Raises:
        InvalidQuery: the window is empty, `days` is out of range or goes with a time, or the project is unknown.

    """
    window = times_of(app).span(request.days, request.since, request.until, YEAR)
    project = scope_of(app, request.project, request.scope, caller).project
    ids = app.tree.descendants(ROOT, TocLevel.DAY, project, window)
    if window is None:
        ids = ids[-_LATEST:]
    days = [_day(app, node, project) for node in app.tree.nodes(ids, project).values()]
    day_names = [day.day for day in days]
    # Those that have a node in the scope.
    weeks = app.tree.nodes(list(dict.fromkeys(parents_of_day(day)[0] for day in day_names)), project)
    return Timeline(
        timezone=app.calendar.zone_name,
        days=days,
        weeks=[
            TimelineWeek(
                node_id=node.node_id,
                week=node.node_id.rsplit(":", 1)[-1],
                title=node.title,
                summary=node.summary,
                events=node.event_count,
                sessions=node.session_count,
                days=app.tree.count_children(node.node_id, project),
            )
            for node in weeks.values()
        ],
        years=_years(app, project, day_names),
    )


def _day(app: "App", node: TocNode, project: str | None) -> TimelineDay:
    below = app.tree.nodes(app.tree.children(node.node_id, project), project)
    folded = set(choose_folded(list(below.values()), app.storage.toc.list_pins()))
    return TimelineDay(
        node_id=node.node_id,
        day=node.node_id.rsplit(":", 1)[-1],
        title=node.title,
        summary=node.summary,
        events=node.event_count,
        sessions=node.session_count,
        segments=[
            TimelineSegment(
                node_id=segment.node_id,
                start=app.calendar.format_iso(segment.start_ms),
                end=app.calendar.format_iso(segment.end_ms),
                title=segment.title,
                project=next(iter(segment.projects), ""),
                events=segment.event_count,
                outcome=node_outcome(segment),
                quiet=segment.node_id in folded,
            )
            for segment in sorted(below.values(), key=lambda segment: segment.start_ms)
        ],
    )


def _years(app: "App", project: str | None, days: Sequence[str]) -> list[TimelineYear]:
    """Return a list of one: the last day's ISO year; [] without days."""
    if not days:
        return []
    year = dt.date.fromisoformat(days[-1]).isocalendar().year
    monday, after = dt.date.fromisocalendar(year, 1, 1), dt.date.fromisocalendar(year + 1, 1, 1)
    events_by_week: dict[str, int] = {}
    for day in app.storage.projects.daily_activity(monday.isoformat(), after.isoformat(), project).days:
        week = _week_of(dt.date.fromisoformat(day.name))
        events_by_week[week] = events_by_week.get(week, 0) + day.events
    weeks = []
    while monday < after:
        week = _week_of(monday)
        weeks.append(WeekCount(week=week, monday=monday.isoformat(), events=events_by_week.get(week, 0)))
        monday += dt.timedelta(days=7)
    return [TimelineYear(year=year, weeks=weeks)]


def _week_of(day: dt.date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
