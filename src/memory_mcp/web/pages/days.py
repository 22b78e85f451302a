"""Today, where each project was left off, and a year of days: how much was recorded on each."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from memory_mcp.model.ids import day_id
from memory_mcp.requests.activity import GetAgentActivity
from memory_mcp.requests.friction import GetFriction
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.requests.today import GetToday
from memory_mcp.web import charts
from memory_mcp.web.asking import PageRequest

#: Projects and agents that are listed before the rest is folded.
_LISTED = 12
#: Frictions of each kind.
_FRICTIONS = 4
#: Days of the chart.
_DAYS = 14


async def show_calendar(ask: PageRequest) -> Response:
    """Show a year of days, of one project or agent if named.

    The address's year (InvalidQuery if it is no number), else this year, or where it is empty the last that is not.
    """
    project, agent = ask.argument("project"), ask.argument("agent")
    now = await ask.memory.ask(GetAgentActivity(agent=agent, days=1, **ask.scope_arguments))
    years = now.get("years", [])
    this = int(now["last_day"][:4])
    year = ask.int_argument("year", this if this in years or not years else max(years))
    window = f"{year:04}"
    activity = await ask.memory.ask(GetAgentActivity(agent=agent, since=window, until=window, **ask.scope_arguments))
    # What could be chosen instead, where something was chosen.
    every = GetAgentActivity(since=window, until=window, scope="all")
    all_activity = await ask.memory.ask(every) if project or agent else activity
    days = {day["day"]: charts.Tally(day["events"], day["sessions"]) for day in activity.get("days", ())}
    return ask.render_template(
        "calendar.html",
        year=year,
        years=sorted({*years, year}, reverse=True),
        found=activity,
        agent=agent,
        chart=charts.draw_year(year, days, lambda node: ask.link(f"tree/{node}", project=project)),
        legend=charts.draw_legend(),
        projects=_choices(all_activity.get("projects", ()), project),
        agents=_choices(all_activity.get("agents", ()), agent),
        totals=[
            _totals(ask, of, activity.get(f"{of}s", ()), {"project": project, "agent": agent, "year": year})
            for of in ("project", "agent")
        ],
    )


def _choices(totals: Sequence[Mapping[str, Any]], chosen: str) -> list[str]:
    return sorted({total["name"] for total in totals if total["name"] != NO_NAME} | ({chosen} if chosen else set()))


def _totals(ask: PageRequest, of: str, totals: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> dict[str, Any]:
    most = max((total["events"] for total in totals), default=0)
    rows = [
        {
            **total,
            "href": "" if total["name"] == NO_NAME else ask.link("calendar", **{**chosen, of: total["name"]}),
            "bar": charts.draw_bar(total["events"], most),
        }
        for total in totals
    ]
    return {"of": of, "rows": rows[:_LISTED], "rest": rows[_LISTED:], "chart": _by_month(ask, of, totals, int(chosen["year"]))}


def _by_month(ask: PageRequest, of: str, totals: Sequence[Mapping[str, Any]], year: int) -> Markup:
    series: list[tuple[str, dict[str, int]]] = []
    for total in totals:
        if len(series) < charts.SERIES:
            series.append((ask.short_project(total["name"]) if of == "project" else total["name"], {}))
        elif len(series) == charts.SERIES:
            series[-1] = ("others", series[-1][1])
        events = series[-1][1]
        for month in total["months"]:
            events[month["month"]] = events.get(month["month"], 0) + month["events"]
    months = [f"{year:04}-{month:02}" for month in range(1, 13)]
    return charts.draw_stacked_columns(months, series, f"Events of each month by {of}, of which the table has the sums")


async def show_today(ask: PageRequest) -> Response:
    """Show where each project was left off."""
    response = await ask.memory.ask(GetToday(**ask.scope_arguments))
    activity = await ask.memory.ask(GetAgentActivity(days=_DAYS, **ask.scope_arguments))
    tallies = {entry["day"]: charts.Tally(entry["events"], entry["sessions"]) for entry in activity.get("days", ())}
    last = dt.date.fromisoformat(activity["last_day"])
    columns = []
    for day in (last - dt.timedelta(days=ago) for ago in reversed(range(_DAYS))):
        tally = tallies.get(day.isoformat())
        href = ask.link(f"tree/{day_id(day.isoformat())}", project=ask.argument("project")) if tally else ""
        columns.append(charts.Column(tally.events if tally else 0, charts.day_title(day, tally), href, str(day.day)))
    days = activity.get("days", ())
    held_on = f"something was recorded on {len(days)} of them" if days else "nothing was recorded"
    chart = charts.draw_columns(columns, f"The last {_DAYS} days: {held_on}")
    # The part that follows what is recorded has nothing that takes weeks to change.
    friction = {} if ask.part else await ask.memory.ask(GetFriction(limit=_FRICTIONS, **ask.scope_arguments))
    values = {"found": response, "activity": activity, "chart": chart, "nameless": NO_NAME, "friction": friction}
    return ask.render_page("today", **values)
