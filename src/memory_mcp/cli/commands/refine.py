"""`refine`: list segments and days that are due, show one with its events, replace its text.

What is written is read from a file or standard input by the caller's own process, and handed to the daemon as an argument.
"""

import argparse
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
    ask,
    family,
    leaf,
    note_lines,
    print_result,
    read_request,
    run_in_daemon,
)

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
