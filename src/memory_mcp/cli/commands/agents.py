"""`agents`: every agent whose sessions the memory holds, with its activity."""

import argparse

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
    lines = []
    for agent in data["agents"]:
        lines.append(f"{render.one_line(agent['agent'])}: {render.activity(agent)}, {render.days(agent['first'], agent['last'])}")
        if projects := agent.get("projects", ()):
            more = f" and {len(projects) - _NAMED} more" if len(projects) > _NAMED else ""
            lines.append(f"  {render.one_line(', '.join(map(render.project_name, projects[:_NAMED])))}{more}")
    return print_result(args, data, lines)
