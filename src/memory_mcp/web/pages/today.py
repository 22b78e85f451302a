"""Where each project was left off, what was decided and is open, and what was recorded in the last hours."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from memory_mcp.model.ids import day_id
from memory_mcp.requests.activity import GetAgentActivity
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.requests.today import GetToday
from memory_mcp.web import charts
from memory_mcp.web.asking import Ask

#: Days of the chart.
_DAYS = 14


async def today(ask: Ask) -> Response:
    """Show the page, or its part that changes while work goes on."""
    project = ask.given("project")
    scope = "" if project else "all"
    found = await ask.memory.ask(GetToday(project=project, scope=scope))
    activity = await ask.memory.ask(GetAgentActivity(days=_DAYS, project=project, scope=scope))
    held = {one["day"]: charts.Tally(one["events"], one["sessions"]) for one in activity.get("days", ())}
    last = dt.date.fromisoformat(activity["last_day"])
    shown = []
    for day in (last - dt.timedelta(days=ago) for ago in reversed(range(_DAYS))):
        tally = held.get(day.isoformat())
        href = ask.link(f"tree/{day_id(day.isoformat())}", project=ask.given("project")) if tally else ""
        shown.append(charts.Column(tally.events if tally else 0, charts.said(day, tally), href, str(day.day)))
    values = {
        "found": found,
        "activity": activity,
        "chart": charts.columns(shown, _said(activity.get("days", ()))),
        "nameless": NO_NAME,
    }
    return ask.page("part_today.html" if ask.part else "today.html", **values)


def _said(days: Sequence[Mapping[str, Any]]) -> str:
    held = f"something was recorded on {len(days)} of them" if days else "nothing was recorded"
    return f"The last {_DAYS} days: {held}"
