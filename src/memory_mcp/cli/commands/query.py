"""`query`: read the tree, the events and the quotations themselves."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_scope,
    add_times,
    as_json,
    check_limit,
    family,
    hint_when_empty,
    leaf,
    opened,
    scope_of,
    stamp,
    storage_scope,
)
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.events.evidence import Expanded
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.model.event import Event
    from memory_mcp.model.ids import NodeId

_MAX_EVENTS = 10_000
_LINE = 160
_CONTEXT = 600


def add(parsers: Subparsers) -> None:
    """Arguments of `query`."""
    inner = family(parsers, "query", "read the time tree, events and quotations")
    root = leaf(inner, "root", run_root, "show the years, and how much there is")
    add_scope(root)
    node = leaf(inner, "node", run_node, "show a node: its text, its grips, what came before, what lies around")
    node.add_argument("id", metavar="ID", help="such as toc:month:2026-01 or toc:segment:<day>:<id>")
    add_scope(node)
    browse = leaf(inner, "browse", run_browse, "list the children of a node")
    browse.add_argument("id", nargs="?", default="", metavar="ID", help="node (default: the root)")
    browse.add_argument("--limit", type=int, default=20, metavar="N", help="most children (20)")
    browse.add_argument("--offset", type=int, default=0, metavar="N", help="leave out so many, to page on")
    add_scope(browse)
    events = leaf(inner, "events", run_events, "list events in the order of time")
    add_times(events)
    events.add_argument("--session", metavar="ID", help="only this session")
    events.add_argument("--limit", type=int, default=50, metavar="N", help="most events (50)")
    events.add_argument("--cursor", metavar="C", help="go on behind this place, as the last answer gave it")
    add_scope(events)
    grip = leaf(inner, "expand-grip", run_expand, "show a quotation in its conversation, checked against the stored event")
    grip.add_argument("id", metavar="ID", help="grip:<ms>:<id>, or only its last part")
    grip.add_argument("--before", type=int, default=3, metavar="N", help="events before it (3)")
    grip.add_argument("--after", type=int, default=3, metavar="N", help="events after it (3)")
    grip.add_argument("--token-budget", type=int, metavar="N", help="most tokens of all texts together")


def run_root(args: argparse.Namespace) -> int:
    """The root and its years."""
    with opened(args) as app:
        data = _browsed(app, "", scope_of(app, args), 100, 0)
        hint_when_empty(app)
    render.emit(as_json(args), data, _browse_lines(data), recalled=True)
    return 0


def run_browse(args: argparse.Namespace) -> int:
    """A node's children."""
    if not 1 <= args.limit <= 1000 or args.offset < 0:
        raise InvalidQuery(f"limit must be 1 to 1000 and offset not negative, not {args.limit} and {args.offset}")
    with opened(args) as app:
        data = _browsed(app, args.id, scope_of(app, args), args.limit, args.offset)
    render.emit(as_json(args), data, _browse_lines(data), recalled=True)
    return 0


def run_node(args: argparse.Namespace) -> int:
    """One node with its context."""
    from memory_mcp.model.ids import parse_node_id

    with opened(args) as app:
        data = node_shape(app, parse_node_id(args.id), scope_of(app, args))
    render.emit(as_json(args), data, _node_lines(data), recalled=True)
    return 0


def run_events(args: argparse.Namespace) -> int:
    """Events of a window."""
    check_limit(args.limit, _MAX_EVENTS)
    from memory_mcp.cli.commands import shapes

    with opened(args, catch_up=False) as app:
        after = _place(args.cursor) if args.cursor else None
        found = app.storage.events.window(storage_scope(app, args), args.session, args.limit + 1, after)
        page = found[: args.limit]
        data: dict[str, Any] = {"events": [shapes.event(e, app.calendar) for e in page], "has_more": len(found) > len(page)}
        if data["has_more"]:
            data["next_cursor"] = f"{page[-1].timestamp}:{page[-1].event_id}"
        lines = [_event_line(e, app.calendar, _LINE) for e in page] or ["No events there."]
        hint_when_empty(app)
    if data["has_more"]:
        lines.append(f"More with --cursor {data['next_cursor']}")
    render.emit(as_json(args), data, lines, recalled=True)
    return 0


