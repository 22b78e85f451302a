"""`projects`: every project of the memory with its activity and its other names."""

import argparse
from collections.abc import Iterator
from typing import Any

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
    return print_result(args, data, _lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield for each project its name, counts, days and agents, its other names and what it was split from.

    `data` is the response to ListProjects. Last, where more follow, how many of all are shown and the next cursor.
    """
    for one in data["projects"]:
        here = "  (here)" if one["project"] == data.get("yours") else ""
        yield f"{render.one_line(one['project'])}{here}"
        agents = f", {render.one_line(', '.join(one['agents']))}" if one.get("agents") else ""
        counts = render.activity(one)
        yield f"  {counts}, {render.days(one['first'], one['last'])}{agents}"
        for other in one.get("aliases", ()):
            guessed = " (a guess)" if other["by"] == "guess" else ""
            yield f"  also {render.one_line(other['name'])}{guessed}"
        if one.get("split_from"):
            yield f"  split from {render.one_line(one['split_from'])}"
    if data.get("next_cursor"):
        yield f"{len(data['projects'])} of {data['total']:,}; more: --cursor {data['next_cursor']}"
