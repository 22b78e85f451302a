"""`resume`: record a paused project again."""

import argparse

from memory_mcp.cli.commands.base import Subparsers, answered, leaf, opened, project_typed
from memory_mcp.cli.commands.pause import print_state, project_option


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `resume`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "resume", run, about, "What was said during the pause stays unrecorded.")
    project_option(parser)


def run(args: argparse.Namespace) -> int:
    """Record a paused project (--project, "*": all) again, print the state, and return 0."""
    from memory_mcp.requests.capturing import ResumeCapture

    with opened(args) as app:
        return print_state(args, answered(app, ResumeCapture(project_typed(app, args.project), "person")))
