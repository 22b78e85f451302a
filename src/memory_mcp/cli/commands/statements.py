"""`correct`, `retract`, `forget` and `refine`: replace a statement, take it back, delete what is stored, write better text.

What `refine` writes is read from a file or standard input by the caller's own process, and handed to the daemon as an argument.
"""

import argparse
import getpass
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files
from memory_mcp.base.errors import InvalidQuery, SourceUnreadable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    COMMAND_LINE,
    SESSION,
    Subparsers,
    add_flags,
    add_scope,
    answer_request,
    ask,
    family,
    leaf,
    note_lines,
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


_FORM = (
    'JSON: {"title": "what was asked: what came of it", "bullets": [{"text": "...", "grip_ids": ["grip:..."], '
    '"kind": "decision"}]}; kind, and beside the bullets summary and keywords, may be left out.'
)
#: Longest JSON, bytes: twenty of the longest bullets fit several times.
_MOST = 1 << 20


def add_refine(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.refine_show import RefineDue, RefineShow

    inner = family(parsers, "refine", about)
    due = leaf(inner, "due", run_due, "list segments and days that are over and have only the summarizer's text, newest first")
    add_flags(due, RefineDue)
    add_scope(due)
    show = leaf(inner, "show", run_show, "show a node as it is, with the events and grips that a better text can rest on")
    show.add_argument("id", metavar="NODE", help="such as toc:segment:<day>:<id>, 2026-01-30 or yesterday")
    add_flags(show, RefineShow)
    add_scope(show)
    write = leaf(inner, "write", run_write, "replace a node's title, summary, bullets and keywords", _FORM)
    write.add_argument("id", metavar="NODE", help="the node to be refined")
    write.add_argument("file", nargs="?", default="-", metavar="FILE", help="file of the JSON, or - for standard input (default)")
    write.add_argument("--text", metavar="JSON", help="the JSON itself, instead of a file")
    add_scope(write)


def run_due(args: argparse.Namespace) -> int:
    from memory_mcp.requests.refine_show import RefineDue

    data = ask(args, read_request(args, RefineDue), hint=True)
    lines = []
    for node in data["due"]:
        where = f", {render.project_name(node['project'])}" if node.get("project") else ""
        counts = f"{render.plural(node['events'], 'event')}, {node['tokens']:,} tokens{where}"
        lines.append(f"- {node['node_id']}  {node['title']} ({counts})")
    lines += note_lines(data)
    lines += ["There are more: give a larger --limit, or a --day."] if data.get("more") else []
    return print_result(args, data, lines, recalled=True)


def run_show(args: argparse.Namespace) -> int:
    from memory_mcp.requests.refine_show import RefineShow

    data = ask(args, read_request(args, RefineShow, node_id=args.id))
    lines = [f"{data['node_id']}  {data['title']}", *_bullet_lines(data)]
    lines += _section_lines("Before (context only)", data.get("context", {}).get("before", ()))
    lines += _section_lines("Events", data.get("events", ()))
    for child in data.get("children", ()):
        head = f"{child['node_id']}  {child['title']} ({render.plural(child['events'], 'event')})"
        lines += ["", head, *_bullet_lines(child)]
    if left_out := data.get("left_out"):
        lines.append(f"({left_out:,} left out; a larger --token-budget shows more)")
    return print_result(args, data, lines, recalled=True)


def run_write(args: argparse.Namespace) -> int:
    """Replace a node's text by the given JSON.

    Raises InvalidQuery where the text is no JSON, is too long or does not fit the node, SourceUnreadable where its file cannot
    be read.
    _read
    InvalidQuery above 1 MiB, and in the daemon, where no file is read.
    """
    text = _read_text(args.file) if args.text is None else args.text
    argv = ["refine", "write", args.id, f"--text={text}", *(["--all"] if args.all else [])]
    argv += [f"--project={args.project}"] if args.project else []
    if (status := run_in_daemon(args, argv)) is not None:
        return status
    from memory_mcp.requests.refine import parse_refinement

    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidQuery(f"not JSON: {error}", f"Nothing was changed. Give {_FORM}") from None
    data = ask(args, parse_refinement(args.id, parsed, by=COMMAND_LINE))
    lines = [f"{data['node_id']}  {data['title']} (version {data['version']})", *note_lines(data)]
    return print_result(args, data, lines, recalled=True)


def _read_text(file: str) -> str:
    if SESSION.get() is not None:
        raise InvalidQuery("the daemon reads no files", "Give the JSON with --text.")
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with foreign_files.open_file(Path(file).expanduser().resolve()) as stream:
                data = stream.read(_MOST + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceUnreadable(f"{file} cannot be read: {error}", f"Nothing was changed. {_FORM}") from None
    if len(data) > _MOST:
        raise InvalidQuery(f"more than {_MOST:,} bytes", f"Nothing was changed. {_FORM}")
    return text


def _bullet_lines(node: dict[str, Any]) -> Iterator[str]:
    for bullet in node.get("bullets", ()):
        kind = f"{bullet['kind']}: " if bullet.get("kind") else ""
        yield f"- {kind}{render.one_line(bullet['text'])} {_join_citations(bullet['grip_ids'])}"


def _section_lines(title: str, lines: list[dict[str, Any]]) -> Iterator[str]:
    if lines:
        yield from ("", f"{title}:")
    for line in lines:
        text = f"{line['when'].replace('T', ' ')} {line['who']}: {render.one_line(line['text'])}"
        yield f"{text} {_join_citations(line.get('grip_ids', ()))}".rstrip()


def _join_citations(grips: list[str]) -> str:
    return " ".join(f"[{grip}]" for grip in grips)
