"""`timeline`: a year's weeks by how much they hold, days with their titles, and the segments below them."""

import argparse
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import chart, render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_scope,
    add_times,
    as_json,
    hint_when_empty,
    leaf,
    opened,
    scope_of,
    window_of,
)
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from rich.text import Text

    from memory_mcp.app import App
    from memory_mcp.model.calendar import TimeWindow

_MAX_DAYS = 3660
#: Up to so many days are shown with their segments, and up to so many one by one; of more, weeks.
_WITH_SEGMENTS, _WITH_DAYS = 14, 62
#: Characters of a week's bar, and of what came of a segment.
_BAR, _OUTCOME = 20, 70


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `timeline`."""
    parser = leaf(parsers, "timeline", run, about)
    parser.add_argument("--days", type=int, metavar="N", help="the last N days (default: the last 7 that hold anything)")
    add_times(parser)
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Show the days of a window, oldest first."""
    if args.days is not None and (args.since or args.until):
        raise InvalidQuery("--days goes without --since and --until")
    if args.days is not None and not 1 <= args.days <= _MAX_DAYS:
        raise InvalidQuery(f"days must be 1 to {_MAX_DAYS}, not {args.days}")
    with opened(args) as app:
        project = scope_of(app, args).project
        days = _days(app, args, project)
        shown = [day["day"] for day in days]
        data: dict[str, Any] = {"timezone": app.calendar.zone_name, "days": days}
        data |= {"weeks": _weeks(app, project, shown), "years": _years(app, project, shown)}
        hint_when_empty(app)
    if as_json(args):
        render.out_json(data, recalled=True)
    else:
        render.styled(_lines(data, render.draws_blocks()), recalled=True)
    return 0


def _days(app: "App", args: argparse.Namespace, project: str | None) -> list[dict[str, Any]]:
    from memory_mcp.model.calendar import TocLevel
    from memory_mcp.model.ids import ROOT
    from memory_mcp.toc.quiet import quiet
    from memory_mcp.toc.statements import outcome_of

    window = _window(app, args)
    ids = app.tree.descendants(ROOT, TocLevel.DAY, project, window)
    if window is None:
        ids = ids[-7:]
    shown = []
    for node in app.tree.nodes(ids, project).values():
        below = app.tree.nodes(app.tree.children(node.node_id, project), project)
        folded = set(quiet(list(below.values()), app.storage.toc.pins()))
        segments = [
            {
                "node_id": s.node_id,
                "start": app.calendar.iso(s.start_ms),
                "end": app.calendar.iso(s.end_ms),
                "title": s.title,
                "project": next(iter(s.projects), ""),
                "events": s.event_count,
                "outcome": outcome_of(s),
                "quiet": s.node_id in folded,
            }
            for s in sorted(below.values(), key=lambda s: s.start_ms)
        ]
        own = {"node_id": node.node_id, "day": node.node_id.rsplit(":", 1)[-1], "title": node.title, "summary": node.summary}
        shown.append({**own, "events": node.event_count, "sessions": node.session_count, "segments": segments})
    return shown


def _weeks(app: "App", project: str | None, days: list[str]) -> list[dict[str, Any]]:
    """Return one row per week, with its days counted together."""
    from memory_mcp.model.calendar import parents_of_day

    ids = list(dict.fromkeys(parents_of_day(day)[0] for day in days))
    return [
        {
            "node_id": node.node_id,
            "week": node.node_id.rsplit(":", 1)[-1],
            "title": node.title,
            "summary": node.summary,
            "events": node.event_count,
            "sessions": node.session_count,
            "days": app.tree.count_children(node.node_id, project),
        }
        for node in app.tree.nodes(ids, project).values()
    ]


def _years(app: "App", project: str | None, days: list[str]) -> list[dict[str, Any]]:
    """How many events every week of the last day's year holds; a week counts for the year that most of its days lie in."""
    if not days:
        return []
    year, weeks = dt.date.fromisoformat(days[-1]).isocalendar().year, []
    monday = dt.date.fromisocalendar(year, 1, 1)
    while monday.isocalendar().year == year:
        after = monday + dt.timedelta(days=7)
        events = app.storage.toc.tally(monday.isoformat(), after.isoformat(), project).events
        weeks.append({"week": f"{year}-W{monday.isocalendar().week:02}", "monday": monday.isoformat(), "events": events})
        monday = after
    return [{"year": year, "weeks": weeks}]


