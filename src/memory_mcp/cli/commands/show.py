"""`show`: print anything by its id, with what surrounds it and commands for the next step."""

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    EMPTY_HINT,
    Subparsers,
    add_scope,
    answered,
    leaf,
    opened,
    print_result,
    whose,
)
from memory_mcp.cli.commands.query import events_lines, expanded_lines, node_lines

if TYPE_CHECKING:
    from memory_mcp.app import App

#: The last part of a citation's id alone.
_TAIL = re.compile(r"[0-9a-hjkmnp-tv-z]{16}(-[0-9]+-[0-9]+)?\Z")
_NO_PERIOD = "memory-mcp timeline shows the days that hold something; --all searches every project."
_WHERE = "Ids stand in square brackets behind what ask, timeline and search print; a day's id is its date."


class Shown(NamedTuple):
    """The response to a request about one id, and the lines to print for it."""

    kind: str
    data: dict[str, Any]
    lines: Iterable[str]
    #: Commands for the next step.
    next_commands: list[str]


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `show`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "show", run, about, _WHERE)
    parser.add_argument("words", nargs="+", metavar="ID", help="an id; or a time: 2026-01-30, 2026-W05, 2026-01, last week")
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Print what has the given id or time: a quotation, message, session, topic or node; return 0. NotFound where nothing has."""
    name = " ".join(args.words).strip("[] ")
    with opened(args) as app:
        if app.is_empty:
            render.err(EMPTY_HINT)
        item = _find(app, args, name)
    data = {"kind": item.kind, **item.data, "next_commands": item.next_commands}
    lines = [f"{item.kind[0].upper()}{item.kind[1:]}", *item.lines]
    if item.next_commands:
        lines += ["", "Go on with:", *(f"  {command}" for command in item.next_commands)]
    return print_result(args, data, lines, recalled=True)


def _find(app: "App", args: argparse.Namespace, name: str) -> Shown:
    """Return what has an id, looked for as topic, citation, event, node and session in this order; NotFound where nothing has."""
    if name.startswith("topic:"):
        from memory_mcp.cli.commands.topics import settle, whole_lines
        from memory_mcp.requests.one_topic import GetTopic

        settle(app)
        data = answered(app, GetTopic(name, **whose(app, args)))
        lines = ["".join(text for text, _ in line) for line in whole_lines(data)]
        return Shown("topic", data, lines, [f"memory-mcp topics nodes {name}", f"memory-mcp topics related {name}"])
    if name.startswith("grip:") or _TAIL.match(name):
        return _quotation(app, name)
    from memory_mcp.model.ids import event_id_from, event_key, span_grip_id

    try:
        event = app.storage.events.find_event(event_id_from(event_key(name)))
    except InvalidQuery:
        event = None
    if event is not None and event.text:
        return _quotation(app, span_grip_id(event.event_id, 0, len(event.text)), "message")
    try:
        return _node(app, args, name)
    except InvalidQuery:
        # No node is called so; a session may be called anything.
        from memory_mcp.requests.events import GetEvents

        try:
            data = answered(app, GetEvents(session_id=name))
        except NotFound:
            raise NotFound(f"nothing has the id {name[:80]!r}", _WHERE) from None
        commands = [f"memory-mcp show {event['event_id']}" for event in data["events"][:1]]
        if "next_cursor" in data:
            commands.append(f"memory-mcp query events --session {name} --cursor {data['next_cursor']}")
        return Shown("session", data, events_lines(data), commands)


def _quotation(app: "App", grip: str, kind: str = "quotation") -> Shown:
    """Return a citation with the events around it, called `kind`; raise NotFound for an unknown one."""
    from memory_mcp.requests.expand import ExpandRequest

    data = answered(app, ExpandRequest(grip_id=grip))
    session = next((event["session_id"] for event in data["excerpt_events"] if event.get("session_id")), "")
    ids = (data["grip"].get("node_id", ""), session)
    return Shown(kind, data, expanded_lines(data), [f"memory-mcp show {event}" for event in ids if event])


def _node(app: "App", args: argparse.Namespace, name: str) -> Shown:
    """Return a node by its id or time, within --project or --all; raise NotFound or InvalidQuery where there is none."""
    from memory_mcp.requests.nodes import GetNode

    try:
        data = answered(app, GetNode(name, **whose(app, args)))
    except NotFound as error:
        raise NotFound(error.message, _NO_PERIOD) from None
    node, context = data["node"], data.get("context", {})
    grips = [grip for bullet in node.get("bullets", ()) for grip in bullet["grip_ids"]]
    ids = [*grips[:1], *(child["node_id"] for child in data["children"][:1]), context.get("session_id", "")]
    return Shown(node["level"], data, node_lines(data), [f"memory-mcp show {item_id}" for item_id in ids if item_id])