def run_expand(args: argparse.Namespace) -> int:
    """A grip's words in their place."""
    if min(args.before, args.after) < 0 or (args.token_budget is not None and args.token_budget < 1):
        raise InvalidQuery("--before and --after must not be negative, --token-budget must be at least 1")
    with opened(args) as app:
        found = app.evidence.expand(args.id, args.before, args.after, args.token_budget)
        app.count_opening(found.grip_id)
        data = _expanded(app, found)
        lines = list(expanded_lines(found, app.calendar, data["grip"]))
    render.emit(as_json(args), data, lines, recalled=True)
    return 0


def _place(cursor: str) -> tuple[int, str]:
    from memory_mcp.model.ids import event_key

    time, _, event_id = cursor.partition(":")
    if not time.lstrip("-").isdigit():
        raise InvalidQuery(f"not a cursor: {cursor!r}", "Use next_cursor of the answer before.")
    event_key(event_id)
    return int(time), event_id


def _browsed(app: "App", node_id: str, project: str | None, limit: int, offset: int) -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes
    from memory_mcp.model.ids import parse_node_id

    parent = app.tree.node(parse_node_id(node_id), project)
    ids = app.tree.children(parent.node_id, project)
    children = app.tree.nodes(ids[offset : offset + limit], project).values()
    shown = [shapes.short_node(c) | {"events": c.event_count, "sessions": c.session_count} for c in children]
    data: dict[str, Any] = {"node": shapes.node(parent, app.calendar), "children": shown, "child_count": len(ids)}
    if len(ids) > offset + limit:
        data["next_offset"] = offset + limit
    return data


def _browse_lines(data: dict[str, Any]) -> Iterator[str]:
    node = data["node"]
    yield f"{node['node_id']}  {node['title']}"
    for key in ("projects", "agents"):
        if node.get(key):
            yield f"  {key}: {', '.join(node[key])}"
    yield from _child_lines(data["children"])
    if "next_offset" in data:
        yield f"More with --offset {data['next_offset']} ({data['child_count']} in all)."


def _child_lines(children: list[dict[str, Any]]) -> Iterator[str]:
    for child in children:
        counts = f" ({render.plural(child['events'], 'event')})" if child.get("events") else ""
        yield f"- {child['node_id']}  {child['title']}{counts}"


def node_shape(app: "App", node_id: "NodeId", project: str | None) -> dict[str, Any]:
    """A node with its children, or for a segment with its context."""
    from memory_mcp.cli.commands import shapes
    from memory_mcp.model.ids import ROOT, segment_key_of

    node = app.tree.node(node_id, project)
    data = shapes.node(node, app.calendar)
    key = segment_key_of(node.node_id)
    if key is None:
        ids = app.tree.children(node.node_id, project)
        data["children"] = [shapes.short_node(c) | {"events": c.event_count} for c in app.tree.nodes(ids, project).values()]
        above = [] if node.node_id == ROOT else app.tree.path(node.node_id)[:-1]
        data["context"] = {"parents": [shapes.short_node(n) for n in app.tree.nodes(above, project).values()]}
        return data
    segment = app.storage.toc.segments([key])[key]
    context = app.tree.context(segment, project)
    data["session_id"] = segment.session_id
    data["context"] = {
        "before": [shapes.event(e, app.calendar) for e in context.before],
        "parents": [shapes.short_node(n) for n in context.parents],
    }
    beside = app.tree.siblings(node.node_id, project)[:6]
    data["siblings"] = [shapes.short_node(n) for n in app.tree.nodes(beside, project).values()]
    return data


