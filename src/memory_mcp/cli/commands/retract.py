"""`retract`: a recorded statement holds no more."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, answered, leaf, opened, print_result
from memory_mcp.cli.commands.correct import AGENT


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `retract`."""
    parser = leaf(parsers, "retract", run, about, "correct puts another statement in its place, also of one that was retracted.")
    parser.add_argument("grip_id", metavar="GRIP", help="the quotation that holds no more, as answers cite it")
    parser.add_argument("--reason", default="", metavar="WHY", help="why, for whoever reads it later")


def run(args: argparse.Namespace) -> int:
    """Retract one."""
    from memory_mcp.requests.correct import Retract

    is_person = render.is_persons(["retract"])
    with opened(args) as app:
        data = answered(app, Retract(args.grip_id, args.reason, AGENT, is_person))
    return print_result(args, data, [f"{data['superseded']} is shown as retracted from now on; it stays readable"])
