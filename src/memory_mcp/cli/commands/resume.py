"""`resume`: a project that was paused is recorded again."""

import argparse

from memory_mcp.cli.commands.base import Subparsers, answered, leaf, opened, project_typed
from memory_mcp.cli.commands.pause import project_option, tell


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `resume`."""
    parser = leaf(parsers, "resume", run, about, "What was said during the pause stays unrecorded.")
    project_option(parser)


def run(args: argparse.Namespace) -> int:
    """Record it again."""
    from memory_mcp.requests.capturing import ResumeCapture

    with opened(args) as app:
        return tell(args, answered(app, ResumeCapture(project_typed(app, args.project), "person")))
