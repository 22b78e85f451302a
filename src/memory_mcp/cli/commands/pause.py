"""`pause`: record nothing of a project until it is resumed with `resume`."""

import argparse
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, answered, leaf, opened, print_result, project_typed, settings_of

_MEANT = "a project's name, its last parts, or '*' for all (default: that of the working directory)"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `pause`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "pause", run, about, "What is said meanwhile is never recorded, also not by an import later on.")
    project_option(parser)
    parser.add_argument("--for", dest="duration", default="", metavar="TIME", help="as 30m, 2h or 1d (default: until resumed)")


def project_option(parser: argparse.ArgumentParser) -> None:
    """Add --project, a text that `project_typed` reads; "" is the project of the working directory."""
    parser.add_argument("--project", default="", metavar="NAME", help=_MEANT)


def run(args: argparse.Namespace) -> int:
    """Pause the recording of the project --project ("*": all), print the state, and return 0.

    It lasts for --for, without that until it is resumed. Raises InvalidQuery for a duration that cannot be read, and where no
    project is known.
    """
    from memory_mcp.requests.capturing import PauseCapture

    with opened(args) as app:
        status = print_state(args, answered(app, PauseCapture(project_typed(app, args.project), args.duration, "person")))
    if not settings_of(args).storage.is_in_directory:
        render.err("On this machine alone: other machines and servers with this memory go on recording.")
    return status


def print_state(args: argparse.Namespace, data: dict[str, Any]) -> int:
    """Print whether the project of the response is recorded now, and which others are paused; return the exit status 0."""
    name = "all projects" if data["project"] == "*" else data["project"]
    lines = [f"{name}: recorded again"]
    if data["paused"]:
        until = f"until {data['until']}" if data.get("until") else "until: memory-mcp resume"
        lines = [f"{name}: not recorded {until}"]
    other_projects = [other for other in data.get("all_paused", ()) if other != data["project"]]
    if other_projects:
        lines.append(f"Also paused: {', '.join('all projects' if other == '*' else other for other in other_projects)}")
    return print_result(args, data, lines)
