"""`correct`, `retract` and `forget`: replace a statement, take it back, delete what is stored."""

import argparse
import getpass
import sys

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_flags,
    answer_request,
    ask,
    leaf,
    open_memory,
    print_result,
    project_typed,
    read_request,
    run_in_daemon,
)

#: The author of a correction that no person confirmed.
AGENT = "cli"


_ASK = "-"


def add_correct(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.correct import Correct

    parser = leaf(parsers, "correct", run_correct, about)
    parser.add_argument("grip_id", metavar="GRIP", help="the quotation that is wrong or holds no more, as answers cite it")
    parser.add_argument("text", metavar="TEXT", help="what holds instead, in one sentence")
    add_flags(parser, Correct)


def run_correct(args: argparse.Namespace) -> int:
    """Replace a quotation; both stay readable.

    It counts as a person's word where a person confirms it at the terminal. Raises NotFound for an unknown grip, InvalidQuery
    for an unusable text or kind.
    """
    from memory_mcp.requests.correct import Correct

    is_person = render.is_persons(["correct"])
    data = ask(args, read_request(args, Correct, grip_id=args.grip_id, text=args.text, by=AGENT, is_person=is_person))
    lines = [
        f"{data['superseded']} is shown as superseded from now on; both stay readable",
        f"What holds instead: {data['grip_id']}",
    ]
    return print_result(args, data, lines)


def add_retract(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.correct import Retract

    parser = leaf(
        parsers, "retract", run_retract, about, "correct puts another statement in its place, also of one that was retracted."
    )
    parser.add_argument("grip_id", metavar="GRIP", help="the quotation that holds no more, as answers cite it")
    add_flags(parser, Retract)


def run_retract(args: argparse.Namespace) -> int:
    """Retract a quotation; it stays readable.

    It counts as a person's act where a person confirms it at the terminal.
    """
    from memory_mcp.requests.correct import Retract

    data = ask(args, read_request(args, Retract, grip_id=args.grip_id, by=AGENT, is_person=render.is_persons(["retract"])))
    return print_result(args, data, [f"{data['superseded']} is shown as retracted from now on; it stays readable"])


def add_forget(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.forget import Forget

    aside = "Without --yes nothing is changed: it shows what would go. What is forgotten does not come back by an import."
    parser = leaf(parsers, "forget", run_forget, about, aside)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("id", metavar="ID", nargs="?", default="", help="an event, or the grip of a quotation of it")
    which.add_argument("--event", "--grip", metavar="ID", default="", help="the same")
    which.add_argument("--session", metavar="ID", default="", help="a session")
    which.add_argument("--project", metavar="P", default="", help="a project (its identity or the last part of it)")
    which.add_argument("--topic", metavar="ID", default="", help="every event of the segments of a topic")
    which.add_argument(
        "--value", metavar="TEXT", nargs="?", const=_ASK, default="",
        help="a name, a number or any text, taken out of every event; without TEXT it is asked for, or read from standard input",
    )  # fmt: skip
    add_flags(parser, Forget, "since until")
    parser.add_argument("--yes", action="store_true", help="do it")


def run_forget(args: argparse.Namespace) -> int:
    """Print what would be forgotten or, with --yes, forget it.

    It runs in the daemon where one is used, since that has the memory open. Raises InvalidQuery where nothing is named, or the
    value to forget is asked for and not given.
    """
    if args.value == _ASK:
        if SESSION.get() is not None:
            raise InvalidQuery("the value is not given", "Give it on standard input or at the prompt.")
        # A shell keeps what is typed on its command line.
        args.value = (getpass.getpass("what is to be forgotten: ") if sys.stdin.isatty() else sys.stdin.read()).strip()
        if not args.value:
            raise InvalidQuery("the value is empty")
    args.event = args.event or args.id
    argv = ["forget", *(["--yes"] if args.yes else [])]
    for name in ("event", "session", "project", "topic", "value", "since", "until"):
        if value := getattr(args, name):
            argv.append(f"--{name}={value}")
    if (status := run_in_daemon(args, argv)) is not None:
        return status
    from memory_mcp.requests.forget import Forget

    with open_memory(args) as app:
        project = project_typed(app, args.project)
        what = (args.event, args.session, project, args.since or "", args.until or "", args.topic, args.value)
        data = answer_request(app, Forget(*what, dry_run=not args.yes, is_person=True))
    counts = data["counts"]
    head = ("Forgotten" if data["forgotten"] else "Would be forgotten") if counts else "Nothing of it is stored"
    lines = [f"{head}:" if counts else f"{head}.", *(f"  {count:>8,}  {kind}" for kind, count in counts.items())]
    for event in data["events"]:
        lines.append(f"  {event['when']}  {event['event_id']}")
        lines += [f"    {event['words']}"] if event.get("words") else []
    lines += data.get("notices", ())
    lines.append(data["note"] if data["forgotten"] else "Nothing was changed. Run it again with --yes to forget.")
    return print_result(args, data, lines, recalled=True)
