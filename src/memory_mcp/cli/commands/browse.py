"""`browse`: walk the time tree and search it on one screen of the terminal; on a pipe, print its newest years and months."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    EMPTY_HINT,
    Subparsers,
    add_scope,
    as_json,
    leaf,
    opened,
    project_here,
    settings_of,
    wanted,
)

if TYPE_CHECKING:
    from memory_mcp.cli.browser.asking import Asking

_ASIDE = (
    "Keys: / searches, arrows or h j k l move, Enter opens, Esc goes back, p chooses a project, c copies an id, ? shows all of "
    "them, q quits. On a pipe it prints the newest years and months."
)
_WAYS = (
    "On a terminal this is a browser. Here: memory-mcp query browse ID lists what lies below one of these ids, "
    'memory-mcp show ID opens one, memory-mcp ask "QUESTION" searches.'
)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `browse`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "browse", run, about, _ASIDE)
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Open the browser on the terminal and return its exit status.

    With --json, and where there is no terminal, print the root (JSON), or years with their months, and return 0; an empty memory
    is told on stderr. Raises LayerUnavailable where a daemon is to be used and none can be reached.
    """
    where = {"project": args.project or "", "scope": "all" if args.all else ""}
    streams = (sys.stdin, sys.stdout, sys.stderr)
    can_draw = os.environ.get("TERM") != "dumb" and all(stream is not None and stream.isatty() for stream in streams)
    with _asking(args) as asking:
        if can_draw and not as_json(args):
            from memory_mcp.cli.browser.screen import Browser
            from memory_mcp.model.project import short_names
            from memory_mcp.requests.limits import PAGE

            listed = asyncio.run(asking.ask("list_projects", limit=PAGE.most))["projects"]
            render.PROJECT_NAMES.set(short_names([project["project"] for project in listed]))
            browser = Browser(asking, **where, empty=EMPTY_HINT)
            browser.run()
            return browser.return_code or 0
        root = asyncio.run(asking.ask("get_node", **where))
        lines = [f"{render.one_line(root['node']['title'])} ({root['scope']})"]
        for year in root["children"] if not as_json(args) else ():
            below = asyncio.run(asking.ask("browse_toc", node_id=year["node_id"], **where))
            lines += [_line(year), *(f"  {_line(month)}" for month in below["children"])]
        render.emit(as_json(args), root, [*lines, _WAYS], recalled=True)
        if not root["children"]:
            render.err(EMPTY_HINT)
        return 0


@contextmanager
def _asking(args: argparse.Namespace) -> "Iterator[Asking]":
    """Yield what answers requests: the daemon, connected to by each request, or the memory opened here where none is used."""
    from memory_mcp.cli.browser.asking import Here, There
    from memory_mcp.client import link

    if settings_of(args).server.daemon and link.usable():
        yield There(wanted(args))
        return
    from memory_mcp.requests.scope import Caller

    with opened(args) as app:
        yield Here(app, Caller(project_here(app)))


def _line(child: dict[str, Any]) -> str:
    """Return a node's id, title and number of events on one line; `child` is one of the children in a response."""
    return f"{child['node_id']}  {render.one_line(child['title'])} ({render.plural(child.get('events', 0), 'event')})"
