"""`query`: print nodes of the time tree, stored events and quotations."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, add_cursor, add_scope, add_times, ask, family, leaf, note_lines, print_result
from memory_mcp.model.orders import CUT_FLAG
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.requests.limits import PAGE

#: Characters shown of a summary or an event in a list, and of an event around a quotation.
_LINE, _CONTEXT = 160, 600


def add(parsers: Subparsers, about: str) -> None:
    """Add `query` with the subcommands root, node, browse, events and expand-grip, each run by its own; `about` is its help."""
    inner = family(parsers, "query", about)
    root = leaf(inner, "root", run_root, "show the years, and how much there is")
    add_scope(root)
    node = leaf(inner, "node", run_node, "show a node: its text, its grips, what came before, what lies around")
    node.add_argument("id", metavar="ID", help="such as 2026-01, 2026-W05, 'last week' or toc:segment:<day>:<id>")
    node.add_argument("--limit", type=int, default=PAGE.default, metavar="N", help=f"most children ({PAGE.default})")
    add_cursor(node)
    node.add_argument("--detail", default="lean", metavar="D", help="full: also kind, projects and agents of each child (JSON)")
    add_scope(node)
    browse = leaf(inner, "browse", run_browse, "list the children of a node")
    browse.add_argument("id", nargs="?", default="", metavar="ID", help="node (default: the root)")
    browse.add_argument("--limit", type=int, default=PAGE.default, metavar="N", help=f"most children ({PAGE.default})")
    add_cursor(browse)
    add_scope(browse)
    events = leaf(inner, "events", run_events, "list events in the order of time, or show one and its neighbours")
    add_times(events)
    events.add_argument("--session", default="", metavar="ID", help="only this session")
    events.add_argument("--node", default="", metavar="ID", help="only this segment")
    events.add_argument("--event", default="", metavar="ID", help="only this event, with --before and --after")
    events.add_argument("--before", type=int, default=0, metavar="N", help="events before it (0)")
    events.add_argument("--after", type=int, default=0, metavar="N", help="events after it (0)")
    events.add_argument("--offset", type=int, default=0, metavar="N", help="characters of its text to leave out")
    events.add_argument("--text-limit", type=int, default=0, metavar="N", help="most characters of each text")
    events.add_argument("--detail", default="lean", metavar="D", help="full: also origin, length and quoted spans (JSON)")
    events.add_argument("--limit", type=int, default=PAGE.default, metavar="N", help=f"most events ({PAGE.default})")
    add_cursor(events)
    events.add_argument("--token-budget", type=int, default=0, metavar="N", help="most tokens of all events together")
    add_scope(events)
    grip = leaf(inner, "expand-grip", run_expand, "show a quotation in its conversation, checked against the stored event")
    grip.add_argument("id", metavar="ID", help="grip:<ms>:<id>, or only its last part")
    grip.add_argument("--before", type=int, metavar="N", help="events before it (3, in a line each)")
    grip.add_argument("--after", type=int, metavar="N", help="events after it (4, in a line each)")
    grip.add_argument("--token-budget", type=int, metavar="N", help="most tokens of all texts together")


def run_root(args: argparse.Namespace) -> int:
    """Print the root of the time tree and its years; return 0."""
    from memory_mcp.requests.nodes import GetNode

    data = ask(args, GetNode(), hint=True)
    return print_result(args, data, _browse_lines(data), recalled=True)


def run_browse(args: argparse.Namespace) -> int:
    """Print a node's summary and one page of its children; return 0. Raises NotFound or InvalidQuery for an id of no node."""
    from memory_mcp.requests.nodes import Browse

    data = ask(args, Browse(args.id, args.limit, args.cursor))
    return print_result(args, data, _browse_lines(data), recalled=True)


def run_node(args: argparse.Namespace) -> int:
    """Print a node, one page of its children and what surrounds it; return 0. NotFound or InvalidQuery for an id of no node."""
    from memory_mcp.requests.nodes import GetNode

    data = ask(args, GetNode(args.id, limit=args.limit, cursor=args.cursor, detail=args.detail))
    return print_result(args, data, node_lines(data), recalled=True)


def run_events(args: argparse.Namespace) -> int:
    """Print one page of the events of a time, a session or a segment, or one event with its neighbours; return 0.

    Raises what the request raises, as NotFound for an unknown event.
    """
    from memory_mcp.requests.events import GetEvents

    same = ("before", "after", "offset", "text_limit", "detail", "limit", "cursor", "token_budget")
    arguments = {"since": args.since or "", "until": args.until or "", **{name: getattr(args, name) for name in same}}
    request = GetEvents(session_id=args.session, node_id=args.node, event_id=args.event, **arguments)
    data = ask(args, request, catch_up=False, hint=True)
    return print_result(args, data, events_lines(data), recalled=True)


def run_expand(args: argparse.Namespace) -> int:
    """Print a grip (a citation) with the events around it and whether it is verified; return 0. NotFound for an unknown one."""
    from memory_mcp.requests.expand import ExpandRequest

    request = ExpandRequest(grip_id=args.id, before=args.before, after=args.after, token_budget=args.token_budget)
    data = ask(args, request)
    return print_result(args, data, expanded_lines(data), recalled=True)


