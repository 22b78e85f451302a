"""`uninstall`: take out of a client's configuration what install put there, and leave the memory itself alone."""

import argparse

from memory_mcp.cli.commands.base import Subparsers, leaf
from memory_mcp.cli.commands.install import ALL, UNINSTALLED, Outcome, add_levels, chosen, here, print_all, tried
from memory_mcp.install import undo
from memory_mcp.install.base import Client, Level
from memory_mcp.install.coverage import plugin_notes
from memory_mcp.install.registry import CLIENTS
from memory_mcp.install.state import State


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `uninstall`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "uninstall", run, about, "What was remembered stays; memory-mcp config check tells where it lies")
    parser.add_argument("client", choices=(*CLIENTS, ALL), metavar="CLIENT", help=f"{', '.join(CLIENTS)}, or all")
    add_levels(parser)


def run(args: argparse.Namespace) -> int:
    """Take out of the configuration of one client or of all what `install` wrote, at one level or both, and print it.

    With --dry-run nothing is written. Returns 1 when one of several clients failed, else 0; raises the error of a
    single one.
    """
    state, machine_state = State(), here()
    levels = [args.level] if args.level else list(Level)

    def work(client: Client) -> Outcome:
        """Take out what is ours of one client, or only plan it; raises InstallRefused."""
        done = undo.plan if args.dry_run else undo.uninstall
        return Outcome(client, done(client, machine_state, levels, state), plugin_notes(client, machine_state))

    outcomes = [tried(client, work) for client in chosen(args.client, lambda _: True, "")]
    reported = [outcome for outcome in outcomes if outcome.changed or outcome.error or outcome.notes] or outcomes
    return print_all(args, reported, state, UNINSTALLED)
