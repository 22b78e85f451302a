"""Where each project was left off, what was decided and is open, and what was recorded in the last hours."""

import datetime as dt

from starlette.responses import Response

from memory_mcp.model.ids import day_id
from memory_mcp.requests.activity import GetAgentActivity
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.requests.today import GetToday
from memory_mcp.web import charts
from memory_mcp.web.asking import Ask

#: Days of the chart.
_DAYS = 14


async def show_today(ask: Ask) -> Response:
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
    return ask.render("today", found=response, activity=activity, chart=chart, nameless=NO_NAME)
