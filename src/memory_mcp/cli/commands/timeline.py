"""`timeline`: days with their titles and the segments below them."""

import argparse
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
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
        data: dict[str, Any] = {"timezone": app.calendar.zone_name, "days": _days(app, args)}
        hint_when_empty(app)
    if as_json(args):
        render.out_json(data, recalled=True)
    else:
        render.styled(_lines(data["days"]), recalled=True)
    return 0


def _days(app: "App", args: argparse.Namespace) -> list[dict[str, Any]]:
    from memory_mcp.model.calendar import TocLevel
    from memory_mcp.model.ids import ROOT

    project, window = scope_of(app, args).project, _window(app, args)
    ids = app.tree.descendants(ROOT, TocLevel.DAY, project, window)
    if window is None:
        ids = ids[-7:]
    shown = []
    for node in app.tree.nodes(ids, project).values():
        below = app.tree.nodes(app.tree.children(node.node_id, project), project).values()
        segments = [
            {
                "node_id": s.node_id,
                "start": app.calendar.iso(s.start_ms),
                "end": app.calendar.iso(s.end_ms),
                "title": s.title,
                "project": next(iter(s.projects), ""),
                "events": s.event_count,
            }
            for s in sorted(below, key=lambda s: s.start_ms)
        ]
        own = {"node_id": node.node_id, "day": node.node_id.rsplit(":", 1)[-1], "title": node.title}
        shown.append({**own, "events": node.event_count, "sessions": node.session_count, "segments": segments})
    return shown


def _window(app: "App", args: argparse.Namespace) -> "TimeWindow | None":
    if args.days is None:
        return window_of(app, args)
    today = app.calendar.local(app.clock.now_ms()).date()
    return app.calendar.days(today - dt.timedelta(days=args.days - 1), today + dt.timedelta(days=1))


def _lines(days: list[dict[str, Any]]) -> Iterator["Text"]:
    from rich.text import Text

    if not days:
        yield Text("Nothing was recorded in that time.")
    for day in days:
        weekday = dt.date.fromisoformat(day["day"]).strftime("%a")
        counts = f"{render.plural(day['events'], 'event')} in {render.plural(day['sessions'], 'session')}"
        yield Text.assemble(
            (f"{day['day']} {weekday}", "bold cyan"),
            "  ",
            (render.safe(render.gist(day["title"])), "bold"),
            "  ",
            (counts, "dim"),
        )
        for segment in day["segments"]:
            span = f"{segment['start'][11:16]}-{segment['end'][11:16]}"
            place = segment["project"].rstrip("/").rsplit("/", 1)[-1]
            title = render.safe(render.gist(segment["title"]))
            yield Text.assemble("  ", (span, "green"), "  ", (place, "magenta"), "  " if place else "", title)
        yield Text("")
