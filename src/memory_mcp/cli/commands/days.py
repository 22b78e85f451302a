"""`today`, `timeline` and `activity`: what was recorded, day by day."""

import argparse
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    add_scope,
    answer_request,
    as_json,
    ask,
    leaf,
    open_memory,
    print_result,
    project_typed,
    read_request,
    refuse_empty,
)

if TYPE_CHECKING:
    from rich.text import Text


#: Characters of a statement.
_WIDTH = 110
#: Frictions of each kind, and what they are called.
_FRICTIONS = 3
_FRICTION_LABELS = {"errors": "error in", "commands": "fails first in", "instructions": "asked in"}
_PARTS = (("came of it", "results"), ("decided", "decisions"), ("open", "open"))


#: Up to so many days are shown with their segments, and up to so many one by one; of more, weeks.
_WITH_SEGMENTS, _WITH_DAYS = 14, 62
#: Characters of a week's bar, and of what came of a segment.
_BAR, _OUTCOME = 20, 70
#: Projects and agents that are listed, and characters of the longest bar.
_NAMED = 12


def add_today(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.today import GetToday

    parser = leaf(parsers, "today", run_today, about, aside="What a citation proves: memory-mcp show GRIP")
    parser.add_argument("--project", metavar="P", default="", help="only this project (its identity or the last part of it)")
    add_flags(parser, GetToday)


def run_today(args: argparse.Namespace) -> int:
    from memory_mcp.requests.friction import GetFriction
    from memory_mcp.requests.scope import ScopeName
    from memory_mcp.requests.today import GetToday

    with open_memory(args) as app:
        refuse_empty(app, args)
        project = project_typed(app, args.project)
        where = {"project": project, "scope": "" if project else ScopeName.ALL.value}
        data = answer_request(app, read_request(args, GetToday, **where))
        friction = {} if as_json(args) else answer_request(app, GetFriction(limit=_FRICTIONS, **where))
    if as_json(args):
        render.out_json(data)
    else:
        render.print_styled(_today_lines(data, friction))
    return 0


def _today_lines(data: Mapping[str, Any], friction: Mapping[str, Any]) -> Iterator["Text"]:
    from rich.text import Text

    if not data["projects"]:
        yield Text("Nothing is recorded yet.")
    for project in data["projects"]:
        left_off = project.get("left_off")
        yield Text.assemble(
            (render.project_name(project["project"]), "bold magenta"), "  ", (render.minute(project["last"]), "dim")
        )
        if left_off:
            by = f" ({_flat(left_off['agent'])})" if left_off["agent"] else ""
            yield Text.assemble(
                "  ",
                (render.minute(left_off["end"]), "green"),
                "  ",
                _flat(left_off["title"]),
                (f"{by}  {left_off['node_id']}", "dim"),
            )
        yield from _statement_lines(project)
        if facts := project.get("facts"):
            yield Text(f"  {_flat(facts)}", "dim")
        yield Text("")
    yield from _friction_lines(friction)
    if data["clients"]:
        yield Text("In the last 24 hours", "bold")
    for client in data["clients"]:
        places = ", ".join(map(render.project_name, client.get("projects", ())))
        last = f"last {render.minute(client['last'])}{f'  {places}' if places else ''}"
        yield Text(f"  {_flat(client['agent'])}  {render.activity(client)}, {last}")


def _friction_lines(friction: Mapping[str, Any]) -> Iterator["Text"]:
    from rich.text import Text

    entries = [(name, entry) for name in ("errors", "commands", "instructions") for entry in friction[name]]
    if not entries:
        return
    yield Text(f"Again and again since {friction['since']}", "bold")
    for name, entry in entries:
        of_sessions = f" of {entry['of_sessions']}" if entry.get("of_sessions") else ""
        project = f"  {render.project_name(entry['project'])}" if entry.get("project") else ""
        times = f"{_FRICTION_LABELS[name]} {entry['sessions']}{of_sessions} sessions"
        yield Text.assemble(
            f"  {times:<28} ", render.one_line(_flat(entry["text"]), _WIDTH), (f"{project}  {entry['grip']}", "dim")
        )
        if remedy := entry.get("remedy"):
            label = "ended by" if remedy["about"] == "ended" else "works"
            yield Text.assemble(
                f"  {'':<20}{label:<9}", render.one_line(_flat(remedy["text"]), _WIDTH), (f"  {remedy['grip']}", "dim")
            )
    if friction["instructions"]:
        yield Text("  What you repeat can be a rule of a client: memory-mcp rules", "dim")
    yield Text("")


def _statement_lines(project: Mapping[str, Any]) -> Iterator["Text"]:
    from rich.text import Text

    titled_statements = [("asked", [project["asked"]] if "asked" in project else [])]
    titled_statements += [(title, project.get(name, ())) for title, name in _PARTS]
    titled_statements += [("next", [project["next_step"]] if "next_step" in project else [])]
    for title, statements in titled_statements:
        for index, statement in enumerate(statements):
            later = statement.get("superseded_by")
            over = f"  (a later statement says otherwise: {later})" if later else ""
            over += f"  (since: {render.safe(statement['since'])})" if statement.get("since") else ""
            cited = (f"  {statement.get('grip', '')}{over}".rstrip(), "dim")
            text = render.one_line(_flat(statement["text"]), _WIDTH)
            yield Text.assemble(f"  {title if index == 0 else '':<11}", text, cited)


def _flat(text: str) -> str:
    return render.one_line(render.safe(text))


def add_timeline(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.timeline import GetTimeline

    parser = leaf(parsers, "timeline", run_timeline, about)
    add_flags(parser, GetTimeline)
    add_scope(parser)


def run_timeline(args: argparse.Namespace) -> int:
    from memory_mcp.requests.timeline import GetTimeline

    data = ask(args, read_request(args, GetTimeline), hint=True)
    if as_json(args):
        render.out_json(data)
    else:
        render.print_styled(_timeline_lines(data, render.draws_blocks()))
    return 0


def _timeline_lines(data: dict[str, Any], blocks: bool) -> Iterator["Text"]:
    """With over 62 days there are weeks alone, with over 14 days no segments."""
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
        yield Text(f"      {render.ruler(first, len(weeks))}", "dim")
        counts = [week["events"] for week in weeks]
        top = (f"  most in a week: {max(counts):,}", "dim")
        yield Text.assemble((f"{year['year']}  ", "bold"), (render.heat(counts, blocks), "green"), top)
        yield Text("")
    most = max((week["events"] for week in data["weeks"]), default=0)
    days_by_week: dict[str, list[dict[str, Any]]] = {}
    for day in days:
        days_by_week.setdefault(f"{dt.date.fromisoformat(day['day']):%G-W%V}", []).append(day)
    for week in data["weeks"]:
        drawn, counts_text = render.bar(week["events"], most, _BAR, blocks), (render.activity(week), "dim")
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
    return render.safe(render.gist(title)).partition(" — ")[0]


def add_activity(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.activity import GetAgentActivity

    parser = leaf(parsers, "activity", run_activity, about)
    add_flags(parser, GetAgentActivity, "days agent")
    add_flags(parser, GetAgentActivity)
    add_scope(parser)


def run_activity(args: argparse.Namespace) -> int:
    from memory_mcp.requests.activity import GetAgentActivity

    data = ask(args, read_request(args, GetAgentActivity), hint=True)
    return print_result(args, data, _activity_lines(data, render.draws_blocks()))


def _activity_lines(data: Mapping[str, Any], blocks: bool) -> Iterator[str]:
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
        cells = render.heat([counts.get(day.isoformat(), 0) if day.year == year else 0 for day in days], blocks)
        months = [(n, f"{day:%b}") for n, day in enumerate(days[6::7]) if day.day <= 7 and day.year == year]
        yield f"{year}  {render.ruler(months, 54)}"
        for weekday in range(7):
            row = "".join(cell if days[n].year == year else " " for n, cell in enumerate(cells) if n % 7 == weekday)
            yield f"{days[weekday]:%a}   {row}".rstrip()
        yield ""
    yield f"{render.activity(data)} on {render.plural(len(counts), 'day')}; most on a day: {max(counts.values()):,}"
    for title, listed in (("Projects", data["projects"]), ("Agents", data["agents"])):
        yield from ("", title)
        most = max(entry["events"] for entry in listed)
        for entry in listed[:_NAMED]:
            drawn = render.bar(entry["events"], most, _BAR, blocks)
            yield f"  {drawn}  {render.project_name(entry['name'])}  {render.activity(entry)}"
        if len(listed) > _NAMED:
            yield f"  and {len(listed) - _NAMED} more"
