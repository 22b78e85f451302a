"""`project`: merge two projects into one, split one into two, and undo that; for stored sessions and those to come."""

import argparse
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import COMMAND_LINE, Subparsers, answered, family, leaf, opened, print_result, project_typed


def add(parsers: Subparsers, about: str) -> None:
    """Add `project` with the subcommands alias, split and undo, each with a function of its own; `about` is its help text."""
    inner = family(parsers, "project", about)
    alias = leaf(inner, "alias", run_alias, "show a project under another's name: both are one")
    alias.add_argument("project", metavar="A", help="the name that is to go")
    alias.add_argument("same_as", metavar="B", help="the name that stands for both")
    split = leaf(inner, "split", run_split, "make some sessions of a project one of their own")
    split.add_argument("project", metavar="A", help="the project they are shown in")
    which = split.add_mutually_exclusive_group(required=True)
    which.add_argument("--cwd", dest="folder", default="", metavar="PATH", help="sessions that began in this folder or below it")
    which.add_argument("--session", dest="sessions", action="append", default=[], metavar="ID", help="this session (repeatable)")
    split.add_argument("--name", default="", metavar="NAME", help="the new project's name (default: the folder)")
    undo = leaf(inner, "undo", run_undo, "take back an alias, a guess or a split, by the name it was made for")
    undo.add_argument("project", metavar="A", help="the other name that `projects` shows, or the project that was split off")


def run_alias(args: argparse.Namespace) -> int:
    """Show project A under the name of project B from now on, print that, and return 0; InvalidQuery for an unknown one."""
    from memory_mcp.requests.projects import AliasProject

    with opened(args) as app:
        request = AliasProject(project_typed(app, args.project), project_typed(app, args.same_as), COMMAND_LINE)
        return _print_change(args, answered(app, request))


def run_split(args: argparse.Namespace) -> int:
    """Make the sessions of project A that began in a folder, or those named, a project of their own; print that and return 0.

    The new project is called by --name, else as the folder. Raises InvalidQuery for an unknown project, NotFound where no session
    of it is meant.
    """
    from memory_mcp.requests.projects import SplitProject

    with opened(args) as app:
        request = SplitProject(project_typed(app, args.project), args.folder, tuple(args.sessions), args.name, COMMAND_LINE)
        return _print_change(args, answered(app, request))


def run_undo(args: argparse.Namespace) -> int:
    """Take back an alias, a guess or a split, print what holds now, and return 0; NotFound for a name that is not known."""
    from memory_mcp.requests.projects import UndoProject

    with opened(args) as app:
        return _print_change(args, answered(app, UndoProject(project_typed(app, args.project), COMMAND_LINE)))


def _print_change(args: argparse.Namespace, data: dict[str, Any]) -> int:
    """Print the name and sessions of a project after a change, and the command that takes it back; return the exit status 0.

    `data` is the response to AliasProject, SplitProject or UndoProject.
    """
    count = render.plural(data["sessions"], "session")
    lines = [f"{data['shown_as']} holds {count} now"]
    if data["shown_as"] != data["project"]:
        lines = [f"{data['project']} is shown as {data['shown_as']} now, which holds {count}"]
    elif not data["sessions"]:
        lines = [f"{data['project']} is no project of its own any more"]
    if data.get("undo"):
        lines.append(f"Take it back: memory-mcp project undo {data['undo']}")
    return print_result(args, data, lines)
