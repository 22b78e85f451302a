"""`agents`: every agent whose sessions the memory holds, with its activity."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result

#: Projects that a line names.
_NAMED = 4


def add(parsers: Subparsers, about: str) -> None:
    """Add `agents` and its arguments; `about` is what help says of it."""
    leaf(parsers, "agents", run, about)


def run(args: argparse.Namespace) -> int:
    """Print every agent with its activity, the latest first."""
    from memory_mcp.requests.projects import ListAgents

    data = ask(args, ListAgents(), hint=True)
    return print_result(args, data, _lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for one in data["agents"]:
        counts = render.activity(one)
        yield f"{render.one_line(one['agent'])}: {counts}, {render.days(one['first'], one['last'])}"
        if projects := one.get("projects", ()):
            more = f" and {len(projects) - _NAMED} more" if len(projects) > _NAMED else ""
            yield f"  {render.one_line(', '.join(projects[:_NAMED]))}{more}"
