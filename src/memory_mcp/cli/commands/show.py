"""`show` and `open`: anything by its id, and the memory in a browser."""

import argparse
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_mcp.base.errors import InvalidQuery, LayerUnavailable, NotFound
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    EMPTY_HINT,
    Subparsers,
    add_scope,
    answer_request,
    as_json,
    leaf,
    open_memory,
    print_result,
    settings_of,
    wanted,
    whose,
)
from memory_mcp.cli.commands.tree import events_lines, expanded_lines, node_lines
from memory_mcp.cli.failures import translate_refusal
from memory_mcp.service.client import link

if TYPE_CHECKING:
    from memory_mcp.app import App


#: The last part of a citation's id alone.
_TAIL = re.compile(r"[0-9a-hjkmnp-tv-z]{16}(-[0-9]+-[0-9]+)?\Z")
_NO_PERIOD = "memory-mcp timeline shows the days that hold something; --all searches every project."
_WHERE = "Ids stand in square brackets behind what ask, timeline and search print; a day's id is its date."


_ASIDE = (
    "The address works once, within two minutes; the page stays open to that browser for twelve hours at most. Pages that nobody "
    "uses do not keep the background process running: run the command again then."
)
#: Variables by which a Linux session says that it has a screen.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


class Shown(NamedTuple):
    """The response to a request about one id, with its lines."""

    kind: str
    data: dict[str, Any]
    lines: Iterable[str]
    #: Commands for the next step.
    next_commands: list[str]


def add_show(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "show", run_show, about, _WHERE)
    parser.add_argument("words", nargs="+", metavar="ID", help="an id; or a time: 2026-01-30, 2026-W05, 2026-01, last week")
    add_scope(parser)


def run_show(args: argparse.Namespace) -> int:
    name = " ".join(args.words).strip("[] ")
    with open_memory(args) as app:
        if app.is_empty:
            render.err(EMPTY_HINT)
        item = _find(app, args, name)
    data = {"kind": item.kind, **item.data, "next_commands": item.next_commands}
    lines = [f"{item.kind[0].upper()}{item.kind[1:]}", *item.lines]
    if item.next_commands:
        lines += ["", "Go on with:", *(f"  {command}" for command in item.next_commands)]
    return print_result(args, data, lines, recalled=True)


def _find(app: "App", args: argparse.Namespace, name: str) -> Shown:
    """Looked for as topic, citation, event, node and session in this order."""
    if name.startswith("topic:"):
        from memory_mcp.cli.commands.topics import settle, whole_lines
        from memory_mcp.requests.one_topic import GetTopic

        settle(app)
        data = answer_request(app, GetTopic(name, **whose(app, args)))
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
            data = answer_request(app, GetEvents(session_id=name))
        except NotFound:
            raise NotFound(f"nothing has the id {name[:80]!r}", _WHERE) from None
        commands = [f"memory-mcp show {event['event_id']}" for event in data["events"][:1]]
        if "next_cursor" in data:
            commands.append(f"memory-mcp query events --session {name} --cursor {data['next_cursor']}")
        return Shown("session", data, events_lines(data), commands)


def _quotation(app: "App", grip: str, kind: str = "quotation") -> Shown:
    from memory_mcp.requests.expand import ExpandRequest

    data = answer_request(app, ExpandRequest(grip_id=grip))
    session = next((event["session_id"] for event in data["excerpt_events"] if event.get("session_id")), "")
    ids = (data["grip"].get("node_id", ""), session)
    return Shown(kind, data, expanded_lines(data), [f"memory-mcp show {event}" for event in ids if event])


def _node(app: "App", args: argparse.Namespace, name: str) -> Shown:
    from memory_mcp.requests.nodes import GetNode

    try:
        data = answer_request(app, GetNode(name, **whose(app, args)))
    except NotFound as error:
        raise NotFound(error.message, _NO_PERIOD) from None
    node, context = data["node"], data.get("context", {})
    grips = [grip for bullet in node.get("bullets", ()) for grip in bullet["grip_ids"]]
    ids = [*grips[:1], *(child["node_id"] for child in data["children"][:1]), context.get("session_id", "")]
    return Shown(node["level"], data, node_lines(data), [f"memory-mcp show {item_id}" for item_id in ids if item_id])


def add_open(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "open", run_open, about, _ASIDE)
    parser.add_argument("--print", action="store_true", dest="print_only", help="print the address, start no browser")
    parser.add_argument("--port", metavar="PORT", type=int, help="port to serve on where HTTP is off (setting server.http_port)")
    parser.add_argument(
        "--own-words", action="store_true", help="what is corrected there counts as your own word; asks you to confirm that"
    )


def run_open(args: argparse.Namespace) -> int:
    """Print a single-use URL of the pages, and open it.

    --print and --json start no browser. Raises LayerUnavailable where no daemon can serve the pages.
    """
    is_person = bool(args.own_words) and render.is_persons(["open"])
    url = _address(args, is_person)
    at_terminal = sys.stdin and sys.stdin.isatty() and render.is_terminal()
    has_screen = sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in _SCREENS)
    started = False
    if at_terminal and has_screen and not args.print_only and not as_json(args):
        import webbrowser

        with suppress(webbrowser.Error):
            started = webbrowser.open(url)
    lines = [f"Opened in the browser: {url}" if started else url]
    render.emit(as_json(args), {"url": url, "opened": started}, lines)
    if not started and render.is_terminal():
        render.err("Open it in a browser on this machine: it works once, within two minutes.")
    return 0


def _address(args: argparse.Namespace, is_person: bool) -> str:
    if not settings_of(args).server.daemon:
        raise LayerUnavailable(
            "the pages are served by the background process, which server.daemon = false switches off",
            "Set server.daemon = true.",
        )
    if not link.can_run_daemon():
        raise LayerUnavailable(
            "the pages are served by the background process, which this platform cannot reach", "Set server.socket."
        )
    try:
        line = link.reach_daemon(wanted(args), "rpc")
    except link.Unreachable as error:
        text = f"the background process could not be started: {error}"
        raise LayerUnavailable(text, "memory-mcp doctor looks into it.") from None
    try:
        return str(link.call_on_line(line, "pages/open", {"port": args.port, "is_person": is_person}, lambda _: None)["url"])
    except link.Refused as error:
        raise translate_refusal(error) from None
    finally:
        line.close()
