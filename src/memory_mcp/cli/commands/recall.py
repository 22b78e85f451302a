"""`fix`, `how`, `why`, `handoff`, `hints`: what ended an error, how a command works, what holds here, what hooks said."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_flags,
    add_scope,
    ask,
    caller_directory,
    leaf,
    open_memory,
    print_result,
    project_here,
    read_request,
    refuse_empty,
    run_in_daemon,
    whose,
)

#: Characters at the end of an error that are taken.
_MOST = 20_000
_STDIN = "-"
#: A file with a line or two behind it.
_PLACE = re.compile(r"(.+?):(\d+(?:-\d+)?)\Z")
_ASIDE = "What a citation proves: memory-mcp show GRIP"
#: Headings of the parts of a session, in the order of their statements.
_PARTS = {
    "goal": "Goal",
    "done": "Done",
    "decided": "Decided",
    "failing": "Fails",
    "file": "Files",
    "next": "Next step",
    "open": "Open",
}
_LABELS = {"in_vain": "in vain"}
_CAME_OF = {
    "used": "it helped",
    "in_vain": "it led nowhere",
    "not_needed": "it was not needed",
    "open": "not known what came of it",
}
_OUTCOMES = {
    "not_seen": "Not seen in this memory.",
    "unresolved": "Seen, never resolved.",
    "fails": "It has not worked here yet.",
}


def add_fix(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "fix", run_fix, about, _ASIDE)
    parser.add_argument("words", nargs="+", metavar="TEXT", help="the error as a tool printed it; - reads standard input")
    parser.add_argument("--command", metavar="C", default="", help="the command that failed")
    add_scope(parser)


def run_fix(args: argparse.Namespace) -> int:
    """Print what ended an error before; standard input is read by the caller's process."""
    from memory_mcp.requests.recall_for import RecallFor

    text = " ".join(args.words)
    if args.words == [_STDIN]:
        if SESSION.get() is not None:
            raise InvalidQuery("the daemon reads no standard input", "Give the text.")
        text = sys.stdin.buffer.read().decode("utf-8", "replace").replace("\0", "")
    text = text[-_MOST:]
    scope = [*(["--all"] if args.all else []), *([f"--project={args.project}"] if args.project else [])]
    argv = ["fix", *scope, *([f"--command={args.command}"] if args.command else []), "--", text]
    if text != _STDIN and (status := run_in_daemon(args, argv)) is not None:
        return status
    return _print_recalled(args, ask(args, RecallFor(error=text, command=args.command), hint=True))


def add_how(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "how", run_how, about, _ASIDE)
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="a command line, quoted or after --; or a tool's name")
    add_scope(parser)


def run_how(args: argparse.Namespace) -> int:
    from memory_mcp.requests.recall_for import RecallFor

    return _print_recalled(args, ask(args, RecallFor(command=" ".join(args.words)), hint=True))


def add_why(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "why", run_why, about, _ASIDE)
    parser.add_argument("file", metavar="FILE[:LINE[-LINE]]", help="a path, in the present directory or by its last parts")
    add_scope(parser)


def run_why(args: argparse.Namespace) -> int:
    from memory_mcp.capture.running import CallerProcess
    from memory_mcp.requests.recall_for import RecallFor
    from memory_mcp.requests.registry import answer
    from memory_mcp.requests.scope import Caller

    match = _PLACE.match(args.file)
    file, lines = (match[1], match[2]) if match else (args.file, "")
    with open_memory(args) as app:
        refuse_empty(app, args)
        session = SESSION.get()
        connection = session.connection if session else CallerProcess(cwd=str(caller_directory()))
        request = RecallFor(file=file, lines=lines, **whose(app, args))
        data = answer(app, request, Caller(project_here(app), connection=connection))
        render.PROJECT_NAMES.set(app.tree.short_names())
    return _print_recalled(args, data)


def add_handoff(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "handoff", run_handoff, about, _ASIDE)
    text = "its id or the beginning of it; none: the session this is called from, else the latest work here"
    parser.add_argument("session_id", nargs="?", default="", metavar="SESSION", help=text)
    add_scope(parser)


def run_handoff(args: argparse.Namespace) -> int:
    from memory_mcp.requests.continuing import HandOff

    data = ask(args, HandOff(session_id=args.session_id), hint=True)
    return print_result(args, data, _handoff_lines(data), recalled=True)


def _handoff_lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Handoff: {render.one_line(render.safe(data['session']))}"
    for about, statements in groupby(data["statements"], key=itemgetter("about")):
        yield ""
        yield f"## {_PARTS[about]}"
        for statement in statements:
            yield f"- {render.one_line(render.safe(statement['text']))} [{statement['grip']}, {statement['when'][:10]}]"
    yield from (f"Note: {notice}" for notice in data.get("notices", ()))


def add_hints(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.hints import ListHints

    parser = leaf(parsers, "hints", run_hints, about, "The setting hooks.hints switches them off. " + _ASIDE)
    add_flags(parser, ListHints)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", dest="hints_command")
    reject = leaf(inner, "reject", run_reject, "have a hint, and any that says the same, given never again")
    reject.add_argument("hint_id", metavar="ID", type=int, help="its number, as `hints` shows it")


def run_hints(args: argparse.Namespace) -> int:
    from memory_mcp.requests.hints import ListHints

    data = ask(args, read_request(args, ListHints))
    lines = [] if data["hints"] else ["No hint was given yet."]
    for hint in data["hints"]:
        state = "rejected" if hint["rejected"] else _CAME_OF[hint["outcome"]]
        project = render.project_name(hint["project"])
        lines.append(f"{hint['hint_id']:>4}  {hint['when']}  {project}, session {hint['session']}  {hint['kind']}: {state}")
        lines.append(f"      {render.one_line(render.safe(hint['subject']))}")
        lines.append(f"      {render.one_line(render.safe(hint['text']))}")
    if len(data["hints"]) < data["total"]:
        lines.append(f"{len(data['hints'])} of {data['total']:,}; more: --limit N")
    return print_result(args, data, lines, recalled=True)


def run_reject(args: argparse.Namespace) -> int:
    from memory_mcp.requests.hints import RejectHint

    data = ask(args, RejectHint(args.hint_id))
    return print_result(args, data, [f"hint {data['hint_id']}, and any that says the same, is given no more"])


def _print_recalled(args: argparse.Namespace, data: Mapping[str, Any]) -> int:
    return print_result(args, data, _lines(data), recalled=True)


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    if told := _OUTCOMES.get(data["outcome"]):
        yield told
    for statement in data["statements"]:
        label = _LABELS.get(statement["about"], statement["about"])
        project = f" ({render.project_name(statement['project'])})" if statement.get("project") else ""
        text = render.one_line(render.safe(statement["text"]))
        yield f"{label:<10}  {text}{project}  {statement['when']}  [{statement['grip']}]"
        if since := statement.get("since"):
            yield f"{'':<10}  since: {render.one_line(render.safe(since))}"
    yield from (f"Note: {notice}" for notice in data.get("notices", ()))
