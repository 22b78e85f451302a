"""`timeline`: a year's weeks by how much they hold, days with their titles, and the segments below them."""

import argparse
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import chart, render
from memory_mcp.cli.commands.base import Subparsers, add_scope, add_times, as_json, ask, leaf

if TYPE_CHECKING:
    from rich.text import Text

#: Up to so many days are shown with their segments, and up to so many one by one; of more, weeks.
_WITH_SEGMENTS, _WITH_DAYS = 14, 62
#: Characters of a week's bar, and of what came of a segment.
_BAR, _OUTCOME = 20, 70


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `timeline`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "timeline", run, about)
    parser.add_argument("--days", type=int, metavar="N", help="the last N days (default: the last 7 that hold anything)")
    add_times(parser)
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Print the weeks and days of --days, --since and --until, oldest first; return 0."""
    from memory_mcp.requests.timeline import GetTimeline

    data = ask(args, GetTimeline(args.days, args.since or "", args.until or ""), hint=True)
    if as_json(args):
        render.out_json(data)
    else:
        render.styled(_lines(data, render.draws_blocks()), recalled=True)
    return 0


def _lines(data: dict[str, Any], blocks: bool) -> Iterator["Text"]:
    """Yield a heat line for each year, and a line for each week with its bar, the week's days below it.

    With over 62 days there are weeks alone, with over 14 days no segments. One line where nothing was recorded.
    """
    from rich.text import Text

    days = data["days"]
    if not days:
        yield Text("Nothing was recorded in that time.")
        return
    for year in data["years"]:
        weeks = year["weeks"]
        # A week belongs to the month of its Thursday, as it does to the year.
        months = [f"{dt.date.fromisoformat(w['monday']) + dt.timedelta(days=3):%b}" for w in weeks]
        first = [(index, name) for index, name in enumerate(months) if index == 0 or name != months[index - 1]]
        yield Text(f"      {chart.ruler(first, len(weeks))}", "dim")
        counts = [week["events"] for week in weeks]
        top = (f"  most in a week: {max(counts):,}", "dim")
        yield Text.assemble((f"{year['year']}  ", "bold"), (chart.heat(counts, blocks), "green"), top)
        yield Text("")
    most = max((week["events"] for week in data["weeks"]), default=0)
    days_by_week: dict[str, list[dict[str, Any]]] = {}
    for day in days:
        days_by_week.setdefault(f"{dt.date.fromisoformat(day['day']):%G-W%V}", []).append(day)
    for week in data["weeks"]:
        drawn, counts_text = chart.bar(week["events"], most, _BAR, blocks), (render.activity(week), "dim")
        themes = render.safe(week["summary"]) or _head(week["title"])
        yield Text.assemble((week["week"], "bold cyan"), "  ", (drawn, "green"), "  ", counts_text, "  ", themes)
        if len(days) > _WITH_DAYS:
            continue
        for day in days_by_week.get(week["week"], []):
            yield from _day_lines(day, len(days) <= _WITH_SEGMENTS)
        yield Text("")
    if len(days) > _WITH_SEGMENTS:
        yield Text(f"{render.plural(len(days), 'day')}; fewer (--days {_WITH_SEGMENTS}) are shown with what lies in them", "dim")


def _day_lines(day: dict[str, Any], with_segments: bool) -> Iterator["Text"]:
    """Yield the line of a day, and with `with_segments` one for each segment with its outcome; quiet ones are only counted.

    `day` is one of the days of the response to GetTimeline.
    """
    from rich.text import Text

    weekday = dt.date.fromisoformat(day["day"]).strftime("%a")
    title = (_head(day["title"]), "bold")
    yield Text.assemble((f"{day['day']} {weekday}", "bold cyan"), "  ", title, "  ", (render.activity(day), "dim"))
    if not with_segments:
        return
    for segment in day["segments"]:
        if segment["quiet"]:
            continue
        span = f"{segment['start'][11:16]}-{segment['end'][11:16]}"
        project = render.project_name(segment["project"])
        segment_title = _head(segment["title"])
        came = f": {render.one_line(render.safe(segment['outcome']), _OUTCOME)}" if segment["outcome"] else ""
        yield Text.assemble(
            "  ", (span, "green"), "  ", (project, "magenta"), "  " if project else "", segment_title, (came, "dim")
        )
    folded = [segment for segment in day["segments"] if segment["quiet"]]
    if folded:
        yield Text(f"  {len(folded)} short exchanges; memory-mcp query browse {day['day']} shows how to open them", "dim")


def _head(title: str) -> str:
    """Return a title, cleaned, without its leading date and its trailing keywords."""
    return render.safe(render.gist(title)).partition(" — ")[0]
