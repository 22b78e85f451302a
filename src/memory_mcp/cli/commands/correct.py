"""`correct`: put another statement in the place of a recorded one."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result

#: The author of a correction that no person confirmed.
AGENT = "cli"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `correct`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "correct", run, about)
    parser.add_argument("grip_id", metavar="GRIP", help="the quotation that is wrong or holds no more, as answers cite it")
    parser.add_argument("text", metavar="TEXT", help="what holds instead, in one sentence")
    parser.add_argument("--reason", default="", metavar="WHY", help="why, for whoever reads it later")
    parser.add_argument("--kind", default="", metavar="KIND", help="decision, procedure, constraint, definition or preference")


def run(args: argparse.Namespace) -> int:
    """Put TEXT in the place of the quotation GRIP, print the new citation, and return 0; both stay readable.

    It counts as a person's word where somebody confirms it at the terminal. Raises NotFound for an unknown grip, InvalidQuery
    for a text or kind that will not do.
    """
    from memory_mcp.requests.correct import Correct

    is_person = render.is_persons(["correct"])
    data = ask(args, Correct(args.grip_id, args.text, args.reason, args.kind, AGENT, is_person))
    lines = [
        f"{data['superseded']} is shown as superseded from now on; both stay readable",
        f"What holds instead: {data['grip_id']}",
    ]
    return print_result(args, data, lines)
