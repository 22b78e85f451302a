"""`agents`: every agent whose sessions the memory holds, with its activity."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result

#: Projects that a line names.
_NAMED = 4


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `agents`, which `run` carries out, without arguments of its own; `about` is its help text."""
    leaf(parsers, "agents", run, about)


def run(args: argparse.Namespace) -> int:
    """Print every agent with its counts, days and projects, the latest first; return 0."""
    from memory_mcp.requests.projects import ListAgents

    data = ask(args, ListAgents(), hint=True)
    return print_result(args, data, _lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield for each agent a line of counts and days, and one with its first four projects, if it has any.

    `data` is the response to ListAgents.
    """
    for one in data["agents"]:
        counts = render.activity(one)
        yield f"{render.one_line(one['agent'])}: {counts}, {render.days(one['first'], one['last'])}"
        if projects := one.get("projects", ()):
            more = f" and {len(projects) - _NAMED} more" if len(projects) > _NAMED else ""
            yield f"  {render.one_line(', '.join(projects[:_NAMED]))}{more}"
