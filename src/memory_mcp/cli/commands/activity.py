"""`activity`: how much was recorded on each day, as a map of the year, and by project and agent."""

import argparse
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from memory_mcp.cli import chart, render
from memory_mcp.cli.commands.base import Subparsers, add_scope, add_times, ask, leaf, print_result

#: Projects and agents that are listed, and characters of the longest bar.
_NAMED, _BAR = 12, 20


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `activity`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "activity", run, about)
    parser.add_argument("--days", type=int, metavar="N", help="the last N days (default: a year)")
    parser.add_argument("--agent", metavar="A", default="", help="only this agent's sessions")
    add_times(parser)
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was recorded on each day of --days, --since and --until (none: a year), with projects and agents; return 0."""
    from memory_mcp.requests.activity import GetAgentActivity

    data = ask(args, GetAgentActivity(args.days, args.since or "", args.until or "", args.agent), hint=True)
    return print_result(args, data, _lines(data, render.draws_blocks()))


def _lines(data: Mapping[str, Any], blocks: bool) -> Iterator[str]:
    """Yield a heat map per year, the total, and the first twelve projects and agents with bars.

    `data` is the response to GetAgentActivity. Where nothing was recorded: one line with the years that hold anything.
    `blocks`: with block characters, else ASCII.
    """
    if not data["days"]:
        years = ", ".join(map(str, data["years"]))
        yield f"Nothing was recorded in that time{f'; years that hold anything: {years}' if years else ''}."
        return
    counts = {day["day"]: day["events"] for day in data["days"]}
    for year in sorted({int(day[:4]) for day in counts}):
        # A row for each weekday from Monday, a column for each week; days of other years are blank.
        first = dt.date(year, 1, 1)
        monday = first - dt.timedelta(days=first.weekday())
        days = [monday + dt.timedelta(days=n) for n in range(7 * 54)]
        cells = chart.heat([counts.get(day.isoformat(), 0) if day.year == year else 0 for day in days], blocks)
        months = [(n, f"{day:%b}") for n, day in enumerate(days[6::7]) if day.day <= 7 and day.year == year]
        yield f"{year}  {chart.ruler(months, 54)}"
        for weekday in range(7):
            row = "".join(cell if days[n].year == year else " " for n, cell in enumerate(cells) if n % 7 == weekday)
            yield f"{days[weekday]:%a}   {row}".rstrip()
        yield ""
    yield f"{render.activity(data)} on {render.plural(len(counts), 'day')}; most on a day: {max(counts.values()):,}"
    for title, listed in (("Projects", data["projects"]), ("Agents", data["agents"])):
        yield from ("", title)
        most = max(entry["events"] for entry in listed)
        for entry in listed[:_NAMED]:
            drawn = chart.bar(entry["events"], most, _BAR, blocks)
            yield f"  {drawn}  {render.project_name(entry['name'])}  {render.activity(entry)}"
        if len(listed) > _NAMED:
            yield f"  and {len(listed) - _NAMED} more"
