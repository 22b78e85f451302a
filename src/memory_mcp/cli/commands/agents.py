"""`agents`: every agent whose sessions the memory holds, with its activity."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, answered, hint_when_empty, leaf, opened, print_result

#: Projects that a line names.
_NAMED = 4


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `agents`."""
    leaf(parsers, "agents", run, about)


def run(args: argparse.Namespace) -> int:
    """List them, the latest first."""
    from memory_mcp.requests.projects import ListAgents

    with opened(args) as app:
        data = answered(app, ListAgents())
        hint_when_empty(app)
    return print_result(args, data, _lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for one in data["agents"]:
        counts = f"{render.plural(one['events'], 'event')} in {render.plural(one['sessions'], 'session')}"
        yield f"{render.one_line(one['agent'])}: {counts}, {render.days(one['first'], one['last'])}"
        if projects := one.get("projects", ()):
            more = f" and {len(projects) - _NAMED} more" if len(projects) > _NAMED else ""
            yield f"  {render.one_line(', '.join(projects[:_NAMED]))}{more}"
