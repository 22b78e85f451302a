"""`retract`: mark a recorded statement as holding no more."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result
from memory_mcp.cli.commands.correct import AGENT


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `retract`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "retract", run, about, "correct puts another statement in its place, also of one that was retracted.")
    parser.add_argument("grip_id", metavar="GRIP", help="the quotation that holds no more, as answers cite it")
    parser.add_argument("--reason", default="", metavar="WHY", help="why, for whoever reads it later")


def run(args: argparse.Namespace) -> int:
    """Retract the quotation GRIP, print that, and return 0; it stays readable. Raises NotFound for an unknown one.

    It counts as a person's act where somebody confirms it at the terminal.
    """
    from memory_mcp.requests.correct import Retract

    data = ask(args, Retract(args.grip_id, args.reason, AGENT, render.is_persons(["retract"])))
    return print_result(args, data, [f"{data['superseded']} is shown as retracted from now on; it stays readable"])