def _window(app: "App", args: argparse.Namespace) -> "TimeWindow | None":
    if args.days is None:
        return window_of(app, args)
    today = app.calendar.local(app.clock.now_ms()).date()
    return app.calendar.days(today - dt.timedelta(days=args.days - 1), today + dt.timedelta(days=1))


def _lines(data: dict[str, Any], blocks: bool) -> Iterator["Text"]:
    from rich.text import Text

    days = data["days"]
    if not days:
        yield Text("Nothing was recorded in that time.")
        return
    for year in data["years"]:
        yield from _heat_lines(year, blocks)
    most = max((week["events"] for week in data["weeks"]), default=0)
    shown: dict[str, list[dict[str, Any]]] = {}
    for day in days:
        shown.setdefault(_week_of(day["day"]), []).append(day)
    for week in data["weeks"]:
        counts = f"{render.plural(week['events'], 'event')} in {render.plural(week['sessions'], 'session')}"
        drawn = chart.bar(week["events"], most, _BAR, blocks)
        themes = render.safe(week["summary"]) or _head(week["title"])
        yield Text.assemble((week["week"], "bold cyan"), "  ", (drawn, "green"), "  ", (counts, "dim"), "  ", themes)
        if len(days) > _WITH_DAYS:
            continue
        for day in shown.get(week["week"], []):
            yield from _day_lines(day, len(days) <= _WITH_SEGMENTS)
        yield Text("")
    if len(days) > _WITH_SEGMENTS:
        yield Text(f"{render.plural(len(days), 'day')}; fewer (--days {_WITH_SEGMENTS}) are shown with what lies in them", "dim")


def _week_of(day: str) -> str:
    year, week, _ = dt.date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def _heat_lines(year: dict[str, Any], blocks: bool) -> Iterator["Text"]:
    """A line of months, and one of cells, one for each week."""
    from rich.text import Text

    weeks = year["weeks"]
    # A week belongs to the month of its Thursday, as it does to the year.
    months = [f"{dt.date.fromisoformat(w['monday']) + dt.timedelta(days=3):%b}" for w in weeks]
    first = [(place, name) for place, name in enumerate(months) if place == 0 or name != months[place - 1]]
    yield Text(f"      {chart.ruler(first, len(weeks))}", "dim")
    most = max(week["events"] for week in weeks)
    cells = chart.heat([week["events"] for week in weeks], blocks)
    yield Text.assemble((f"{year['year']}  ", "bold"), (cells, "green"), (f"  most in a week: {most:,}", "dim"))
    yield Text("")


def _day_lines(day: dict[str, Any], with_segments: bool) -> Iterator["Text"]:
    from rich.text import Text

    weekday = dt.date.fromisoformat(day["day"]).strftime("%a")
    counts = f"{render.plural(day['events'], 'event')} in {render.plural(day['sessions'], 'session')}"
    title = _head(day["title"])
    yield Text.assemble((f"{day['day']} {weekday}", "bold cyan"), "  ", (title, "bold"), "  ", (counts, "dim"))
    if not with_segments:
        return
    for segment in day["segments"]:
        if segment["quiet"]:
            continue
        span = f"{segment['start'][11:16]}-{segment['end'][11:16]}"
        place = segment["project"].rstrip("/").rsplit("/", 1)[-1]
        told = _head(segment["title"])
        came = f": {render.one_line(render.safe(segment['outcome']), _OUTCOME)}" if segment["outcome"] else ""
        yield Text.assemble("  ", (span, "green"), "  ", (place, "magenta"), "  " if place else "", told, (came, "dim"))
    folded = [segment for segment in day["segments"] if segment["quiet"]]
    if folded:
        yield Text(f"  {len(folded)} short exchanges; memory-mcp query browse {day['day']} shows how to open them", "dim")


def _head(title: str) -> str:
    """A title without its date and without the terms behind it."""
    return render.safe(render.gist(title)).partition(" — ")[0]
