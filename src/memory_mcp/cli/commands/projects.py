"""`projects`: every project of the memory with its activity and its other names."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result
from memory_mcp.requests.limits import PAGE

_ASIDE = "Two that are one: memory-mcp project alias A B. One that is two: memory-mcp project split A --cwd PATH"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `projects`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "projects", run, about, aside=_ASIDE)
    parser.add_argument("--limit", type=int, default=PAGE.default, metavar="N", help=f"projects to show (default {PAGE.default})")
    parser.add_argument("--cursor", default="", metavar="C", help="next_cursor of the page before")


def run(args: argparse.Namespace) -> int:
    """Print one page of the projects (--limit, --cursor) with activity and other names, the latest first; return 0."""
    from memory_mcp.requests.projects import ListProjects

    data = ask(args, ListProjects(args.limit, args.cursor), hint=True)
    lines = []
    for project in data["projects"]:
        name, full_name = render.project_name(project["project"]), render.one_line(project["project"])
        here_mark = "  (here)" if project["project"] == data.get("yours") else ""
        lines.append(f"{name}{here_mark}" if name == full_name else f"{name}  {full_name}{here_mark}")
        agents = f", {render.one_line(', '.join(project['agents']))}" if project.get("agents") else ""
        lines.append(f"  {render.activity(project)}, {render.days(project['first'], project['last'])}{agents}")
        for other in project.get("aliases", ()):
            lines.append(f"  also {render.one_line(other['name'])}{' (a guess)' if other['by'] == 'guess' else ''}")
        lines += [f"  split from {render.project_name(project['split_from'])}"] if project.get("split_from") else []
    if data.get("next_cursor"):
        lines.append(f"{len(data['projects'])} of {data['total']:,}; more: --cursor {data['next_cursor']}")
    return print_result(args, data, lines)
