"""`hook`: what a client runs at each event of a session; `client.hook` runs it without this room, which has its help."""

import argparse

from memory_mcp.cli.commands.base import Subparsers, leaf
from memory_mcp.service.client import hook

_ASIDE = (
    "The payload is kept in the spool of the data directory and stored by the daemon. The exit status is always 0. At the "
    "start of a session, and with hooks.recall = true at each prompt, what is remembered is answered in the client's form."
)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `hook`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "hook", run, about, _ASIDE)
    parser.add_argument("client", metavar="CLIENT", nargs="?", default="", help=f"who tells it: {' or '.join(hook.CLIENTS)}")


def run(args: argparse.Namespace) -> int:
    """Have `client.hook` keep the payload on standard input; return 0 whatever happens, so that the client goes on.

    At some events what is remembered is printed for the client.
    """
    options = {"--data-dir": getattr(args, "data_dir", None), "--config": getattr(args, "config", None)}
    return hook.main([args.client, *(word for name, value in options.items() if value for word in (name, value))])