def _browse_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield a node's id, title, counts, names and summary, its children, and the notices of the response.

    `data` is the response to GetNode or Browse; the root has no counts.
    """
    node = data["node"]
    yield f"{node['node_id']}  {node['title']}"
    if node["level"] != "root":
        yield f"  {_counts(node)}"
    for key in ("projects", "agents"):
        if node.get(key):
            yield f"  {key}: {', '.join(map(render.project_name, node[key]))}"
    if node.get("summary"):
        yield from render.wrapped(node["summary"], "  ")
    yield from _child_lines(data)
    yield from note_lines(data)


def _child_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each child, with a second for its summary, one for folded children, and the next page's cursor."""
    for child in data["children"]:
        counts = f" ({_counts(child)})" if child.get("events") else ""
        yield f"- {child['node_id']}  {child['title']}{counts}"
        if child.get("summary"):
            yield f"    {render.one_line(child['summary'], _LINE)}"
    if "folded" in data:
        yield f"- {data['folded']}: --cursor {data['folded_cursor']}"
    if "next_cursor" in data:
        yield f"More with --cursor {data['next_cursor']}"


def _counts(node: dict[str, Any]) -> str:
    """Return a node's events, sessions and children (called by level) as one text, without those that are 0; "" for none."""
    below = {"year": "month", "month": "week", "week": "day", "day": "segment"}.get(node.get("level", ""), "child")
    nouns = [("events", "event"), ("sessions", "session"), ("children", below)]
    return ", ".join(render.plural(node[key], noun) for key, noun in nouns if node.get(key))


def node_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield a node's text and counts, then its statements, parents, children and neighbours, of the response to GetNode."""
    node, context = data["node"], data.get("context", {})
    yield f"{node['node_id']}  {node['title']}"
    if "start" in node:
        yield f"  {render.minute(node['start'])} to {render.minute(node['end'])}"
    counts = [render.plural(node[k], k[:-1]) for k in ("events", "sessions")]
    yield "  " + ", ".join([*counts, *map(render.project_name, node.get("projects", ())), *node.get("agents", ())])
    if node.get("keywords"):
        yield f"  Keywords: {', '.join(node['keywords'])}"
    if node.get("summary"):
        yield ""
        yield from render.wrapped(node["summary"])
    yield from _section("Bullets", (f"{b['text']} {' '.join(f'[{g}]' for g in b['grip_ids'])}" for b in node.get("bullets", ())))
    above = [f"{n['node_id']}  {n['title']}" for n in context.get("parents", ())] or node.get("parents", [])
    yield from _section("Above", iter(above))
    yield from _section("Before (context only)", (_event_line(e, _LINE) for e in context.get("before", ())))
    below = list(_child_lines(data))
    if below:
        yield from ("", "Below:", *below)
    yield from _section("Beside", (node[k] for k in ("previous", "next") if k in node))


def events_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield one line for each event (time, speaker, text of at most 160 characters, id), and whether there are more.

    One line where there is none. `data` is the response to GetEvents.
    """
    if not data["events"]:
        yield "No events there."
    for event in data["events"]:
        when, who = render.second(event["when"]), event.get("speaker") or event["role"]
        yield f"{when} {who}: {render.one_line(event['text'], _LINE)} [{event['event_id']}]"
    if "truncated" in data:
        yield "(shortened to the token budget)"
    if "next_cursor" in data:
        yield f"More with --cursor {data['next_cursor']}"


def _section(title: str, items: Iterator[str]) -> Iterator[str]:
    """Yield an empty line, the title, and each item as one line; nothing without items."""
    lines = [f"- {render.one_line(item)}" for item in items]
    if lines:
        yield from ("", f"{title}:", *lines)


def expanded_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a citation: its id and time, and whether it was verified.

    Then the events before it, its words, its own events and those after it, and the token budget that shows
    everything if it was shortened. `data` is the response to ExpandRequest.
    """
    grip = data["grip"]
    good, bad = "verified: the stored event holds exactly these words", "NOT verified: the stored event differs"
    bad = CUT_FLAG if FORGOTTEN in grip["quote"] else bad
    yield f"{grip['grip_id']}  {render.minute(grip['when'])}"
    yield f"  {good if data['verified'] else bad}"
    if "node_id" in grip:
        yield f"  in {grip['node_id']}"
    for name, key in (("Before", "events_before"), ("Excerpt", "excerpt_events"), ("After", "events_after")):
        if name == "Excerpt":
            yield ""
            yield "Quote:"
            yield from render.wrapped(grip["quote"], "  > ")
        if data[key]:
            yield ""
            yield f"{name}:"
            # In a line each they name no time where it is the citation's own.
            yield from (f"  {_event_line({'when': grip['when'], **event}, _CONTEXT)}" for event in data[key])
    if "more" in data:
        yield f"(shortened; --token-budget {data['more']['token_budget']} shows everything)"


def _event_line(event: dict[str, Any], width: int) -> str:
    """Return an event as one line: its minute, who (speaker, else role), and the text cut to `width` characters."""
    who = event.get("speaker") or event["role"]
    return f"{render.minute(event['when'])} {who}: {render.one_line(event.get('text', ''), width)}"
