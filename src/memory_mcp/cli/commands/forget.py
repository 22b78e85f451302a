"""`forget`: what is meant is shown first, by kind and number; --yes takes it out of everything that is kept."""

import argparse
import getpass
import sys

from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_times,
    answered,
    as_json,
    leaf,
    opened,
    print_result,
    project_typed,
    wanted,
)
from memory_mcp.errors import InvalidQuery

_ASK = "-"


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `forget`."""
    aside = "Without --yes nothing is changed: it shows what would go. What is forgotten does not come back by an import."
    parser = leaf(parsers, "forget", run, about, aside)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--event", metavar="ID", default="", help="one event, and what it says wherever that is said again")
    which.add_argument("--session", metavar="ID", default="", help="a session")
    which.add_argument("--project", metavar="P", default="", help="a project (its identity or the last part of it)")
    which.add_argument("--topic", metavar="ID", default="", help="every event of the segments of a topic")
    which.add_argument(
        "--value", metavar="TEXT", nargs="?", const=_ASK, default="",
        help="a name, a number or any text, wherever it stands; without TEXT it is asked for, or read from standard input",
    )  # fmt: skip
    add_times(parser)
    parser.add_argument("--yes", action="store_true", help="do it")


def run(args: argparse.Namespace) -> int:
    """Say what would go, or what went."""
    if SESSION.get() is None:
        if args.value == _ASK:
            args.value = _asked()
        if (status := _there(args)) is not None:
            return status
    elif args.value == _ASK:
        raise InvalidQuery("the value is not given", "Give it on standard input or at the prompt.")
    from memory_mcp.requests.forget import PERSON, Forget

    with opened(args) as app:
        project = project_typed(app, args.project)
        given = (args.event, args.session, project, args.since or "", args.until or "", args.topic, args.value)
        data = answered(app, Forget(*given, dry_run=not args.yes, by=PERSON))
    counts = data["counts"]
    head = ("Forgotten" if data["forgotten"] else "Would be forgotten") if counts else "Nothing of it is stored"
    lines = [f"{head}:" if counts else f"{head}.", *(f"  {count:>8,}  {kind}" for kind, count in counts.items())]
    lines += [f"  {one['when']}  {one['event_id']}" for one in data["events"]]
    lines.append(data["note"] if data["forgotten"] else "Nothing was changed. Run it again with --yes to forget.")
    return print_result(args, data, lines)


def _asked() -> str:
    """The value, from a prompt that does not show it or from standard input: a shell keeps what stands on its command line."""
    given = getpass.getpass("what is to be forgotten: ") if sys.stdin.isatty() else sys.stdin.read()
    if not given.strip():
        raise InvalidQuery("the value is empty")
    return given.strip()


def _there(args: argparse.Namespace) -> int | None:
    """Have the daemon do it, which has the memory open; None where there is none to be had."""
    from memory_mcp.cli.commands.base import settings_of
    from memory_mcp.client import forward, link

    if not settings_of(args).server.daemon or not link.usable():
        return None
    argv = ["forget", *(["--yes"] if args.yes else []), *(["--json"] if as_json(args) else [])]
    for name in ("event", "session", "project", "topic", "value", "since", "until"):
        if given := getattr(args, name):
            argv.append(f"--{name}={given}")
    return forward.run(wanted(args), argv)
