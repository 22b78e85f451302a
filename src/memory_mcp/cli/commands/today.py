"""`today`: where each project was left off and how to go on, and what each client recorded in the last 24 hours."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, answered, as_json, leaf, opened, project_typed, refuse_empty
from memory_mcp.requests.limits import PROJECTS

if TYPE_CHECKING:
    from rich.text import Text

#: Characters of a statement.
_WIDTH = 110
_PARTS = (("came of it", "results"), ("decided", "decisions"), ("open", "open"))


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `today`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "today", run, about, aside="What a citation proves: memory-mcp show GRIP")
    parser.add_argument("--project", metavar="P", default="", help="only this project (its identity or the last part of it)")
    text = f"projects to show (default {PROJECTS.default})"
    parser.add_argument("--limit", type=int, default=PROJECTS.default, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    """Print --limit projects (or --project) with where each was left off, and each client's last 24 hours; return 0."""
    from memory_mcp.requests.scope import ScopeName
    from memory_mcp.requests.today import GetToday

    with opened(args) as app:
        refuse_empty(app, args)
        project = project_typed(app, args.project)
        data = answered(app, GetToday(args.limit, project, "" if project else ScopeName.ALL.value))
    if as_json(args):
        render.out_json(data)
    else:
        render.styled(_lines(data), recalled=True)
    return 0


def _lines(data: Mapping[str, Any]) -> Iterator["Text"]:
    """Yield the lines of a GetToday response: each project's, then one line for each client; one line if nothing is recorded.

    Of a project: its name, where it was left off, what was asked, came of it, was decided, is open and is next, and facts.
    """
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
    if data["clients"]:
        yield Text("In the last 24 hours", "bold")
    for client in data["clients"]:
        places = ", ".join(map(render.project_name, client.get("projects", ())))
        last = f"last {render.minute(client['last'])}{f'  {places}' if places else ''}"
        yield Text(f"  {_flat(client['agent'])}  {render.activity(client)}, {last}")


def _statement_lines(project: Mapping[str, Any]) -> Iterator["Text"]:
    """Yield what was asked in a project, came of it, was decided, is open and is next: a line each with its citation."""
    from rich.text import Text

    titled_statements = [("asked", [project["asked"]] if "asked" in project else [])]
    titled_statements += [(title, project.get(name, ())) for title, name in _PARTS]
    titled_statements += [("next", [project["next_step"]] if "next_step" in project else [])]
    for title, statements in titled_statements:
        for index, statement in enumerate(statements):
            later = statement.get("superseded_by")
            over = f"  (a later statement says otherwise: {later})" if later else ""
            cited = (f"  {statement.get('grip', '')}{over}".rstrip(), "dim")
            text = render.one_line(_flat(statement["text"]), _WIDTH)
            yield Text.assemble(f"  {title if index == 0 else '':<11}", text, cited)


def _flat(text: str) -> str:
    """Return stored text on one line, its control characters replaced."""
    return render.one_line(render.safe(text))