def _node_lines(data: dict[str, Any]) -> Iterator[str]:
    yield f"{data['node_id']}  {data['title']}"
    if "start" in data:
        yield f"  {_when(data['start'])} to {_when(data['end'])}"
    counts = [render.plural(data[k], k[:-1]) for k in ("events", "sessions") if k in data]
    yield "  " + ", ".join([*counts, *data.get("projects", ()), *data.get("agents", ())])
    if data.get("keywords"):
        yield f"  Keywords: {', '.join(data['keywords'])}"
    if data.get("summary"):
        yield ""
        yield from render.wrapped(data["summary"])
    yield from _section("Bullets", (f"{b['text']} {' '.join(f'[{g}]' for g in b['grip_ids'])}" for b in data.get("bullets", ())))
    context = data.get("context", {})
    yield from _section("Above", (f"{n['node_id']}  {n['title']}" for n in context.get("parents", ())))
    yield from _section("Before (context only)", (_short_event(e) for e in context.get("before", ())))
    yield from _section("Below", (line[2:] for line in _child_lines(data.get("children", []))))
    yield from _section("Beside", (f"{n['node_id']}  {n['title']}" for n in data.get("siblings", ())))


def _section(title: str, items: Iterator[str]) -> Iterator[str]:
    lines = [f"- {render.one_line(item)}" for item in items]
    if lines:
        yield from ("", f"{title}:", *lines)


def _short_event(event: dict[str, Any]) -> str:
    return f"{_when(event['when'])} {event.get('speaker') or event['role']}: {render.one_line(event['text'], _LINE)}"


def _when(iso: str) -> str:
    return iso[:16].replace("T", " ")


def _event_line(event: "Event", calendar: "Calendar", width: int) -> str:
    who = event.speaker or event.role.value
    return f"{stamp(calendar, event.timestamp, seconds=True)} {who}: {render.one_line(event.text, width)} [{event.event_id}]"


def _expanded(app: "App", found: "Expanded") -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes

    first = found.excerpt[0] if found.excerpt else None
    segments = app.storage.toc.segments([found.node_segment]) if found.node_segment else {}
    node_id = next((s.node_id for s in segments.values()), None)
    nodes = app.tree.nodes([node_id]) if node_id else {}
    grip = {
        "grip_id": found.grip_id,
        "quote": found.quote,
        "when": app.calendar.iso(found.timestamp),
        "session_id": first.session_id if first else "",
        "project": first.project if first else "",
        "node_id": node_id,
        "title": nodes[node_id].title if node_id in nodes else "",
    }
    return {
        "grip": shapes.dropping_empty(grip),
        "verified": found.verified,
        "events_before": [shapes.event(e, app.calendar) for e in found.before],
        "excerpt_events": [shapes.event(e, app.calendar) for e in found.excerpt],
        "events_after": [shapes.event(e, app.calendar) for e in found.after],
        "truncated": found.truncated,
    }


def expanded_lines(found: "Expanded", calendar: "Calendar", grip: dict[str, Any]) -> Iterator[str]:
    """An expanded grip for reading."""
    good, bad = "verified: the stored event holds exactly these words", "NOT verified: the stored event differs"
    yield f"{found.grip_id}  {stamp(calendar, found.timestamp, seconds=True)}"
    yield f"  {good if found.verified else bad}"
    if "node_id" in grip:
        yield f"  in {grip['node_id']}  {grip.get('title', '')}"
    parts = (("Before", found.before), ("Excerpt", found.excerpt), ("After", found.after))
    for name, events in parts:
        if name == "Excerpt":
            yield ""
            yield "Quote:"
            yield from render.wrapped(found.quote, "  > ")
        if events:
            yield ""
            yield f"{name}:"
            yield from (f"  {_event_line(e, calendar, _CONTEXT)}" for e in events)
    if found.truncated:
        yield "(shortened to the token budget)"
